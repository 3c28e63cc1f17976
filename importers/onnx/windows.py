"""Windows that slide over the spatial axes: strides, dilations, padding and ceil_mode of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fornaxc.importers.onnx.context import Invalid, NodeContext
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, ceildiv, dim_max, dim_min
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Pad
from fornaxc.ir.types import DType

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True, slots=True)
class Windows:
    """One entry for each spatial axis. `low` and `high` may depend on symbolic sizes."""

    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]

    @property
    def spans(self) -> tuple[int, ...]:
        """The elements that a window covers, holes included."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.window, self.dilations, strict=True))


def read_windows(
    ctx: NodeContext, sizes: Sequence[Dim], window: Sequence[int], *, dilates: bool = True, convolves: bool = False
) -> Windows:
    """The attributes strides, dilations, auto_pad and pads of a window over axes of these sizes.

    Where SAME would need less padding than none, a convolution takes none; for pools the tools disagree.
    """
    rank = len(sizes)
    strides = ctx.ints("strides", (1,) * rank)
    dilations = ctx.ints("dilations", (1,) * rank) if dilates else (1,) * rank
    auto, pads = read_pads(ctx, rank)
    for name, values in (("kernel_shape", window), ("strides", strides), ("dilations", dilations)):
        ctx.require(len(values) == rank and all(v > 0 for v in values), f"{name} {list(values)} on {rank} axes")
    bare = Windows(tuple(window), strides, dilations, pads[:rank], pads[rank:])
    if auto in ("NOTSET", "VALID"):
        return bare
    low, high = [], []
    for size, stride, span in zip(sizes, strides, bare.spans, strict=True):
        total = (ceildiv(size, stride) - 1) * stride + span - size if stride > 1 else span - 1
        if span < stride:
            settled = isinstance(total, int) and total >= 0
            ctx.refuse_unless(convolves or settled, "auto_pad of a pool whose strides leave its windows apart")
            total = dim_max(total, 0)
        half = total // 2
        low.append(half if auto == "SAME_UPPER" else total - half)
        high.append(total - half if auto == "SAME_UPPER" else half)
    return Windows(bare.window, strides, dilations, tuple(low), tuple(high))


def read_pads(ctx: NodeContext, rank: int) -> tuple[str, tuple[int, ...]]:
    """auto_pad, and the explicit pads: all low ones, then all high ones; zeros where auto_pad decides."""
    auto = ctx.string("auto_pad", "NOTSET")
    ctx.require(auto in AUTO_PADS, f"no auto_pad {auto!r}")
    pads = ctx.ints("pads", (0,) * (2 * rank))
    if auto != "NOTSET":
        ctx.require(not any(pads) or auto != "VALID", "pads are given, and auto_pad too")
        pads = (0,) * (2 * rank)
    ctx.require(len(pads) == 2 * rank, f"{len(pads)} pads on {rank} axes")
    ctx.refuse_unless(all(p >= 0 for p in pads), "a negative pad")
    return auto, pads


def ceil_high(sizes: Sequence[Dim], w: Windows) -> tuple[Dim, ...]:
    """The high padding with which floor gives as many windows as ceil_mode=1.

    A last window that would start in the high padding is left out.
    """
    high = []
    for size, stride, span, low, pad in zip(sizes, w.strides, w.spans, w.low, w.high, strict=True):
        count = dim_min(ceildiv(size + low + pad - span, stride) + 1, ceildiv(size + low, stride))
        high.append(dim_max((count - 1) * stride + span - size - low, 0))
    return tuple(high)


def static_pads(
    b: GraphBuilder, x: Value, low: Sequence[Dim], high: Sequence[Dim], fill: float
) -> tuple[Value, tuple[int, ...], tuple[int, ...]]:
    """`x` and integer pads for its last axes: padding that depends on symbolic sizes is applied to `x` itself."""
    ints = [(p, q) for p, q in zip(low, high, strict=True) if isinstance(p, int) and isinstance(q, int)]
    if len(ints) == len(low):
        return x, tuple(p for p, _ in ints), tuple(q for _, q in ints)
    zeros = (0,) * len(low)
    return pad_spatial(b, x, low, high, fill), zeros, zeros


def split_dim(size: Dim, parts: int) -> Dim:
    """The size of each of `parts` equal parts. A symbolic size is taken to divide, which a reshape asserts at run time."""
    if parts <= 0 or (isinstance(size, int) and size % parts):
        raise Invalid(f"{size} does not split into {parts} equal parts")
    return size // parts


def pad_spatial(
    b: GraphBuilder, x: Value, low: Sequence[Dim], high: Sequence[Dim], fill: float, interior: Sequence[int] = ()
) -> Value:
    """`x` with its last axes padded."""
    lead = (0,) * (x.type.rank - len(low))
    if not any(p != 0 for p in (*low, *high, *interior)):
        return x
    inner = (*lead, *interior) if interior else ()
    return b.emit(Pad((*lead, *low), (*lead, *high), "constant", inner), x, c.scalar(b, fill, x.type.dtype))


def lowest(dtype: DType) -> float:
    """The identity of a maximum."""
    from fornaxc.ir.ops.elementwise import integer_range

    return float("-inf") if dtype.is_float else integer_range(dtype)[0]
