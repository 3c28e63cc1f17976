"""Recognises layer normalisation where it is written out."""

from __future__ import annotations

from dataclasses import dataclass

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.ops import LayerNorm
from fornaxc.passes.forms import Forms, replace_forms
from fornaxc.passes.norms import (
    Rows,
    centred,
    full,
    inverse_root,
    is_convolved,
    is_mean,
    mean,
    normalized,
    parameter,
    possible,
    scaling,
)
from fornaxc.passes.rewrite import use_counts


@dataclass(frozen=True, slots=True)
class _Norm:
    """What a normalised value is, while it can still take a scale or a bias."""

    op: LayerNorm
    x: Value
    scale: Value | None


def find_layer_norm(graph: Graph) -> Graph:
    """`graph` with (x - mean) / sqrt(mean((x - mean)^2) + epsilon) over trailing axes, with scale and bias after it, as `LayerNorm`.

    Also where it is written as x * factor + (bias - mean * factor), the factor scale / sqrt(...). A variance mean(x^2) - mean^2 is left: it is
    rounded otherwise, and may be negative. In f32 and bf16: squares in f16 overflow early. Casts to another type and back stay around the
    operation. Results differ by rounding, and where a square overflows.
    """
    if not possible(graph):
        return graph
    uses = use_counts(graph)
    norms: dict[Value, _Norm] = {}

    def find(value: Value, b: GraphBuilder, forms: Forms) -> Value | None:
        made = _follow(value, b, forms, norms, uses) or _core(value, b, forms) or _affine(value, b, forms)
        if made is None:
            return None
        norm, bias = made
        scale = full(b, 1, norm.x, norm.op.axis) if norm.scale is None else norm.scale
        result = b.emit(norm.op, norm.x, scale, full(b, 0, norm.x, norm.op.axis) if bias is None else bias)
        if bias is None:
            norms[result] = norm
            uses[result] = uses[value]
        return result

    return replace_forms(graph, find)


_Made = tuple[_Norm, Value | None]  # with the bias, if any


def _follow(
    value: Value, b: GraphBuilder, forms: Forms, norms: dict[Value, _Norm], uses: dict[Value, int]
) -> _Made | None:
    """A scale or a bias after a normalised value that nothing else uses."""
    for fn in ("mul", "add"):
        for inner, other in forms.either(value, fn):
            norm = norms.get(inner)
            if norm is None or uses[inner] > 1 or (fn == "mul" and norm.scale is not None):
                continue
            found = parameter(forms, b, other, norm.op.axis)
            if found is not None:
                return (_Norm(norm.op, norm.x, found), None) if fn == "mul" else (norm, found)
    return None


def _core(value: Value, b: GraphBuilder, forms: Forms) -> _Made | None:
    """x - mean over the root of its mean square, with a scale if it is multiplied before the division."""
    for dividend, rows, factor in normalized(forms, value):
        x = _x(forms, dividend, rows)
        if x is None or (rows.of is not dividend and _x(forms, rows.of, rows) is not x):
            continue
        scale = None if factor is None else parameter(forms, b, factor, rows.axes[0])
        if factor is None or scale is not None:
            return _Norm(LayerNorm(rows.axes[0], rows.epsilon), x, scale), None
    return None


def _x(forms: Forms, value: Value, rows: Rows) -> Value | None:
    """x where `value` is x less the mean of its rows, unless a convolution gives it."""
    x = centred(forms, value, rows)
    return None if x is None or is_convolved(forms, x) else x


def _affine(value: Value, b: GraphBuilder, forms: Forms) -> _Made | None:
    """x * factor + (bias - mean * factor)."""
    for product, offset in forms.either(value, "add"):
        bias, moved = forms.binary(offset, "sub") or (value, value)
        if bias is value:
            continue
        for x, factor in forms.either(product, "mul"):
            rows, scale = scaling(forms, factor) or (None, None)
            if rows is None or _x(forms, rows.of, rows) is not x or not _is_shift(forms, moved, x, rows, scale):
                continue
            op = LayerNorm(rows.axes[0], rows.epsilon)
            own_scale = full(b, 1, x, op.axis) if scale is None else parameter(forms, b, scale, op.axis)
            own_bias = parameter(forms, b, bias, op.axis)
            if own_scale is not None and own_bias is not None:
                return _Norm(op, x, own_scale), own_bias
    return None


def _is_shift(forms: Forms, value: Value, x: Value, rows: Rows, scale: Value | None) -> bool:
    """Whether `value` is the mean of the rows of `x` over the root of `rows`, times the scale; repeated before the product or after it."""
    for repeated, factor in forms.either(value, "mul"):
        if is_mean(forms, repeated, x, rows) and scaling(forms, factor) == (rows, scale):
            return True
    inner = forms.along(value, rows.axes) if scale is None else None
    for own, factor in forms.either(forms.flat(inner), "mul") if inner is not None else ():
        if mean(forms, own) == (x, rows.axes) and inverse_root(forms, factor) == rows:
            return True
    return False
