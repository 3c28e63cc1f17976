"""The reference interpreter of StableHLO, in a child process.

It shares nothing with fornaxc's importer but the reading of the file, the names of arguments, the choice of platform and
the list of operations that only place data: it evaluates the module itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fornaxc.ir.graph import Array
from fornaxc.ir.types import DType
from fornaxc.npz import load_npz, save_npz, with_dtypes
from fornaxc.verification.oracle import OracleRefused, Reference

NAME = "stablehlo-interpreter"
TIMEOUT = 120.0  # seconds for one sample: the interpreter computes element by element
UNPROVEN = "the import of the module is not independently proven, unless by golden outputs"
"""What follows where the interpreter has no say: every other oracle runs the graph that was imported."""


class InterpreterOracle:
    """Evaluates a function of a StableHLO file; `frozen` are the arguments that are weights, `outputs` the names of its results."""

    def __init__(self, path: Path, entry: str | None, frozen: Mapping[str, Array], outputs: Sequence[str]) -> None:
        self._path = path
        self._entry = entry
        self._frozen = dict(frozen)
        self._outputs = list(outputs)

    def __call__(self, inputs: Mapping[str, Array]) -> Reference:
        """The reference for one sample. Raises OracleRefused where the interpreter cannot evaluate it."""
        arrays = {**self._frozen, **inputs}
        with TemporaryDirectory(prefix="fornaxc-interpreter-") as name:
            folder = Path(name)
            save_npz(folder / "inputs.npz", arrays)
            job = {
                "model": str(self._path.resolve()),
                "entry": self._entry,
                "dtypes": {n: a.dtype.name for n, a in arrays.items()},
                "folder": name,
            }
            (folder / "job.json").write_text(json.dumps(job))
            self._run(folder / "job.json")
            types = json.loads((folder / "outputs.json").read_text())
            dtypes = {f"r{i}": DType(t).numpy for i, t in enumerate(types)}
            results = with_dtypes(load_npz(folder / "outputs.npz", "interpreter's outputs"), dtypes)
        found = [results[n] for n in dtypes]
        return Reference(dict(zip(self._outputs, found, strict=True)), NAME)

    @staticmethod
    def _run(job: Path) -> None:
        command = [sys.executable, "-m", "fornaxc.verification.stablehlo_child", str(job)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            raise OracleRefused(f"{NAME} took more than {TIMEOUT:.0f} s; {UNPROVEN}") from None
        if done.returncode != 0:
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            telling = [line for line in lines if "error" in line.lower()] or lines
            why = telling[-1][:300] if telling else f"exit status {done.returncode}"
            raise OracleRefused(f"{NAME}: {why}; {UNPROVEN}")
