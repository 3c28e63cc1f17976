"""Convolutions."""

from __future__ import annotations

from fornaxc.importers.onnx.context import NodeContext
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.importers.onnx.windows import pad_spatial, read_pads, read_windows, split_dim, static_pads
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Conv, Slice


def filter_sizes(ctx: NodeContext, w: Value) -> tuple[int, ...]:
    """The filter's spatial sizes, which kernel_shape (optional) repeats."""
    sizes = tuple(d for d in w.type.shape[2:] if isinstance(d, int))
    ctx.refuse_unless(all(isinstance(d, int) for d in w.type.shape), f"a filter of the symbolic shape {w.type}")
    named = ctx.ints("kernel_shape", sizes)
    ctx.require(named == sizes, f"kernel_shape {list(named)} is not that of the filter {w.type}")
    return sizes


def with_channels(b: GraphBuilder, x: Value, channels: Dim) -> Value:
    """`x` [N, channels, ...]; a symbolic channel count is asserted."""
    return c.rebind(b, x, (x.type.shape[0], channels, *x.type.shape[2:]))


def add_bias(ctx: NodeContext, y: Value, bias: Value | None) -> Value:
    """`y` [N, C, ...] plus one number for each channel."""
    if bias is None:
        return y
    ctx.require(bias.type.rank == 1, f"the bias must have one axis, not {bias.type}")
    channels = c.rebind(ctx.b, bias, (y.type.shape[1],))
    return c.binary(ctx.b, "add", y, c.reshape(ctx.b, channels, (y.type.shape[1], *(1,) * (y.type.rank - 2))))


def convolve(ctx: NodeContext, x: Value, w: Value) -> Value:
    """`x` and the filter `w` convolved as the attributes of a Conv node say."""
    b = ctx.b
    ctx.require(x.type.rank >= 3 and x.type.rank == w.type.rank, f"Conv cannot take {x.type} and {w.type}")
    windows = read_windows(ctx, x.type.shape[2:], filter_sizes(ctx, w), convolves=True)
    group = ctx.int("group", 1)
    ctx.require(group > 0, f"group is {group}")
    x = with_channels(b, x, w.type.shape[1] * group)
    x, low, high = static_pads(b, x, windows.low, windows.high, 0)
    return b.emit(Conv(windows.strides, low, high, windows.dilations, group), x, w)


@onnx_op("Conv", 1, 11, 22)
def conv(ctx: NodeContext) -> Value:
    return add_bias(ctx, convolve(ctx, ctx.input(0), ctx.input(1)), ctx.optional(2))


@onnx_op("ConvTranspose", 1, 11, 22)
def conv_transpose(ctx: NodeContext) -> Value:
    """The input spread by the strides and convolved with the flipped filter, channels of in and out swapped."""
    b, x, w = ctx.b, ctx.input(0), ctx.input(1)
    rank = x.type.rank - 2
    ctx.require(rank >= 1 and x.type.rank == w.type.rank, f"ConvTranspose cannot take {x.type} and {w.type}")
    window = filter_sizes(ctx, w)
    group = ctx.int("group", 1)
    strides, dilations = ctx.ints("strides", (1,) * rank), ctx.ints("dilations", (1,) * rank)
    extra = ctx.ints("output_padding", (0,) * rank)
    for name, values, least in (("strides", strides, 1), ("dilations", dilations, 1), ("output_padding", extra, 0)):
        ctx.require(len(values) == rank and all(v >= least for v in values), f"{name} {list(values)} on {rank} axes")
    spans = tuple(d * (k - 1) + 1 for k, d in zip(window, dilations, strict=True))
    x = with_channels(b, x, w.type.shape[0])
    low, high = _transposed_pads(ctx, x.type.shape[2:], strides, extra, spans)
    before = tuple(span - 1 - p for span, p in zip(spans, low, strict=True))
    after = tuple(span - 1 - p + e for span, p, e in zip(spans, high, extra, strict=True))
    x = pad_spatial(b, x, _positive(before), _positive(after), 0, tuple(s - 1 for s in strides))
    x = _crop(b, x, _negative(before), _negative(after))
    zeros = (0,) * rank
    y = b.emit(Conv((1,) * rank, zeros, zeros, dilations, group), x, _transposed_filter(ctx, w, group))
    return add_bias(ctx, y, ctx.optional(2))


def _transposed_pads(
    ctx: NodeContext, sizes: tuple[Dim, ...], strides: tuple[int, ...], extra: tuple[int, ...], spans: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What is cut off the full result at both ends: given, or such that the result has the wanted size."""
    rank = len(sizes)
    auto, pads = read_pads(ctx, rank)
    wanted: tuple[Dim, ...] = ctx.ints("output_shape", ())
    wanted = wanted[2:] if len(wanted) == rank + 2 else wanted
    named = wanted
    if not wanted and auto in ("NOTSET", "VALID"):
        return pads[:rank], pads[rank:]
    if not wanted:
        wanted = tuple(size * stride for size, stride in zip(sizes, strides, strict=True))
    ctx.require(len(wanted) == rank, f"output_shape {list(wanted)} on {rank} axes")
    low, high = [], []
    for size, stride, more, span, want in zip(sizes, strides, extra, spans, wanted, strict=True):
        total = stride * (size - 1) + more + span - want
        if not isinstance(total, int):
            ctx.refuse_unless(False, f"an output_shape for the symbolic size {size}")
            continue
        if total < 0:  # more than the full result: zeros at the end
            ctx.refuse_unless(bool(named), "auto_pad with strides larger than the filter")
            low.append(0)
            high.append(total)
            continue
        half = total // 2
        low.append(half if auto == "SAME_UPPER" else total - half)
        high.append(total - half if auto == "SAME_UPPER" else half)
    return tuple(low), tuple(high)


def _transposed_filter(ctx: NodeContext, w: Value, group: int) -> Value:
    """[C, M/group, ...] to [M, C/group, ...], every spatial axis reversed."""
    b, shape = ctx.b, w.type.shape
    channels, filters, window = shape[0], shape[1], shape[2:]
    each = split_dim(channels, group)
    grouped = c.reshape(b, w, (group, each, filters, *window))
    swapped = c.transpose(b, grouped, (0, 2, 1, *range(3, 3 + len(window))))
    turned = c.reshape(b, swapped, (group * filters, each, *window))
    if all(k == 1 for k in window):
        return turned
    starts = (0, 0, *(k - 1 for k in window))
    return b.emit(Slice(starts, turned.type.shape, (1, 1, *(-1 for _ in window))), turned)


def _positive(pads: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(p, 0) for p in pads)


def _negative(pads: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(-p, 0) for p in pads)


def _crop(b: GraphBuilder, x: Value, low: tuple[int, ...], high: tuple[int, ...]) -> Value:
    """`x` without so many elements at both ends of its last axes."""
    for axis, (first, last) in enumerate(zip(low, high, strict=True), x.type.rank - len(low)):
        x = c.slice_axis(b, x, axis, first, x.type.shape[axis] - first - last)
    return x
