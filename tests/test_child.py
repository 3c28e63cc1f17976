"""What is said of a compile worker that reports an error."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fornaxc import child, worker
from fornaxc.errors import CacheError, FornaxError, ToolchainError
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.serialize import graph_to_json
from fornaxc.ir.types import DType, TensorType

# As MAX 26.7 says it, and as the operating system does.
FULL = (
    "error: The graph compiler could not lower LIT to KGEN: cannot write to file to filesystem cache since available space(282624) is "
    "not enough to write 6146058 bytes",
    "OSError: [Errno 28] No space left on device",
)


def _reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, then: str = "", timeout: float | None = None
) -> FornaxError:
    """What a worker ends in that writes `error` into its result, `then` does a shell command."""
    result = json.dumps({"error": error, "kind": "RuntimeError", "nodes": []})
    worker = tmp_path / "worker.sh"
    worker.write_text(f"#!/bin/sh\ncat > {tmp_path}/result.json <<'END'\n{result}\nEND\n{then}\n")
    worker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(worker))
    with pytest.raises(FornaxError) as caught:
        child.compile_in_child({}, tmp_path, log=tmp_path / "logs" / "log", timeout=timeout)
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


@pytest.mark.parametrize("then", ["kill -SEGV $$", "exec sleep 60"])
def test_what_ends_the_search_for_the_nodes_does_not_hide_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    told = _reported(tmp_path, monkeypatch, "error: failed to legalize", then, timeout=1)
    assert (told.code, told.message) == ("FX501", "MAX failed: error: failed to legalize (phase lower)")


def test_a_worker_writes_the_error_before_it_looks_for_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def refuse(*_: object) -> None:
        raise ValueError("no kernel")

    def looks(graph: object, session: object, job: dict[str, str]) -> list[dict[str, str]]:
        seen.append(json.loads(Path(job["result"]).read_text()))
        return [{"node": "a", "op": "Sin", "ir": "unary(fn=sin)"}]

    x = Value(TensorType(DType.F32, (2,)), "x")
    graph = Graph((x,), (x,), (), {}, ("x",))
    (tmp_path / "graph.json").write_text(json.dumps(graph_to_json(graph)))
    job = {
        **dict.fromkeys(("api", "arch", "cpu", "dump", "stop_after"), ""),
        "graph": str(tmp_path / "graph.json"),
        "device_kind": "cpu",
        "optimization": 1,
        "mef": "",
        "result": str(tmp_path / "result.json"),
    }
    monkeypatch.setattr(worker, "make_session", lambda kind: SimpleNamespace(compile=refuse))
    monkeypatch.setattr(worker, "guilty_nodes", looks)
    with pytest.raises(worker.CompileFailed) as raised, (tmp_path / "phases").open("wb") as pipe:
        worker.run_job(job, pipe.fileno())
    assert seen == [{"error": "no kernel", "kind": "ValueError", "nodes": []}]
    assert worker.failure(raised.value)["nodes"][0]["node"] == "a"
