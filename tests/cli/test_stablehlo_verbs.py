"""StableHLO files on the command line: which function, which weights, and what is said of bad ones. Nothing here needs MAX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import Cli

pytest.importorskip("jaxlib")

from jax_export_files import jax_export

ONE = 'func.func @NAME(%x: tensor<?x2xf32> loc("x"), %w: tensor<2xf32> loc("w")) -> tensor<?x2xf32> {\n  %s = stablehlo.OP %w, %w : tensor<2xf32>\n  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>\n  %1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n  %2 = stablehlo.constant dense<2> : tensor<1xi32>\n  %3 = stablehlo.concatenate %1, %2, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n  %4 = stablehlo.dynamic_broadcast_in_dim %s, %3, dims = [1] : (tensor<2xf32>, tensor<2xi32>) -> tensor<?x2xf32>\n  %5 = stablehlo.add %x, %4 : tensor<?x2xf32>\n  return %5 : tensor<?x2xf32>\n}\n'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A module of two public functions of `x` and `w`."""
    path = tmp_path / "both.mlir"
    path.write_text(
        ONE.replace("NAME", "double").replace("OP", "add") + ONE.replace("NAME", "square").replace("OP", "multiply")
    )
    return path


def weights(folder: Path, first: float, name: str = "w") -> Path:
    path = folder / f"{name}{first}.npz"
    np.savez(path, **{name: np.array([first, 3], np.float32)})
    return path


def test_several_functions_need_entry(cli: Cli, model: Path) -> None:
    for verb in (("compile",), ("verify",), ("inspect",), ("export", "-o", model.with_name("o.onnx"))):
        done = cli(verb[0], model, *verb[1:])
        assert done.status == 2, done
        assert "several public functions" in done.err and "--entry: double, square" in done.err


def test_the_key_depends_on_the_function_and_not_on_the_weights(cli: Cli, model: Path, tmp_path: Path) -> None:
    def key(*arguments: object) -> str:
        done = cli("compile", model, "--stop-after", "optimize", "--json", *arguments)
        assert done.status == 0, done.err
        return str(done.document["key"])

    double, square = key("--entry", "double"), key("--entry", "square")
    frozen = key("--entry", "double", "--freeze", weights(tmp_path, 1))
    assert len({double, square, frozen}) == 3
    assert key("--entry", "double", "--freeze", weights(tmp_path, 2)) == frozen


def test_frozen_arguments_are_no_inputs(cli: Cli, model: Path, tmp_path: Path) -> None:
    chosen = ("--entry", "square", "--freeze", weights(tmp_path, 1), "--json")
    assert [i["name"] for i in cli("inspect", model, *chosen).document["inputs"]] == ["x"]
    assert cli("export", model, "-o", tmp_path / "o.onnx", *chosen).status == 0
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "o.onnx")
    assert [i.name for i in session.get_inputs()] == ["x"]
    (found,) = session.run(None, {"x": np.zeros((1, 2), np.float32)})
    np.testing.assert_array_equal(found, [[1, 9]])


def test_what_cannot_be_frozen(cli: Cli, model: Path, tmp_path: Path) -> None:
    def said(*arguments: object) -> str:
        done = cli("inspect", model, "--entry", "double", *arguments)
        assert done.status == 2
        return done.err

    assert "no input is named v" in said("--freeze", weights(tmp_path, 1, "v"))
    assert "does not exist" in said("--freeze", tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no arrays")
    assert "not a readable .npz file" in said("--freeze", tmp_path / "text.npz")


def test_onnx_models_have_no_functions(cli: Cli, tmp_path: Path) -> None:
    from onnx import parser, save

    save(
        parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'),
        tmp_path / "m.onnx",
    )
    done = cli("compile", tmp_path / "m.onnx", "--entry", "main")
    assert done.status == 2 and "--entry and --freeze are for StableHLO" in done.err


IDENTITY = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n  %0 = {}\n  return %0 : tensor<2xf32> }}"
CALL = "stablehlo.custom_call @{}(%a) : (tensor<2xf32>) -> tensor<2xf32>"
AGAIN = "hint: the file is incomplete or damaged; copy or export it again"
FOR_CPU = (
    'hint: export the model for the CPU, whose program every target takes: jax.export.export(…, platforms=["cpu"])'
)


