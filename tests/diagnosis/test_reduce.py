"""Reduction of graphs whose device is numpy with a fault, and of models that a command refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mutation_models
import numpy as np
import onnxruntime as ort
import pytest
from numpy_device import Crash, NumpyDevice, Plant

from fornaxc import api
from fornaxc.diagnosis import reduce as reduce_module
from fornaxc.diagnosis.checks import WRONG, Check, compile_check, verify_check
from fornaxc.diagnosis.contents import seeded
from fornaxc.diagnosis.edits import Case, all_values, bypassed, pinned, resized, window
from fornaxc.diagnosis.reduce import Reduced, reduce
from fornaxc.diagnosis.report_text import report_text
from fornaxc.diagnosis.rounds import drive_with
from fornaxc.diagnosis.writing import write_case
from fornaxc.errors import UsageError
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import open_model
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check as check_graph
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Graph, Node, Origin
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Binary, BroadcastTo, Op, Reshape, Softmax, Unary
from fornaxc.ir.types import DType, TensorType

X = np.random.default_rng(3).standard_normal(mutation_models.SHAPE).astype(np.float32)
SECRET = "secret_project"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.onnx"

    def build(net: mutation_models.Net, x: str) -> str:
        return net.op("Cos", net.op("Softmax", net.op("Sin", x), axis=3))

    path.write_bytes(mutation_models.model(SECRET, build, 3, 2).SerializeToString())
    return path


@pytest.fixture(scope="module")
def case(model: Path) -> Case:
    return Case(import_model(open_model(model), {}), (X,))


def reduced(case: Case, plant: Plant, check: Check) -> Reduced:
    return drive_with({"r": reduce([case], check)}, NumpyDevice(plant))["r"]


def wrong_axis(graph: Graph, node: Node) -> Op | None:
    return replace(node.op, axis=node.op.axis - 1) if isinstance(node.op, Softmax) else None


def test_a_wrong_node_ends_alone_small_and_without_names(case: Case, tmp_path: Path) -> None:
    found = reduced(case, wrong_axis, verify_check())
    assert found.signature == WRONG
    assert [n.op.name for n in found.case.graph.nodes] == ["softmax"]
    assert found.nodes_before > 25
    assert found.case.inputs[0].size < 64
    assert (found.own_weights, found.own_inputs) == (False, False)
    files = write_case(found.case, tmp_path / "small.onnx")
    text = report_text(found, "verify", "cpu", files[0], True)
    for content in (*(f.read_bytes() for f in files), text.encode()):
        assert SECRET.encode() not in content
    assert "softmax" in text and "fornaxc verify small.onnx --inputs small.npz" in text


def test_the_file_means_the_case(case: Case, tmp_path: Path) -> None:
    found = reduced(case, wrong_axis, verify_check())
    model, inputs = write_case(found.case, tmp_path / "small.onnx")
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    with np.load(inputs) as arrays:
        (got,) = session.run(None, dict(arrays))
    np.testing.assert_allclose(got, run(found.case.graph, found.case.inputs)[0], rtol=1e-5, atol=1e-6)


def test_a_fault_that_needs_two_nodes_keeps_two(case: Case) -> None:
    def after_sin(graph: Graph, node: Node) -> Op | None:
        makers = {v: n for n in graph.nodes for v in n.outputs}
        source = makers.get(node.inputs[0]) if node.inputs else None
        return wrong_axis(graph, node) if source is not None and source.op == Unary("sin") else None

    found = reduced(case, after_sin, verify_check())
    assert [n.op.name for n in found.case.graph.nodes] == ["unary", "softmax"]


def test_a_crash_of_the_compiler_is_reduced(case: Case) -> None:
    def crash(graph: Graph, node: Node) -> Op | None:
        if isinstance(node.op, Softmax):
            raise Crash(f"cannot select node 0x{id(graph):x}")
        return None

    found = reduced(case, crash, compile_check())
    assert found.nodes == 1
    assert found.signature.startswith("crash in phase compile: the process ended with SIGSEGV")


def test_another_failure_is_not_taken_for_the_same(case: Case) -> None:
    """The whole crashes; the pieces without sin are wrong in another way, and must not be chosen."""

    def plant(graph: Graph, node: Node) -> Op | None:
        names = {n.op.name + getattr(n.op, "fn", "") for n in graph.nodes}
        if {"unarysin", "softmax"} <= names:
            raise Crash("both")
        return wrong_axis(graph, node)

    found = reduced(case, plant, verify_check())
    assert found.signature.startswith("crash")
    assert [n.op.name for n in found.case.graph.nodes] == ["unary", "softmax"]


def test_a_case_that_numpy_cannot_run_is_cut_and_joined(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(graph: Graph, node: Node) -> Op | None:
        if isinstance(node.op, Softmax):
            raise Crash("no kernel")
        return None

    def refuse(case: Case) -> None:
        raise NotImplementedError("no numpy form")

    monkeypatch.setattr(reduce_module, "all_values", refuse)
    found = reduced(case, crash, compile_check())
    assert found.nodes < found.nodes_before / 2
    assert found.case.graph.nodes[-1].op.name == "softmax"


def test_what_is_not_needed_goes_in_large_pieces() -> None:
    b = GraphBuilder()
    x = b.emit(Unary("sin"), b.input(TensorType(DType.F32, (3, 5)), "x"))
    for i in range(48):
        x = b.emit(Reshape((5, 3) if i % 2 == 0 else (3, 5)), b.emit(Unary("tanh"), x))
    graph = b.finish([b.emit(Unary("cos"), x)], ["y"])

    def both(graph: Graph, node: Node) -> Op | None:
        if {"sin", "cos"} <= {n.op.fn for n in graph.nodes if isinstance(n.op, Unary)}:
            raise Crash("both")
        return None

    device = NumpyDevice(both)
    case = Case(graph, (np.ones((3, 5), np.float32),))
    found = drive_with({"r": reduce([case], compile_check())}, device)["r"]
    assert found.nodes == 2
    assert device.programs < 400


def test_a_model_that_passes_is_refused(case: Case) -> None:
    with pytest.raises(UsageError, match="nothing to reduce"):
        reduced(case, lambda graph, node: None, verify_check())


def test_numbers_of_the_model_stay_where_the_failure_needs_them(case: Case) -> None:
    b = GraphBuilder()
    b.origin = Origin("n", "Mul", 1)
    x = b.input(TensorType(DType.F32, (4,)), "x")
    w = b.weight(TensorType(DType.F32, (4,)), lambda: np.full(4, 1234.5, np.float32))
    graph = b.finish([b.emit(Binary("mul"), x, w)], ["y"])

    def only_large(graph: Graph, node: Node) -> Op | None:
        large = any(np.max(c.load()) > 1000 for c in graph.constants.values())
        return Binary("sub") if large and node.op == Binary("mul") else None

    found = reduced(Case(graph, (np.ones(4, np.float32),)), only_large, verify_check())
    assert (found.own_weights, found.own_inputs) == (True, False)
    assert "weights are the original model's" in report_text(found, "verify", "cpu", Path("s.onnx"), True)


def test_a_command_decides(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "small.onnx"
    refuses = "sh -c 'if grep -q Softmax {}; then exit 3; fi'"
    found = api.reduce(model, output, check=refuses, cache_dir=tmp_path / "cache")
    assert (found.reduced.nodes, found.reproduced) == (1, True)
    assert found.reduced.signature == "the command ends with status 3"
    assert [f.name for f in found.files] == ["small.onnx", "small.npz", "small.md"]
    assert all(f.exists() for f in found.files)


# -- edits


def test_a_window_computes_the_same_values(case: Case) -> None:
    from fornaxc.diagnosis.edits import all_values

    values = all_values(case)
    nodes = case.graph.nodes[8:20]
    part = window(case, nodes, values)
    check_graph(part.graph)
    assert len(part.graph.nodes) == 12
    for value, got in zip(part.graph.outputs, run(part.graph, part.inputs), strict=True):
        np.testing.assert_array_equal(got, values[value])


def test_what_constants_alone_decide_stays_constant() -> None:
    """A bias that is reshaped before it is added, as MAX's compile and the passes see it."""
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (1, 3, 2, 2)), "x")
    line = np.array([1, 2, 3], np.float32)
    w = b.weight(TensorType(DType.F32, (3,)), lambda: line)
    shaped = b.emit(BroadcastTo((1, 3, 2, 2)), b.emit(Reshape((1, 3, 1, 1)), w))
    graph = b.finish([b.emit(Binary("add"), b.emit(Unary("exp"), x), shaped)], ["y"])
    case = Case(graph, (np.zeros((1, 3, 2, 2), np.float32),))
    values = all_values(case)
    sum_alone = window(case, graph.nodes[-1:], values)
    check_graph(sum_alone.graph)
    assert len(sum_alone.graph.inputs) == len(sum_alone.graph.constants) == 1
    (found,) = run(sum_alone.graph, sum_alone.inputs)
    np.testing.assert_array_equal(found[0, :, 0, 0], [2, 3, 4])
    reshape = next(n for n in graph.nodes if isinstance(n.op, Reshape))
    broadcast = next(n for n in graph.nodes if isinstance(n.op, BroadcastTo))
    for nodes in ([broadcast], [reshape, broadcast]):  # a program reads something
        assert len(window(case, nodes, values).graph.inputs) == (1 if nodes == [broadcast] else 0)


