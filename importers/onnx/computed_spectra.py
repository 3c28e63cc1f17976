"""Tables of windows, filter banks and Fourier transforms whose sizes only the run time knows; computed in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornaxc.importers.onnx.sampling import size_as
from fornaxc.importers.onnx.steering import require_at_run_time
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Iota
from fornaxc.ir.types import DType

F64, I64 = DType.F64, DType.I64


def _line(b: GraphBuilder, size: Dim) -> Value:
    return b.emit(Iota((size,), 0, I64))


def cosine_window(b: GraphBuilder, cosines: Sequence[float], size: Dim, period: Value) -> Value:
    """The sum of amplitude[k] * cos(2 pi k n / period) for n below `size`: f64[size]; `period` is f64[]."""
    angle = c.binary(b, "div", c.with_scalar(b, "mul", c.cast(b, _line(b, size), F64), 2 * np.pi), period)
    total = c.full(b, 0, angle.type)
    for k, amplitude in enumerate(cosines):
        wave = c.unary(b, "cos", c.with_scalar(b, "mul", angle, k))
        total = c.binary(b, "add", total, c.with_scalar(b, "mul", wave, amplitude))
    return total


def _turns(b: GraphBuilder, rows: Dim, columns: Dim, length: Dim) -> tuple[Value, Value]:
    """cos and sin of 2 pi r c / length: f64[rows, columns]."""
    product = c.binary(b, "mul", c.unsqueeze(b, _line(b, rows), (1,)), c.unsqueeze(b, _line(b, columns), (0,)))
    turn = c.cast(b, c.binary(b, "mod", product, size_as(b, length, I64)), F64)
    angle = c.binary(b, "div", c.with_scalar(b, "mul", turn, 2 * np.pi), size_as(b, length, F64))
    return c.unary(b, "cos", angle), c.unary(b, "sin", angle)


def _parts(b: GraphBuilder, rows: Sequence[tuple[Value, ...]]) -> Value:
    """[taken, parts, bins, results] from one row of results for each part, each [taken, bins]."""
    lines = [c.concat(b, [c.unsqueeze(b, v, (1, 3)) for v in row], 3) for row in rows]
    return c.concat(b, lines, 1)


def forward(b: GraphBuilder, taken: Dim, parts: int, bins: Dim, length: Dim) -> Value:
    """[taken, parts, bins, 2]: the spectrum of a real (one part) or complex signal."""
    cos, sin = _turns(b, taken, bins, length)
    return _parts(b, [(cos, c.unary(b, "neg", sin)), (sin, cos)][:parts])


def inverse(b: GraphBuilder, taken: Dim, parts: int, length: Dim) -> Value:
    """[taken, parts, length, 2]: the complex signal of a spectrum."""
    size = size_as(b, length, F64)
    cos, sin = (c.binary(b, "div", v, size) for v in _turns(b, taken, length, length))
    return _parts(b, [(cos, sin), (c.unary(b, "neg", sin), cos)][:parts])


def real_inverse(b: GraphBuilder, taken: Dim, length: Dim) -> Value:
    """[taken, 2, length, 1]: the real signal of one half of a spectrum."""
    size, row = size_as(b, length, I64), _line(b, taken)
    zero = c.scalar(b, 0, I64)
    first = c.compare(b, "eq", row, zero)
    single = c.binary(b, "or", first, c.compare(b, "eq", c.with_scalar(b, "mul", row, 2), size))
    single = c.unsqueeze(b, single, (1,))
    share = c.binary(b, "div", c.select(b, single, c.scalar(b, 1, F64), c.scalar(b, 2, F64)), size_as(b, length, F64))
    cos, sin = (c.binary(b, "mul", v, share) for v in _turns(b, taken, length, length))
    return _parts(b, [(cos,), (c.select(b, single, c.scalar(b, 0, F64), c.unary(b, "neg", sin)),)])


def mel_weights(b: GraphBuilder, bins: Dim, length: Dim, rate: Value, lower: Value, upper: Value) -> Value:
    """Triangles over the bins of a spectrum, equally wide on the mel scale: f64[length // 2 + 1, bins].

    `rate`, `lower` and `upper` are f64[]. The run stops where the edges leave the spectrum.
    """
    low, high = (
        c.with_scalar(b, "mul", c.unary(b, "log", c.with_scalar(b, "add", c.with_scalar(b, "div", f, 700), 1)), _MEL)
        for f in (lower, upper)
    )
    step = c.binary(b, "div", c.binary(b, "sub", high, low), size_as(b, bins + 2, F64))
    mel = c.binary(b, "add", c.binary(b, "mul", c.cast(b, _line(b, bins + 2), F64), step), low)
    hertz = c.with_scalar(
        b, "mul", c.with_scalar(b, "sub", c.unary(b, "exp", c.with_scalar(b, "div", mel, _MEL)), 1), 700
    )
    place = c.binary(b, "div", c.binary(b, "mul", hertz, size_as(b, length + 1, F64)), rate)
    edges = c.cast(b, c.unary(b, "floor", place), I64)
    fits = c.binary(
        b,
        "and",
        c.compare(b, "ge", edges, c.scalar(b, 0, I64)),
        c.compare(b, "le", edges, size_as(b, length // 2 + 1, I64)),
    )
    edges = require_at_run_time(b, edges, c.reduce(b, "min", fits, (0,)))
    left, centre, right = (c.unsqueeze(b, c.slice_axis(b, edges, 0, i, bins), (0,)) for i in range(3))
    at = c.unsqueeze(b, _line(b, length // 2 + 1), (1,))
    rise = _ratio(b, c.binary(b, "sub", at, left), c.binary(b, "sub", centre, left))
    fall = _ratio(b, c.binary(b, "sub", right, at), c.binary(b, "sub", right, centre))
    zero = c.scalar(b, 0, F64)
    climbs = c.binary(b, "and", c.compare(b, "ge", at, left), c.compare(b, "lt", at, centre))
    falls = c.binary(b, "and", c.compare(b, "gt", at, centre), c.compare(b, "lt", at, right))
    sides = c.select(b, climbs, rise, c.select(b, falls, fall, zero))
    return c.select(b, c.compare(b, "eq", at, centre), c.scalar(b, 1, F64), sides)


_MEL = 2595 / float(np.log(10))


def _ratio(b: GraphBuilder, top: Value, bottom: Value) -> Value:
    return c.binary(b, "div", c.cast(b, top, F64), c.cast(b, c.with_scalar(b, "max", bottom, 1), F64))
