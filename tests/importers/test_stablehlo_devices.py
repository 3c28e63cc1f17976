"""Modules for several devices, what is the identity on one, and whose runtime an unknown custom call is for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from fornaxc.errors import UnsupportedError
from fornaxc.importers.stablehlo.importer import import_module
from fornaxc.importers.stablehlo.placement import IDENTITY_CALLS
from fornaxc.importers.stablehlo.reader import module_of, parse_text
from fornaxc.ir.interpreter import run

X = np.array([1, 2], np.float32)
T = "tensor<2xf32>"


def result(line: str, replicas: int = 1, partitions: int = 1, type: str = T) -> list[float]:
    text = (
        f"module attributes {{mhlo.num_replicas = {replicas} : i32, mhlo.num_partitions = {partitions} : i32}} {{\n"
        f'sdy.mesh @mesh = <["d"=1]>\nfunc.func @main(%a: {T}) -> {type} {{\n%r = {line}\nreturn %r : {type} }} }}'
    )
    (found,) = run(import_module(module_of(parse_text(text, "module"), Path("module")), {}), [X])
    return found.tolist()


def reason(line: str, replicas: int = 1, partitions: int = 1, type: str = T) -> str:
    with pytest.raises(UnsupportedError) as caught:
        result(line, replicas, partitions, type)
    return str(caught.value.details[0]["reason"])


def all_reduce(groups: str, more: str = "") -> str:
    return (
        f'"stablehlo.all_reduce"(%a) <{{replica_groups = dense<{groups}>{more}}}> ({{\n'
        "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n%s = stablehlo.add %x, %y : tensor<f32>\n"
        f"stablehlo.return %s : tensor<f32> }}) : ({T}) -> {T}"
    )


CHANNEL = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
EMPTY, ONE, TWO = "> : tensor<0x0xi64", "0> : tensor<1x1xi64", "[[0], [1]]> : tensor<2x1xi64"


@pytest.mark.parametrize(
    ("groups", "more", "replicas", "partitions"),
    [
        (EMPTY, "", 1, 1),
        (EMPTY, "", 1, 4),
        (ONE, "", 1, 1),
        (TWO, "", 1, 1),
        (TWO, "", 2, 1),
        (ONE, CHANNEL, 1, 1),
        (TWO, f"{CHANNEL}, use_global_device_ids", 1, 2),
    ],
)
def test_groups_of_one_device_are_the_identity(groups: str, more: str, replicas: int, partitions: int) -> None:
    assert result(all_reduce(groups, more), replicas, partitions) == [1, 2]


@pytest.mark.parametrize(
    ("groups", "more", "replicas", "partitions"),
    [
        (EMPTY, "", 2, 1),
        (EMPTY, CHANNEL, 1, 4),
        (ONE, CHANNEL, 1, 2),
        ("[[0, 1]]> : tensor<1x2xi64", "", 1, 1),
        ("[[0, 1]]> : tensor<1x2xi64", f"{CHANNEL}, use_global_device_ids", 1, 2),
    ],
)
def test_groups_of_several_devices_are_refused(groups: str, more: str, replicas: int, partitions: int) -> None:
    assert "joins the data of several devices" in reason(all_reduce(groups, more), replicas, partitions)


def test_a_broadcast_with_a_channel_is_among_partitions() -> None:
    line = f'"stablehlo.collective_broadcast"(%a) <{{replica_groups = dense<{EMPTY}>{CHANNEL}}}> : ({T}) -> {T}'
    assert result(line, 2, 1) == [1, 2]
    assert "several devices" in reason(line, 1, 2)


def permute(pairs: str, size: int) -> str:
    return f'"stablehlo.collective_permute"(%a) <{{source_target_pairs = dense<{pairs}> : tensor<{size}x2xi64>}}> : ({T}) -> {T}'


def test_devices_that_send_to_themselves() -> None:
    assert result(permute("[[0, 0]]", 1)) == [1, 2]
    assert result(permute("[[1, 1], [0, 0]]", 2), replicas=2) == [1, 2]
    assert "between devices" in reason(permute("[[0, 0]]", 1), replicas=2)  # the other has zeros
    assert "between devices" in reason(permute("[[0, 1], [1, 0]]", 2), replicas=2)


@pytest.mark.parametrize("name", ["partition_id", "replica_id"])
def test_the_number_of_the_only_device(name: str) -> None:
    assert result(f"stablehlo.{name} : tensor<ui32>", type="tensor<ui32>") == 0
    assert "for several devices" in reason(f"stablehlo.{name} : tensor<ui32>", 2, 2, "tensor<ui32>")


@pytest.mark.parametrize("target", sorted(IDENTITY_CALLS))
def test_where_data_lies_does_not_matter(target: str) -> None:
    assert result(f'stablehlo.custom_call @"{target}"(%a) : ({T}) -> {T}') == [1, 2]


@pytest.mark.parametrize("op", ["sharding_constraint %a", "reshard %a"])
def test_shardings_of_shardy(op: str) -> None:
    assert result(f'sdy.{op} <@mesh, [{{"d"}}]> : {T}') == [1, 2]


@pytest.mark.parametrize("target", ["SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape"])
def test_shards_are_for_several_devices(target: str) -> None:
    line = f'stablehlo.custom_call @"{target}"(%a) : ({T}) -> tensor<1xf32>'
    assert (
        reason(line, 1, 2, "tensor<1xf32>")
        == f"{target} of shards: the module is for several devices; a program here runs on one"
    )


def test_a_computation_on_shards_is_for_several_devices() -> None:
    line = (
        'sdy.manual_computation(%a) in_shardings=[<@mesh, [{"d"}]>] out_shardings=[<@mesh, [{"d"}]>] manual_axes={"d"}'
        f" (%x: {T}) {{\nsdy.return %x : {T} }} : ({T}) -> {T}"
    )
    assert "the module is for several devices" in reason(line)


@pytest.mark.parametrize(
    ("platform", "targets"),
    {
        "NVIDIA GPUs": "cusolver_getrf_ffi cu_threefry2x32_ffi cusparse_gtsv2_ffi __cublas$gemm triton_kernel_call_ffi",
        "AMD GPUs": "hipsolver_syevd_ffi hip_lu_pivots_to_permutation",
        "GPUs": "__gpu$xla.gpu.triton mosaic_gpu_v2",
        "TPUs": "tpu_custom_call Eigh Qr LuDecomposition AggregateToTopK ProductOfElementaryHouseholderReflectors",
        "CPUs, through LAPACK": "lapack_sgees_ffi blas_strsm",
        "a Python process": "xla_python_cpu_callback xla_ffi_partitioned_python_gpu_callback",
        "TensorFlow": "tf.call_tf_function",
        "a runtime that registers it": "custom_relu cumulative curious hipster rocket my_python tpuish QrCode",
    }.items(),
)
def test_a_custom_call_says_whose_runtime_it_is_for(platform: str, targets: str) -> None:
    for target in targets.split():
        told = reason(f'stablehlo.custom_call @"{target}"(%a) : ({T}) -> {T}')
        assert told.startswith(f"the custom call {target!r}, which was written for {platform}")
