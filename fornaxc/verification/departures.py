"""Where an oracle is known to give something else than the specification of ONNX or of StableHLO says, with the evidence.

Each entry of ONNX is about schema versions of one operator, and only about nodes of which its condition holds. The evidence are cases of the onnx
package's own suite whose shipped outputs the oracle does not give; tests show each by a small model, so that an entry
that no longer holds is seen. docs/reference-disagreements.md lists all cases that differ, those that only round differently included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto

ORT = ("ort", "ort-noopt")


@dataclass(frozen=True, slots=True)
class Departure:
    """`oracles` depart from the specification of `operator` (of the ONNX domain) at schema versions `since`, where `when` holds.

    `says` is for people; `cases` show it, in the suite `onnx:node` where they are named so; `seen_with` is the version of the
    oracle's package that they were run with.
    """

    oracles: tuple[str, ...]
    operator: str
    since: tuple[int, ...]
    when: Callable[[NodeProto], bool]
    says: str
    cases: tuple[str, ...]
    seen_with: str

    def sentence(self, oracle: str) -> str:
        """For the report: what is known, and from where."""
        package = "onnx" if oracle == "onnx-reference" else "onnxruntime"
        installed = import_module(package).__version__
        since = " and ".join(map(str, self.since))
        seen = f"seen with {package} {self.seen_with}, case {self.cases[0]}; installed is {installed}"
        return f"{oracle} is off-specification for {self.operator} of opset {since}: {self.says} ({seen})"


def _attribute(node: NodeProto, name: str) -> AttributeProto | None:
    return next((a for a in node.attribute if a.name == name), None)


def _is_aligned_by_scales(node: NodeProto) -> bool:
    mode = _attribute(node, "coordinate_transformation_mode")
    has_scales = len(node.input) > 2 and node.input[2] != ""
    return mode is not None and mode.s == b"align_corners" and has_scales


TABLE = (
    Departure(
        ORT,
        "Resize",
        (19,),
        _is_aligned_by_scales,
        "with align_corners and scales it takes the rounded size of the output for scale times the size of the input",
        ("test_resize_downsample_scales_linear_align_corners", "test_resize_downsample_scales_cubic_align_corners"),
        "1.32.0",
    ),
    Departure(
        ORT,
        "MaxUnpool",
        (22,),
        lambda node: len(node.input) > 2 and node.input[2] != "",
        "with output_shape it counts the indices in the given output, not in the one that the window makes",
        ("test_maxunpool_export_with_output_shape",),
        "1.32.0",
    ),
    Departure(
        ORT,
        "Attention",
        (23, 24),
        lambda node: len(node.output) > 3 and node.output[3] != "",
        "of qk_matmul_output, what is masked is the least float, not -inf",
        (
            "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
            "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal",
        ),
        "1.32.0",
    ),
)


@dataclass(frozen=True, slots=True)
class InterpreterDeparture:
    """StableHLO's interpreter departs from the specification of `operator`, where `when` holds of the MLIR operation.

    `says` is for people; `seen_with` is the version of jaxlib that a test showed it with.
    """

    operator: str
    when: Callable[[Any], bool]
    says: str
    seen_with: str

    @property
    def sentence(self) -> str:
        installed = import_module("jaxlib").__version__
        return (
            f"it is off-specification for {self.operator}: {self.says} "
            f"(seen with jaxlib {self.seen_with}; installed is {installed})"
        )


def _is_in_total_order(op: Any) -> bool:
    """Whether a comparison of floats in total order may see a zero or NaN of either sign: jax makes one of each first, by selects."""
    kind = str(op.attributes["compare_type"]) if "compare_type" in op.attributes else ""
    made = [getattr(v.owner, "operation", v.owner) for v in op.operands]
    return "TOTALORDER" in kind and not all(getattr(o, "name", "") == "stablehlo.select" for o in made)


INTERPRETER_TABLE = (
    InterpreterDeparture(
        "stablehlo.compare",
        _is_in_total_order,
        "in TOTALORDER it takes 0 and -0 for equal and NaN for equal to nothing, where -NaN < -0 < 0 < NaN",
        "0.10.2",
    ),
)


def interpreter_departures(operations: Iterable[Any]) -> list[str]:
    """A sentence for each entry about StableHLO's interpreter that holds of one of these MLIR operations."""
    found = {e: None for op in operations for e in INTERPRETER_TABLE if op.name == e.operator and e.when(op)}
    return [e.sentence for e in found]


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
