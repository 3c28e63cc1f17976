"""References: onnxruntime on a model file or on an exported graph, and a second oracle where it refuses or disagrees with itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fornaxc.errors import UnsupportedError, first_line
from fornaxc.ir.graph import Array, Graph
from fornaxc.verification.compare import compare_outputs
from fornaxc.verification.departures import departures
from fornaxc.verification.ort_runs import OracleRefused, OrtRuns
from fornaxc.verification.zipmap import mentions_zipmap, save_with_tensors

__all__ = ["GraphOracle", "OnnxOracle", "Oracle", "OracleRefused", "Reference", "evaluated", "interpreted"]


@dataclass(frozen=True, slots=True)
class Reference:
    """What an oracle says of one sample, and which oracle it was; `others` are references of further oracles.

    `noise` is, by output, how far onnxruntime is from itself (`OrtRuns.noise`); empty where that was not measured.
    """

    outputs: dict[str, Array]
    oracle: str
    notes: tuple[str, ...] = ()
    others: tuple[Reference, ...] = ()
    noise: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


Oracle = Callable[[Mapping[str, Array]], Reference]
"""Gives the reference for one sample of inputs by name; raises OracleRefused where it cannot."""


class _RuntimeOracle:
    """Runs a model file with onnxruntime, optimised and not. Where it refuses, disagrees with itself or is known to depart from the
    specification, `second` decides.

    `noise` says whether its disagreement with itself is measured; None: of models that are not large.
    """

    name = "onnxruntime"

    def __init__(self, path: Path, noise: bool | None = None) -> None:
        self._path = path
        self._measure = noise

    @cached_property
    def runs(self) -> OrtRuns:
        return OrtRuns(self._path)

    @cached_property
    def _departures(self) -> list[str]:
        return departures(
            self._path, "ort-noopt"
        )  # whose numbers it takes; where the optimiser gives others, it says so

    def __call__(self, inputs: Mapping[str, Array]) -> Reference:
        """The reference for one sample. Raises OracleRefused where no oracle can give one."""
        if self._departures:
            return self.second(inputs, "; ".join(self._departures))
        try:
            plain = self.onnxruntime(inputs, optimise=False)
        except OracleRefused as refusal:
            return self.second(inputs, f"{self.name} refused: {refusal}")
        try:
            optimised = self.onnxruntime(inputs, optimise=True)
        except OracleRefused as refusal:
            return Reference(plain, self.name, (f"onnxruntime's optimised run refused: {refusal}",))
        noise, notes = self.noise(inputs, plain=plain, optimised=optimised)
        wrong = next((row for row in compare_outputs(optimised, plain) if row.verdict == "fail"), None)
        if wrong is not None:
            why = f"{self.name} disagrees with itself on {wrong.name!r}: {wrong.reason}"
            return replace(self.second(inputs, why), noise=noise)
        return Reference(plain, self.name, notes, noise=noise)

    def noise(
        self, inputs: Mapping[str, Array], **known: Mapping[str, Array]
    ) -> tuple[dict[str, dict[str, float]], tuple[str, ...]]:
        """How far onnxruntime is from itself, or why that is not measured; `known` are the outputs of runs (`OrtRuns.noise`)."""
        if self._measure is False:
            return {}, ()
        if self._measure is None and self.runs.is_large:
            return {}, ("onnxruntime's noise is not measured for so large a model (--noise does)",)
        return self.runs.noise(inputs, known), ()

    def file(self) -> Path:
        """The model that onnxruntime is given. Raises OracleRefused where there is none."""
        return self._path

    def check_sizes(self, inputs: Mapping[str, Array]) -> None:
        """Raise OracleRefused for inputs whose sizes do not fit, where onnxruntime itself would not tell."""

    def second(self, inputs: Mapping[str, Array], why: str) -> Reference:
        """The second oracle's reference, with a note that says why it was asked."""
        raise NotImplementedError

    def onnxruntime(self, inputs: Mapping[str, Array], *, optimise: bool) -> dict[str, Array]:
        """What onnxruntime alone gives for one sample. Raises OracleRefused where it refuses."""
        return self.runs(inputs, optimise=optimise)


