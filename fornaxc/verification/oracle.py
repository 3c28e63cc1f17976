"""References: onnxruntime on a model file or on an exported graph, and a second oracle where it refuses or disagrees with itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fornaxc.errors import UnsupportedError
from fornaxc.ir.graph import Array, Graph
from fornaxc.verification.compare import compare_outputs, verdict_of
from fornaxc.verification.ort_values import from_ort, to_ort
from fornaxc.verification.zipmap import mentions_zipmap, save_with_tensors


class OracleRefused(Exception):
    """The oracle cannot run this model or these inputs; the text is its reason."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What an oracle says of one sample, and which oracle it was; `others` are references of further oracles."""

    outputs: dict[str, Array]
    oracle: str
    notes: tuple[str, ...] = ()
    others: tuple[Reference, ...] = ()


Oracle = Callable[[Mapping[str, Array]], Reference]
"""Gives the reference for one sample of inputs by name; raises OracleRefused where it cannot."""


class _RuntimeOracle:
    """Runs a model file with onnxruntime, optimised and not. Where it refuses or disagrees with itself, `second` decides."""

    name = "onnxruntime"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sessions: dict[bool, object] = {}

    def __call__(self, inputs: Mapping[str, Array]) -> Reference:
        """The reference for one sample. Raises OracleRefused where no oracle can give one."""
        try:
            plain = self.onnxruntime(inputs, optimise=False)
        except OracleRefused as refusal:
            return self.second(inputs, f"{self.name} refused: {refusal}")
        try:
            optimised = self.onnxruntime(inputs, optimise=True)
        except OracleRefused as refusal:
            return Reference(plain, self.name, (f"onnxruntime's optimised run refused: {refusal}",))
        rows = compare_outputs(optimised, plain)
        if verdict_of(rows) == "fail" and any(row.verdict == "fail" for row in rows):
            worst = next(row for row in rows if row.verdict == "fail")
            return self.second(inputs, f"{self.name} disagrees with itself on {worst.name!r}: {worst.reason}")
        return Reference(plain, self.name)

    def second(self, inputs: Mapping[str, Array], why: str) -> Reference:
        """The second oracle's reference, with a note that says why it was asked."""
        raise NotImplementedError

    def onnxruntime(self, inputs: Mapping[str, Array], *, optimise: bool) -> dict[str, Array]:
        """What onnxruntime alone gives for one sample. Raises OracleRefused where it refuses."""
        import onnxruntime as ort

        try:
            if optimise not in self._sessions:
                options = ort.SessionOptions()
                options.log_severity_level = 4
                options.intra_op_num_threads = 1  # DynamicQuantizeLSTM gives other numbers with more
                level = ort.GraphOptimizationLevel
                options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
                self._sessions[optimise] = ort.InferenceSession(str(self._path), options, ["CPUExecutionProvider"])
            session = self._sessions[optimise]
            names = [o.name for o in session.get_outputs()]  # type: ignore[attr-defined]
            wanted = {i.name for i in session.get_inputs()}  # type: ignore[attr-defined]
            feeds = {n: to_ort(a) for n, a in inputs.items() if n in wanted}
            results = session.run_with_ort_values(names, feeds)  # type: ignore[attr-defined]
            return {n: from_ort(r) for n, r in zip(names, results, strict=True)}
        except OracleRefused:
            raise
        except Exception as error:
            raise OracleRefused(_first_line(error)) from error


class OnnxOracle(_RuntimeOracle):
    """onnxruntime on a model file, and onnx's ReferenceEvaluator if it must. Lists of maps are the tensors that they are made of."""

    def __init__(self, path: Path) -> None:
        if mentions_zipmap(path):
            self._folder = TemporaryDirectory(prefix="fornaxc-oracle-")
            tensors = Path(self._folder.name) / "model.onnx"
            save_with_tensors(path, tensors)
            path = tensors
        super().__init__(path)

    def second(self, inputs: Mapping[str, Array], why: str) -> Reference:
        from onnx.reference import ReferenceEvaluator

        try:
            evaluator = ReferenceEvaluator(str(self._path))
            results = evaluator.run(None, dict(inputs))
            outputs = {n: np.asarray(r) for n, r in zip(evaluator.output_names, results, strict=True)}
        except Exception as error:
            raise OracleRefused(f"{why}; onnx's evaluator refused too: {_first_line(error)}") from error
        return Reference(outputs, "onnx-reference", (why,))


class GraphOracle(_RuntimeOracle):
    """onnxruntime on a graph exported to ONNX, in a folder that lives as long as the oracle; the numpy interpreter if it must."""

    name = "onnxruntime (exported graph)"

    def __init__(self, graph: Graph) -> None:
        self._folder = TemporaryDirectory(prefix="fornaxc-oracle-")
        super().__init__(Path(self._folder.name) / "graph.onnx")
        self._graph = graph
        self._refused = ""

    def __call__(self, inputs: Mapping[str, Array]) -> Reference:
        self._check_sizes(inputs)
        if not self._refused and not self._path.exists():
            from fornaxc.export.onnx import save_onnx

            try:
                save_onnx(self._graph, self._path)
            except UnsupportedError as refusal:
                self._refused = refusal.message
        if self._refused:
            return self.second(inputs, self._refused)
        return super().__call__(inputs)

    def _check_sizes(self, inputs: Mapping[str, Array]) -> None:
        from fornaxc.ir.binding import ShapeMismatch, bind_dims, check_constraints

        names = self._graph.input_names
        try:
            sizes = bind_dims(names, [v.type for v in self._graph.inputs], [inputs[n].shape for n in names])
            check_constraints(self._graph.constraints, sizes)
        except ShapeMismatch as mismatch:
            raise OracleRefused(str(mismatch)) from mismatch

    def second(self, inputs: Mapping[str, Array], why: str) -> Reference:
        from fornaxc.ir.interpreter import run

        try:
            outputs = run(self._graph, [inputs[name] for name in self._graph.input_names])
        except Exception as error:
            raise OracleRefused(f"{why}; the numpy interpreter refused too: {_first_line(error)}") from error
        return Reference(dict(zip(self._graph.output_names, outputs, strict=True)), "numpy-interpreter", (why,))


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
