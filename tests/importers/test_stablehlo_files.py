"""What StableHLO files are recognised by, and what jax.export writes beside the module."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("jaxlib")

from jax_export_files import jax_export

from fornaxc.errors import ModelError, UnsupportedError, UsageError
from fornaxc.importers.stablehlo.importer import import_stablehlo
from fornaxc.importers.stablehlo.reader import new_context, parse_text, versions
from fornaxc.importers.stablehlo.sniff import stablehlo_form
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.sources import format_of

ADD = """module @jit_add {
  func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""
ROWS = ADD.replace("tensor<2xf32>", "tensor<?xf32>")
BRANCHES = """module @jit_g {
  func.func public @main(%arg0: tensor<i32> {jax.global_constant = "_platform_index"}, %arg1: tensor<2xf32>) -> tensor<2xf32> {
    %0 = call @choose(%arg0, %arg1) : (tensor<i32>, tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @choose(%arg0: tensor<i32> {jax.global_constant = "_platform_index"}, %arg1: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.constant dense<1> : tensor<i32>
    %2 = "stablehlo.case"(%arg0) ({
      stablehlo.return %1 : tensor<i32>
    }, {
      stablehlo.return %0 : tensor<i32>
    }) : (tensor<i32>) -> tensor<i32>
    %3 = "stablehlo.case"(%2) ({
      %4 = stablehlo.add %arg1, %arg1 : tensor<2xf32>
      stablehlo.return %4 : tensor<2xf32>
    }, {
      %4 = stablehlo.custom_call @cublas_double(%arg1) : (tensor<2xf32>) -> tensor<2xf32>
      stablehlo.return %4 : tensor<2xf32>
    }) : (tensor<i32>) -> tensor<2xf32>
    return %3 : tensor<2xf32>
  }
}
"""
X = np.array([1, 2], np.float32)


def portable(text: str) -> bytes:
    from jaxlib.mlir.dialects import stablehlo

    return bytes(stablehlo.serialize_portable_artifact(parse_text(text, "module"), versions()[1]))


def bytecode(text: str) -> bytes:
    """Plain MLIR bytecode, whatever its dialects are."""
    from io import BytesIO

    from jaxlib.mlir import ir

    with new_context() as context:
        context.allow_unregistered_dialects = True
        written = BytesIO()
        ir.Module.parse(text).operation.write_bytecode(written)
        return written.getvalue()


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "model"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def imported(folder: Path, content: str | bytes) -> Graph:
    return import_stablehlo(write(folder, content))


def types(graph: Graph) -> list[str]:
    return [str(value.type) for value in graph.inputs]


# --- what a file is


@pytest.mark.parametrize("line", ["#loc{} = loc(\"params['layer_{}']['weight']\")\n", "// argument {} of {}\n", "\r\n"])
def test_text_is_recognised_behind_the_names_of_many_arguments(tmp_path: Path, line: str) -> None:
    preamble = "".join(line.format(i, i) for i in range(5000))
    path = write(tmp_path, preamble + ADD)
    assert format_of(path) == "stablehlo"
    assert types(import_stablehlo(path)) == ["f32[2]", "f32[2]"]


def test_text_in_the_generic_form() -> None:
    assert stablehlo_form(b'"builtin.module"() ({\n}) : () -> ()') == "text"


def test_a_jax_export_file_is_recognised_whatever_stands_before_its_module(tmp_path: Path) -> None:
    content = jax_export(portable(ADD), [(str(1000 + i),) for i in range(400)], kept=[0, 1])
    assert content.index(b"ML\xefR") > 4096
    path = write(tmp_path, content)
    assert format_of(path) == "stablehlo"
    assert types(import_stablehlo(path)) == ["f32[2]", "f32[2]"]


def test_onnx_files_are_never_taken_for_stablehlo(tmp_path: Path) -> None:
    module = np.frombuffer(portable(ADD), np.uint8)
    weight = helper.make_tensor("stablehlo.add", TensorProto.UINT8, [len(module)], module.tobytes(), raw=True)
    node = helper.make_node(
        "Identity", ["stablehlo.add"], ["y"], doc_string="module @jit {\nfunc.func @main\nstablehlo.add"
    )
    y = helper.make_tensor_value_info("y", TensorProto.UINT8, [len(module)])
    model = helper.make_model(
        helper.make_graph([node], "module @m {", [], [y], [weight]), producer_name="stablehlo.onnx"
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    assert format_of(path) == "onnx"
    assert format_of(write(tmp_path, model.producer_name.join(["\x08\x0a\x12\x0e", ""]))) == "onnx"


@pytest.mark.parametrize(
    "content", [b"", b"\x89PNG\r\n\x1a\n" * 20, b"\0" * 5000, b"#\n" * 5000, b"\x10\0\0\0ML\xefR" * 9]
)
def test_other_files_are_not_stablehlo(tmp_path: Path, content: bytes) -> None:
    assert format_of(write(tmp_path, content)) == "onnx"
    assert stablehlo_form(content) is None


def test_an_unknown_file_is_left_to_the_onnx_reader(tmp_path: Path) -> None:
    assert format_of(tmp_path / "none") == "onnx" == format_of(tmp_path)


# --- bytes that no text has

LONG = "  // a line of padding\n" * 400


@pytest.mark.parametrize("before", ["", "// a comment\n#loc = loc(unknown)\n", LONG, ADD.replace("}\n}", "}") + LONG])
@pytest.mark.parametrize(
    ("wrong", "problem"),
    [(b"\xe9", "the byte 0xe9, which is not UTF-8"), (b"\xed\xa0\x80", "the byte 0xed"), (b"\0", "a zero byte")],
)
def test_a_byte_that_no_text_has_is_named_with_its_place(
    tmp_path: Path, before: str, wrong: bytes, problem: str
) -> None:
    path = write(tmp_path, before.encode() + b"module { // caf" + wrong + b"\n" + ADD.encode() + b"}")
    assert format_of(path) == "stablehlo"
    with pytest.raises(ModelError) as caught:
        import_stablehlo(path)
    line = before.count("\n") + 1
    assert caught.value.message.startswith(f"{path}:{line}:16: the text has {problem}")
    assert caught.value.code == "FX434" and caught.value.hint
    assert caught.value.details[0]["offset"] == len(before) + 15


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_text_in_utf_16_is_named(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path = write(tmp_path, (mark + ADD).encode(encoding))
    assert format_of(path) == "stablehlo"
    with pytest.raises(ModelError, match="the text is UTF-16, not UTF-8") as caught:
        import_stablehlo(path)
    assert "save the text as UTF-8" in caught.value.hint


def test_a_mark_of_utf_8_before_the_text_is_no_error(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeff" + ADD)
    assert format_of(path) == "stablehlo" and types(import_stablehlo(path)) == ["f32[2]", "f32[2]"]


@pytest.mark.parametrize("encode", [str, portable])
def test_names_that_are_not_utf_8_are_shown_by_their_bytes(tmp_path: Path, encode) -> None:  # type: ignore[no-untyped-def]
    text = ADD.replace("stablehlo.add %arg0, %arg1 : tensor<2xf32>", CALL)
    with pytest.raises(UnsupportedError) as caught:
        imported(tmp_path, encode(text))
    assert r"the custom call 'f\\xe9', which was written for" in caught.value.details[0]["reason"]


CALL = r'stablehlo.custom_call @"f\E9"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>'


@pytest.mark.parametrize("name", [r"two\E9", "a b", "a.b"])
def test_functions_may_have_any_name(tmp_path: Path, name: str) -> None:
    text = ADD.replace(
        "stablehlo.add %arg0, %arg1 : ", f'call @"{name}"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> '
    )
    text = text[:-2] + ADD[ADD.index("func.func") :].replace("public @main", f'private @"{name}"')
    assert run(imported(tmp_path, text), [X, X])[0].tolist() == [2, 4]
    with pytest.raises(UsageError, match="has no function 'none'"):
        import_stablehlo(tmp_path / "model", entry="none")


def test_the_name_of_an_attribute_that_is_not_utf_8_is_refused_with_its_place(tmp_path: Path) -> None:
    call = """"stablehlo.custom_call"(%arg0) {call_target_name = "lapack_spotrf_ffi", mhlo.backend_config = {"u\\E9" = 76 : ui8}} :
      (tensor<2xf32>) -> tensor<2xf32>"""
    with pytest.raises(
        ModelError, match=r"stablehlo.custom_call at model:3:\d+ is invalid: the name of an attribute is not"
    ):
        imported(tmp_path, ADD.replace("stablehlo.add %arg0, %arg1 : tensor<2xf32>", call))


# --- what jax.export says


@pytest.mark.parametrize("shared_types", [False, True])
@pytest.mark.parametrize("version", [1, 3, 11])
def test_the_names_of_sizes(tmp_path: Path, version: int, shared_types: bool) -> None:
    content = jax_export(
        portable(ROWS), [("rows",), ("rows",)], kept=[0, 1], version=version, shared_types=shared_types
    )
    assert types(imported(tmp_path, content)) == ["f32[rows]", "f32[rows]"]


@pytest.mark.parametrize("shared_types", [False, True])
def test_an_argument_that_the_module_does_not_take_leaves_the_others_their_names(
    tmp_path: Path, shared_types: bool
) -> None:
    inputs = [("rows",), ("7", "columns"), ("rows",)]
    content = jax_export(portable(ROWS), inputs, kept=[0, 2], shared_types=shared_types)
    assert types(imported(tmp_path, content)) == ["f32[rows]", "f32[rows]"]


def test_a_serialization_version_of_the_future_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"serialization version 99; this reader takes 1 to \d+") as caught:
        imported(tmp_path, jax_export(portable(ADD), version=99))
    assert caught.value.code == "FX433"


def test_a_kept_argument_that_is_not_described_is_damage(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="counts more inputs than it describes") as caught:
        imported(tmp_path, jax_export(portable(ADD), [("2",)], kept=[0, 1]))
    assert caught.value.code == "FX432"


# --- several platforms


@pytest.mark.parametrize("platforms", [("cuda", "cpu"), ("tpu", "rocm"), ("tpu", "cuda", "cpu"), ("rocm", "cuda")])
def test_one_platform_is_compiled_and_its_number_is_no_input(tmp_path: Path, platforms: tuple[str, ...]) -> None:
    graph = imported(tmp_path, jax_export(portable(BRANCHES), [("2",)], platforms, kept=[0]))
    assert types(graph) == ["f32[2]"] and "If" not in str([type(node.op).__name__ for node in graph.nodes])
    assert run(graph, [X])[0].tolist() == [2, 4]


def test_dims_keep_their_names_beside_the_number_of_the_platform(tmp_path: Path) -> None:
    text = ROWS.replace("main(", 'main(%p: tensor<i32> {jax.global_constant = "_platform_index"}, ')
    content = jax_export(portable(text), [("rows",), ("rows",)], ("cpu", "cuda"), kept=[0, 1])
    assert types(imported(tmp_path, content)) == ["f32[rows]", "f32[rows]"]


def test_the_branch_of_another_platform_is_refused_when_it_is_taken(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        imported(tmp_path, jax_export(portable(BRANCHES), [("2",)], ("cpu", "cuda"), kept=[0]))
    assert "'cublas_double', which was written for NVIDIA GPUs" in caught.value.details[0]["reason"]


def test_an_export_for_other_platforms_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="exported for tpu, METAL, and not for cpu, cuda, rocm"):
        imported(tmp_path, jax_export(portable(BRANCHES), [("2",)], ("tpu", "METAL"), kept=[0]))


@pytest.mark.parametrize("encode", [str, portable])
def test_a_module_without_its_platforms_needs_the_number(tmp_path: Path, encode) -> None:  # type: ignore[no-untyped-def]
    path = write(tmp_path, encode(BRANCHES))
    with pytest.raises(UnsupportedError, match="does not say which: what '_platform_index' stands for") as caught:
        import_stablehlo(path)
    assert "--freeze" in caught.value.hint
    graph = import_stablehlo(path, freeze={"_platform_index": np.array(1)})
    assert run(graph, [X])[0].tolist() == [2, 4]
    with pytest.raises(UsageError, match="must be one integer"):
        import_stablehlo(path, freeze={"_platform_index": np.array(0.5)})


# --- complex weights


def test_a_complex_argument_is_frozen_under_its_own_name(tmp_path: Path) -> None:
    path = write(tmp_path, ADD.replace("f32", "complex<f32>"))
    w = np.array([1 + 2j, 3 - 4j], np.complex64)
    graph = import_stablehlo(path, freeze={"arg1": w})
    assert graph.input_names == ("arg0.real", "arg0.imag")
    assert [r.tolist() for r in run(graph, [X, X])] == [[2, 5], [3, -2]]
    with pytest.raises(UsageError, match="must be f32"):
        import_stablehlo(path, freeze={"arg1": w.astype(np.complex128)})
    with pytest.raises(UsageError, match="must be complex, of two"):
        import_stablehlo(path, freeze={"arg1": X})


# --- other versions and other dialects


def aged(text: str, version: str) -> bytes:
    """A portable artifact that says it is of another version."""
    newest = versions()[1]
    padded = version + "0" * (len(newest) - len(version))
    return portable(text).replace(f"StableHLO_v{newest}".encode(), f"StableHLO_v{padded}".encode())


@pytest.mark.parametrize("version", ["9.99.0", "0.8.0"])
def test_an_artifact_of_another_version_names_its_first_operation(tmp_path: Path, version: str) -> None:
    with pytest.raises(ModelError, match=rf"vhlo.add_v1: the artifact has StableHLO version {version}") as caught:
        imported(tmp_path, aged(ADD, version))
    assert caught.value.details[0]["op"] == "vhlo.add_v1" and caught.value.code == "FX433"


def test_an_artifact_that_does_not_parse_names_an_operation_from_its_strings(tmp_path: Path) -> None:
    content = aged(ADD, "9.99.0")
    with pytest.raises(ModelError, match=r"vhlo.add_v1: the artifact has StableHLO version 9.99.0"):
        imported(tmp_path, content[: content.index(b"jit_add")])


@pytest.mark.parametrize("encode", [str, bytecode])
@pytest.mark.parametrize(
    ("dialect", "how"), [("mhlo", "--hlo-legalize-to-stablehlo"), ("other", "the tool that made it")]
)
def test_operations_of_another_dialect(tmp_path: Path, encode, dialect: str, how: str) -> None:  # type: ignore[no-untyped-def]
    line = f'"{dialect}.add"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>'
    with pytest.raises(ModelError, match=r"not StableHLO") as caught:
        imported(tmp_path, encode(ADD.replace("stablehlo.add %arg0, %arg1 : tensor<2xf32>", line)))
    assert caught.value.code == "FX434" and dialect in caught.value.message and how in caught.value.hint


def test_a_dialect_that_only_text_in_its_own_form_has(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r":3:\d+: the operation mhlo.add is of a dialect that is not StableHLO's"
    ) as caught:
        imported(tmp_path, ADD.replace("stablehlo.add", "mhlo.add"))
    assert "--hlo-legalize-to-stablehlo" in caught.value.hint


def test_a_dialect_that_the_parser_knows(tmp_path: Path) -> None:
    line = "arith.addf %arg0, %arg1 : tensor<2xf32>"
    with pytest.raises(UnsupportedError) as caught:
        imported(tmp_path, ADD.replace("stablehlo.add %arg0, %arg1 : tensor<2xf32>", line))
    assert caught.value.hint.startswith("arith is not StableHLO: convert the module")
