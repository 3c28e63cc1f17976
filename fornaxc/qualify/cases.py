"""A case: an ONNX model with inputs and the outputs that it must give, and the facts that a report groups cases by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from fornaxc.importers.onnx.structure import schema_version
from fornaxc.ir.graph import Array
from fornaxc.qualify.selfchecking import SelfChecking, selfchecking_facts
from fornaxc.qualify.steering import steering_inputs

Tensors = Sequence[Any]
"""What one side of a data set holds: arrays; anything else (sequences, optionals) stands as it was found."""


@dataclass(frozen=True, slots=True)
class Case:
    """`data` holds (inputs, outputs) of each data set, in the order of the graph's inputs and outputs.

    `path` is the model's file, for external data; None where the model came from memory.
    """

    id: str
    model: onnx.ModelProto
    data: Sequence[tuple[Tensors, Tensors]]
    path: Path | None = None


AnyCase = Case | SelfChecking


@dataclass(frozen=True, slots=True)
class Facts:
    """What a case is about. `operator` is None where several operators share the graph; `rank` is the largest of a tensor's.

    `proves` names what the case is evidence for: operators with the version of their schema, 0 for StableHLO's operations.
    """

    operator: str | None
    operators: tuple[str, ...]
    opset: int
    since: int | None
    rank: int
    dtypes: tuple[str, ...]
    symbolic: bool
    proves: tuple[tuple[str, int], ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "operator": self.operator,
            "operators": list(self.operators),
            "opset": self.opset,
            "since": self.since,
            "rank": self.rank,
            "dtypes": list(self.dtypes),
            "symbolic": self.symbolic,
        }


def facts_of(case: AnyCase) -> Facts:
    """The operator with the version of its schema, the opset, and what the inputs and outputs are."""
    if isinstance(case, SelfChecking):
        return selfchecking_facts(case)
    opsets = {o.domain or "ai.onnx": o.version for o in case.model.opset_import}
    nodes = list(walk(case.model.graph))
    named = tuple(dict.fromkeys(_name(n) for n in nodes))
    alone = [name for name in named if name != "Constant"] or list(named)
    operator = alone[0] if len(alone) == 1 else None
    domain = operator.rpartition("::")[0] or "ai.onnx" if operator else "ai.onnx"
    opset = opsets.get(domain, max(opsets.values(), default=0))
    infos = [*case.model.graph.input, *case.model.graph.output]
    dims = [d for i in infos for d in i.type.tensor_type.shape.dim]
    since = _since(operator, opset) if operator else None
    return Facts(
        operator,
        named,
        opset,
        since,
        max((len(i.type.tensor_type.shape.dim) for i in infos), default=0),
        tuple(dict.fromkeys(_element_type(i) for i in infos)),
        any(not d.HasField("dim_value") for d in dims),
        ((operator, since),) if operator and since else (),
    )


def walk(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of the graphs inside them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from walk(inner)


def _name(node: onnx.NodeProto) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def _since(operator: str, opset: int) -> int:
    domain, _, name = operator.rpartition("::")
    return schema_version(domain, name, opset) or 1  # of another tool, which has one version


def _element_type(info: onnx.ValueInfoProto) -> str:
    kind = info.type.WhichOneof("value") or "tensor_type"
    if kind != "tensor_type":
        return kind.removesuffix("_type")
    return str(onnx.TensorProto.DataType.Name(info.type.tensor_type.elem_type)).lower()


def frozen(case: AnyCase) -> AnyCase:
    """The case with the inputs that only carry shapes, axes, starts, repeats... turned into initializers, as real models have them.

    The case itself where there are none, where it is no ONNX model, where the values cannot be initializers, or where data sets disagree on them.
    """
    if isinstance(case, SelfChecking):
        return case
    graph = case.model.graph
    names = [i.name for i in graph.input]
    steering = [n for n in steering_inputs(graph) if n in names and _constant(case, names.index(n))]
    if not steering or not all(len(inputs) == len(names) for inputs, _ in case.data):
        return case
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    del model.graph.input[:]
    model.graph.input.extend(i for i in graph.input if i.name not in steering)
    first = dict(zip(names, case.data[0][0], strict=True))
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(first[n]), n) for n in steering)
    kept = [i for i, n in enumerate(names) if n not in steering]
    return replace(case, model=model, data=[([inputs[i] for i in kept], outputs) for inputs, outputs in case.data])


def _constant(case: Case, index: int) -> bool:
    """Whether every data set gives the same tensor of numbers for an input."""
    values: list[Any] = [inputs[index] if index < len(inputs) else None for inputs, _ in case.data]
    if not values or not all(isinstance(v, np.ndarray) and v.dtype.kind in "iufb" for v in values):
        return False
    return all(np.array_equal(values[0], v) for v in values[1:])


def as_tensor(value: Any) -> Any:
    """A data set's value as an array where it is a tensor of numbers; else as it is."""
    if isinstance(value, onnx.TensorProto):
        return value if value.data_type == onnx.TensorProto.STRING else numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic | int | float | bool) else value


def tensors_of(values: Tensors) -> list[Array] | None:
    """The values as arrays of numbers; None where one is something else."""
    arrays = [v for v in values if isinstance(v, np.ndarray) and v.dtype.kind not in "OUSc"]
    return arrays if len(arrays) == len(values) else None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a case: the phase it reached, the verdict (pass, mismatch, compiled, refused, failed) and why.

    `rule` is what a pass rests on: `tolerance`, or `float64` (`fornaxc.qualify.exact`), with what misses the tolerance as the reason.
    `max_abs` is the largest error, None where nothing was compared; `seconds` include a share of the module's compilation.
    """

    id: str
    facts: Facts
    phase: str
    verdict: str
    reason: str = ""
    rule: str = "tolerance"
    max_abs: float | None = None
    tolerance: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        error = self.max_abs
        return {
            "id": self.id,
            **self.facts.to_json(),
            "phase": self.phase,
            "verdict": self.verdict,
            "reason": self.reason,
            "rule": self.rule,
            "max_abs": error if error is None or np.isfinite(error) else str(error),
            "tolerance": self.tolerance or None,
            "seconds": round(self.seconds, 3),
        }


def dump(document: dict[str, Any], path: Path) -> None:
    """Write a JSON document."""
    path.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
