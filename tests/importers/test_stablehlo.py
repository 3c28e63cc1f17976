"""StableHLO files: their forms, what is wrong with bad ones, dims, weights, and operations that no reference evaluates."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib")

import stablehlo_cases

from fornaxc.errors import ModelError, UnsupportedError, UsageError
from fornaxc.importers.stablehlo.importer import import_stablehlo
from fornaxc.importers.stablehlo.reader import parse_text, versions
from fornaxc.importers.stablehlo.selfchecks import agrees, read_check
from fornaxc.importers.stablehlo.sniff import stablehlo_form
from fornaxc.ir.binding import ShapeMismatch
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.serialize import graph_digest, graph_from_json, graph_to_json

DENSE = """
module @jit_dense attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32> loc("x")) -> (tensor<2x2xf32> {jax.result_info = "y"}) {
    %w = stablehlo.constant dense<[[WEIGHTS], [2.0, 3.0], [4.0, 5.0]]> : tensor<3x2xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %arg0, %w, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %1 = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
    %2 = stablehlo.maximum %0, %1 : tensor<2x2xf32>
    return %2 : tensor<2x2xf32>
  }
}
"""
DYNAMIC = """
module @jit_f attributes {jax.uses_shape_polymorphism = true} {
  func.func public @main(%arg0: tensor<?x3xf32>) -> tensor<?xf32> {
    %c = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
    %1 = stablehlo.compare GE, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%1, %0) {api_version = 2 : i32, error_message = "the batch must have at least two rows, but found {0}", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    %2 = call @inner(%0, %arg0) : (tensor<i32>, tensor<?x3xf32>) -> tensor<?xf32>
    return %2 : tensor<?xf32>
  }
  func.func private @inner(%arg0: tensor<i32> {jax.global_constant = "batch"}, %arg1: tensor<?x3xf32>) -> tensor<?xf32> {
    %c = stablehlo.constant dense<3> : tensor<i32>
    %0 = stablehlo.multiply %arg0, %c : tensor<i32>
    %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.dynamic_reshape %arg1, %1 : (tensor<?x3xf32>, tensor<1xi32>) -> tensor<?xf32>
    %3 = stablehlo.dynamic_iota %1, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    %4 = stablehlo.add %2, %3 : tensor<?xf32>
    return %4 : tensor<?xf32>
  }
}
"""


def dense_text(first: str = "0.5, 1.0") -> str:
    return DENSE.replace("WEIGHTS", first)


def write(folder: Path, content: str | bytes, name: str = "model.mlir") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def portable(text: str) -> bytes:
    from jaxlib.mlir.dialects import stablehlo

    return bytes(stablehlo.serialize_portable_artifact(parse_text(text, "module"), versions()[1]))


def bytecode(text: str) -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    parse_text(text, "module").operation.write_bytecode(buffer)
    return buffer.getvalue()


def jax_export(module: bytes) -> bytes:
    """A flatbuffer with a serialization version (field 0), a name (1), a module (13) and a calling convention (14)."""
    fields = 15
    vtable = struct.pack("<HH", 4 + 2 * fields, 20) + b"".join(
        struct.pack("<H", {0: 4, 1: 8, 13: 12, 14: 16}.get(i, 0)) for i in range(fields)
    )
    start = 8
    table_at = start + len(vtable) + (-(start + len(vtable)) % 4)
    name_at = table_at + 20
    name = struct.pack("<I", 1) + b"f\0\0\0"
    module_at = name_at + len(name)
    table = struct.pack("<iHHIIH2x", table_at - start, 3, 0, name_at - (table_at + 8), module_at - (table_at + 12), 10)
    head = struct.pack("<I4x", table_at) + vtable
    return head + b"\0" * (table_at - len(head)) + table + name + struct.pack("<I", len(module)) + module


def imported(folder: Path, text: str) -> Graph:
    graph = import_stablehlo(write(folder, text))
    check(graph)
    return graph


@pytest.mark.parametrize(
    ("form", "encode"),
    [
        ("text", lambda text: text.encode()),
        ("bytecode", portable),
        ("bytecode", bytecode),
        ("jaxexport", lambda text: jax_export(portable(text))),
    ],
)
def test_every_form_gives_one_graph(tmp_path: Path, form: str, encode) -> None:
    content = encode(dense_text())
    assert stablehlo_form(content) == form
    graph = import_stablehlo(write(tmp_path, content, "model.bin"))
    check(graph)
    x = np.array([[1, 2, 3], [-1, 0, 0]], np.float32)
    assert run(graph, [x])[0].tolist() == [[16.5, 22.0], [0.0, 0.0]]
    wanted = graph_digest(imported(tmp_path, dense_text()))
    assert (graph_digest(graph) == wanted) or graph.input_names == ("arg0",)


def test_names_come_from_the_source(tmp_path: Path) -> None:
    graph = imported(tmp_path, dense_text())
    assert (graph.input_names, graph.output_names) == (("x",), ("y",))


def test_a_retrained_model_is_the_same_program(tmp_path: Path) -> None:
    first, second = imported(tmp_path, dense_text()), imported(tmp_path, dense_text("9.0, -1.0"))
    assert graph_digest(first) == graph_digest(second)
    assert (
        run(first, [np.ones((2, 3), np.float32)])[0].tolist() != run(second, [np.ones((2, 3), np.float32)])[0].tolist()
    )


def test_a_graph_survives_its_json_form(tmp_path: Path) -> None:
    graph = imported(tmp_path, DYNAMIC)
    again = graph_from_json(graph_to_json(graph), lambda number, type: np.zeros(0))
    assert graph_digest(again) == graph_digest(graph)


@pytest.mark.parametrize("rows", [2, 5])
def test_one_program_serves_every_size(tmp_path: Path, rows: int) -> None:
    graph = imported(tmp_path, DYNAMIC)
    assert str(graph.inputs[0].type) == "f32[batch, 3]"
    x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    assert run(graph, [x])[0].tolist() == [2.0 * i for i in range(rows * 3)]


def test_a_shape_assertion_is_checked_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ShapeMismatch, match=r"batch >= 2 .the batch must have at least two rows"):
        run(imported(tmp_path, DYNAMIC), [np.zeros((1, 3), np.float32)])


def test_a_pinned_dim_is_static(tmp_path: Path) -> None:
    graph = import_stablehlo(write(tmp_path, DYNAMIC), {"batch": 4})
    assert str(graph.outputs[0].type) == "f32[12]" and not graph.constraints
    with pytest.raises(UsageError, match="no input has a dim named 'rows'"):
        import_stablehlo(write(tmp_path, DYNAMIC), {"rows": 4})


def test_a_size_that_arrives_as_data(tmp_path: Path) -> None:
    text = """func.func @main(%n: tensor<i64>, %x: tensor<f32>) -> tensor<?x2xf32> {
      %two = stablehlo.constant dense<2> : tensor<1xi64>
      %0 = stablehlo.reshape %n : (tensor<i64>) -> tensor<1xi64>
      %1 = stablehlo.concatenate %0, %two, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
      %2 = stablehlo.dynamic_broadcast_in_dim %x, %1, dims = [] : (tensor<f32>, tensor<2xi64>) -> tensor<?x2xf32>
      return %2 : tensor<?x2xf32> }"""
    graph = imported(tmp_path, text)
    assert run(graph, [np.array(3), np.array(1.5, np.float32)])[0].tolist() == [[1.5, 1.5]] * 3


def test_frozen_arguments_are_weights(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<3xf32>, %w: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.multiply %x, %w : tensor<3xf32>
      return %0 : tensor<3xf32> }"""
    path = write(tmp_path, text)
    names = import_stablehlo(path).input_names
    graph = import_stablehlo(path, freeze={names[1]: np.array([1, 2, 3], np.float32)})
    assert graph.input_names == names[:1]
    assert run(graph, [np.full(3, 2, np.float32)])[0].tolist() == [2, 4, 6]
    with pytest.raises(UsageError, match="no input is named v"):
        import_stablehlo(path, freeze={"v": np.zeros(3, np.float32)})
    with pytest.raises(UsageError, match="must be f32"):
        import_stablehlo(path, freeze={names[1]: np.zeros(3, np.float64)})


