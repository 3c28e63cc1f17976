"""Takes signs out of the rotation of rotary position embeddings, so that it copies and multiplies alone."""

from __future__ import annotations

import numpy as np

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.ops import Concat
from fornaxc.ir.types import DType
from fornaxc.passes.forms import Forms, functions, replace_forms

_FLOATS = (DType.F16, DType.BF16, DType.F32, DType.F64)


def find_rotation(graph: Graph) -> Graph:
    """`graph` with concat(-b, a) * sines as concat(b, a) * (sines with the signs of their first half changed), as exporters of rotary embeddings (RoFormer,
    Su et al. 2021) write x * cos + rotate_half(x) * sin. All bits are equal but the sign of a NaN.
    """
    if "neg" not in functions(graph):
        return graph
    return replace_forms(graph, _find)


def _find(value: Value, b: GraphBuilder, forms: Forms) -> Value | None:
    for turned, sines in forms.either(value, "mul"):
        node = forms.node(turned, Concat)
        if node is None or value.type.dtype not in _FLOATS:
            continue
        assert isinstance(node.op, Concat)
        axis = node.op.axis
        parts = [forms.unary(v, "neg") for v in node.inputs]
        sizes = [d for v in node.inputs if isinstance(d := v.type.shape[axis], int)]
        table = forms.repeated(sines) or sines
        is_table = table.type.rank == value.type.rank and table.type.shape[axis] == value.type.shape[axis]
        if not is_table or not any(parts) or len(sizes) < len(parts):
            continue
        plain = compose.concat(
            b, [v if part is None else part for v, part in zip(node.inputs, parts, strict=True)], axis
        )
        signs = np.concatenate([np.full(n, 1 if part is None else -1) for n, part in zip(sizes, parts, strict=True)])
        shape = [-1 if i == axis else 1 for i in range(value.type.rank)]
        factors = b.literal(signs.reshape(shape).astype(value.type.dtype.numpy))
        changed = compose.binary(b, "mul", table, compose.expand(b, factors, table.type.shape))
        return compose.binary(b, "mul", plain, compose.expand(b, changed, value.type.shape))
    return None
