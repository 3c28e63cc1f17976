"""In which float type each output was computed: an error of half precision stays one after a conversion to single."""

from __future__ import annotations

from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.types import DType

_COARSE = (DType.F32, DType.F16, DType.BF16)  # from fine to coarse; finer ones count as the first


def computed_in(graph: Graph) -> dict[str, DType]:
    """The coarsest of f32, f16 and bf16 in which anything was computed that an output depends on, by output name.

    Inputs and constants are exact and do not count; nor do the floats of 8 bits and fewer, whose steps are part of the model.
    """
    coarsest: dict[Value, int] = {}
    _follow(graph, coarsest)
    named = zip(graph.output_names, graph.outputs, strict=True)
    return {name: _COARSE[coarsest.get(value, 0)] for name, value in named}


def _follow(graph: Graph, coarsest: dict[Value, int]) -> None:
    for node in graph.nodes:
        used = [coarsest.get(v, 0) for v in node.inputs]
        for region in node.regions:
            _follow(region, coarsest)
            used += [coarsest.get(v, 0) for v in (*region.captures(), *region.outputs)]
        for value in node.outputs:
            own = _COARSE.index(value.type.dtype) if value.type.dtype in _COARSE else 0
            coarsest[value] = max([own, *used])
