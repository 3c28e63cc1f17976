"""Runs of one model file by onnxruntime: optimised or not, with one thread or two; and how far these are from each other."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from fornaxc.errors import FornaxError, first_line
from fornaxc.ir.graph import Array
from fornaxc.ir.types import dtype_of
from fornaxc.verification.ort_values import from_ort, to_ort

KEPT = 64 << 20  # bytes of a model up to which sessions are kept: each holds the weights once more
LARGE = 256 << 20  # from where on a model is run no more often than it must be


class OracleRefused(Exception):
    """The oracle cannot run this model or these inputs; the text is its reason."""


class OrtRuns:
    """Runs of the model at `path`, whose sessions are kept where it has at most `KEPT` bytes. `is_large`: it has `LARGE` bytes or more."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sessions: dict[tuple[bool, int], Any] = {}
        self._size = model_bytes(path)
        self.is_large = self._size >= LARGE

    def __call__(self, inputs: Mapping[str, Array], *, optimise: bool, threads: int = 1) -> dict[str, Array]:
        """The outputs for one sample. Raises OracleRefused where onnxruntime refuses."""
        try:
            session = self._session(optimise, threads)
            names = [o.name for o in session.get_outputs()]
            wanted = {i.name for i in session.get_inputs()}
            feeds = {n: to_ort(a) for n, a in inputs.items() if n in wanted}
            results = session.run_with_ort_values(names, feeds)
            return {n: from_ort(r) for n, r in zip(names, results, strict=True)}
        except Exception as error:
            raise OracleRefused(first_line(error)) from error

    def _session(self, optimise: bool, threads: int) -> Any:
        import onnxruntime as ort

        found = self._sessions.get((optimise, threads))
        if found is None:
            options = ort.SessionOptions()
            options.log_severity_level = 4
            options.intra_op_num_threads = threads  # DynamicQuantizeLSTM gives other numbers with more than one
            options.add_session_config_entry("session.x64quantprecision", "1")  # else u8 by s8 overflows without VNNI
            level = ort.GraphOptimizationLevel
            options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
            found = ort.InferenceSession(str(self._path), options, ["CPUExecutionProvider"])
            if self._size <= KEPT:
                self._sessions[optimise, threads] = found
        return found

    def noise(
        self, inputs: Mapping[str, Array], known: Mapping[str, Mapping[str, Array]]
    ) -> dict[str, dict[str, float]]:
        """By output, the largest difference that onnxruntime's optimiser makes, and that a second thread makes.

        `known` are outputs that there are: `plain`, `optimised`. What a run that refuses would tell is left out.
        """
        runs = dict(known)
        for name, optimise, threads in (("plain", False, 1), ("optimised", True, 1), ("threaded", True, 2)):
            if name not in runs:
                with suppress(OracleRefused):
                    runs[name] = self(inputs, optimise=optimise, threads=threads)
        pairs = {"optimiser": ("plain", "optimised"), "threads": ("optimised", "threaded")}
        found: dict[str, dict[str, float]] = {}
        for what, (a, b) in pairs.items():
            if a in runs and b in runs:
                for name in runs[a]:
                    found.setdefault(name, {})[what] = difference(runs[a][name], runs[b][name])
        return found


def difference(a: Array, b: Array) -> float:
    """The largest absolute difference; inf where type, shape, NaN or infinities differ, 0 where there are no elements."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return float(np.inf)
    if not a.size:
        return 0.0
    if not dtype_of(a.dtype).is_float:
        return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max()) or float((a != b).any())
    wide, other = a.astype(np.float64), b.astype(np.float64)
    numbers = np.isfinite(wide) & np.isfinite(other)
    same = numbers | (wide == other) | (np.isnan(wide) & np.isnan(other))
    if not same.all():
        return float(np.inf)
    with np.errstate(invalid="ignore"):  # of infinities, which are left out
        return float(np.max(np.abs(wide - other), where=numbers, initial=0.0))


def model_bytes(path: Path) -> int:
    """The size of a model file with its external data; of what cannot be read, 0."""
    from fornaxc.importers.onnx.reader import open_model

    try:
        return sum(file.stat().st_size for file in open_model(path).files())
    except (OSError, FornaxError):
        return 0
