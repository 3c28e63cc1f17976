"""A residual network of ResNet-18's structure and size, its convolutions between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks.graphs.maker import Maker

WIDTHS = (64, 128, 256, 512)
CLASSES = 1000
LARGEST = 63  # of the weights: sums of two products of unsigned and signed bytes, of which one has 7 bits, fit in 16


def residual(size: int = 224) -> onnx.ModelProto:
    """pixels [1, 3, size, size] to scores [1, CLASSES]; weights have a scale for each filter, bytes between layers are unsigned."""
    m = Maker("quantized")
    x = _rounded(m, _conv(m, _rounded(m, m.input("pixels", (1, 3, size, size)), 128), 3, WIDTHS[0], 7, 2))
    x = m.add("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    inner = WIDTHS[0]
    for stage, width in enumerate(WIDTHS):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = _rounded(m, m.add("Relu", _conv(m, x, inner, width, 3, stride)))
            y = _rounded(m, _conv(m, y, width, width, 3), 128)
            skip = x if inner == width else _rounded(m, _conv(m, x, inner, width, 1, stride), 128)
            x = _rounded(m, m.add("Relu", m.add("Add", y, skip)))
            inner = width
    pooled = m.add("Flatten", _rounded(m, m.add("GlobalAveragePool", x)))
    m.output(m.add("Gemm", pooled, _weights(m, (inner, CLASSES), inner, 1)), "scores", (1, CLASSES))
    return m.model()


def _rounded(m: Maker, x: str, zero: int = 0) -> str:
    """What bytes keep of x: steps of 1/32."""
    limits = m.floats(1 / 32), m.constant(np.uint8(zero))
    return m.add("DequantizeLinear", m.add("QuantizeLinear", x, *limits), *limits)


def _weights(m: Maker, shape: tuple[int, ...], inner: int, axis: int) -> str:
    """Signed bytes, such that a sum of `inner` products keeps the size of the other operand."""
    whole = m.constant(m.rng.integers(-LARGEST, LARGEST, shape, np.int8, endpoint=True))
    scales = (1 + m.rng.random(shape[axis], np.float32)) / np.float32(LARGEST * inner**0.5)
    return m.add("DequantizeLinear", whole, m.constant(scales), axis=axis)


def _conv(m: Maker, x: str, inner: int, outer: int, size: int, stride: int = 1) -> str:
    w = _weights(m, (outer, inner, size, size), inner * size * size, 0)
    bias = m.random(outer, scale=0.02)
    return m.add("Conv", x, w, bias, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4)
