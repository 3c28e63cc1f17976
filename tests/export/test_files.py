"""Exported files: external data, names, sizes by name, refusals, and the graphs that the importer makes of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from exported import agree, build, runtime

from fornaxc import api
from fornaxc.errors import ModelError, UnsupportedError, UsageError
from fornaxc.export.onnx import OPSET, export_onnx, save_onnx
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.compose import rebind, require_equal
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Binary, Cast, Concat, If, MatMul, Reshape, Unary
from fornaxc.ir.types import DType, TensorType
from fornaxc.verification.oracle import GraphOracle, OracleRefused

ROW = np.arange(3, dtype=np.float32)


def weighted(columns: int = 600) -> Graph:
    """A product with a weight, and a sum with a literal."""
    w = np.random.default_rng(0).standard_normal((3, columns)).astype(np.float32)

    def make(b: GraphBuilder, x: Value) -> Value:
        y = b.emit(MatMul(), x, b.weight(TensorType(DType.F32, w.shape), lambda: w, "w"))
        return b.emit(Unary("neg"), y)

    return build(make, [ROW[None]], [["n", 3]])


def test_sizes_keep_their_names() -> None:
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.emit(Reshape((3 * (symbol("n") + symbol("m")),)), b.emit(Concat(0), x, y))

    model = export_onnx(build(make, [ROW[None], ROW[None]], [["n", 3], ["m", 3]]))
    (dim,) = model.graph.output[0].type.tensor_type.shape.dim
    assert dim.dim_param == "3*m + 3*n"
    assert [i.type.tensor_type.shape.dim[0].dim_param for i in model.graph.input] == ["n", "m"]
    assert model.opset_import[0].version == OPSET
    onnx.checker.check_model(model)


def test_weights_are_external_and_literals_are_not(tmp_path: Path) -> None:
    graph = weighted()
    model, data = save_onnx(graph, tmp_path / "m.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    assert model.stat().st_size < 1500 < data.stat().st_size == 3 * 600 * 4
    onnx.checker.check_model(str(model))
    agree(graph, [ROW[None]])
    assert save_onnx(build(lambda b, x: b.emit(Unary("neg"), x), [ROW]), tmp_path / "plain.onnx") == [
        tmp_path / "plain.onnx"
    ]


def test_a_weight_used_by_two_regions_is_written_once(tmp_path: Path) -> None:
    array = np.ones((300, 3), np.float32)
    type = TensorType(DType.F32, (300, 3))

    def make(b: GraphBuilder, condition: Value, x: Value) -> Value:
        held = b.weight(type, lambda: array)
        branches = []
        for fn in ("add", "mul"):
            r = GraphBuilder(b)
            branches.append(r.finish([r.emit(Binary(fn), x, held)]))
        return b.emit(If((type,)), condition, regions=tuple(branches))

    graph = build(make, [np.array(True), array])
    assert save_onnx(graph, tmp_path / "m.onnx")[1].stat().st_size == array.nbytes
    agree(graph, [np.array(False), array * 3])


def test_an_export_may_replace_the_model_that_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    graph = weighted()
    wanted = run(graph, [ROW[None]])
    save_onnx(graph, path)
    api.export(path, path)
    from fornaxc.sources import import_source

    again, _ = import_source(path, {}, lambda file: "")
    np.testing.assert_array_equal(run(again, [ROW[None]])[0], wanted[0])
    agree(again, [ROW[None]])


def test_outputs_that_are_inputs_constants_or_twice_the_same() -> None:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (3,)), "x")
    y = b.emit(Unary("neg"), x)
    graph = b.finish([x, y, y, b.literal(ROW), x], ["x", "y", "z", "k", "same"])
    agree(graph, [ROW])


def test_a_broken_assertion_fails_the_run() -> None:
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        found = b.emit(Cast(DType.F32), b.emit(Cast(DType.BOOL), y))
        return b.emit(Binary("add"), x, rebind(b, found, (symbol("n"),)))

    graph = build(make, [ROW, ROW], [["n"], ["m"]])
    free = Graph(graph.inputs, graph.outputs, graph.nodes, graph.constants, graph.output_names)
    assert runtime(free, [ROW, ROW])[0].shape == (3,)
    with pytest.raises(OracleRefused, match=r"onnxruntime.*refused.*; the numpy interpreter refused"):
        GraphOracle(free)({"x0": ROW, "x1": ROW[:2]})
    with pytest.raises(OracleRefused, match="sizes must agree"):
        GraphOracle(graph)({"x0": ROW, "x1": ROW[:2]})


def test_conditions_are_in_the_metadata() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        require_equal(b, symbol("n"), 3, "because")
        return b.emit(Unary("neg"), x)

    model = export_onnx(build(make, [ROW], [["n"]]))
    assert {p.key: p.value for p in model.metadata_props} == {"requires: n == 3": "because"}


def test_types_without_tensors_in_onnxruntime_are_refused_and_interpreted() -> None:
    graph = build(lambda b, x: b.emit(Cast(DType.F32), b.emit(Cast(DType.F4E2M1FN), x)), [ROW])
    with pytest.raises(UnsupportedError, match="no tensors of f4e2m1fn"):
        export_onnx(graph)
    reference = GraphOracle(graph)({"x0": ROW})
    assert reference.oracle == "numpy-interpreter"
    assert "f4e2m1fn" in reference.notes[0]
    np.testing.assert_array_equal(reference.outputs["y0"], ROW)


def test_wrong_weights_and_places_are_told(tmp_path: Path) -> None:
    b = GraphBuilder()
    bad = b.weight(TensorType(DType.F32, (4,)), lambda: ROW, "bad")
    graph = b.finish([b.emit(Unary("neg"), bad)], ["y"])
    with pytest.raises(ModelError, match="'bad' holds"):
        save_onnx(graph, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError) as caught:
        save_onnx(weighted(), tmp_path / "nowhere" / "m.onnx")
    assert caught.value.code == "FX228"


def test_the_verb(tmp_path: Path) -> None:
    save_onnx(weighted(), tmp_path / "m.onnx")
    files = api.export(tmp_path / "m.onnx", tmp_path / "o.onnx", optimized=True, dims={"n": 2}).files
    model = onnx.load(files[0])
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
    command = [
        sys.executable,
        "-m",
        "fornaxc",
        "export",
        str(tmp_path / "m.onnx"),
        "-o",
        str(tmp_path / "p.onnx"),
        "-q",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(tmp_path / "p.onnx"), "")


COUNT, MEGABYTES = 12, 32
SCRIPT = """
import resource, sys
from pathlib import Path
import numpy as np
from fornaxc.export.onnx import save_onnx
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.ops import Binary
from fornaxc.ir.types import DType, TensorType

count, size = int(sys.argv[2]), int(sys.argv[3]) * (1 << 20) // 4
type = TensorType(DType.F32, (size,))
b = GraphBuilder()
y = b.input(type, "x")
for i in range(count):
    y = b.emit(Binary("add"), y, b.weight(type, lambda i=i: np.full(size, i, np.float32)))
graph = b.finish([y], ["y"])
save_onnx(b.finish([b.inputs[0]], ["y"]), Path(sys.argv[1]).with_name("warm.onnx"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
save_onnx(graph, Path(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_one_weight_is_resident_at_a_time(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", SCRIPT, str(tmp_path / "big.onnx"), str(COUNT), str(MEGABYTES)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 2.5 * MEGABYTES * (1 << 20)
    assert (tmp_path / "big.onnx.data").stat().st_size == COUNT * MEGABYTES * (1 << 20)
    import onnxruntime as ort

    session = ort.InferenceSession(str(tmp_path / "big.onnx"), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.zeros(MEGABYTES * (1 << 20) // 4, np.float32)})
    assert (y == sum(range(COUNT))).all()
