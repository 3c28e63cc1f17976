"""A failed compile tells the nodes of the source model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import mutation_models
import pytest

from fornaxc.child import _failure, _result, compile_in_child
from fornaxc.errors import ToolchainError
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import open_model
from fornaxc.ir.graph import Graph, Node, Origin
from fornaxc.ir.ops import Softmax, Unary
from fornaxc.ir.serialize import graph_to_json
from fornaxc.lowering.tracing import nodes_in, traced
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack


def test_frames_of_an_error_tell_nodes() -> None:
    import traceback

    nodes = [Node(Unary("sin"), (), (), Origin("a", "Sin", 7)), Node(Softmax(1), (), (), Origin("b", "Softmax", 13))]
    trace: list[Node] = []

    def fail() -> None:
        raise ValueError("no kernel")

    assert traced(trace, nodes[0], lambda: 5) == 5
    with pytest.raises(ValueError) as raised:
        traced(trace, nodes[1], fail)
    assert trace == nodes
    printed = RuntimeError("failed")
    printed.__cause__ = RuntimeError("".join(traceback.format_exception(raised.value)))
    assert nodes_in(printed, trace) == [nodes[1]]
    assert nodes_in(RuntimeError("<fornaxc-node-9>"), trace) == []


def test_the_message_names_the_node_and_the_way_to_reduce(tmp_path: Path) -> None:
    node = {"node": "encoder/softmax", "op": "Softmax", "ir": "softmax(axis=1, log=False)"}
    result = tmp_path / "result.json"
    result.write_text(json.dumps({"error": "no kernel\nmore", "kind": "CompileFailed", "nodes": [node]}))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    with pytest.raises(ToolchainError) as raised:
        _result(ended, result, "compile", tmp_path / "log")
    error = raised.value
    assert (
        error.message
        == "MAX failed on Softmax 'encoder/softmax' (softmax(axis=1, log=False)): no kernel (phase compile)"
    )
    assert error.details == [{"phase": "compile", "log": str(tmp_path / "log"), **node}]
    assert "fornaxc reduce MODEL --check compile" in error.hint


def test_a_failure_without_nodes_still_has_its_log(tmp_path: Path) -> None:
    error = _failure("MAX took longer than 5 s", "FX502", "compile", tmp_path / "log", "raise --timeout")
    assert error.details == [{"phase": "compile", "log": str(tmp_path / "log")}]


@pytest.mark.parametrize(("then", "code"), [("exec sleep 60", "FX502"), ("kill -SEGV $$", "FX503")])
def test_a_compile_without_an_answer_can_be_reduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str, code: str
) -> None:
    worker = tmp_path / "worker.sh"
    worker.write_text(f"#!/bin/sh\n{then}\n")
    worker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(worker))
    with pytest.raises(ToolchainError) as raised:
        compile_in_child({}, tmp_path, log=tmp_path / "log", timeout=0.5)
    assert raised.value.code == code
    assert "fornaxc reduce MODEL --check compile" in raised.value.hint
    assert ("--timeout" in raised.value.hint) == (code == "FX502")


@pytest.mark.slow
def test_the_compiler_names_the_guilty_node(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"

    def build(net: mutation_models.Net, x: str) -> str:
        return str(net.op("Sin", x))

    path.write_bytes(mutation_models.model("guilty", build, 2, 2).SerializeToString())
    graph: Graph = prepack(optimize(import_model(open_model(path), {}), "cpu"))
    (tmp_path / "graph.json").write_text(json.dumps(graph_to_json(graph)))
    names = ("api", "arch", "cpu", "dump", "stop_after")
    job = {
        **dict.fromkeys(names, ""),
        "graph": str(tmp_path / "graph.json"),
        "device_kind": "cpu",
        "optimization": 1,
        "mef": str(tmp_path / "m.mef"),
        "result": str(tmp_path / "result.json"),
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    command = [sys.executable, str(Path(__file__).with_name("failing_worker.py")), str(tmp_path / "job.json"), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=dict(os.environ))
    result = json.loads((tmp_path / "result.json").read_text())
    assert "error" in result, done.stderr[-2000:]
    assert [(n["op"], n["ir"]) for n in result["nodes"][:1]] == [("Sin", "unary(fn=sin)")]
    assert result["nodes"][0]["node"].startswith("guilty/Sin")
