"""Transformers: a text encoder, a decoder with its cache, a vision and a speech encoder."""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks.graphs.maker import INT64, Maker


def bert(layers: int, width: int, heads: int, vocabulary: int = 30_522, longest: int = 512) -> onnx.ModelProto:
    """ids and mask i64[batch, length] to f32[batch, length, width]: a BERT encoder with its embeddings, without a head."""
    m = Maker("bert")
    ids = m.input("ids", ("batch", "length"), INT64)
    mask = m.input("mask", ("batch", "length"), INT64)
    words = m.add("Gather", m.random(vocabulary, width, scale=0.05), ids)
    x = m.norm(m.add("Add", words, _positions(m, ids, width, longest)), width)
    open_ = m.add("Cast", m.add("Unsqueeze", mask, m.ints(1, 2)), to=1)
    barred = m.add("Mul", m.add("Sub", m.floats(1), open_), m.floats(-1e9))
    for _ in range(layers):
        x = m.norm(m.add("Add", x, _attention(m, x, width, heads, barred)[0]), width)
        x = m.norm(m.add("Add", x, _feed_forward(m, x, width)), width)
    m.output(x, "hidden", ("batch", "length", width))
    return m.model()


def decoder(
    layers: int, width: int, heads: int, vocabulary: int, past: int = 0, longest: int = 1024
) -> onnx.ModelProto:
    """ids i64[batch, length] to the logits of the last token, f32[batch, 1, vocabulary], and each layer's keys and values.

    With `past` tokens before, those of each layer are inputs, f32[batch, heads, past, width/heads].
    """
    m = Maker("decoder")
    size = width // heads
    ids = m.input("ids", ("batch", "length"), INT64)
    table = m.random(vocabulary, width, scale=0.05)
    x = m.add("Add", m.add("Gather", table, ids), _positions(m, ids, width, longest, past))
    barred = None if past else _causal(m, ids, longest)
    given = []
    for layer in range(layers):
        before = None
        if past:
            shape = ("batch", heads, past, size)
            before = m.input(f"past_key_{layer}", shape), m.input(f"past_value_{layer}", shape)
        mixed, keys, values = _attention(m, m.norm(x, width), width, heads, barred, before)
        x = m.add("Add", x, mixed)
        x = m.add("Add", x, _feed_forward(m, m.norm(x, width), width))
        given.append((keys, values))
    last = m.add("Slice", m.norm(x, width), m.ints(-1), m.ints(2**31 - 1), m.ints(1))
    m.output(m.add("MatMul", last, m.add("Transpose", table, perm=[1, 0])), "logits", ("batch", 1, vocabulary))
    for layer, (keys, values) in enumerate(given):
        m.output(keys, f"key_{layer}", ("batch", heads, None, size))
        m.output(values, f"value_{layer}", ("batch", heads, None, size))
    return m.model()


def vision(layers: int, width: int, heads: int, side: int = 224, patch: int = 16) -> onnx.ModelProto:
    """pixels f32[batch, 3, side, side] to logits f32[batch, 1000]: a vision transformer with a class token."""
    m = Maker("vision")
    pixels = m.input("pixels", ("batch", 3, side, side))
    filters = m.random(width, 3, patch, patch, scale=(3 * patch * patch) ** -0.5)
    patches = m.add(
        "Conv", pixels, filters, m.random(width, scale=0.02), kernel_shape=[patch, patch], strides=[patch, patch]
    )
    rows = m.add("Transpose", m.add("Reshape", patches, m.ints(0, width, -1)), perm=[0, 2, 1])
    batch = m.add("Gather", m.add("Shape", pixels), m.ints(0))
    wanted = m.add("Concat", batch, m.ints(1, width), axis=0)
    token = m.add("Expand", m.random(1, 1, width, scale=0.02), wanted)
    count = (side // patch) ** 2 + 1
    x = m.add("Add", m.add("Concat", token, rows, axis=1), m.random(1, count, width, scale=0.02))
    for _ in range(layers):
        x = m.add("Add", x, _attention(m, m.norm(x, width), width, heads, None)[0])
        x = m.add("Add", x, _feed_forward(m, m.norm(x, width), width))
    first = m.add("Gather", m.norm(x, width), m.constant(np.int64(0)), axis=1)
    m.output(m.linear(first, width, 1000), "logits", ("batch", 1000))
    return m.model()


def speech(layers: int, width: int, heads: int, bands: int = 80, frames: int = 3000) -> onnx.ModelProto:
    """features f32[batch, bands, frames] to f32[batch, frames/2, width]: two convolutions over time and a transformer."""
    m = Maker("speech")
    x = m.input("features", ("batch", bands, frames))
    for channels, stride in ((bands, 1), (width, 2)):
        filters = m.random(width, channels, 3, scale=(3 * channels) ** -0.5)
        x = m.add("Conv", x, filters, m.random(width, scale=0.02), kernel_shape=[3], pads=[1, 1], strides=[stride])
        x = m.gelu(x)
    x = m.add("Add", m.add("Transpose", x, perm=[0, 2, 1]), m.random(1, frames // 2, width, scale=0.02))
    for _ in range(layers):
        x = m.add("Add", x, _attention(m, m.norm(x, width), width, heads, None)[0])
        x = m.add("Add", x, _feed_forward(m, m.norm(x, width), width))
    m.output(m.norm(x, width), "hidden", ("batch", frames // 2, width))
    return m.model()


def _positions(m: Maker, ids: str, width: int, longest: int, first: int = 0) -> str:
    """The rows of a table of positions for the tokens of `ids`, the first of which stands at `first`."""
    length = m.add("Gather", m.add("Shape", ids), m.ints(1))
    end = m.add("Add", length, m.ints(first)) if first else length
    return m.add("Slice", m.random(longest, width, scale=0.02), m.ints(first), end, m.ints(0))


def _causal(m: Maker, ids: str, longest: int) -> str:
    """What bars each token from those after it, f32[length, length]."""
    length = m.add("Gather", m.add("Shape", ids), m.ints(1))
    table = m.constant(np.triu(np.full((longest, longest), -1e9, np.float32), 1))
    end = m.add("Concat", length, length, axis=0)
    return m.add("Slice", table, m.ints(0, 0), end, m.ints(0, 1))


def _attention(
    m: Maker, x: str, width: int, heads: int, barred: str | None, before: tuple[str, str] | None = None
) -> tuple[str, str, str]:
    """Attention of x to itself and to what was before; the result, and all keys and values."""
    size = width // heads
    queries, keys, values = (m.heads(m.linear(x, width, width), heads, size) for _ in range(3))
    if before is not None:
        keys = m.add("Concat", before[0], keys, axis=2)
        values = m.add("Concat", before[1], values, axis=2)
    scores = m.add("MatMul", queries, m.add("Transpose", keys, perm=[0, 1, 3, 2]))
    scores = m.add("Div", scores, m.floats(size**0.5))
    if barred is not None:
        scores = m.add("Add", scores, barred)
    mixed = m.add("MatMul", m.add("Softmax", scores, axis=-1), values)
    joined = m.add("Reshape", m.add("Transpose", mixed, perm=[0, 2, 1, 3]), m.ints(0, 0, width))
    return m.linear(joined, width, width), keys, values


def _feed_forward(m: Maker, x: str, width: int) -> str:
    return m.linear(m.gelu(m.linear(x, width, 4 * width)), 4 * width, width)
