"""The planted faults that need nothing of MAX, on the numpy interpreter: `verify` must see them, bisection and reduction must find them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mutation_verdict import X, read_back, verdict_on
from mutations import LARGE, MUTATIONS, model_with
from numpy_device import NumpyDevice

from fornaxc.diagnosis.bisect import bisect
from fornaxc.diagnosis.checks import WRONG, verify_check
from fornaxc.diagnosis.edits import Case
from fornaxc.diagnosis.reduce import reduce
from fornaxc.diagnosis.rounds import drive_with
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.graph import Graph, Node
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Op
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack


def faulty_node(graph: Graph, node: Node) -> Op | None:
    """The operation that the fault of a node's block makes of it."""
    found = MUTATIONS.get(node.origin.node.split("/")[0])
    if found is None or not isinstance(node.op, found.op):
        return None
    changed = found.mutate(None, node.op, node.inputs, lambda c, op, *operands: op)
    assert isinstance(changed, Op)
    return changed


def program_of(name: str, folder: Path) -> tuple[Path, Graph, Graph]:
    """The model of a fault, its graph and what is lowered of it."""
    path = folder / f"{name}.onnx"
    path.write_bytes(model_with(name).SerializeToString())
    graph = import_onnx(path)
    return path, graph, prepack(optimize(graph, "cpu"))


def outputs_of(program: Graph) -> Any:
    nodes = tuple(replace(n, op=faulty_node(program, n) or n.op) for n in program.nodes)
    return run(replace(program, nodes=nodes), [X])


SOME = (
    "softmax_axis", "cumsum_exclusive", "gather_elements_axis", "layer_norm_epsilon", "rms_norm_epsilon", "conv_window_shift",
    "conv_activation", "max_pool_window", "pad_sides", "slice_start", "min_for_max", "greater_for_equal", "arg_max_minimum",
    "scatter_reduction", "top_k_smallest",
)  # fmt: skip


@pytest.mark.parametrize("name", SOME)
def test_verify_catches_it(name: str, tmp_path: Path) -> None:
    path, graph, program = program_of(name, tmp_path)
    assert (850 if name in LARGE else 100) <= len(graph.nodes) <= 1000
    assert verdict_on(path, graph, outputs_of(program)) == "fail"


@pytest.mark.parametrize("name", ["no_fault", *LARGE])
def test_verify_raises_no_false_alarm(name: str, tmp_path: Path) -> None:
    path, graph, program = program_of(name, tmp_path)
    assert verdict_on(path, graph, run(program, [X])) == "pass"


@pytest.mark.parametrize("name", LARGE)
def test_it_is_found_among_nine_hundred_nodes(name: str, tmp_path: Path) -> None:
    _, graph, program = program_of(name, tmp_path)
    found = drive_with({"b": bisect(program, [X])}, NumpyDevice(faulty_node))["b"]
    assert (found.kind, found.confirmed) == ("node", True)
    assert found.node is not None and found.node.origin.node.split("/")[0] == name
    reduced = drive_with({"r": reduce([Case(graph, (X,))], verify_check())}, NumpyDevice(faulty_node))["r"]
    assert reduced.signature == WRONG and reduced.nodes < 5


@pytest.mark.parametrize("name", ["max_pool_window", "pad_sides", "conv_activation"])
def test_the_file_of_a_reduced_model_fails_as_it_does(name: str, tmp_path: Path) -> None:
    _, graph, _ = program_of(name, tmp_path)
    reduced = drive_with({"r": reduce([Case(graph, (X,))], verify_check())}, NumpyDevice(faulty_node))["r"]
    again = drive_with({"c": verify_check()([read_back(name, reduced.case, tmp_path)])}, NumpyDevice(faulty_node))["c"]
    assert again == [WRONG]