def test_bypassing_joins_the_operand(case: Case) -> None:
    node = next(n for n in case.graph.nodes if isinstance(n.op, Softmax))
    left = bypassed(case, node)
    assert left is not None
    check_graph(left.graph)
    assert not any(isinstance(n.op, Softmax) for n in left.graph.nodes)


def test_sizes_shrink_everywhere_or_not_at_all(case: Case) -> None:
    smaller = resized(case, 8, 2)
    assert smaller is not None
    check_graph(smaller.graph)
    assert smaller.inputs[0].shape == (2, 4, 2, 2)
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (6,)), "x")
    graph = b.finish([b.emit(Reshape((2, 3)), x)], ["y"])
    assert resized(Case(graph, (np.ones(6, np.float32),)), 6, 4) is None


def test_pinning_replaces_symbols(case: Case) -> None:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (symbol("batch"), 3)), "x")
    graph = b.finish([b.emit(Unary("sin"), x)], ["y"])
    fixed = pinned(Case(graph, (np.ones((5, 3), np.float32),)))
    assert fixed is not None
    assert fixed.graph.inputs[0].type.shape == (5, 3)
    assert fixed.graph.nodes[0].outputs[0].type.shape == (5, 3)


def test_seeds_leave_types_and_literals(case: Case) -> None:
    new = seeded(case, 5)
    check_graph(new.graph)
    changed = [
        v
        for v in case.graph.constants
        if not np.array_equal(case.graph.constants[v].load(), new.graph.constants[v].load())
    ]
    assert changed
    assert all(not case.graph.constants[v].literal for v in changed)