def identity(line: str) -> bytes:
    return IDENTITY.format(line).encode()


def artifact() -> bytes:
    """A portable artifact of an addition."""
    from jaxlib.mlir.dialects import stablehlo

    from fornaxc.importers.stablehlo.reader import parse_text, versions

    module = parse_text(IDENTITY.format("stablehlo.add %a, %a : tensor<2xf32>"), "m")
    return bytes(stablehlo.serialize_portable_artifact(module, versions()[1]))


BAD = {
    "text": (identity("stablehlo.add %a : tensor<2xf32>"), 4, ":2:", "hint: the text must be StableHLO"),
    "byte after a mark": (
        b"\xef\xbb\xbfmodule {}\n// \xff\n",
        4,
        ":2:4: the text has the byte 0xff",
        "hint: save the text as UTF-8",
    ),
    "dialect": (
        identity('"tosa.abs"(%a) : (tensor<2xf32>) -> tensor<2xf32>'),
        4,
        "tosa.abs is of a dialect",
        "hint: convert the module to StableHLO first, with the tool that made it",
    ),
    "mhlo": (
        identity("mhlo.abs %a : tensor<2xf32>"),
        4,
        "mhlo.abs is of a dialect",
        "with `mlir-hlo-opt --hlo-legalize-to-stablehlo`",
    ),
    "latin": (b"module { // caf\xe9\n}", 4, ":1:16: the text has the byte 0xe9", "hint: save the text as UTF-8"),
    "short": (b"ML\xefR\x0dStableHLO_v1.9.0\x00\x07", 4, "the bytecode is cut short or damaged", AGAIN),
    "cut": (artifact()[:-40], 4, "the bytecode is cut short or damaged", AGAIN),
    "flipped": (b"ML\xefR\x0dStableHLO_v1.9.0", 4, "the bytecode is damaged (", AGAIN),
    "export": (jax_export(artifact())[:-40], 4, "a damaged jax.export file", AGAIN),
    "newer": (
        artifact().replace(b"StableHLO_v1", b"StableHLO_v9"),
        4,
        "vhlo.add_v1: the artifact has StableHLO version 9",
        "hint: export the model again for a version in this range",
    ),
    "private": (
        b"module {\n  func.func private @f(%a: tensor<2xf32>) -> tensor<2xf32> {\n    return %a : tensor<2xf32> }\n}",
        4,
        "no public function",
        "hint: choose one with --entry: f",
    ),
    "nothing": (b"module {}", 4, "no public function", "hint: it has no function at all: export the model again"),
    "cuda": (identity(CALL.format("cusolver_getrf")), 3, "cusolver_getrf", FOR_CPU),
    "rocm": (identity(CALL.format("hipsolver_getrf")), 3, "hipsolver_getrf", FOR_CPU),
    "tpu": (identity(CALL.format("tpu_custom_call")), 3, "tpu_custom_call", FOR_CPU),
    "lapack": (
        identity(CALL.format("lapack_spotrf")),
        3,
        "through LAPACK",
        "a newer JAX, which calls lapack_spotrf_ffi",
    ),
    "callback": (
        identity(CALL.format("xla_ffi_python_cpu_callback")),
        3,
        "a Python process",
        "hint: leave callbacks out",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_get_one_clear_message_and_what_to_do(cli: Cli, tmp_path: Path, name: str) -> None:
    content, status, said, hint = BAD[name]
    path = tmp_path / f"{name}.mlir"
    path.write_bytes(content)
    done = cli("compile", path)
    assert done.status == status, done
    assert said in done.err and hint in done.err and "Traceback" not in done.err and done.out == ""
    assert done.err.count("error") <= 2