# --- bad files


def test_text_that_does_not_parse_names_line_and_column(tmp_path: Path) -> None:
    broken = "module {\n  func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n    %0 = stablehlo.nonsense %a : tensor<2xf32>\n  }\n}"
    with pytest.raises(ModelError, match=r"model.mlir:3:10: custom op 'stablehlo.nonsense' is unknown") as caught:
        import_stablehlo(write(tmp_path, broken))
    assert caught.value.details[0]["line"] == 3


def test_an_unknown_dialect_is_named(tmp_path: Path) -> None:
    text = 'func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n%0 = "linalg2.foo"(%a) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %0 : tensor<2xf32> }\n// stablehlo.add'
    with pytest.raises(ModelError, match=r":2:19: the operation linalg2.foo is of a dialect"):
        import_stablehlo(write(tmp_path, text))


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_bytecode_cut_short(tmp_path: Path, share: float) -> None:
    content = portable(dense_text())
    with pytest.raises(ModelError, match=r"cut short|missing data") as caught:
        import_stablehlo(write(tmp_path, content[: int(len(content) * share)], "model.mlirbc"))
    assert caught.value.code == "FX432"


def test_a_damaged_jax_export_file(tmp_path: Path) -> None:
    content = jax_export(portable(dense_text()))
    with pytest.raises(ModelError, match=r"damaged jax.export file: a part ends \d+ bytes behind the end") as caught:
        import_stablehlo(write(tmp_path, content[:-100], "model.jaxexport"))
    assert "copy or export it again" in caught.value.hint


