"""Recognises local response normalisation of channels that come last."""

from __future__ import annotations

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import LocalResponseNorm, Pool
from fornaxc.ir.types import DType
from fornaxc.passes.forms import Forms, replace_forms
from fornaxc.passes.rewrite import holds


def find_local_norm(graph: Graph) -> Graph:
    """`graph` with x / (bias + alpha * (a sum of x * x over a window of the last axis)) ^ beta of f32 images [N, H, W, C] as one operation.

    bias must be positive and alpha not negative, so that the power is one of a positive number.
    """
    return replace_forms(graph, _find) if holds(graph, Pool) else graph


def _find(value: Value, b: GraphBuilder, forms: Forms) -> Value | None:
    quotient = forms.binary(value, "div")
    if quotient is None or value.type.dtype is not DType.F32 or value.type.rank != 4:
        return None
    if not isinstance(value.type.shape[-1], int):
        return None
    x, divisor = quotient
    power = forms.power(divisor)
    shifted = forms.shifted(power[0]) if power else None
    if power is None or shifted is None:
        return None
    total, alpha = forms.scaled(shifted[0]) or (shifted[0], 1.0)
    pool = forms.node(total, Pool)
    if pool is None or forms.power(pool.inputs[0]) != (x, 2.0) or shifted[1] <= 0 or alpha < 0:
        return None
    window = _window(pool)
    return b.emit(LocalResponseNorm(*window, alpha, power[1], shifted[1]), x) if window else None


def _window(pool: Node) -> tuple[int, int] | None:
    """How many channels before and after each a sum takes in; None for another pool."""
    op = pool.op
    assert isinstance(op, Pool)
    if op.fn != "sum" or op.channels_last or not op.window:
        return None
    rank = len(op.window)
    low, high = op.low[-1], op.high[-1]
    only_last = Pool(
        "sum",
        (*(1,) * (rank - 1), op.window[-1]),
        (1,) * rank,
        (*(0,) * (rank - 1), low),
        (*(0,) * (rank - 1), high),
        (1,) * rank,
    )
    return (low, high) if op == only_last and low + high + 1 == op.window[-1] else None
