"""The printed form of a graph: stable, one node a line, the same for equal programs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fornaxc.ir.graph import Constant, Graph, Value


def print_graph(graph: Graph) -> str:
    """`graph` as text. Values are numbered in order of definition; names of the source appear on inputs and outputs only."""
    numbers: dict[Value, str] = {}
    return "\n".join(_lines(graph, numbers, "")) + "\n"


def _lines(graph: Graph, numbers: dict[Value, str], indent: str) -> Iterator[str]:
    def number(value: Value) -> str:
        return numbers.setdefault(value, f"%{len(numbers)}")

    inputs = ", ".join(f"{number(v)}: {v.type}" + (f" {v.name!r}" if v.name else "") for v in graph.inputs)
    yield f"{indent}graph({inputs}) {{"
    for constraint in graph.constraints:
        yield f"{indent}  require {constraint}"
    for value, constant in graph.constants.items():
        yield f"{indent}  {number(value)} = {_constant(constant)}"
    for node in graph.nodes:
        operands = ", ".join(number(v) for v in node.inputs)
        results = ", ".join(number(v) for v in node.outputs)
        types = ", ".join(str(v.type) for v in node.outputs)
        opens = " {" if node.regions else ""
        yield f"{indent}  {results} = {node.op} {operands}".rstrip() + f" : {types}{opens}"
        for region in node.regions:
            yield from _lines(region, numbers, indent + "    ")
        if node.regions:
            yield f"{indent}  }}"
    outputs = ", ".join(number(v) for v in graph.outputs)
    names = f" as {', '.join(map(repr, graph.output_names))}" if graph.output_names else ""
    yield f"{indent}  return {outputs}{names}"
    yield f"{indent}}}"


def _constant(constant: Constant) -> str:
    if not constant.literal:
        return f"weight : {constant.type}"
    array = constant.load()
    shown = np.array2string(array, threshold=16, separator=", ", max_line_width=10_000).replace("\n", " ")
    return f"literal {shown} : {constant.type}"
