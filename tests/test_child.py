"""What is said of a compile worker that reports an error."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fornaxc import child
from fornaxc.errors import CacheError, FornaxError, ToolchainError

# As MAX 26.7 says it, and as the operating system does.
FULL = (
    "error: The graph compiler could not lower LIT to KGEN: cannot write to file to filesystem cache since available space(282624) is "
    "not enough to write 6146058 bytes",
    "OSError: [Errno 28] No space left on device",
)


def _reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> FornaxError:
    """What a worker ends in that writes `error` into its result."""
    result = json.dumps({"error": error, "kind": "RuntimeError", "nodes": []})
    worker = tmp_path / "worker.sh"
    worker.write_text(f"#!/bin/sh\ncat > {tmp_path}/result.json <<'END'\n{result}\nEND\n")
    worker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(worker))
    with pytest.raises(FornaxError) as caught:
        child.compile_in_child({}, tmp_path, log=tmp_path / "logs" / "log")
    return caught.value


@pytest.mark.parametrize("error", FULL)
def test_a_full_disk_is_no_fault_of_the_toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    told = _reported(tmp_path, monkeypatch, error)
    assert isinstance(told, CacheError)
    assert (told.code, told.exit) == ("FX601", 6)
    assert "free some space" in told.hint


def test_an_error_of_max_names_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = _reported(tmp_path, monkeypatch, "error: failed to legalize")
    assert isinstance(told, ToolchainError)
    assert told.message == "MAX failed: error: failed to legalize (phase lower)"
    assert str(tmp_path / "logs" / "log") in told.hint
