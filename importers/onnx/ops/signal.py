"""Window functions, the mel filter bank, and Fourier transforms as matrix products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fornaxc.importers.onnx.computed_spectra import cosine_window, forward, inverse, mel_weights, real_inverse
from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.sampling import size_as
from fornaxc.importers.onnx.steering import (
    around_axis,
    axis_mask,
    bind_sizes,
    require_at_run_time,
    sizes_input,
    vector,
)
from fornaxc.ir import compose as c
from fornaxc.ir.builder import FOLD_ELEMENTS, GraphBuilder
from fornaxc.ir.dims import Dim, dim_min
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.ops import DynamicReshape, Gather, Iota, MatMul
from fornaxc.ir.types import DType, TensorType

Cosines = tuple[float, ...]  # the amplitudes of cos(0), cos(2 pi n / N), cos(4 pi n / N), ...
FLOAT32 = 1


def _window(cosines: Cosines) -> Callable[[NodeContext], Value]:
    def handler(ctx: NodeContext) -> Value:
        dtype = ctx.dtype("output_datatype", FLOAT32)
        shorter = 0 if ctx.int("periodic", 1) else 1
        ctx.refuse_unless(dtype.is_float, f"a window of {dtype}")
        known = ctx.content(ctx.input(0))
        if known is None or known.dtype == object:
            return c.cast(ctx.b, _computed_window(ctx, cosines, shorter), dtype)
        size = int(known)
        period = size - shorter
        ctx.refuse_unless(period > 0, f"a window of {size} elements over a period of {period}")
        angle = 2 * np.pi * np.arange(size) / period
        total = sum(amplitude * np.cos(k * angle) for k, amplitude in enumerate(cosines))
        return ctx.b.literal(np.asarray(total).astype(dtype.numpy))

    return handler


def _computed_window(ctx: NodeContext, cosines: Cosines, shorter: int) -> Value:
    b = ctx.b
    length = vector(b, ctx.input(0))
    (size,) = bind_sizes(b, _positive(b, length, shorter))
    return cosine_window(b, cosines, size, size_as(b, size - shorter, DType.F64))


def _positive(b: GraphBuilder, sizes: Value, above: int = 0) -> Value:
    """i64[1], which must be greater than `above` at run time."""
    return require_at_run_time(b, sizes, c.compare(b, "gt", sizes, c.scalar(b, above, DType.I64)))


onnx_op("HannWindow", 17)(_window((0.5, -0.5)))
onnx_op("HammingWindow", 17)(_window((25 / 46, -21 / 46)))
onnx_op("BlackmanWindow", 17)(_window((0.42, -0.5, 0.08)))


@onnx_op("MelWeightMatrix", 17)
def mel_weight_matrix(ctx: NodeContext) -> Value:
    """Triangles over the bins of a spectrum, equally wide on the mel scale: [dft_length / 2 + 1, bins]."""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    dtype = ctx.dtype("output_datatype", FLOAT32)
    given = [ctx.content(ctx.input(i)) for i in range(len(names))]
    if any(a is None or a.dtype == object for a in given):
        sizes = [bind_sizes(ctx.b, vector(ctx.b, ctx.input(i)))[0] for i in range(2)]
        rest = [c.cast(ctx.b, c.reshape(ctx.b, ctx.input(i), ()), DType.F64) for i in range(2, 5)]
        return c.cast(ctx.b, mel_weights(ctx.b, sizes[0], sizes[1], rest[0], rest[1], rest[2]), dtype)
    bins, length, rate, lower, upper = (ctx.constant(i, name).item() for i, name in enumerate(names))
    low, high = (2595 * np.log10(1 + f / 700) for f in (lower, upper))
    mel = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    edges = ((length + 1) * (700 * (10 ** (mel / 2595) - 1)) // rate).astype(np.int64)
    weights = np.zeros((length // 2 + 1, bins))
    ctx.require(edges.min() >= 0 and edges.max() <= length // 2 + 1, "the edges leave the spectrum")
    for i in range(bins):
        left, centre, right = edges[i : i + 3]
        if left == centre:
            weights[centre, i] = 1
        else:
            rise = np.arange(left, centre + 1)
            weights[rise, i] = (rise - left) / (centre - left)
        fall = np.arange(centre, right)
        weights[fall, i] = (right - fall) / max(right - centre, 1)
    return ctx.b.literal(weights.astype(dtype.numpy))


def _turns(rows: Array, columns: Array, length: int) -> tuple[Array, Array]:
    """cos and sin of 2 pi r c / length."""
    angle = 2 * np.pi * ((rows[:, None] * columns[None, :]) % length) / length
    return np.cos(angle), np.sin(angle)


def _forward(taken: int, parts: int, length: int, onesided: bool) -> Array:
    """[taken, parts, bins, 2]: the spectrum of a real (one part) or complex signal."""
    cos, sin = _turns(np.arange(taken), np.arange(length // 2 + 1 if onesided else length), length)
    real = np.stack([cos, -sin], -1)
    return real[:, None] if parts == 1 else np.stack([real, np.stack([sin, cos], -1)], 1)


def _inverse(taken: int, parts: int, length: int) -> Array:
    """[taken, parts, length, 2]: the complex signal of a spectrum."""
    cos, sin = _turns(np.arange(taken), np.arange(length), length)
    real = np.stack([cos, sin], -1) / length
    return real[:, None] if parts == 1 else np.stack([real, np.stack([-sin, cos], -1) / length], 1)


def _real_inverse(taken: int, length: int) -> Array:
    """[taken, 2, length, 1]: the real signal of one half of a spectrum."""
    cos, sin = _turns(np.arange(taken), np.arange(length), length)
    single = (np.arange(taken) == 0) | (2 * np.arange(taken) == length)
    factor = np.where(single, 1, 2)[:, None] / length
    return np.stack([cos * factor, np.where(single[:, None], 0, -sin * factor)], 1)[..., None]


def _constant(b: GraphBuilder, array: Array, dtype: DType) -> Value:
    """A table: part of the program where small, beside the weights where not."""
    array = array.astype(dtype.numpy)
    if array.size <= FOLD_ELEMENTS:
        return b.literal(array)
    return b.weight(TensorType(dtype, array.shape), lambda: array, "a table of sines and cosines")


def _transformed(b: GraphBuilder, x: Value, axis: int, kernel: Array | Value) -> Value:
    """x [..., n, ..., parts] times kernel [taken, parts, bins, results] over `axis` (cut to `taken`) and the parts."""
    taken, parts, bins, results = kernel.type.shape if isinstance(kernel, Value) else kernel.shape
    dtype = DType.F64 if x.type.dtype is DType.F64 else DType.F32
    x_wide = c.cast(b, c.slice_axis(b, x, axis, 0, taken), dtype)
    moved = c.move_axis(b, x_wide, axis, x.type.rank - 2)
    lead = moved.type.shape[:-2]
    flat = c.reshape(b, moved, (*(lead or (1,)), taken * parts))
    flat = flat if flat.type.rank > 1 else c.unsqueeze(b, flat, (0,))
    if isinstance(kernel, Value):
        table = c.cast(b, c.reshape(b, kernel, (taken * parts, bins * results)), dtype)
    else:
        table = _constant(b, kernel.reshape(kernel.shape[0] * kernel.shape[1], -1), dtype)
    product = c.reshape(b, b.emit(MatMul(), flat, table), (*lead, bins, results))
    return c.cast(b, c.move_axis(b, product, x.type.rank - 2, axis), x.type.dtype)


def _dft(ctx: NodeContext, x: Value, axis: int) -> Value:
    b = ctx.b
    axis = ctx.axis(axis, x.type.rank)
    ctx.require(axis < x.type.rank - 1, "the last axis holds the real and imaginary parts")
    is_inverse, onesided = bool(ctx.int("inverse", 0)), bool(ctx.int("onesided", 0))
    size, parts = x.type.shape[axis], x.type.shape[-1]
    if not isinstance(parts, int):
        raise Refused(f"a Fourier transform of the symbolic shape {x.type}")
    ctx.require(parts in (1, 2), f"a signal of {parts} parts")
    ctx.refuse_unless(is_inverse or not onesided or parts == 1, "one side of the spectrum of a complex signal")
    ctx.refuse_unless(not (is_inverse and onesided) or parts == 2, "the inverse of a real half spectrum")
    length = 2 * (size - 1) if is_inverse and onesided else size
    if ctx.optional(1) is not None:
        (length,) = sizes_input(ctx, 1, "dft_length")
    ctx.refuse_unless(not isinstance(length, int) or length > 0, f"a Fourier transform of {length} elements")
    half = length // 2 + 1
    taken = dim_min(size, half if is_inverse and onesided else length)
    if isinstance(taken, int) and isinstance(length, int):
        if not is_inverse:
            return _transformed(b, x, axis, _forward(taken, parts, length, onesided))
        return _transformed(b, x, axis, _real_inverse(taken, length) if onesided else _inverse(taken, parts, length))
    if not is_inverse:
        return _transformed(b, x, axis, forward(b, taken, parts, half if onesided else length, length))
    return _transformed(b, x, axis, real_inverse(b, taken, length) if onesided else inverse(b, taken, parts, length))


@onnx_op("DFT", 17)
def dft_17(ctx: NodeContext) -> Value:
    return _dft(ctx, ctx.input(0), ctx.int("axis", 1))


@onnx_op("DFT", 20)
def dft_20(ctx: NodeContext) -> Value:
    """An axis that only the run time knows becomes the middle one of three, before the parts."""
    b, x = ctx.b, ctx.input(0)
    axis = (-2,) if ctx.optional(2) is None else ctx.ints_or_none(2)
    if axis is not None:
        return _dft(ctx, x, axis[0])
    rank, given = x.type.rank, vector(b, ctx.input(2))
    spread = around_axis(b, x, given, last=1)
    found = _dft(ctx, spread, 1)
    bins, results = found.type.shape[1], found.type.shape[3]
    mask = axis_mask(b, given, rank)
    sizes = c.select(b, mask, b.dims((bins,)), b.dims((*x.type.shape[:-1], results)))
    return b.emit(DynamicReshape((*(b.fresh_dim() for _ in range(rank - 1)), results)), found, sizes)


@onnx_op("STFT", 17)
def stft(ctx: NodeContext) -> Value:
    """The spectrum of each windowed frame: [batch, frames, bins, 2]."""
    b, x = ctx.b, ctx.input(0)
    known = ctx.dims_or_none(1)
    step = bind_sizes(b, _positive(b, vector(b, ctx.input(1))))[0] if known is None else known[0]
    onesided, window = bool(ctx.int("onesided", 1)), ctx.optional(2)
    x = c.unsqueeze(b, x, (2,)) if x.type.rank == 2 else x
    ctx.require(x.type.rank == 3, f"STFT cannot take {x.type}")
    ctx.require(not isinstance(step, int) or step > 0, f"STFT in steps of {step}")
    parts = x.type.shape[2]
    length: Dim = x.type.shape[1] if window is None else window.type.shape[0]
    if ctx.optional(3) is not None:
        (length,) = sizes_input(ctx, 3, "frame_length")
    if not isinstance(parts, int):
        raise Refused(f"STFT of the symbolic shape {x.type}")
    ctx.refuse_unless(not isinstance(length, int) or length > 0, f"frames of {length} elements")
    ctx.refuse_unless(not onesided or parts == 1, "one side of the spectrum of a complex signal")
    frames = (x.type.shape[1] - length) // step + 1
    starts, within = (b.emit(Iota((frames, length), axis, DType.I64)) for axis in (0, 1))
    index = c.binary(b, "add", c.binary(b, "mul", starts, size_as(b, step, DType.I64)), within)
    cut = b.emit(Gather(1), x, index)
    if window is not None:
        shaped = c.reshape(b, c.rebind(b, window, (length,)), (length, 1))
        cut = c.binary(b, "mul", cut, c.cast(b, shaped, x.type.dtype))
    if isinstance(length, int):
        return _transformed(b, cut, 2, _forward(length, parts, length, onesided))
    return _transformed(b, cut, 2, forward(b, length, parts, length // 2 + 1 if onesided else length, length))
