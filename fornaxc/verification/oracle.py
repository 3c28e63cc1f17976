"""References: onnxruntime on a model file or on an exported graph, and a second oracle where it refuses or disagrees with itself."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fornaxc.errors import UnsupportedError
from fornaxc.ir.graph import Array, Graph
from fornaxc.verification.compare import compare_outputs, verdict_of
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

        from fornaxc.ir.types import DType

        plain = {d.numpy for d in DType if d.numpy.isbuiltin == 1}
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
            feeds = {n: _to_ort(a, plain) for n, a in inputs.items() if n in wanted}
            results = session.run_with_ort_values(names, feeds)  # type: ignore[attr-defined]
            return {n: _from_ort(r) for n, r in zip(names, results, strict=True)}
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


def _to_ort(array: Array, plain: set[np.dtype[np.generic]]):  # type: ignore[no-untyped-def]
    import onnxruntime as ort

    if array.dtype in plain:
        return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    from fornaxc.importers.onnx.types import element_number
    from fornaxc.ir.types import dtype_of

    dtype = dtype_of(array.dtype)
    bits = np.ascontiguousarray(array).reshape(array.shape).view(np.uint16 if dtype.bits == 16 else np.uint8)
    if dtype.bits < 8:  # packed into the first bytes of a buffer that is as long as if it were not
        from onnx import numpy_helper

        packed = np.frombuffer(numpy_helper.from_array(array).raw_data, np.uint8)
        bits = np.pad(packed, (0, array.size - packed.size)).reshape(array.shape)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, element_number(dtype))


def _from_ort(value) -> Array:  # type: ignore[no-untyped-def]
    """The array of an onnxruntime value, also of types that numpy does not have."""
    from fornaxc.importers.onnx.types import element_type

    dtype = element_type(value.element_type())
    if dtype is None or dtype.numpy.isbuiltin == 1:
        return np.asarray(value.numpy())
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()) if all(value.shape()) else b""
    if dtype.bits < 8:
        from onnx import TensorProto, numpy_helper

        proto = TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=raw)
        return np.asarray(numpy_helper.to_array(proto)).astype(dtype.numpy)
    return np.frombuffer(raw, dtype.numpy).reshape(value.shape())


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
