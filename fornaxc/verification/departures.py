"""Where an oracle is known to give something else than the ONNX specification says, with the evidence.

Each entry is about one schema version of an operator, and only about nodes of which its condition holds. The evidence are cases of the onnx
package's own suite whose shipped outputs the oracle does not give; tests repeat them, so that an entry that no longer
holds is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import NodeProto

ORT = ("ort", "ort-noopt")


@dataclass(frozen=True, slots=True)
class Departure:
    """`oracles` depart from the specification of `operator` (of the ONNX domain) at schema versions `since`, where `when` holds.

    `says` is for people; `cases` are those of the suite `onnx:node` that show it; `version` is the oracle's when they were run.
    """

    oracles: tuple[str, ...]
    operator: str
    since: tuple[int, ...]
    when: Callable[[NodeProto], bool]
    says: str
    cases: tuple[str, ...]
    version: str

    def sentence(self, oracle: str) -> str:
        """For the report: what is known, and from where."""
        return f"{oracle} {self.version} is off-specification for {self.operator} of opset {self.since[0]}: {self.says} (case {self.cases[0]})"


TABLE: tuple[Departure, ...] = ()


def departures(path: Path, oracle: str) -> list[str]:
    """A sentence for each kind of node of a model of which `oracle` is known to depart from the specification."""
    entries = [entry for entry in TABLE if oracle in entry.oracles]
    if not entries:
        return []
    found = {e: None for node, since in _versioned_nodes(path) for e in entries if _is_about(e, node, since)}
    return [e.sentence(oracle) for e in found]


def _is_about(entry: Departure, node: NodeProto, since: int) -> bool:
    return node.op_type == entry.operator and since in entry.since and entry.when(node)


def _versioned_nodes(path: Path) -> Iterator[tuple[NodeProto, int]]:
    """The nodes of the ONNX domain, of bodies and functions too, with the schema version that they use."""
    from onnx import defs

    from fornaxc.importers.onnx.reader import open_model, plain_domain

    model = open_model(path)
    bodies = [(model.proto.graph.node, model.opsets)]
    bodies += [
        (f.node, {plain_domain(o.domain): o.version for o in f.opset_import} or model.opsets)
        for f in model.proto.functions
    ]
    for nodes, opsets in bodies:
        for node in _walk(nodes):
            if plain_domain(node.domain) == "" and "" in opsets and defs.has(node.op_type, opsets[""], ""):
                yield node, defs.get_schema(node.op_type, opsets[""], "").since_version


def _walk(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _walk(graph.node)
