"""Runs an artifact in a child process, so that whatever MAX does there ends in a result or a clear error.

Run as `python -m fornaxc.runner JOB.json`.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
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
    artifact: Path,
    samples: Iterable[Mapping[str, Array]],
    *,
    threads: int | None = None,
    timeout: float | None = None,
    kernels: list[str] | None = None,
) -> list[dict[str, Array]]:
    """The outputs of an artifact for each sample of inputs; what MAX says of its kernels is added to `kernels`. Raises as `Running` does."""
    with Running(artifact, threads=threads, timeout=timeout) as run:
        outputs = [run(sample) for sample in samples]
        if kernels is not None:
            kernels += run.kernels
        return outputs


class Running:
    """An artifact in a child process that runs one sample at each call; after a call that failed, the next starts a new process if it must.

    A call raises what `fornaxc.runtime` raises, and ToolchainError where the process dies or takes longer than `timeout` seconds for
    the sample, loading included. `kernels` is, after the first call, what MAX says of each kernel of the program.
    """

    def __init__(self, artifact: Path, *, threads: int | None = None, timeout: float | None = None) -> None:
        self._artifact = artifact
        self._threads = threads
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self.kernels: list[str] = []

    def __enter__(self) -> Running:
        self._place = TemporaryDirectory(prefix="fornaxc-run-")
        self._folder = Path(self._place.name)
        return self

    def __exit__(self, *problem: object) -> None:
        self._end()
        self._place.cleanup()

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name for one sample of inputs."""
        process = self._process or self._start()
        assert process.stdin is not None
        for name in ("in", "out"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
        save_tensors(self._folder / "in", inputs)
        with suppress(BrokenPipeError):
            process.stdin.write(b"\n")
            process.stdin.flush()
        ready, _, _ = select.select([self._answers], [], [], self._timeout)
        if not ready:
            self._end()
            raise ToolchainError(f"the model ran longer than {self._timeout:g} s", code="FX512")
        if not os.read(self._answers, 1):
            status = process.wait()
            self._end()
            raise self._death(status)
        result = json.loads((self._folder / "result.json").read_text())
        raise_reported(result)
        self.kernels = result["kernels"]
        return load_tensors(self._folder / "out")

    def _start(self) -> subprocess.Popen[bytes]:
        self._answers, told = os.pipe()
        job = {"artifact": str(self._artifact), "threads": self._threads, "answers": told, "folder": str(self._folder)}
        (self._folder / "job.json").write_text(json.dumps(job))
        command = [sys.executable, "-m", "fornaxc.runner", str(self._folder / "job.json")]
        try:
            with (self._folder / "stderr").open("wb") as errors:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=(told,)
                )
        finally:
            os.close(told)  # the child has it: where the child dies, reading ends
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # it holds nothing that must be put away
        with suppress(BrokenPipeError):
            process.communicate()
        os.close(self._answers)

    def _death(self, status: int) -> ToolchainError:
        how, hint = ending(status, "MAX crashed; the details have its last words")
        tail = (self._folder / "stderr").read_text(errors="replace").strip().splitlines()[-3:]
        return ToolchainError(
            f"the process that ran the model {how}",
            code="FX513",
            details=[{"stderr": line} for line in tail],
            hint=hint,
        )


def raise_reported(result: Mapping[str, Any]) -> None:
    """Raise the error that a child process wrote down as {"kind": the class, "error": its document}, where it did."""
    if "error" in result:
        error = result["error"]
        cls: type[FornaxError] = _ERRORS.get(result["kind"], ToolchainError)
        raise cls(error["message"], code=error["code"], details=error["details"], hint=error["hint"])


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
    """Run the artifact of the job that the command line names, once for each line on stdin; a byte tells the parent that it did."""
    job = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(job["folder"])
    model: Any = None
    while sys.stdin.buffer.readline():
        result: dict[str, Any] = {}
        try:
            if model is None:
                from fornaxc.runtime import load

                model = load(job["artifact"], threads=job["threads"])
            save_tensors(folder / "out", model.run(load_tensors(folder / "in")))
            result = {"kernels": model.kernels()}
        except FornaxError as error:
            result = {"kind": type(error).__name__, "error": error.to_json()}
        (folder / "result.json").write_text(json.dumps(result))
        os.write(job["answers"], b".")
    os._exit(0)  # MAX may abort in its own clean-up


if __name__ == "__main__":
    main()
