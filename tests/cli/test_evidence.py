"""What was proven, and artifacts that travel: the whole path, with the numpy interpreter in the place of MAX."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import Cli
from onnx import parser

from fornaxc import child
from fornaxc.artifact import open_artifact
from fornaxc.ir.graph import Array
from fornaxc.ir.interpreter import run
from fornaxc.verification import session, verify

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
f (float[n, 3] x) => (float[n, 3] y) { h = Mul(x, w) y = Relu(h) }
"""


def write_model(path: Path, weight: float) -> Path:
    model = parser.parse_model(MODEL)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.full(3, weight, np.float32), "w"))
    onnx.save(model, path)
    return path


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model whose compiled code says nothing, and whose runs are the interpreter's."""

    def compiles(job: dict[str, Any], folder: Path, **options: Any) -> dict[str, Any]:
        Path(job["mef"]).write_bytes(b"code")
        return {"seconds": {"lower": 0.1, "compile": 0.1}, "host_nodes": []}

    def runs(path: Path, samples: Sequence[Mapping[str, Array]], **options: Any) -> list[dict[str, Array]]:
        graph = session.embedded_graph(open_artifact(path))
        names = graph.output_names
        return [dict(zip(names, run(graph, [s[n] for n in graph.input_names]), strict=True)) for s in samples]

    monkeypatch.setattr(child, "compile_in_child", compiles)
    monkeypatch.setattr(verify, "run_in_child", runs)
    return write_model(tmp_path / "m.onnx", 2.0)


def proofs(cli: Cli, path: object, *more: object) -> list[tuple[str, str, str]]:
    found = cli("inspect", path, "--json", *more).document["verified"]
    return [(record["oracle"], record["verdict"], record["known_to"]) for record in found]


def test_proving_leaves_the_artifact_where_it_was(cli: Cli, model: Path, tmp_path: Path) -> None:
    before = cli("compile", model, "-o", tmp_path / "m.fxa", "--json").document
    cached = cli("compile", model, "--json").document["artifact"]
    assert "nothing is known" in cli("inspect", tmp_path / "m.fxa").out
    assert cli("verify", model, "--json").document["verdict"] == "pass"
    after = cli("compile", model, "--json").document
    assert (after["cache"], after["artifact"], after["key"]) == ("hit", cached, before["key"])
    for place in (cached, tmp_path / "m.fxa"):
        assert proofs(cli, place) == [("onnxruntime", "pass", "cache")]
    told = cli("inspect", tmp_path / "m.fxa").out
    assert re.search(r"pass +cpu +onnxruntime +n=2, n=5 +rtol 0\.0002, atol 2e-06", told), told


def test_a_weak_proof_stands_beside_a_strong_one(cli: Cli, model: Path, tmp_path: Path) -> None:
    artifact = cli("compile", model, "-o", tmp_path / "m.fxa", "--json").document["artifact"]
    assert cli("verify", model, "--json").status == 0
    assert cli("verify", artifact, "--json").status == 0
    np.savez(tmp_path / "in.npz", x=np.ones((1, 3), np.float32))
    np.savez(tmp_path / "out.npz", y=np.full((1, 3), 7, np.float32))
    golden = ("--inputs", tmp_path / "in.npz", "--expected", tmp_path / "out.npz")
    assert cli("verify", model, *golden, "--json").status == 1
    assert set(proofs(cli, artifact)) == {
        ("golden", "fail", "cache"),
        ("onnxruntime (exported graph)", "pass", "cache"),
        ("onnxruntime", "pass", "cache"),
    }
    cli("verify", model)
    assert len(proofs(cli, artifact)) == 3, "the same proof again is one"


def test_an_artifact_carries_its_proofs_into_another_cache(cli: Cli, model: Path, tmp_path: Path) -> None:
    cli("verify", model)
    cli("compile", model, "-o", tmp_path / "proven.fxa")
    elsewhere = ("--cache-dir", tmp_path / "elsewhere")
    assert proofs(cli, tmp_path / "proven.fxa", *elsewhere) == [("onnxruntime", "pass", "artifact")]
    imported = cli("cache", "import", tmp_path / "proven.fxa", "--json", *elsewhere).document
    found = cli("compile", model, "--json", *elsewhere).document
    assert (found["cache"], found["artifact"]) == ("hit", imported["artifact"])
    assert (found["key"], found["request_key"]) == (imported["key"], imported["request_key"])
    assert proofs(cli, imported["artifact"]) == [("onnxruntime", "pass", "cache")]
    retrained = cli("compile", write_model(tmp_path / "again.onnx", 3.0), "--json", *elsewhere).document
    assert (retrained["cache"], retrained["code"]) == ("miss", "hit")
    cli("cache", "export", found["request_key"][:12], tmp_path / "back.fxa", *elsewhere)
    assert (tmp_path / "back.fxa").read_bytes() == (tmp_path / "proven.fxa").read_bytes()
    assert cli("cache", "check", *elsewhere).status == 0


def test_import_refuses_what_is_damaged(cli: Cli, model: Path, tmp_path: Path) -> None:
    cli("compile", model, "-o", tmp_path / "m.fxa")
    content = (tmp_path / "m.fxa").read_bytes()
    elsewhere = ("--cache-dir", tmp_path / "elsewhere")
    for at in range(40, len(content), len(content) // 12):
        (tmp_path / "bad.fxa").write_bytes(content[:at] + bytes([content[at] ^ 0x20]) + content[at + 1 :])
        told = cli("cache", "import", tmp_path / "bad.fxa", "--json", *elsewhere)
        if told.status:
            assert (told.status, told.document["code"][:4]) == (4, "FX45")
        else:  # padding between the members
            assert cli("cache", "check", *elsewhere).status == 0
    (tmp_path / "cut.fxa").write_bytes(content[: len(content) // 2])
    assert cli("cache", "import", tmp_path / "cut.fxa", "--json").status == 4
    artifact = cli("compile", model, "--json").document["artifact"]
    assert cli("cache", "import", artifact, "--json").document["code"] == "FX229"


def test_a_cache_that_cannot_be_written_costs_the_record_only(
    cli: Cli, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fornaxc.errors import CacheError

    def full(*arguments: object) -> None:
        raise CacheError("no space left", code="FX601")

    cli("compile", model, "-o", tmp_path / "m.fxa")
    monkeypatch.setattr(session, "remember", full)
    told = cli("verify", tmp_path / "m.fxa")
    assert (told.status, "warning: the outcome is not kept: no space left" in told.err) == (0, True)
