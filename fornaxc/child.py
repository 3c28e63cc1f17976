"""Runs the compile worker and turns whatever happens to it into a result or a `ToolchainError`."""

from __future__ import annotations

import errno
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fornaxc.cache.files import cache_error, cache_errors
from fornaxc.endings import ending
from fornaxc.errors import ToolchainError
from fornaxc.phases import Progress, silent

_REDUCE = "`fornaxc reduce MODEL --check compile -o small.onnx`, with the same options, makes a small model that fails in this way"
_DISK_FULL = re.compile(r"No space left on device|available space ?\(\d+\) is not enough")


def compile_in_child(
    job: dict[str, Any],
    folder: Path,
    *,
    log: Path,
    environment: dict[str, str] | None = None,
    timeout: float | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run a worker job (see `fornaxc.worker`) with its files in `folder`; returns its result.

    Raises `ToolchainError` where the child reports an error, dies or exceeds `timeout` seconds; an error that it reported before it
    died, or before its time was up, is told first. The child and its own children are killed when anything interrupts the wait.
    `log` keeps all that they print; `CacheError` where it cannot be written.
    """
    job = {**job, "result": str(folder / "result.json")}
    (folder / "job.json").write_text(json.dumps(job))
    with cache_errors(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.open("wb")
    with output:
        read_end, write_end = os.pipe()
        child = subprocess.Popen(
            [sys.executable, "-m", "fornaxc.worker", str(folder / "job.json"), str(write_end)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[write_end],
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
    os.close(write_end)
    phase = _Followed()
    try:
        _follow(phase, child, read_end, timeout, progress)
        if phase.timed_out:
            _kill(child)
            _raise_reported(_read(folder / "result.json") or {}, phase.name, log)
            raise _failure(
                f"MAX took longer than {timeout:g} s", "FX502", phase.name, log, f"raise --timeout; {_REDUCE}"
            )
        result = _result(child, folder / "result.json", phase.name, log)
    except BaseException:
        _kill(child)
        if phase.started:
            progress(phase.name, "failed")
        raise
    finally:
        os.close(read_end)
    if phase.started:
        progress(phase.name, "end")
    return result


@dataclass(slots=True)
class _Followed:
    """The phase that a child is in: begun, but whether it ended well only the child's result tells."""

    name: str = "lower"
    started: bool = False
    timed_out: bool = False


def _follow(
    followed: _Followed, child: subprocess.Popen[bytes], pipe: int, timeout: float | None, progress: Progress
) -> None:
    """Relay phases until the child ends or its time is up."""
    deadline = None if timeout is None else time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                followed.timed_out = True
                break
            if not selector.select(left):
                continue
            text = os.read(pipe, 4096).decode()
            if not text:
                child.wait()
                break
            for name in text.split():
                if followed.started:
                    progress(followed.name, "end")
                followed.name, followed.started = name, True
                progress(name, "start")


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _result(child: subprocess.Popen[bytes], path: Path, phase: str, log: Path) -> dict[str, Any]:
    code = child.wait()
    result = _read(path)
    if result is None:
        how, hint = ending(code, f"MAX crashed; the log has its last words; {_REDUCE}")
        raise _failure(f"the compiler process {how}", "FX503", phase, log, hint)
    _raise_reported(result, phase, log)
    return result


def _read(path: Path) -> dict[str, Any] | None:
    """The result that a child wrote, where it did."""
    try:
        result: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return result


def _raise_reported(result: dict[str, Any], phase: str, log: Path) -> None:
    """Raise the error that a result reports, where it does."""
    if "error" not in result:
        return
    lines = [line for line in str(result["error"]).splitlines() if line.strip()]
    first = lines[0] if lines else result["kind"]
    if _DISK_FULL.search(str(result["error"])):
        raise cache_error(OSError(errno.ENOSPC, first[:300]), log.parent)
    raise _failure(
        f"MAX failed{_about(result)}: {first[:300]}",
        "FX501",
        phase,
        log,
        f"the log has MAX's full report; {_REDUCE}",
        result["nodes"],
    )


def _about(result: dict[str, Any]) -> str:
    """The node that MAX's error is about, as part of a sentence."""
    if not result["nodes"]:
        return ""
    first = result["nodes"][0]
    source = f"{first['op']} {first['node']!r}" if first["node"] else first["op"]
    return f" on {source} ({first['ir']})" if source else f" on {first['ir']}"


def _failure(
    what: str, code: str, phase: str, log: Path, hint: str, nodes: Sequence[dict[str, str]] = ()
) -> ToolchainError:
    return ToolchainError(
        f"{what} (phase {phase})",
        code=code,
        details=[{"phase": phase, "log": str(log), **node} for node in nodes or [{}]],
        hint=f"{hint}; the log is {log}",
    )