@pytest.mark.parametrize("version", [b"9.99.0", b"0.8.0"])
def test_an_artifact_of_another_version(tmp_path: Path, version: bytes) -> None:
    content = portable(dense_text())
    current = versions()[1].encode()
    padded = version + b"0" * (len(current) - len(version))  # the header's length is part of the file
    with pytest.raises(ModelError) as caught:
        import_stablehlo(
            write(tmp_path, content.replace(b"StableHLO_v" + current, b"StableHLO_v" + padded), "m.mlirbc")
        )
    assert caught.value.code == "FX433"
    assert version.decode() in caught.value.message and " to ".join(versions()) in caught.value.message


def test_an_unknown_operation_of_another_version_is_named_with_the_versions(tmp_path: Path) -> None:
    oldest, newest = versions()
    version = "9.99.0" + "0" * (len(newest) - len("9.99.0"))
    content = portable(dense_text()).replace(f"StableHLO_v{newest}".encode(), f"StableHLO_v{version}".encode())
    with pytest.raises(ModelError) as caught:
        import_stablehlo(write(tmp_path, content.replace(b"maximum_v1", b"maximum_v9"), "m.mlirbc"))
    assert caught.value.code == "FX433"
    (detail,) = caught.value.details
    assert detail == {"op": "vhlo.maximum_v9", "artifact_version": "9.99.0", "oldest": oldest, "newest": newest}
    for part in ("vhlo.maximum_v9", "9.99.0", f"{oldest} to {newest}"):
        assert part in caught.value.message


def test_an_operation_that_the_reader_does_not_know_is_named(tmp_path: Path) -> None:
    content = portable(dense_text()).replace(b"maximum_v1", b"maximum_v9")
    with pytest.raises(ModelError, match=r"vhlo.maximum_v9.*this reader takes"):
        import_stablehlo(write(tmp_path, content, "m.mlirbc"))


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no StableHLO"):
        import_stablehlo(write(tmp_path, b"\x89PNG\r\n\x1a\n" * 20))


def test_the_entry_is_the_public_function(tmp_path: Path) -> None:
    one = "func.func @NAME(%a: tensor<2xf32>) -> tensor<2xf32> { %0 = stablehlo.OP %a, %a : tensor<2xf32> return %0 : tensor<2xf32> }\n"
    both = one.replace("NAME", "double").replace("OP", "add") + one.replace("NAME", "square").replace("OP", "multiply")
    path = write(tmp_path, both)
    with pytest.raises(UsageError, match="several public functions") as caught:
        import_stablehlo(path)
    assert "double, square" in caught.value.hint
    assert run(import_stablehlo(path, entry="square"), [np.array([3, 4], np.float32)])[0].tolist() == [9, 16]
    with pytest.raises(UsageError, match="no function 'cube'"):
        import_stablehlo(path, entry="cube")
    with pytest.raises(ModelError, match="no public function"):
        import_stablehlo(write(tmp_path, both.replace("func.func @", "func.func private @")))


