"""Runs an artifact in a child process, so that whatever MAX does there ends in a result or a clear error.

Run as `python -m fornaxc.runner JOB.json`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fornaxc.endings import ending
from fornaxc.errors import ArtifactError, FornaxError, ToolchainError, UsageError
from fornaxc.ir.graph import Array
from fornaxc.ir.types import DType

_ERRORS = {cls.__name__: cls for cls in (ArtifactError, ToolchainError, UsageError)}


def run_in_child(
    artifact: Path, samples: Sequence[Mapping[str, Array]], *, threads: int | None = None, timeout: float | None = None
) -> list[dict[str, Array]]:
    """The outputs of an artifact for each sample of inputs.

    Raises what `fornaxc.runtime` raises, and ToolchainError where the process dies or takes longer than `timeout` seconds.
    """
    with TemporaryDirectory(prefix="fornaxc-run-") as name:
        folder = Path(name)
        for index, sample in enumerate(samples):
            save_tensors(folder / f"in{index}", sample)
        job = {"artifact": str(artifact), "count": len(samples), "threads": threads, "folder": str(folder)}
        (folder / "job.json").write_text(json.dumps(job))
        command = [sys.executable, "-m", "fornaxc.runner", str(folder / "job.json")]
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise ToolchainError(f"the model ran longer than {timeout:g} s", code="FX512") from None
        return _results(folder, len(samples), done)


def _results(folder: Path, count: int, done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Array]]:
    try:
        result = json.loads((folder / "result.json").read_text())
    except (OSError, ValueError):
        how, hint = ending(done.returncode, "MAX crashed; the details have its last words")
        tail = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise ToolchainError(
            f"the process that ran the model {how}",
            code="FX513",
            details=[{"stderr": line} for line in tail],
            hint=hint,
        ) from None
    if "error" in result:
        error = result["error"]
        cls: type[FornaxError] = _ERRORS.get(result["kind"], ToolchainError)
        raise cls(error["message"], code=error["code"], details=error["details"], hint=error["hint"])
    return [load_tensors(folder / f"out{index}") for index in range(count)]


_FOREIGN = {d.numpy.name: d.numpy for d in DType if d.numpy.isbuiltin != 1}
"""The element types that .npy files do not keep: they are written as bits."""


def save_tensors(folder: Path, tensors: Mapping[str, Array]) -> None:
    """Write named arrays of any element type to a folder of their own."""
    folder.mkdir()
    index = []
    for number, (name, given) in enumerate(tensors.items()):
        array = np.asarray(given)
        foreign = array.dtype.name if array.dtype in _FOREIGN.values() else ""
        bits = np.ascontiguousarray(array).view(_bits(array.dtype)).reshape(array.shape) if foreign else array
        np.save(folder / f"{number}.npy", bits, allow_pickle=False)
        index.append([name, foreign])
    (folder / "index.json").write_text(json.dumps(index))


def load_tensors(folder: Path) -> dict[str, Array]:
    """The inverse of `save_tensors`."""
    tensors = {}
    for number, (name, foreign) in enumerate(json.loads((folder / "index.json").read_text())):
        array = np.load(folder / f"{number}.npy", allow_pickle=False)
        tensors[name] = array.view(_FOREIGN[foreign]) if foreign else array
    return tensors


def _bits(dtype: np.dtype[Any]) -> type:
    return np.uint16 if dtype.itemsize == 2 else np.uint8


def main() -> None:
    """Do the job in the file that the command line names."""
    job = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(job["folder"])
    result: dict[str, Any] = {}
    try:
        from fornaxc.runtime import load

        model = load(job["artifact"], threads=job["threads"])
        for index in range(job["count"]):
            save_tensors(folder / f"out{index}", model.run(load_tensors(folder / f"in{index}")))
    except FornaxError as error:
        result = {"kind": type(error).__name__, "error": error.to_json()}
    (folder / "result.json").write_text(json.dumps(result))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # MAX may abort in its own clean-up


if __name__ == "__main__":
    main()
