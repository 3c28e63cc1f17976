"""Children end with whoever waits for them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import sys
from fornaxc.qualify.processes import Job, run_jobs
run_jobs([Job("sleeping_child", {"told": sys.argv[1]}, lambda ended: ())], timeout=60)
"""
CHILD = """
import json, os, sys, time
from fornaxc.qualify.processes import end_with_parent
end_with_parent()
told = json.load(open(sys.argv[1]))["told"]
open(told + ".part", "w").write(str(os.getpid()))
os.rename(told + ".part", told)
time.sleep(60)
"""


def wait_until(condition: object, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def gone(process: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_child_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "sleeping_child.py").write_text(CHILD)
    told = tmp_path / "told"
    search = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(told)], env={**os.environ, "PYTHONPATH": search})
    try:
        wait_until(told.exists)
    finally:
        parent.kill()
        parent.wait()
    child = int(told.read_text())
    wait_until(lambda: gone(child))
