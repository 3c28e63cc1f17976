"""The model in double precision beside an oracle: how accurate both sides are, and the verdict where only the tolerance fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from fornaxc.errors import FornaxError
from fornaxc.ir.binding import ShapeMismatch, bind_dims
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.ops import IrError
from fornaxc.verification.accuracy import IMPORT_AGREES, accuracy
from fornaxc.verification.compare import Row, compare_within
from fornaxc.verification.double_graph import WIDENED, is_packed, jumping_outputs, widened
from fornaxc.verification.double_model import evaluated_in_double, widened_array
from fornaxc.verification.oracle import GraphOracle, OracleRefused, Reference, interpreted
from fornaxc.verification.ort_runs import LARGE
from fornaxc.verification.reductions import work

ALWAYS = 64 << 20  # bytes of weights up to which errors from float64 are told of outputs within the tolerance too,
ALWAYS_WORK = 4_000_000_000  # and steps of the graph: some seconds
MOST_WORK = 100_000_000_000  # steps up to which a failure is judged unasked: minutes, in onnx's evaluator
EARLIER = "the first artifact"  # an earlier artifact of the model, in the place of an oracle
JUDGED = ("onnxruntime", "ort", "onnx-reference", EARLIER)  # how the names of oracles begin whose accuracy may decide


class Exact(NamedTuple):
    """The outputs in double precision, and what computed them; no outputs where nothing could, and why."""

    outputs: Mapping[str, Array]
    by: str
    why_not: str = ""


class InDouble:
    """The graph that a model was imported as, in double precision; for a model file (`path`), and not for the program of an artifact, the
    file itself too, run by onnx's evaluator.

    `wanted`: whether it is evaluated; None: for outputs outside of their tolerance, and for all where weights and work are small.
    """

    def __init__(self, graph: Graph, path: Path | None, wanted: bool | None = None) -> None:
        self._graph = graph
        self._path = path
        self._wanted = wanted
        self._weights = sum(c.type.nbytes for c in graph.constants.values())
        self._last: tuple[Mapping[str, Array], Exact] | None = None
        self._last_file: tuple[Mapping[str, Array], Exact] | None = None

    def settled(
        self,
        rows: Sequence[Row],
        outputs: Mapping[str, Array],
        reference: Reference,
        inputs: Mapping[str, Array],
        fixed: Sequence[str] = (),
    ) -> list[Row]:
        """The rows of one sample and reference, with the errors from float64; a row that fails by its tolerance alone passes by the rule
        `float64` where that holds (`fornaxc.verification.accuracy`). `fixed` are the outputs whose tolerance the user chose: it decides."""
        return [self._settled(row, outputs, reference, inputs, row.name in fixed) for row in rows]

    def _settled(
        self, row: Row, outputs: Mapping[str, Array], reference: Reference, inputs: Mapping[str, Array], fixed: bool
    ) -> Row:
        if not self._may_be_asked(row):
            return row
        try:
            steps = self._steps(inputs)
        except (KeyError, ShapeMismatch):  # the inputs are those of another graph
            return row
        if not self._wanted:
            if row.verdict == "fail" and (self._weights >= LARGE or steps > MOST_WORK):
                why = "the model is large: --float64 evaluates it in double precision all the same"
                return replace(row, float64={"by": "", "ours": None, "oracle": None, "why_not": why})
            if row.verdict != "fail" and (self._weights > ALWAYS or steps > ALWAYS_WORK):
                return row
        exact = self._exact(inputs)
        whose = reference.oracle if reference.oracle == EARLIER else "onnxruntime"
        if row.name not in exact.outputs or row.tolerance is None:
            return replace(row, float64={"by": exact.by, "ours": None, "oracle": None, "why_not": exact.why_not})
        found = accuracy(outputs[row.name], reference.outputs[row.name], exact.outputs[row.name], row.tolerance, whose)
        document: dict[str, Any] = {
            "by": exact.by,
            "ours": None if found.ours is None else found.ours.to_json(),
            "oracle": None if found.oracle is None else found.oracle.to_json(),
            "why_not": "",
        }
        if row.verdict != "fail":
            return replace(row, float64=document)
        document["why_not"] = found.why_not or self._not_applicable(row, reference, inputs, exact, fixed)
        if document["why_not"]:
            return replace(row, float64=document)
        reason = f"{row.reason}; they are as close to float64 as {whose}'s"
        return replace(row, float64=document, verdict="pass", rule="float64", reason=reason)

    def _may_be_asked(self, row: Row) -> bool:
        """Only rows that compared every element of floats of at most 32 bits."""
        return self._wanted is not False and row.rule == "tolerance" and row.dtype in {d.numpy.name for d in WIDENED}

    def _steps(self, inputs: Mapping[str, Array]) -> int:
        names = self._graph.input_names
        sizes = bind_dims(names, [v.type for v in self._graph.inputs], [inputs[n].shape for n in names])
        return work(self._graph, sizes)

    def _not_applicable(
        self, row: Row, reference: Reference, inputs: Mapping[str, Array], exact: Exact, fixed: bool
    ) -> str:
        """Why the rule may not decide although the numbers suit it; "" where it may."""
        if fixed:
            return "the tolerance was chosen"
        if not reference.oracle.startswith(JUDGED):
            return f"the rule is not for {reference.oracle}"
        if row.name in self._jumping:
            return "the output is behind a comparison, a rounding or an index, which float64 may decide otherwise"
        return "" if self._path is None else self._import_differs(row.name, inputs, exact)

    @cached_property
    def _jumping(self) -> set[str]:
        return jumping_outputs(self._graph)

    @cached_property
    def _double(self) -> Graph:
        return widened(self._graph)

    @cached_property
    def _oracle(self) -> GraphOracle:
        return GraphOracle(self._double)

    def _exact(self, inputs: Mapping[str, Array]) -> Exact:
        if self._last is None or self._last[0] is not inputs:
            self._last = inputs, self._evaluated(inputs)
        return self._last[1]

    def _evaluated(self, inputs: Mapping[str, Array]) -> Exact:
        """The graph in double, by onnxruntime where that can, else by numpy."""
        given = {name: widened_array(inputs[name]) for name in self._graph.input_names}
        try:
            double = self._double
        except IrError as refusal:
            return Exact({}, "", f"the graph has no form in double: {refusal}")
        try:
            if is_packed(double):
                raise OracleRefused("packed weights are not exported in double")
            self._oracle.file()
            return Exact(self._oracle.onnxruntime(given, optimise=False), "onnxruntime in double")
        except (OracleRefused, FornaxError) as refusal:
            why = str(refusal)
        try:
            return Exact(interpreted(double, given), "numpy in double")
        except OracleRefused as refusal:
            return Exact({}, "", f"the graph cannot be evaluated in double: {why}; {refusal}")

    def _import_differs(self, name: str, inputs: Mapping[str, Array], exact: Exact) -> str:
        """Why the graph cannot stand for the model: the file itself, in double, gives something else or cannot be evaluated."""
        assert self._path is not None
        if self._last_file is None or self._last_file[0] is not inputs:
            try:
                found = Exact(evaluated_in_double(self._path, inputs), "onnx-reference in double")
            except OracleRefused as refusal:
                found = Exact({}, "", str(refusal))
            self._last_file = inputs, found
        ours, file = exact.outputs[name], self._last_file[1]
        if name not in file.outputs:
            return f"whether the import is right in double is not known: {file.why_not or 'the model lacks the output'}"
        row = compare_within(name, ours, file.outputs[name], lambda dtype: IMPORT_AGREES)
        return "" if row.verdict == "pass" else f"the imported graph and the model differ in double: {row.reason}"