def test_all_unsupported_operations_are_reported_at_once(tmp_path: Path) -> None:
    text = """func.func @main(%a: tensor<2xf32>, %t: !stablehlo.token) -> tensor<2xf32> {
      %0 = stablehlo.custom_call @cusolver_getrf(%a) : (tensor<2xf32>) -> tensor<2xf32>
      %1 = stablehlo.add %0, %a : tensor<2xf32>
      %2 = "stablehlo.outfeed"(%a, %t) : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
      %3 = stablehlo.custom_call @my_kernel(%a) : (tensor<2xf32>) -> tensor<2xf32>
      return %1 : tensor<2xf32> }"""
    with pytest.raises(UnsupportedError) as caught:
        import_stablehlo(write(tmp_path, text))
    reasons = [d["reason"] for d in caught.value.details]
    assert [d["op"] for d in caught.value.details] == [
        "stablehlo.custom_call",
        "stablehlo.outfeed",
        "stablehlo.custom_call",
    ]
    assert "'cusolver_getrf', which was written for NVIDIA GPUs" in reasons[0]
    assert "other devices or with the host" in reasons[1] and "'my_kernel'" in reasons[2]


# --- operations


def scalar_function(body: str, result: str) -> str:
    return f"func.func @main(%a: tensor<3xui64>) -> {result} {{\n{body}\n}}"


@pytest.mark.parametrize(
    ("state", "words", "after"),
    [
        ([0, 0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], [0, 1, 0]),
        ([2**64 - 1] * 3, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD], [2**64 - 1, 0, 0]),
    ],
)
def test_philox_known_answers(tmp_path: Path, state: list[int], words: list[int], after: list[int]) -> None:
    text = scalar_function(
        "%s, %r = stablehlo.rng_bit_generator %a, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<4xui32>)\n"
        "return %s, %r : tensor<3xui64>, tensor<4xui32>",
        "(tensor<3xui64>, tensor<4xui32>)",
    )
    results = run(imported(tmp_path, text), [np.array(state, np.uint64)])
    assert results[0].tolist() == after and results[1].tolist() == words


def test_threefry_known_answer(tmp_path: Path) -> None:
    text = """func.func @main(%a: tensor<2xui64>) -> (tensor<2xui64>, tensor<2xui32>) {
      %s, %r = stablehlo.rng_bit_generator %a, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2xui32>)
      return %s, %r : tensor<2xui64>, tensor<2xui32> }"""
    results = run(imported(tmp_path, text), [np.zeros(2, np.uint64)])
    assert results[0].tolist() == [0, 1] and results[1].tolist() == [0x6B200159, 0x99BA4EFE]


@pytest.mark.parametrize("length", [1, 2, 7, 12, 96, 130])
def test_fourier_transforms(tmp_path: Path, length: int) -> None:
    rng = np.random.default_rng(length)
    half = length // 2 + 1
    real, spectrum = f"tensor<3x{length}xf64>", f"tensor<3x{half}xcomplex<f64>>"
    text = f"""func.func @main(%x: {real}) -> ({spectrum}, {real}) {{
      %0 = stablehlo.fft %x, type = RFFT, length = [{length}] : ({real}) -> {spectrum}
      %1 = stablehlo.fft %0, type = IRFFT, length = [{length}] : ({spectrum}) -> {real}
      return %0, %1 : {spectrum}, {real} }}"""
    x = rng.standard_normal((3, length))
    re, im, back = run(imported(tmp_path, text), [x])
    assert np.allclose(re + 1j * im, np.fft.rfft(x)) and np.allclose(back, x)


@pytest.mark.parametrize("size", [3, 11])
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(tmp_path: Path, size: int, lower: bool) -> None:
    t = f"tensor<2x{size}x{size}xf64>"
    text = f'func.func @main(%a: {t}) -> {t} {{ %r = "stablehlo.cholesky"(%a) {{lower = {str(lower).lower()}}} : ({t}) -> {t} return %r : {t} }}'
    a = np.random.default_rng(0).standard_normal((2, size, size))
    a = a @ a.transpose(0, 2, 1) + size * np.eye(size)
    factor = np.linalg.cholesky(a)
    assert np.allclose(run(imported(tmp_path, text), [a])[0], factor if lower else factor.transpose(0, 2, 1))


