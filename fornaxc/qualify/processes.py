"""Runs jobs in child processes, a few at a time; an ended job may add further ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_POLL = 0.05
_WATCH = 2.0
_LOG_TAIL = 1500


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: what it reported last, and in words (`exit status 0`, `SIGSEGV`, `timeout`) with the end of its log."""

    report: dict[str, Any]
    how: str
    log: str


@dataclass(frozen=True, slots=True)
class Job:
    """A child: `python -m MODULE JOB.json` with `document` in that file, plus the path for its report; `then` gives further jobs."""

    module: str
    document: Mapping[str, Any]
    then: Callable[[Ended], Iterable[Job]]


class _Running:
    def __init__(self, job: Job, timeout: float, environment: Mapping[str, str]) -> None:
        self.job = job
        self._scratch = tempfile.TemporaryDirectory(prefix="fornaxc-qualify-")
        folder = Path(self._scratch.name)
        self._report, self._log = folder / "report.json", folder / "log"
        (folder / "job.json").write_text(json.dumps({**job.document, "report": str(self._report)}))
        with self._log.open("wb") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", job.module, str(folder / "job.json")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **environment},
            )
        self._deadline = time.monotonic() + timeout

    def ended(self) -> Ended | None:
        code = self._child.poll()
        late = code is None and time.monotonic() > self._deadline
        if code is None and not late:
            return None
        how = "timeout"
        if late:
            self.kill()
        elif code is not None:
            how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        log = self._log.read_text(errors="replace")[-_LOG_TAIL:]
        try:
            report = json.loads(self._report.read_text())
        except (OSError, ValueError):
            report = {}
        self._scratch.cleanup()
        return Ended(report, how, log)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def close(self) -> None:
        self.kill()
        self._scratch.cleanup()


def end_with_parent() -> None:
    """For a child: end this process soon after its parent is gone, however that ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_jobs(
    jobs: Iterable[Job], *, workers: int = 1, timeout: float = 600, environment: Mapping[str, str] | None = None
) -> None:
    """Run every job and those that they lead to, `workers` at a time. Whatever interrupts the wait ends all children.

    A child has `timeout` seconds, in a session of its own; it is killed with its children when they are over.
    """
    pending, running = deque(jobs), list[_Running]()
    try:
        while pending or running:
            while pending and len(running) < workers:
                running.append(_Running(pending.popleft(), timeout, environment or {}))
            for one in list(running):
                ended = one.ended()
                if ended is not None:
                    running.remove(one)
                    pending.extendleft(reversed(list(one.job.then(ended))))
            time.sleep(_POLL)
    finally:
        for one in running:
            one.close()
