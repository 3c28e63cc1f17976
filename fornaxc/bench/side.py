"""A side of a measurement, as the process that measures sees it: a child process that loads once and runs blocks on demand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

from fornaxc.bench.plan import Run
from fornaxc.endings import ending
from fornaxc.errors import ToolchainError, UnsupportedError
from fornaxc.ir.graph import Array
from fornaxc.runner import load_tensors, raise_reported, save_tensors


@dataclass(frozen=True, slots=True)
class Job:
    """What a side runs: `engine` is fornaxc (an artifact) or onnxruntime (an ONNX file); `threads` None means all processors."""

    engine: str
    path: Path
    inputs: Mapping[str, Array]
    threads: int | None = None
    timeout: float | None = None


class ChildSide:
    """`ready` is what the child told of loading and of the first run, `outputs` what that run gave."""

    def __init__(self, job: Job, folder: Path, child: subprocess.Popen[str]) -> None:
        self._job, self._folder, self._child = job, folder, child
        self.ready = self._answer()
        self.outputs = load_tensors(folder / "out")
        self.peak_memory: int | None = self.ready["memory_after_loading"]

    def block(self, warmup: int, runs: int) -> list[Run]:
        """The times of `runs` runs, after `warmup` ones. Raises ToolchainError where the process dies or takes too long."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps({"warmup": warmup, "runs": runs}) + "\n")
            self._child.stdin.flush()
        except OSError:
            pass  # it is gone; what it left says how
        answer = self._answer()
        self.peak_memory = answer["peak_memory"]
        return [Run(*times) for times in answer["runs"]]

    def _answer(self) -> dict[str, Any]:
        """The next document of the child."""
        assert self._child.stdout is not None
        late = False

        def stop() -> None:
            nonlocal late
            late = True
            self._child.kill()

        timer = Timer(self._job.timeout, stop) if self._job.timeout is not None else None
        if timer is not None:
            timer.start()
        try:
            line = self._child.stdout.readline()
        finally:
            if timer is not None:
                timer.cancel()
        if late:
            raise ToolchainError(f"{self._job.engine} ran longer than {self._job.timeout:g} s", code="FX512")
        if not line.endswith("\n"):
            how, hint = ending(self._child.wait(), "it crashed; the details have its last words")
            words = (self._folder / "stderr").read_text(errors="replace").strip().splitlines()[-3:]
            details = [{"stderr": word} for word in words]
            raise ToolchainError(
                f"the process that ran {self._job.engine} {how}", code="FX513", details=details, hint=hint
            )
        document: dict[str, Any] = json.loads(line)
        raise_reported(document)
        if "refused" in document:
            raise UnsupportedError(
                f"{self._job.engine} does not run {self._job.path.name}: {document['refused']}",
                code="FX311",
                hint="give inputs or sizes that it takes, with --inputs or --size",
            )
        return document


@contextmanager
def started(job: Job, module: str = "fornaxc.bench.child", root: Path | None = None) -> Iterator[ChildSide]:
    """The side, loaded and run once; its process, which runs `module` in the folder `root`, ends with the context."""
    with TemporaryDirectory(prefix="fornaxc-bench-") as name:
        folder = Path(name)
        save_tensors(folder / "in", job.inputs)
        document = {"engine": job.engine, "path": str(job.path), "threads": job.threads, "folder": name}
        (folder / "job.json").write_text(json.dumps(document))
        command = [sys.executable, "-m", module, str(folder / "job.json")]
        with (folder / "stderr").open("w") as words:
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words, text=True, cwd=root
            )
        try:
            yield ChildSide(job, folder, child)
        finally:
            child.kill()
            child.communicate()
