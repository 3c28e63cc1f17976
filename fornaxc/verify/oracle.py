"""References: onnxruntime, and onnx's own evaluator where onnxruntime refuses or disagrees with itself."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fornaxc.ir.graph import Array
from fornaxc.verify.compare import compare_outputs, verdict_of


class OracleRefused(Exception):
    """The oracle cannot run this model or these inputs; the text is its reason."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What an oracle says of one sample, and which oracle it was."""

    outputs: dict[str, Array]
    oracle: str
    notes: tuple[str, ...] = ()


class OnnxOracle:
    """Runs an ONNX model file with onnxruntime (optimised, and not), and with onnx's ReferenceEvaluator if it must."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sessions: dict[bool, object] = {}

    def __call__(self, inputs: Mapping[str, Array]) -> Reference:
        """The reference for one sample. Raises OracleRefused where neither oracle can give one."""
        try:
            plain = self._onnxruntime(inputs, optimise=False)
        except OracleRefused as refusal:
            return self._evaluator(inputs, f"onnxruntime refused: {refusal}")
        try:
            optimised = self._onnxruntime(inputs, optimise=True)
        except OracleRefused as refusal:
            return Reference(plain, "onnxruntime", (f"onnxruntime's optimised run refused: {refusal}",))
        rows = compare_outputs(optimised, plain)
        if verdict_of(rows) == "fail" and any(row.verdict == "fail" for row in rows):
            worst = next(row for row in rows if row.verdict == "fail")
            return self._evaluator(inputs, f"onnxruntime disagrees with itself on {worst.name!r}: {worst.reason}")
        return Reference(plain, "onnxruntime")

    def _onnxruntime(self, inputs: Mapping[str, Array], *, optimise: bool) -> dict[str, Array]:
        import onnxruntime as ort

        from fornaxc.ir.types import DType

        plain = {d.numpy for d in DType if d.numpy.isbuiltin == 1}
        try:
            if optimise not in self._sessions:
                options = ort.SessionOptions()
                options.log_severity_level = 4
                level = ort.GraphOptimizationLevel
                options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
                self._sessions[optimise] = ort.InferenceSession(str(self._path), options, ["CPUExecutionProvider"])
            session = self._sessions[optimise]
            names = [o.name for o in session.get_outputs()]  # type: ignore[attr-defined]
            wanted = {i.name for i in session.get_inputs()}  # type: ignore[attr-defined]
            feeds = {n: _to_ort(a, plain) for n, a in inputs.items() if n in wanted}
            results = session.run_with_ort_values(names, feeds)  # type: ignore[attr-defined]
        except Exception as error:
            raise OracleRefused(_first_line(error)) from error
        return {n: _from_ort(r) for n, r in zip(names, results, strict=True)}

    def _evaluator(self, inputs: Mapping[str, Array], why: str) -> Reference:
        from onnx.reference import ReferenceEvaluator

        try:
            evaluator = ReferenceEvaluator(str(self._path))
            results = evaluator.run(None, dict(inputs))
            outputs = {n: np.asarray(r) for n, r in zip(evaluator.output_names, results, strict=True)}
        except Exception as error:
            raise OracleRefused(f"{why}; onnx's evaluator refused too: {_first_line(error)}") from error
        return Reference(outputs, "onnx-reference", (why,))


def _to_ort(array: Array, plain: set[np.dtype[np.generic]]):  # type: ignore[no-untyped-def]
    import onnxruntime as ort

    if array.dtype in plain:
        return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    from fornaxc.importers.onnx.types import element_number
    from fornaxc.ir.types import dtype_of

    bits = np.ascontiguousarray(array).view(np.uint16 if array.dtype.itemsize == 2 else np.uint8)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, element_number(dtype_of(array.dtype)))


def _from_ort(value) -> Array:  # type: ignore[no-untyped-def]
    """The array of an onnxruntime value, also of types that numpy does not have."""
    from fornaxc.importers.onnx.types import element_type

    dtype = element_type(value.element_type())
    if dtype is None or dtype.numpy.isbuiltin == 1:
        return np.asarray(value.numpy())
    if dtype.bits < 8:
        raise OracleRefused(f"onnxruntime's {dtype} outputs are packed")
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(raw, dtype.numpy).reshape(value.shape())


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
