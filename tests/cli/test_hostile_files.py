"""Paths and models that no exporter writes: each ends in one message, never in a wait or a defect."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import onnx
import onnx.parser
import pytest
from command_line import Cli

from fornaxc.errors import UsageError
from fornaxc.npz import load_npz


@pytest.mark.parametrize("verb", ["compile", "verify", "inspect", "run"])
def test_a_pipe_is_never_opened(cli: Cli, tmp_path: Path, verb: str) -> None:
    os.mkfifo(tmp_path / "model.onnx")
    told = cli(verb, tmp_path / "model.onnx", "--json")
    assert (told.status, told.document["code"]) == (4, "FX402")


def test_inputs_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.npz")
    with pytest.raises(UsageError, match="not an ordinary file"):
        load_npz(tmp_path / "in.npz", "inputs")


@pytest.mark.parametrize("verb", ["compile", "verify", "inspect", "run"])
def test_a_name_that_no_file_can_have(cli: Cli, verb: str) -> None:
    told = cli(verb, "m" * 300, "--json")
    assert (told.status, told.document["code"]) == (4, "FX404")


def test_a_link_to_nowhere(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").symlink_to(tmp_path / "gone")
    told = cli("compile", tmp_path / "model.onnx", "--json")
    assert (told.status, told.document["code"]) == (4, "FX401")
    assert "link" in told.document["message"]


def _saved(path: Path, text: str, imports: str = '"" : 18') -> Path:
    model = onnx.parser.parse_model(f"<ir_version: 9, opset_import: [{imports}]> g {text}")
    onnx.save(model, path)
    return path


def test_every_unknown_operator_is_reported_even_after_another(cli: Cli, tmp_path: Path) -> None:
    text = """(float[2] x, bool c) => (float[2] y) {
        a = my.Foo (x)
        b = my.Bar (a)
        n = Neg (b)
        y = If (c) <then_branch = t () => (float[2] p) { p = my.Baz (n) }, else_branch = e () => (float[2] q) { q = Neg (n) }>
    }"""
    document = cli("compile", _saved(tmp_path / "m.onnx", text, '"" : 18, "my" : 3'), "--json").document
    assert (document["exit"], document["code"]) == (3, "FX301")
    assert [(d["op"], d["domain"], d["opset"]) for d in document["details"] if d["domain"] == "my"] == [
        ("Foo", "my", 3),
        ("Bar", "my", 3),
        ("Baz", "my", 3),
    ]
    assert all(d["reason"] and "node" in d for d in document["details"])


def test_an_output_of_strings_is_refused(cli: Cli, tmp_path: Path) -> None:
    path = _saved(tmp_path / "m.onnx", "(float[2] x) => (float[2] y) { y = Neg (x) }")
    model = onnx.load(path)
    model.graph.initializer.append(onnx.helper.make_tensor("s", onnx.TensorProto.STRING, [1], [b"a"]))
    model.graph.output.append(onnx.helper.make_tensor_value_info("s", onnx.TensorProto.STRING, [1]))
    onnx.save(model, path)
    told = cli("compile", path, "--json")
    assert (told.status, told.document["code"], told.document["details"]) == (3, "FX303", [{"output": "s"}])


@pytest.mark.parametrize(
    ("sizes", "code"),
    [(("n=2", "n=3"), "FX201"), (("n=99999999999999999999",), "FX214"), (("m=2",), "FX215")],
)
def test_sizes_that_cannot_be(cli: Cli, tmp_path: Path, sizes: tuple[str, ...], code: str) -> None:
    path = _saved(tmp_path / "m.onnx", "(float[n] x) => (float[n] y) { y = Neg (x) }")
    given = [word for size in sizes for word in ("--dim", size)]
    told = cli("compile", path, *given, "--stop-after", "import", "--json")
    assert (told.status, told.document["code"]) == (2, code)


def test_a_zip_without_arrays_is_no_npz(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.writestr("readme.txt", "no array")
    with pytest.raises(UsageError, match="no array"):
        load_npz(tmp_path / "in.npz", "inputs")


def test_a_terminal_that_lacks_the_characters_of_a_name(tmp_path: Path) -> None:
    path = _saved(tmp_path / "modèle.onnx", "(float[2] x) => (float[2] y) { y = Neg (x) }")
    model = onnx.load(path)
    model.graph.input[0].name = model.graph.node[0].input[0] = "日\x1b[31m"
    onnx.save(model, path)
    command = [sys.executable, "-m", "fornaxc", "inspect", str(path)]
    told = subprocess.run(
        command, capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": "latin-1:strict"}
    )
    assert told.returncode == 0, told.stderr
    assert b"\x1b" not in told.stdout and b"\\u65e5" in told.stdout


def test_an_input_of_unknown_rank_is_not_a_scalar(cli: Cli, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18, "my" : 1]> g (float[] x) => (float[2] y) { y = my.Foo (x) }'
    )
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "m.onnx")
    told = cli("inspect", tmp_path / "m.onnx", "--json")
    assert told.document["inputs"] == [{"name": "x", "shape": None}]
    assert "unknown rank" in cli("inspect", tmp_path / "m.onnx").out
