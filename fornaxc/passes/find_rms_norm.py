"""Recognises root mean square normalisation where it is written out."""

from __future__ import annotations

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.ops import RmsNorm
from fornaxc.passes.forms import Forms, replace_forms
from fornaxc.passes.norms import centred, full, is_convolved, normalized, parameter, possible
from fornaxc.passes.rewrite import use_counts


def find_rms_norm(graph: Graph) -> Graph:
    """`graph` with x / sqrt(mean(x^2) + epsilon) over trailing axes, and a scale after it, as `RmsNorm`.

    Of x less its mean it is layer normalisation, and left. In f32 and bf16: squares in f16 overflow early. Casts to another type and back stay
    around the operation. Results differ by rounding, and where a square overflows.
    """
    if not possible(graph):
        return graph
    uses = use_counts(graph)
    plain: dict[Value, tuple[RmsNorm, Value]] = {}  # results without a scale

    def find(value: Value, b: GraphBuilder, forms: Forms) -> Value | None:
        for inner, other in forms.either(value, "mul"):
            if inner in plain and uses[inner] <= 1:
                op, x = plain[inner]
                scale = parameter(forms, b, other, op.axis)
                if scale is not None:
                    return b.emit(op, x, scale)
        for x, rows, factor in normalized(forms, value):
            if rows.of is not x or is_convolved(forms, x) or centred(forms, x, rows) is not None:
                continue
            op = RmsNorm(rows.axes[0], rows.epsilon)
            scale = full(b, 1, x, op.axis) if factor is None else parameter(forms, b, factor, op.axis)
            if scale is not None:
                result = b.emit(op, x, scale)
                if factor is None:
                    plain[result] = op, x
                    uses[result] = uses[value]
                return result
        return None

    return replace_forms(graph, find)
