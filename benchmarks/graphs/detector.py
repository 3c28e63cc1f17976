"""A detector of the size and the structure of YOLOv8n: a backbone of split and joined bottlenecks, a pyramid with upsampling, three heads."""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks.graphs.maker import Maker

WIDTHS = (16, 32, 64, 128, 256)
CLASSES, BINS = 80, 16


def detector(size: int = 640) -> onnx.ModelProto:
    """pixels [1, 3, size, size] to boxes and scores [1, 4 + CLASSES, size²/64 + size²/256 + size²/1024]."""
    m = Maker("detector")
    x = _conv(m, m.input("pixels", (1, 3, size, size)), 3, WIDTHS[0], 3, 2)
    levels = []
    for stage, repeats in enumerate((1, 2, 2, 1), 1):
        x = _conv(m, x, WIDTHS[stage - 1], WIDTHS[stage], 3, 2)
        x = _split_and_join(m, x, WIDTHS[stage], WIDTHS[stage], repeats, True)
        levels.append(x)
    _, small, middle, _ = levels
    large = _pooled(m, x, WIDTHS[4])
    up = _split_and_join(m, m.add("Concat", _doubled(m, large), middle, axis=1), 384, 128)
    p3 = _split_and_join(m, m.add("Concat", _doubled(m, up), small, axis=1), 192, 64)
    p4 = _split_and_join(m, m.add("Concat", _conv(m, p3, 64, 64, 3, 2), up, axis=1), 192, 128)
    p5 = _split_and_join(m, m.add("Concat", _conv(m, p4, 128, 128, 3, 2), large, axis=1), 384, 256)
    heads = [_head(m, p, c) for p, c in ((p3, 64), (p4, 128), (p5, 256))]
    found = m.add("Concat", *heads, axis=2)
    sides, scores = m.several("Split", 2, found, m.ints(4 * BINS, CLASSES), axis=1)
    bins = m.add("Transpose", m.add("Reshape", sides, m.ints(1, 4, BINS, -1)), perm=[0, 2, 1, 3])
    likely = m.add("Softmax", bins, axis=1)
    boxes = m.add("Reshape", _plain(m, likely, BINS, 1), m.ints(1, 4, -1))
    m.output(m.add("Concat", boxes, m.add("Sigmoid", scores), axis=1), "found", (1, 4 + CLASSES, None))
    return m.model()


def _plain(m: Maker, x: str, inner: int, outer: int, size: int = 1, stride: int = 1) -> str:
    """A convolution that keeps the size of the image where its stride is 1."""
    weights = m.random(outer, inner, size, size, scale=(inner * size * size) ** -0.5)
    pads = [size // 2] * 4
    return m.add(
        "Conv", x, weights, m.random(outer, scale=0.02), kernel_shape=[size] * 2, strides=[stride] * 2, pads=pads
    )


def _conv(m: Maker, x: str, inner: int, outer: int, size: int = 1, stride: int = 1) -> str:
    """The same with SiLU as exporters write it."""
    y = _plain(m, x, inner, outer, size, stride)
    return m.add("Mul", y, m.add("Sigmoid", y))


def _split_and_join(m: Maker, x: str, inner: int, outer: int, repeats: int = 1, residual: bool = False) -> str:
    half = outer // 2
    parts = m.several("Split", 2, _conv(m, x, inner, outer), m.ints(half, half), axis=1)
    for _ in range(repeats):
        y = _conv(m, _conv(m, parts[-1], half, half, 3), half, half, 3)
        parts.append(m.add("Add", parts[-1], y) if residual else y)
    return _conv(m, m.add("Concat", *parts, axis=1), half * len(parts), outer)


def _pooled(m: Maker, x: str, width: int) -> str:
    parts = [_conv(m, x, width, width // 2)]
    for _ in range(3):
        parts.append(m.add("MaxPool", parts[-1], kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1]))
    return _conv(m, m.add("Concat", *parts, axis=1), 2 * width, width)


def _doubled(m: Maker, x: str) -> str:
    scales = m.constant(np.array([1, 1, 2, 2], np.float32))
    return m.add(
        "Resize", x, "", scales, mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"
    )


def _head(m: Maker, x: str, width: int) -> str:
    boxes = _plain(m, _conv(m, _conv(m, x, width, 64, 3), 64, 64, 3), 64, 4 * BINS)
    scores = _plain(m, _conv(m, _conv(m, x, width, CLASSES, 3), CLASSES, CLASSES, 3), CLASSES, CLASSES)
    return m.add("Reshape", m.add("Concat", boxes, scores, axis=1), m.ints(1, 4 * BINS + CLASSES, -1))
