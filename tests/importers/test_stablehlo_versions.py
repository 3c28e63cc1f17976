"""Portable artifacts of the versions that are read give the graph of the newest one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("jaxlib")

from jax_export_files import jax_export

from fornaxc.errors import ModelError
from fornaxc.importers.stablehlo.importer import import_stablehlo
from fornaxc.importers.stablehlo.reader import parse_text, versions
from fornaxc.ir.printer import print_graph

OLD = ("0.9.0", "0.14.0", "1.0.0", "1.3.0", "1.6.0", "1.9.0", "1.13.0", "1.15.0")
QUANTIZED = "tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>"
PER_AXIS = "tensor<2x3x!quant.uniform<i8:f32:0, {0.5:3, 0.25:-1}>>"
PROGRAMS = {
    "dot_general": """func.func @main(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) -> tensor<2x3x5xf32> {
      %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] :
        (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
      return %0 : tensor<2x3x5xf32> }""",
    "gather and scatter": """func.func @main(%x: tensor<5x3xf32>, %i: tensor<2x1xi32>) -> tensor<5x3xf32> {
      %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}> :
        (tensor<5x3xf32>, tensor<2x1xi32>) -> tensor<2x3xf32>
      %1 = "stablehlo.scatter"(%x, %i, %0) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %2 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }) : (tensor<5x3xf32>, tensor<2x1xi32>, tensor<2x3xf32>) -> tensor<5x3xf32>
      return %1 : tensor<5x3xf32> }""",
    "sort": """func.func @main(%x: tensor<5xf32>, %y: tensor<5xi32>) -> (tensor<5xf32>, tensor<5xi32>) {
      %0:2 = "stablehlo.sort"(%x, %y) <{dimension = 0 : i64, is_stable = true}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
        %1 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }) : (tensor<5xf32>, tensor<5xi32>) -> (tensor<5xf32>, tensor<5xi32>)
      return %0#0, %0#1 : tensor<5xf32>, tensor<5xi32> }""",
    "custom_call": """func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x1xf32>, tensor<2x1xi32>) {
      %0 = stablehlo.custom_call @Sharding(%x) {backend_config = ""} : (tensor<2x3xf32>) -> tensor<2x3xf32>
      %1:2 = stablehlo.custom_call @mhlo.topk(%0) {mhlo.attributes = {k = 1 : i64, largest = true}} :
        (tensor<2x3xf32>) -> (tensor<2x1xf32>, tensor<2x1xi32>)
      return %1#0, %1#1 : tensor<2x1xf32>, tensor<2x1xi32> }""",
    "composite": """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.composite "mine.twice" %x {composite_attributes = {n = 2 : i64}, decomposition = @twice} :
        (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32> }
    func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.add %x, %x : tensor<2xf32>
      return %0 : tensor<2xf32> }""",
    "while and reduce_window": """func.func @main(%x: tensor<6xf32>, %n: tensor<i32>) -> tensor<6xf32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<6xf32>
        cond {
          %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %1 : tensor<i1>
        } do {
          %one = stablehlo.constant dense<1> : tensor<i32>
          %init = stablehlo.constant dense<0.0> : tensor<f32>
          %1 = stablehlo.add %i, %one : tensor<i32>
          %2 = "stablehlo.reduce_window"(%v, %init) <{padding = dense<[[1, 1]]> : tensor<1x2xi64>,
            window_dimensions = array<i64: 3>}> ({
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %3 = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %3 : tensor<f32>
          }) : (tensor<6xf32>, tensor<f32>) -> tensor<6xf32>
          stablehlo.return %1, %2 : tensor<i32>, tensor<6xf32>
        }
      return %0#1 : tensor<6xf32> }""",
    "all_reduce": """module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %1 = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %1 : tensor<f32>
        }) : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32> } }""",
    "quantized": f"""func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {{
      %0 = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> {QUANTIZED}
      %1 = stablehlo.add %0, %0 : {QUANTIZED}
      %2 = stablehlo.uniform_dequantize %1 : ({QUANTIZED}) -> tensor<2x3xf32>
      %3 = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> {PER_AXIS}
      %4 = stablehlo.uniform_dequantize %3 : ({PER_AXIS}) -> tensor<2x3xf32>
      return %2, %4 : tensor<2x3xf32>, tensor<2x3xf32> }}""",
}

SINCE_1_0 = {"composite", "quantized"}
"""Programs that older versions cannot say."""
CASES = [(p, v) for p in PROGRAMS for v in OLD if not (p in SINCE_1_0 and v.startswith("0."))]
VECTOR = "!vhlo.tensor_v1<2x!vhlo.f32_v1>"


def vhlo(operation: str) -> str:
    """A module of one operation on a vector, in VHLO."""
    return f"""module {{
      vhlo.func_v1 @main(%x: {VECTOR}) -> ({VECTOR}) {{
        %0 = "vhlo.{operation} : ({VECTOR}) -> {VECTOR}
        "vhlo.return_v1"(%0) : ({VECTOR}) -> ()
      }} {{arg_attrs = #vhlo.array_v1<[]>, res_attrs = #vhlo.array_v1<[]>, sym_visibility = #vhlo.string_v1<"">}}
    }}"""


def artifact(text: str, version: str) -> bytes:
    from jaxlib.mlir.dialects import stablehlo

    return bytes(stablehlo.serialize_portable_artifact(parse_text(text, "module"), version))


def printed(folder: Path, content: bytes) -> str:
    path = folder / "model"
    path.write_bytes(content)
    return print_graph(import_stablehlo(path))


@cache
def newest(text: str) -> bytes:
    return artifact(text, versions()[1])


@pytest.mark.parametrize(("program", "version"), CASES)
def test_an_older_artifact_is_the_newest(tmp_path: Path, program: str, version: str) -> None:
    text = PROGRAMS[program]
    assert printed(tmp_path, artifact(text, version)) == printed(tmp_path, newest(text))


def test_the_module_of_a_jax_export_file_may_be_older_too(tmp_path: Path) -> None:
    text = PROGRAMS["dot_general"]
    assert printed(tmp_path, jax_export(artifact(text, versions()[0]))) == printed(tmp_path, newest(text))


def refusal(folder: Path, text: str) -> ModelError:
    path = folder / "model"
    path.write_text(text)
    with pytest.raises(ModelError) as caught:
        import_stablehlo(path)
    assert "\n" not in caught.value.message
    return caught.value


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (
            'transpose_v1"(%x) <{permutation = #vhlo.string_v1<"x">}>',
            "vhlo.transpose_v1 cannot be brought to version {}",
        ),
        (
            'reverse_v1"(%x) <{dimensions = #vhlo.tensor_v1<dense<7> : tensor<1xi64>>}>',
            "the module cannot be brought to version {} (",
        ),
    ],
)
def test_vhlo_that_is_no_stablehlo_is_refused_with_the_versions(tmp_path: Path, operation: str, said: str) -> None:
    found = refusal(tmp_path, vhlo(operation))
    oldest, newest = versions()
    assert said.format(newest) in found.message and f"this reader takes {oldest} to {newest}" in found.message
    assert found.code == "FX433" and "export the model again" in found.hint


def test_vhlo_text_that_crashes_the_reader_is_refused(tmp_path: Path) -> None:
    found = refusal(tmp_path, vhlo('cosine_v2"(%x) <{result_accuracy = #vhlo.string_v1<"x">}>'))
    assert "jaxlib's reader crashes on the VHLO operations" in found.message and found.code == "FX434"
