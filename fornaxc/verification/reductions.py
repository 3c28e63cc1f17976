"""How many additions stand behind an output, and what error in f32 that justifies.

Two orders of adding n numbers differ by about u * sqrt(n) of the largest magnitude where the rounding errors, each at most u, are
independent. Along a path through a graph the additions of its reductions follow each other, so their counts add.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fornaxc.ir.dims import Dim, static, substitute
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import (
    Attention,
    Conv,
    ConvNhwc,
    Cumulative,
    Gru,
    LayerNorm,
    LocalResponseNorm,
    Lstm,
    MatMul,
    PackedRecurrence,
    Pool,
    QuantizedLinear,
    Reduce,
    RmsNorm,
    Rnn,
    Softmax,
)
from fornaxc.ir.ops.attention import LAYOUTS
from fornaxc.verification.compare import Tolerance

UNIT = 2.0**-24  # the largest relative error of one rounding in f32
LEAST_ATOL = 2e-6  # without any addition: functions such as exp differ by a few units, and what follows magnifies that


def for_length(default: Tolerance, length: int) -> Tolerance:
    """The tolerance of f32 behind `length` additions in a row: narrower than the `default` for short chains, and beyond it in
    atol alone, where their number justifies that."""
    atol = max(LEAST_ATOL, UNIT * math.sqrt(length))
    return replace(
        default, atol=atol, rtol=min(default.rtol, 100 * atol), source=f"f32 behind {length} additions in a row"
    )


def addition_counts(graph: Graph, sizes: Mapping[str, Dim]) -> dict[str, int]:
    """The largest number of floating-point additions on one path to each output, for `sizes` of the inputs' symbols.

    Sizes that only the run tells count as 1, and the body of a loop counts once: too few, never too many. Paths end at
    integers and bools, which carry no rounding error.
    """
    counts: dict[Value, int] = {}
    _count(graph, sizes, counts)
    return {name: counts.get(value, 0) for name, value in zip(graph.output_names, graph.outputs, strict=True)}


def work(graph: Graph, sizes: Mapping[str, Dim]) -> int:
    """About how many multiplications or simpler steps the graph takes for `sizes` of the inputs' symbols: for each element of a
    result, as many as numbers are added up for it. Sizes that only the run tells count as 1, and the body of a loop once."""
    total = 0
    for node in graph.walk():
        for value in node.outputs:
            dims = [substitute(d, sizes) for d in value.type.shape]
            total += math.prod(d for d in dims if isinstance(d, int)) * max(1, _additions(node, sizes))
    return total


def _count(graph: Graph, sizes: Mapping[str, Dim], counts: dict[Value, int]) -> None:
    for node in graph.nodes:
        before = [counts.get(v, 0) for v in node.inputs]
        for region in node.regions:
            _count(region, sizes, counts)
            before += [counts.get(v, 0) for v in (*region.captures(), *region.outputs)]
        total = max(before, default=0) + _additions(node, sizes)
        for value in node.outputs:
            counts[value] = total if value.type.dtype.is_float else 0


def _additions(node: Node, sizes: Mapping[str, Dim]) -> int:
    """How many numbers one element of the result is the sum (or product) of; 0 for what adds none."""
    known = [substitute(d, sizes) for d in _added(node)]
    return math.prod(d for d in known if isinstance(d, int)) if known else 0


def _added(node: Node) -> Sequence[Dim]:
    """The sizes of the axes that a node adds up; of a recurrence, of its steps, each of which adds up the hidden state."""
    op = node.op
    first = node.inputs[0].type.shape if node.inputs else ()
    match op:
        case MatMul() | QuantizedLinear():  # exact in integers, where a reference may add floats
            return first[-1:]
        case Attention():  # products of queries and keys, then of their softmax and values
            return (first[3] + node.inputs[2].type.shape[LAYOUTS[op.v][2]],)
        case Conv():
            return node.inputs[1].type.shape[1:]
        case ConvNhwc():
            return static(first[3]) // op.groups, *op.window
        case Pool(fn="sum"):
            return op.window
        case Reduce(fn="sum" | "prod" | "mean"):
            return [first[axis] for axis in op.axes]
        case Softmax() | Cumulative():
            return first[op.axis : op.axis + 1]
        case LocalResponseNorm():
            return (op.before + op.after + 1,)
        case LayerNorm() | RmsNorm():
            return first[op.axis :]
        case Lstm() | Gru() | Rnn() | PackedRecurrence():
            steps, _, hidden = node.outputs[0].type.shape
            return steps, hidden
    return ()
