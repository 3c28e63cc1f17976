"""What ran where: the device, the nodes of the program and of the host, the kernels that MAX made of them, and what no input decides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Dims
from fornaxc.verification.compare import Row

_OPERATION = re.compile(r"\b(?:mo\.|custom__fx_)([\w.]+)")
_OWN_KERNELS = {  # the node's name (or function) where it is not in the kernel's
    "chain": ("conv_nhwc", "pool", "reduce", "binary", "unary", "broadcast_to", "concat", "reshape", "transpose"),
    "conv2d": ("conv_nhwc", "conv"),
    "bmm": ("batched_conv", "matmul"),
    "gpu_conv_nhwc": ("conv_nhwc",),
    "gpu_conv_nchw": ("conv",),
    "gpu_matmul": ("matmul",),
    "gpu_pool2d": ("pool",),
    "pool2d": ("pool",),
    "small_to_f32": ("cast",),
    "f32_to_small": ("cast",),
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the compiled program, as MAX sums it up: the operations that it fuses, how many kernels fuse just these, and the nodes
    of the source model with such operations, from which they came."""

    operations: tuple[str, ...]
    count: int
    nodes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"operations": list(self.operations), "count": self.count, "nodes": list(self.nodes)}


@dataclass(frozen=True, slots=True)
class Execution:
    """`nodes` of the program ran on `device`, but those that fell back to the host; `folded` nodes of the source model depend on constants
    alone and were computed with the weights. `kernels` is None where MAX did not tell them."""

    device: str
    nodes: int
    host_nodes: int
    folded: tuple[str, ...]
    kernels: tuple[Kernel, ...] | None

    def to_json(self) -> dict[str, Any]:
        kernels = self.kernels
        return {
            "device": self.device,
            "nodes": self.nodes,
            "host_nodes": self.host_nodes,
            "folded": list(self.folded),
            "kernels": None if kernels is None else sum(k.count for k in kernels),
            "kernel_map": None if kernels is None else [k.to_json() for k in kernels],
        }


def execution(
    program: Graph, imported: Graph, device: str, host_nodes: Sequence[Mapping[str, Any]], summaries: Sequence[str]
) -> Execution:
    """What ran of a `program`, which is the `imported` graph after the passes; `summaries` are MAX's of its kernels, empty where there are none."""
    kernels = kernels_of(summaries, program) if summaries else None
    count = sum(1 for _ in program.walk())
    return Execution(device, count, len(host_nodes), folded_nodes(imported), kernels)


def kernels_of(summaries: Iterable[str], program: Graph) -> tuple[Kernel, ...]:
    """The kernels among MAX's summaries, those that fuse the same operations together; work on sizes and buffers is left out."""
    counts: dict[tuple[str, ...], int] = {}
    for summary in summaries:
        found = tuple(_OPERATION.findall(summary))
        if any(not name.startswith("static.") for name in found):
            counts[found] = counts.get(found, 0) + 1
    sources: dict[str, dict[str, None]] = {}
    for node in program.walk():
        for name in {node.op.name, str(getattr(node.op, "fn", "")), str(getattr(node.op, "kind", ""))} - {""}:
            sources.setdefault(name, {})[_source(node)] = None
    return tuple(Kernel(names, count, _sources(names, sources)) for names, count in counts.items())


def _sources(operations: Sequence[str], sources: Mapping[str, Mapping[str, None]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for operation in (o for o in operations if not o.startswith("static.")):
        last = operation.rpartition(".")[2]
        for name in (last, *_OWN_KERNELS.get(last, ())):
            found.update(dict.fromkeys(sources.get(name, ())))
    return tuple(n for n in found if n)


def folded_nodes(graph: Graph) -> tuple[str, ...]:
    """The source nodes, each once, all of whose work depends on constants alone."""
    reached = _reached(graph)
    kept = {_source(n) for n in graph.nodes if any(v in reached for v in n.outputs)}
    folded = dict.fromkeys(_source(n) for n in graph.nodes if not any(v in reached for v in n.outputs))
    return tuple(name for name in folded if name and name not in kept)


def unproven_outputs(imported: Graph, program: Graph | None = None) -> dict[str, str]:
    """The outputs that no input decides, each with what it is instead: its comparison proves nothing of the program, which is the `imported`
    graph after the passes."""
    found = _undecided(imported)
    after = {} if program is None else _undecided(program)
    return {**{name: f"{why} after the passes" for name, why in after.items()}, **found}


def _undecided(graph: Graph) -> dict[str, str]:
    values, sizes = _reached(graph), _reached(graph, of_sizes=True)
    found = {}
    for name, value in zip(graph.output_names, graph.outputs, strict=True):
        if value not in sizes:
            found[name] = "it is a constant"
        elif value not in values:
            found[name] = "it depends on the sizes of the inputs alone"
    return found


def flagged(rows: Iterable[Row], unproven: Mapping[str, str]) -> list[Row]:
    """The rows, where those that pass for outputs of which nothing is proven say so."""
    return [
        replace(
            row, reason="; ".join([*([row.reason] if row.reason else []), f"nothing was proven: {unproven[row.name]}"])
        )
        if row.verdict == "pass" and row.name in unproven
        else row
        for row in rows
    ]


def _reached(graph: Graph, of_sizes: bool = False) -> set[Value]:
    """The values that the elements of an input decide; with `of_sizes`, or its sizes."""
    reached = set(graph.inputs)
    _follow(graph, reached, of_sizes)
    return reached


def _follow(graph: Graph, reached: set[Value], of_sizes: bool) -> None:
    for node in graph.nodes:
        used = [*node.inputs]
        for region in node.regions:
            reached.update(inner for outer, inner in zip(node.inputs, region.inputs, strict=False) if outer in reached)
            _follow(region, reached, of_sizes)
            used += [*region.captures(), *region.outputs]
        if reached.intersection(used) or (of_sizes and _is_sized(node)):
            reached.update(node.outputs)


def _is_sized(node: Node) -> bool:
    """Whether symbolic sizes decide the elements or the shape of a result."""
    symbolic = isinstance(node.op, Dims) and any(not isinstance(d, int) for d in node.op.values)
    return symbolic or any(not v.type.is_static for v in node.outputs)


def _source(node: Node) -> str:
    return node.origin.node or node.origin.op