@pytest.mark.parametrize("size", [2, 5, 12])
def test_lapack_factorizations(tmp_path: Path, size: int) -> None:
    t, v, i = f"tensor<{size}x{size}xf64>", f"tensor<{size}xf64>", "tensor<i32>"
    text = f"""func.func @main(%a: {t}, %s: {t}) -> ({t}, {t}, {t}, {v}, {t}, tensor<{size}xi32>) {{
      %qr:2 = stablehlo.custom_call @lapack_dgeqrf_ffi(%a) {{api_version = 4 : i32, mhlo.backend_config = {{}}}} : ({t}) -> ({t}, {v})
      %q = stablehlo.custom_call @lapack_dorgqr_ffi(%qr#0, %qr#1) {{api_version = 4 : i32, mhlo.backend_config = {{}}}} : ({t}, {v}) -> {t}
      %e:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%s) {{api_version = 4 : i32, mhlo.backend_config = {{mode = 86 : ui8, uplo = 76 : ui8}}}} : ({t}) -> ({t}, {v}, {i})
      %l:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%a) {{api_version = 4 : i32, mhlo.backend_config = {{}}}} : ({t}) -> ({t}, tensor<{size}xi32>, {i})
      return %qr#0, %q, %e#0, %e#1, %l#0, %l#1 : {t}, {t}, {t}, {v}, {t}, tensor<{size}xi32> }}"""
    a = np.random.default_rng(size).standard_normal((size, size))
    symmetric = a + a.T
    r, q, vectors, values, lu, pivots = run(imported(tmp_path, text), [a, symmetric])
    assert np.allclose(q @ np.triu(r), a) and np.allclose(q.T @ q, np.eye(size))
    assert np.allclose(values, np.linalg.eigvalsh(symmetric)) and np.allclose(symmetric @ vectors, vectors * values)
    swapped = a.copy()
    for row, pivot in enumerate(pivots):
        swapped[[row, pivot - 1]] = swapped[[pivot - 1, row]]
    assert np.allclose((np.tril(lu, -1) + np.eye(size)) @ np.triu(lu), swapped)


def test_batch_normalization(tmp_path: Path) -> None:
    t, line = "tensor<4x3x2xf32>", "tensor<3xf32>"
    text = f"""func.func @main(%x: {t}, %s: {line}, %o: {line}) -> ({t}, {line}, {line}) {{
      %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {{epsilon = 0.1 : f32, feature_index = 1 : i64}} : ({t}, {line}, {line}) -> ({t}, {line}, {line})
      return %0#0, %0#1, %0#2 : {t}, {line}, {line} }}"""
    x = np.random.default_rng(0).standard_normal((4, 3, 2)).astype(np.float32)
    scale, offset = np.array([1, 2, 3], np.float32), np.array([-1, 0, 1], np.float32)
    y, mean, variance = run(imported(tmp_path, text), [x, scale, offset])
    assert np.allclose(mean, x.mean((0, 2)), atol=1e-6) and np.allclose(variance, x.var((0, 2)), atol=1e-6)
    wide = (x - mean[:, None]) / np.sqrt(variance[:, None] + 0.1) * scale[:, None] + offset[:, None]
    assert np.allclose(y, wide, atol=1e-5)


def test_quantized_addition(tmp_path: Path) -> None:
    text = """func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xi8> {
      %0 = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.1:-30>>
      %1 = stablehlo.uniform_quantize %b : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:-20>>
      %2 = stablehlo.add %0, %1 : (tensor<2x!quant.uniform<i8:f32, 0.1:-30>>, tensor<2x!quant.uniform<i8:f32, 0.5:-20>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:-20>>
      %3 = stablehlo.bitcast_convert %2 : (tensor<2x!quant.uniform<i8:f32, 0.5:-20>>) -> tensor<2xi8>
      return %3 : tensor<2xi8> }"""
    results = run(imported(tmp_path, text), [np.array([1, 2], np.float32), np.array([3, 4], np.float32)])
    assert results[0].tolist() == [-12, -8]


