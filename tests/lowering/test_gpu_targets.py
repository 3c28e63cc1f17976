"""The kernels for GPUs compile for the architectures of either vendor, without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fornaxc.child import compile_in_child
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.compose import cast
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Graph
from fornaxc.ir.ops import Conv, ConvNhwc, MatMul, PackConv, Pool, Transpose
from fornaxc.ir.serialize import graph_to_json
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.prepack import prepack


def program() -> Graph:
    """Products of four element types, packed, grouped and plain convolutions, and pools; the batch is symbolic."""
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (symbol("n"), 14, 14, 16)), "x")
    square = ((3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    for groups in (1, 16):
        filters = np.ones((16, 16 // groups, 3, 3), np.float32)
        weights = b.weight(TensorType(DType.F32, filters.shape), lambda array=filters: array)
        bias = b.literal(np.zeros(16, np.float32))
        op = ConvNhwc(16, *square, groups=groups, activation="silu", residual=True)
        x = b.emit(op, x, b.emit(PackConv(groups), weights), bias, x)
    x = b.emit(Pool("max", *square, channels_last=True), x)
    outputs = [b.emit(Pool("sum", *square), b.emit(Transpose((0, 3, 1, 2)), x))]
    plain = Conv((1, 1), (1, 1), (1, 1), (1, 1), 1)
    for dtype in (DType.F32, DType.F16, DType.BF16, DType.I32):
        narrow = cast(b, outputs[0], dtype)
        outputs.append(b.emit(MatMul(), narrow, b.emit(Transpose((0, 1, 3, 2)), narrow)))
        if dtype in (DType.F16, DType.BF16):
            kernel = cast(b, b.literal(np.ones((8, 16, 3, 3), np.float32)), dtype)
            outputs.append(b.emit(plain, narrow, kernel))
    return prepack(b.finish(outputs, [f"y{i}" for i in range(len(outputs))]))


@pytest.mark.slow
@pytest.mark.parametrize(("api", "arch"), [("hip", "gfx942"), ("cuda", "sm_90")])
def test_kernels_compile(api: str, arch: str, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(graph_to_json(program())))
    job = {
        "graph": str(tmp_path / "graph.json"),
        "device_kind": "gpu",
        "api": api,
        "arch": arch,
        "cpu": "",
        "optimization": 1,
        "mef": str(tmp_path / "model.mef"),
        "dump": "",
        "stop_after": "",
    }
    result = compile_in_child(job, tmp_path, log=tmp_path / "log", timeout=1200)
    assert result["host_nodes"] == []
    assert (tmp_path / "model.mef").stat().st_size > 10000
