"""What was proven, artifacts that travel, and caches that are stale, damaged or closed: the whole path, with the numpy
interpreter in the place of MAX."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import Cli
from onnx import parser

import fornaxc
from fornaxc import child, manifest
from fornaxc.artifact import open_artifact
from fornaxc.cache import media
from fornaxc.errors import ArtifactError
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


def test_inputs_of_one_name_are_not_one_proof(cli: Cli, model: Path, tmp_path: Path) -> None:
    digests: list[str] = []
    for value in (1, 2, 1):
        np.savez(tmp_path / "in.npz", x=np.full((1, 3), value, np.float32))
        digests.append(cli("verify", model, "--inputs", tmp_path / "in.npz", "--json").document["inputs_digest"])
    assert digests[0] == digests[2] != digests[1]
    artifact = cli("compile", model, "--json").document["artifact"]
    found = cli("inspect", artifact, "--json").document["verified"]
    assert [record["inputs_digest"] for record in found] == [digests[0], digests[1]]


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


def test_a_changed_weight_beside_the_model_is_a_miss_and_nothing_else_is(cli: Cli, model: Path, tmp_path: Path) -> None:
    """Of the changed file neither the size nor the modification time tells."""
    weights = tmp_path / "w.bin"
    onnx.save(onnx.load(model), model, save_as_external_data=True, location=weights.name, size_threshold=0)

    def compiled(path: Path) -> tuple[str, str, list[float]]:
        found = cli("compile", path, "--json").document
        _, (packed,) = open_artifact(Path(found["artifact"])).weights()
        return found["cache"], found["code"], packed.ravel().tolist()

    def written(weight: float) -> None:
        weights.write_bytes(np.full(3, weight, np.float32).tobytes())
        os.utime(weights, (0, 0))

    written(2)
    assert compiled(model) == ("miss", "miss", [2, 2, 2])
    assert compiled(model) == ("hit", "hit", [2, 2, 2])
    (tmp_path / "elsewhere").mkdir()
    renamed = shutil.copy(model, tmp_path / "elsewhere" / "renamed.onnx")
    shutil.copy(weights, tmp_path / "elsewhere")
    (tmp_path / "unrelated.bin").write_bytes(b"1")
    weights.touch()
    assert compiled(model) == compiled(renamed) == ("hit", "hit", [2, 2, 2])
    written(3)
    assert compiled(model) == ("miss", "hit", [3, 3, 3])
    assert compiled(renamed) == ("hit", "hit", [2, 2, 2])
    written(2)
    assert compiled(model) == ("hit", "hit", [2, 2, 2])


@pytest.mark.parametrize("part", [media.MANIFEST, media.CONFIG, media.MEF, media.WEIGHTS, media.IR])
def test_a_flipped_byte_in_the_cache_is_a_warning_and_a_miss(cli: Cli, model: Path, tmp_path: Path, part: str) -> None:
    cli("compile", model, "-o", tmp_path / "before.fxa")
    artifact = open_artifact(Path(cli("compile", model, "--json").document["artifact"]))
    paths = {media.MANIFEST: artifact.path, media.CONFIG: artifact.locate(artifact.manifest["config"]["digest"])[0]}
    blob = paths.get(part) or artifact.locate(artifact.layer(part).digest)[0]
    content = bytearray(blob.read_bytes())
    content[len(content) // 2] ^= 0x40
    blob.chmod(0o600)
    blob.write_bytes(content)

    told = cli("compile", model, "-o", tmp_path / "after.fxa", "--json")
    found = told.document
    assert (told.status, found["cache"], found["code"]) == (0, "miss", "miss" if part == media.MEF else "hit")
    assert re.search(rf"^warning: \S+{blob.name} is damaged and is ignored", told.err, re.MULTILINE), told.err
    assert (tmp_path / "after.fxa").read_bytes() == (tmp_path / "before.fxa").read_bytes()
    healed = cli("compile", model, "--json")
    assert (healed.document["cache"], healed.err) == ("hit", "")
    assert cli("cache", "check").status == 0


def refuse_below(folder: Path, patched: pytest.MonkeyPatch, call: str, number: int) -> None:
    """Let a function of `os` fail for the files and folders below `folder`."""
    real = getattr(os, call)

    def refuse(what: int | str | Path, *more: Any, **options: Any) -> Any:
        place = os.path.realpath(f"/proc/self/fd/{what}" if isinstance(what, int) else what)
        if Path(place).is_relative_to(folder):
            raise OSError(number, os.strerror(number))
        return real(what, *more, **options)

    patched.setattr(os, call, refuse)


@pytest.mark.parametrize(
    ("call", "number", "code"),
    [
        ("write", errno.ENOSPC, "FX601"),
        ("replace", errno.ENOSPC, "FX601"),
        ("open", errno.EROFS, "FX602"),
        ("replace", errno.EROFS, "FX602"),
    ],
)
def test_a_full_or_read_only_cache_answers_hits_and_says_what_to_do_of_the_rest(
    cli: Cli, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, code: str
) -> None:
    cli("compile", model, "-o", tmp_path / "before.fxa")
    file = tmp_path / "after.fxa"
    os.utime(model, (0, 0))  # its digest is one to remember
    with monkeypatch.context() as patched:
        refuse_below(tmp_path / "cache", patched, call, number)
        found = cli("compile", model, "-o", file, "--json")
        assert (found.status, found.document["cache"], found.err) == (0, "hit", "")
        assert file.read_bytes() == (tmp_path / "before.fxa").read_bytes()
        file.unlink()
        for asked in ([model, "--dim", "n=4"], [write_model(tmp_path / "retrained.onnx", 3.0)]):
            told = cli("compile", *asked, "-o", file, "--json")
            assert (told.status, told.document["code"], told.document["exit"]) == (6, code, 6)
            assert "--cache-dir" in told.document["hint"]
            assert not file.exists() and "Traceback" not in told.err
    assert list((tmp_path / "cache" / "v1" / "tmp").iterdir()) == []
    assert cli("cache", "check").status == 0
    assert cli("compile", model, "--dim", "n=4", "-o", file, "--json").document["cache"] == "miss"


def test_a_log_that_cannot_be_written_is_no_defect(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    refuse_below(tmp_path / "cache" / "v1" / "logs", monkeypatch, "mkdir", errno.ENOSPC)
    told = cli("compile", write_model(tmp_path / "m.onnx", 2.0), "--json")
    assert (told.status, told.document["code"]) == (6, "FX601")


@pytest.fixture(params=["FX455", "FX456"])
def foreign(
    request: pytest.FixtureRequest, cli: Cli, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, str, list[str]]:
    """An artifact of another MAX or target, the code that refuses it and what the message names.

    Neither MAX nor a process can start.
    """
    path, target = tmp_path / "foreign.fxa", "cpu"
    with monkeypatch.context() as patched:
        if request.param == "FX455":
            named = ["MAX 0.0.1", f"MAX {manifest.installed_version('max')}"]
            patched.setattr(manifest, "installed_version", lambda package: "0.0.1")
        else:
            target = "nvidia:sm_80"
            named = [target, "GPUs here: none"]
        assert cli("compile", model, "--target", target, "-o", path).status == 0
    monkeypatch.setattr("fornaxc.targets.base.accelerators", tuple)
    monkeypatch.setattr(subprocess, "Popen", None)
    monkeypatch.setitem(sys.modules, "max", None)
    return path, request.param, named


@pytest.mark.parametrize("command", ["run", "verify", "bench"])
def test_a_foreign_artifact_is_refused_before_anything_runs(
    cli: Cli, foreign: tuple[Path, str, list[str]], command: str
) -> None:
    path, code, named = foreign
    told = cli(command, path, "--json")
    assert (told.status, told.document["code"]) == (4, code)
    assert [name for name in named if name not in told.document["message"]] == []


def test_loading_a_foreign_artifact_is_refused_before_max_sees_it(foreign: tuple[Path, str, list[str]]) -> None:
    path, code, named = foreign
    with pytest.raises(ArtifactError) as caught:
        fornaxc.load(path)
    assert caught.value.code == code
    assert [name for name in named if name not in caught.value.message] == []