def test_ragged_product(tmp_path: Path) -> None:
    text = """func.func @main(%a: tensor<7x3xf32>, %b: tensor<3x3x2xf32>, %c: tensor<3xi32>) -> tensor<7x2xf32> {
      %0 = "chlo.ragged_dot"(%a, %b, %c) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [],
        rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
        lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>} : (tensor<7x3xf32>, tensor<3x3x2xf32>, tensor<3xi32>) -> tensor<7x2xf32>
      return %0 : tensor<7x2xf32> }"""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((7, 3)).astype(np.float32), rng.standard_normal((3, 3, 2)).astype(np.float32)
    wanted = np.concatenate([x[:2] @ w[0], x[2:6] @ w[2], np.zeros((1, 2), np.float32)])
    assert np.allclose(run(imported(tmp_path, text), [x, w, np.array([2, 0, 4], np.int32)])[0], wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "at", "value"),
    [
        ("lgamma", 0.1, 2.2527126517342055),
        ("digamma", 0.5, -1.9635100260214235),
        ("erf", 0.5, 0.5204998778130465),
        ("erf_inv", 0.5, 0.4769362762044699),
        ("erfc", 2.0, 0.004677734981047266),
        ("bessel_i1e", 1.0, 0.2079104153497085),
        ("sinh", 0.001, 0.0010000001666666750),
        ("cosh", 2.0, 3.7621956910836314),
        ("acosh", 3.0, 1.762747174039086),
        ("asin", 0.5, 0.5235987755982989),
    ],
)
def test_special_functions(tmp_path: Path, op: str, at: float, value: float) -> None:
    t = "tensor<1xf64>"
    text = f"func.func @main(%a: {t}) -> {t} {{ %0 = chlo.{op} %a : {t} -> {t} return %0 : {t} }}"
    assert run(imported(tmp_path, text), [np.array([at])])[0][0] == pytest.approx(value, rel=1e-7)


def test_a_composite_by_name_and_by_its_decomposition(tmp_path: Path) -> None:
    text = """module {
      func.func public @main(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
        %0 = stablehlo.composite "chlo.erf" %a {decomposition = @wrong} : (tensor<2xf32>) -> tensor<2xf32>
        %1 = stablehlo.composite "my.twice" %a {decomposition = @twice} : (tensor<2xf32>) -> tensor<2xf32>
        return %0, %1 : tensor<2xf32>, tensor<2xf32>
      }
      func.func private @wrong(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }
      func.func private @twice(%a: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.add %a, %a : tensor<2xf32>
        return %0 : tensor<2xf32>
      }
    }"""
    first, second = run(imported(tmp_path, text), [np.array([0, 0.5], np.float32)])
    assert first.tolist() == [0, pytest.approx(0.5204999, rel=1e-6)] and second.tolist() == [0, 1]


def test_complex_arguments_are_pairs(tmp_path: Path) -> None:
    text = """func.func @main(%a: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
      %i = stablehlo.constant dense<(0.0, 1.0)> : tensor<complex<f32>>
      %0 = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<complex<f32>>) -> tensor<2xcomplex<f32>>
      %1 = stablehlo.multiply %a, %0 : tensor<2xcomplex<f32>>
      return %1 : tensor<2xcomplex<f32>> }"""
    graph = imported(tmp_path, text)
    assert graph.input_names in (("arg0.real", "arg0.imag"), ("a.real", "a.imag"))
    assert graph.output_names == ("result.real", "result.imag")
    re, im = run(graph, [np.array([1, 2], np.float32), np.array([3, 4], np.float32)])
    assert re.tolist() == [-3, -4] and im.tolist() == [1, 2]


