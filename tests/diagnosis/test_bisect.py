"""Bisection on graphs whose device is numpy with a fault."""

from __future__ import annotations

from dataclasses import replace

import mutation_models
import numpy as np
import pytest
from numpy_device import NumpyDevice, Plant

from fornaxc.diagnosis.allowed import Chosen
from fornaxc.diagnosis.bisect import Found, bisect
from fornaxc.diagnosis.page import bisection_page
from fornaxc.diagnosis.rounds import Search, drive_with
from fornaxc.diagnosis.session import Bisection
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import open_model
from fornaxc.ir.graph import Graph, Node
from fornaxc.ir.ops import Binary, Op, Softmax, Unary

X = np.random.default_rng(3).standard_normal(mutation_models.SHAPE).astype(np.float32)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    build = lambda net, x: net.op("Softmax", net.op("Sin", x), axis=3)  # noqa: E731
    path.write_bytes(mutation_models.model("block", build, 2, 2).SerializeToString())
    return import_model(open_model(path), {})


def search(graph: Graph, plant: Plant, **options: int) -> tuple[Found, NumpyDevice]:
    device = NumpyDevice(plant)
    found = drive_with({"s": bisect(graph, [X], **options)}, device)["s"]
    return found, device


def wrong_axis(graph: Graph, node: Node) -> Op | None:
    return replace(node.op, axis=2) if isinstance(node.op, Softmax) else None


def test_names_the_first_wrong_node_and_its_origin(graph: Graph) -> None:
    found, device = search(graph, wrong_axis)
    assert (found.kind, found.confirmed, device.rounds) == ("node", True, 2)
    assert found.node is not None
    assert (found.node.op, found.node.origin.op) == (Softmax(3), "Softmax")
    assert found.node.origin.node.startswith("block/Softmax")
    failed = [s for s in found.steps if s.own is not None and s.own.failed]
    assert [s.node for s in failed] == [found.node]  # what follows is wrong so far, and right by itself
    assert found.steps[-1].so_far.failed
    assert not any(s.so_far.failed for s in found.steps[: failed[0].index])


def test_a_right_device_diverges_nowhere(graph: Graph) -> None:
    found, _ = search(graph, lambda graph, node: None)
    assert (found.kind, found.node) == ("none", None)
    assert len(found.steps) == sum(len(n.outputs) for n in graph.nodes)


def test_groups_bound_what_a_run_holds(graph: Graph) -> None:
    found, device = search(graph, wrong_axis, group_bytes=5 * X.nbytes)
    assert device.largest <= 5 * X.nbytes
    assert device.programs > 4
    assert found.kind == "node"
    assert len(found.steps) == sum(len(n.outputs) for n in graph.nodes)


def test_a_fault_that_taps_hide_is_found_without_them(graph: Graph) -> None:
    def fused_only(graph: Graph, node: Node) -> Op | None:
        return wrong_axis(graph, node) if len(graph.outputs) == 1 else None

    found, _ = search(graph, fused_only)
    assert (found.kind, found.confirmed) == ("fused", True)
    assert found.node is not None and isinstance(found.node.op, Softmax)


def test_errors_that_only_add_up_blame_no_node_as_wrong(graph: Graph) -> None:
    def drifting(graph: Graph, node: Node) -> Op | None:
        return Unary("sin") if isinstance(node.op, Unary) and node.op.fn == "tanh" else None

    def run_all() -> Search[Found]:
        return (yield from bisect(graph, [X], chosen=Chosen(rtol=1e-9, atol=0.3)))

    found = drive_with({"s": run_all()}, NumpyDevice(drifting))["s"]
    assert found.kind in ("accumulated", "node")
    if found.kind == "accumulated":
        assert not any(s.own is not None and s.own.failed for s in found.steps)


def test_a_program_that_does_not_run_is_told(graph: Graph) -> None:
    from numpy_device import Crash

    def crash(graph: Graph, node: Node) -> Op | None:
        raise Crash("boom")

    found, _ = search(graph, crash)
    assert found.kind == "failed"
    assert "SIGSEGV" in found.notes[0]


def test_searches_share_rounds(graph: Graph) -> None:
    device = NumpyDevice(wrong_axis)
    found = drive_with({"a": bisect(graph, [X]), "b": bisect(graph, [X * 2])}, device)
    assert [f.kind for f in found.values()] == ["node", "node"]
    assert device.rounds == 2


def test_page_holds_every_value_and_nothing_from_outside(graph: Graph) -> None:
    def minus(graph: Graph, node: Node) -> Op | None:
        return Binary("sub") if node.origin.node.startswith("after") and node.op == Binary("add") else None

    found, _ = search(graph, minus)
    text = bisection_page(Bisection("device", "static <&>", "cpu", found), "m.onnx")
    assert text.count("<tr") == len(found.steps) + 1
    assert text.count("<circle") == sum(s.own is not None for s in found.steps)
    assert "static &lt;&amp;&gt;" in text
    assert found.node is not None and found.node.origin.node in text
    for outside in ("http", "src=", "@import", "<script"):
        assert outside not in text