class OnnxOracle(_RuntimeOracle):
    """onnxruntime on a model file, and onnx's ReferenceEvaluator if it must. Lists of maps are the tensors that they are made of."""

    def __init__(self, path: Path, noise: bool | None = None) -> None:
        if mentions_zipmap(path):
            self._folder = TemporaryDirectory(prefix="fornaxc-oracle-")
            tensors = Path(self._folder.name) / "model.onnx"
            save_with_tensors(path, tensors)
            path = tensors
        super().__init__(path, noise)

    def second(self, inputs: Mapping[str, Array], why: str) -> Reference:
        try:
            outputs = evaluated(self._path, inputs)
        except OracleRefused as refusal:
            raise OracleRefused(f"{why}; {refusal}") from refusal
        return Reference(outputs, "onnx-reference", (why,))


def evaluated(path: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What onnx's ReferenceEvaluator makes of a model file. Raises OracleRefused where it cannot, or is known to depart from the specification."""
    from onnx.reference import ReferenceEvaluator

    known = departures(path, "onnx-reference")
    if known:
        raise OracleRefused("; ".join(known))
    try:
        evaluator = ReferenceEvaluator(str(path))
        results = evaluator.run(None, {n: inputs[n] for n in evaluator.input_names if n in inputs})
        return {n: np.asarray(r) for n, r in zip(evaluator.output_names, results, strict=True)}
    except Exception as error:
        raise OracleRefused(f"onnx's evaluator refused: {first_line(error)}") from error


class GraphOracle(_RuntimeOracle):
    """onnxruntime on a graph exported to ONNX, in a folder that lives as long as the oracle; the numpy interpreter if it must."""

    name = "onnxruntime (exported graph)"

    def __init__(self, graph: Graph, noise: bool | None = None) -> None:
        self._folder = TemporaryDirectory(prefix="fornaxc-oracle-")
        super().__init__(Path(self._folder.name) / "graph.onnx", noise)
        self._graph = graph
        self._refused = ""

    def __call__(self, inputs: Mapping[str, Array]) -> Reference:
        self.check_sizes(inputs)
        try:
            self.file()
        except OracleRefused as refusal:
            return self.second(inputs, str(refusal))
        return super().__call__(inputs)

    def file(self) -> Path:
        """The exported graph, written at the first call. Raises OracleRefused where it cannot be exported."""
        if not self._refused and not self._path.exists():
            from fornaxc.export.onnx import save_onnx

            try:
                save_onnx(self._graph, self._path)
            except UnsupportedError as refusal:
                self._refused = refusal.message
        if self._refused:
            raise OracleRefused(self._refused)
        return self._path

    def check_sizes(self, inputs: Mapping[str, Array]) -> None:
        from fornaxc.ir.binding import ShapeMismatch, bind_dims, check_constraints

        names = self._graph.input_names
        try:
            sizes = bind_dims(names, [v.type for v in self._graph.inputs], [inputs[n].shape for n in names])
            check_constraints(self._graph.constraints, sizes)
        except ShapeMismatch as mismatch:
            raise OracleRefused(str(mismatch)) from mismatch

    def second(self, inputs: Mapping[str, Array], why: str) -> Reference:
        try:
            outputs = interpreted(self._graph, inputs)
        except OracleRefused as refusal:
            raise OracleRefused(f"{why}; {refusal}") from refusal
        return Reference(outputs, "numpy-interpreter", (why,))


def interpreted(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What the numpy interpreter makes of a graph. Raises OracleRefused where it cannot."""
    from fornaxc.ir.interpreter import run

    try:
        outputs = run(graph, [inputs[name] for name in graph.input_names])
    except Exception as error:
        raise OracleRefused(f"the numpy interpreter refused: {first_line(error)}") from error
    return dict(zip(graph.output_names, outputs, strict=True))