def test_one_replica_makes_collectives_the_identity(tmp_path: Path) -> None:
    text = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<GROUPS> : tensor<1xCOUNTxi64>}> ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32> }"""
    alone = text.replace("GROUPS", "0").replace("COUNT", "1")
    assert run(imported(tmp_path, alone), [np.array([1, 2], np.float32)])[0].tolist() == [1, 2]
    with pytest.raises(UnsupportedError, match="1 operation cannot be compiled"):
        import_stablehlo(write(tmp_path, text.replace("GROUPS", "[[0, 1]]").replace("COUNT", "2")))


def test_constants_that_stand_at_the_end_of_the_module(tmp_path: Path) -> None:
    text = """func.func @main() -> tensor<3xf32> {
      %0 = stablehlo.constant dense_resource<NAME> : tensor<3xf32>
      return %0 : tensor<3xf32> }
    {-# dialect_resources: { builtin: { w: "0x040000000000803F0000004000004040" } } #-}"""
    assert run(imported(tmp_path, text.replace("NAME", "w")), [])[0].tolist() == [1, 2, 3]
    with pytest.raises(UnsupportedError) as caught:
        import_stablehlo(write(tmp_path, text.replace("NAME", "__elided__")))
    assert "'__elided__' has no content" in caught.value.details[0]["reason"]


@pytest.mark.parametrize("dtype", ["bf16", "f8E5M2", "f6E2M3FN", "f4E2M1FN", "i4", "ui2", "i2", "ui64"])
def test_constants_of_every_width(tmp_path: Path, dtype: str) -> None:
    """Short ones are printed as numbers, long ones as bytes: both are read."""
    for count in (3, 200):
        numbers = [i % 2 for i in range(count)]
        shown = [f"{n}.0" if "i" not in dtype else str(n) for n in numbers]
        t = f"tensor<{count}x{dtype}>"
        text = (
            f"func.func @main() -> {t} {{ %0 = stablehlo.constant dense<[{', '.join(shown)}]> : {t} return %0 : {t} }}"
        )
        assert run(imported(tmp_path, text), [])[0].astype(np.float32).tolist() == numbers


# --- self-checking modules


def test_a_self_check_becomes_a_program_with_inputs() -> None:
    text = """module {
      func.func public @main() -> tensor<3xf32> {
        %0 = call @inputs() : () -> tensor<3xf32>
        %1 = call @expected() : () -> tensor<3xf32>
        %2 = stablehlo.multiply %0, %0 : tensor<3xf32>
        stablehlo.custom_call @check.expect_eq(%2, %1) {has_side_effect = true} : (tensor<3xf32>, tensor<3xf32>) -> ()
        return %2 : tensor<3xf32>
      }
      func.func private @inputs() -> tensor<3xf32> {
        %0 = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
        return %0 : tensor<3xf32>
      }
      func.func private @expected() -> tensor<3xf32> {
        %0 = stablehlo.constant dense<[1.0, 4.0, 9.0]> : tensor<3xf32>
        return %0 : tensor<3xf32>
      }
    }"""
    case = read_check("square", text)
    assert len(case.graph.inputs) == 1 and [e.kind for e in case.expectations] == ["eq"]
    assert agrees(case.expectations[0], run(case.graph, case.inputs)[0])
    assert not agrees(case.expectations[0], np.array([1, 4, 8.5], np.float32))
    with pytest.raises(ModelError, match="compares nothing"):
        read_check("nothing", text.replace("check.expect_eq", "other"))


MODELS = Path(os.environ.get("FORNAXC_STABLEHLO_MODELS", "none"))


@pytest.mark.skipif(not MODELS.is_dir(), reason="FORNAXC_STABLEHLO_MODELS names no folder of exported models")
@pytest.mark.parametrize("path", sorted(MODELS.glob("*.npz")), ids=lambda p: p.stem)
def test_exported_models(path: Path) -> None:
    stored = np.load(path)
    inputs = [stored[f"in_{i}"] for i in range(sum(name.startswith("in_") for name in stored))]
    digests = set()
    for suffix in (".mlir", ".mlirbc", ".jaxexport"):
        graph = import_stablehlo(path.with_suffix(suffix))
        check(graph)
        digests.add(graph_digest(graph))
        for i, result in enumerate(run(graph, inputs)):
            np.testing.assert_allclose(result, stored[f"out_{i}"], rtol=1e-4, atol=1e-5)
    assert len(digests) == 1


CASES = Path(os.environ.get("FORNAXC_STABLEHLO_CASES", "none"))


@pytest.mark.slow
@pytest.mark.skipif(not CASES.is_dir(), reason="FORNAXC_STABLEHLO_CASES names no folder of self-checking modules")
def test_self_checking_modules() -> None:
    counts = stablehlo_cases.count(CASES)
    assert not counts["mismatch"] and not counts["crash"], counts
    assert counts["pass"] >= 0.95 * (counts["pass"] + counts["refused"] + counts["invalid"]), counts
