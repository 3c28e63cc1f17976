"""The passes in their order: one table that `--no-pass` and `inspect --passes` come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fornaxc.errors import UsageError
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Graph
from fornaxc.passes.dead import drop_dead


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewriting of graphs. `kinds` are the device kinds that it is for."""

    name: str
    function: Callable[[Graph], Graph]
    description: str
    kinds: tuple[str, ...] = ("cpu", "gpu")


PASSES: tuple[Pass, ...] = (Pass("dead", drop_dead, "drop nodes whose results nothing uses"),)


def optimize(graph: Graph, device_kind: str, disabled: Sequence[str] = ()) -> Graph:
    """Run the passes that are for a device kind ("cpu" or "gpu"), the graph checked after each."""
    known = [p.name for p in PASSES]
    for name in disabled:
        if name not in known:
            raise UsageError(f"no pass is named {name!r}", code="FX211", hint=f"the passes are: {', '.join(known)}")
    check(graph)
    for step in PASSES:
        if device_kind in step.kinds and step.name not in disabled:
            graph = step.function(graph)
            check(graph)
    return graph
