"""Where an export need not be exact, operations are the operators that the importer reads as them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from fornaxc.export.onnx import export_onnx
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Op, Pad, Pool, Unary
from fornaxc.ir.types import DType, TensorType

X = np.random.default_rng(0).standard_normal((2, 3, 5, 6)).astype(np.float32)
OPS = [
    Pool("max", (2, 3), (1, 2), (1, 0), (0, 2), (2, 1)),
    Pool("sum", (2, 3), (1, 2), (1, 0), (0, 2), (1, 1)),
    *(Pad((0, 0, 1, 2), (0, 1, 0, 3), mode) for mode in ("reflect", "edge", "wrap")),
    *(Unary(fn) for fn in ("relu", "gelu", "gelu_tanh")),
]


@pytest.mark.parametrize("op", OPS, ids=str)
def test_the_importer_reads_the_same_operation(op: Op, tmp_path: Path) -> None:
    b = GraphBuilder()
    graph = b.finish([b.emit(op, b.input(TensorType(DType.F32, X.shape), "x"))], ["y"])
    path = tmp_path / "m.onnx"
    onnx.save(export_onnx(graph, exact=False), path)
    found = import_onnx(path)
    assert op in [n.op for n in found.nodes]
    np.testing.assert_allclose(run(found, [X])[0], run(graph, [X])[0], rtol=1e-5, atol=1e-6)


def test_a_reflection_of_more_than_there_is_stays_a_gather(tmp_path: Path) -> None:
    b = GraphBuilder()
    op = Pad((0, 0, 0, 0), (0, 0, 0, 7), "reflect")
    graph = b.finish([b.emit(op, b.input(TensorType(DType.F32, X.shape), "x"))], ["y"])
    onnx.save(export_onnx(graph, exact=False), tmp_path / "m.onnx")
    np.testing.assert_array_equal(run(import_onnx(tmp_path / "m.onnx"), [X])[0], run(graph, [X])[0])
