"""The closed set of IR operations, by family."""

from fornaxc.ir.ops.attention import Attention
from fornaxc.ir.ops.base import IrError, NotFoldable, Op
from fornaxc.ir.ops.control import If, While
from fornaxc.ir.ops.elementwise import Binary, Bitcast, Cast, Compare, Select, Unary
from fornaxc.ir.ops.indexing import (
    Gather,
    GatherElements,
    GatherNd,
    NonZero,
    ScatterElements,
    ScatterNd,
    TopK,
)
from fornaxc.ir.ops.linear import Conv, MatMul, Pool
from fornaxc.ir.ops.nn import Gru, LayerNorm, LocalResponseNorm, Lstm, RmsNorm, Rnn, Softmax
from fornaxc.ir.ops.packed import ConvNhwc, FromPool, PackConv, PackedRecurrence
from fornaxc.ir.ops.quantized import Im2col, QuantizedLinear
from fornaxc.ir.ops.reduction import ArgReduce, Cumulative, Reduce
from fornaxc.ir.ops.shape import (
    BroadcastTo,
    Concat,
    Dims,
    DynamicBroadcast,
    DynamicRange,
    DynamicReshape,
    DynamicSlice,
    Iota,
    Pad,
    Rebind,
    Repeat,
    Reshape,
    Slice,
    StridedSlice,
    Transpose,
)

__all__ = [
    "ArgReduce",
    "Attention",
    "Binary",
    "Bitcast",
    "BroadcastTo",
    "Cast",
    "Compare",
    "Concat",
    "Conv",
    "ConvNhwc",
    "Cumulative",
    "Dims",
    "DynamicBroadcast",
    "DynamicRange",
    "DynamicReshape",
    "DynamicSlice",
    "FromPool",
    "Gather",
    "GatherElements",
    "GatherNd",
    "Gru",
    "If",
    "Im2col",
    "Iota",
    "IrError",
    "LayerNorm",
    "LocalResponseNorm",
    "Lstm",
    "MatMul",
    "NonZero",
    "NotFoldable",
    "Op",
    "PackConv",
    "PackedRecurrence",
    "Pad",
    "Pool",
    "QuantizedLinear",
    "Rebind",
    "Reduce",
    "Repeat",
    "Reshape",
    "RmsNorm",
    "Rnn",
    "ScatterElements",
    "ScatterNd",
    "Select",
    "Slice",
    "Softmax",
    "StridedSlice",
    "TopK",
    "Transpose",
    "Unary",
    "While",
]

ALL: dict[str, type[Op]] = {}


def by_name() -> dict[str, type[Op]]:
    """Every operation class by its printed name."""
    if not ALL:
        for name in __all__:
            cls = globals()[name]
            if isinstance(cls, type) and issubclass(cls, Op) and cls is not Op:
                snake = "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))
                ALL[snake] = cls
    return ALL
