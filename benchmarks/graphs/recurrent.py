"""A recurrent network: embeddings, layers of LSTM in both directions, and a score for each token."""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks.graphs.maker import INT64, Maker

TAGS = 32


def tagger(layers: int, hidden: int, vocabulary: int, embedding: int = 128) -> onnx.ModelProto:
    """ids i64[batch, length] to f32[batch, length, TAGS]."""
    m = Maker("tagger")
    ids = m.input("ids", ("batch", "length"), INT64)
    x = m.add("Transpose", m.add("Gather", m.random(vocabulary, embedding, scale=1.0), ids), perm=[1, 0, 2])
    width = embedding
    for _ in range(layers):
        y = m.add(
            "LSTM",
            x,
            _scaled(m, 2, 4 * hidden, width),
            _scaled(m, 2, 4 * hidden, hidden),
            m.random(2, 8 * hidden, scale=0.02),
            hidden_size=hidden,
            direction="bidirectional",
        )
        x = m.add("Reshape", m.add("Transpose", y, perm=[0, 2, 1, 3]), m.ints(0, 0, 2 * hidden))
        width = 2 * hidden
    m.output(m.add("Transpose", m.linear(x, width, TAGS), perm=[1, 0, 2]), "scores", ("batch", "length", TAGS))
    return m.model()


def _scaled(m: Maker, directions: int, rows: int, columns: int) -> str:
    return m.random(directions, rows, columns, scale=float(np.sqrt(1 / columns)))
