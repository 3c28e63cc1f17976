"""What lowering refuses, and that it refuses before MAX is imported."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import test_compute
import test_elementwise
import test_shape
import test_small_types

from fornaxc.errors import UnsupportedError
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Graph, Origin
from fornaxc.ir.ops import Attention, Binary, Cast, Cumulative, DynamicRange, If, QuantizedLinear, TopK, Unary
from fornaxc.ir.types import DType, TensorType
from fornaxc.lowering.support import unsupported


def graph_of(*nodes: tuple[str, object]) -> Graph:
    """A chain of one-operand nodes over f32[n, 4]."""
    b = GraphBuilder()
    value = b.input(TensorType(DType.F32, (symbol("n"), 4)), "x")
    for name, op in nodes:
        b.origin = Origin(name, type(op).__name__)
        value = b.emit_all(op, value)[0]
    return b.finish([value], ["y"])


def test_every_unsupported_node_is_named() -> None:
    graph = graph_of(
        ("to", Cast(DType.F8E4M3FN)), ("first", Unary("neg")), ("second", Unary("tanh")), ("back", Cast(DType.F32))
    )
    found = unsupported(graph, "cpu")
    assert [r["node"] for r in found] == ["first", "second"]
    assert "f8e4m3fn" in found[0]["reason"]


def test_lowering_raises_what_support_lists() -> None:
    from fornaxc.lowering.lower import lower_graph

    with pytest.raises(UnsupportedError) as caught:
        lower_graph(graph_of(("to", Cast(DType.F8E5M2)), ("only", Unary("abs"))), device_kind="cpu", name="g")
    assert [d["node"] for d in caught.value.details] == ["only"]
    assert caught.value.exit == 3


def test_limits_of_gpus() -> None:
    running = graph_of(("product", Cumulative("prod", 0)))
    top = graph_of(("top", TopK(symbol("n"), 0)))
    for graph in (running, top):
        assert not unsupported(graph, "cpu")
        assert len(unsupported(graph, "gpu")) == 1


def test_branches_of_different_sizes() -> None:
    b = GraphBuilder()
    condition = b.input(TensorType(DType.BOOL, ()), "c")
    value = b.input(TensorType(DType.F32, (symbol("n"),)), "x")
    region = GraphBuilder(b).finish([value])
    for size, refused in (("n", 0), ("fresh", 1)):
        result = b.emit(If((TensorType(DType.F32, (symbol(size),)),)), condition, regions=(region, region))
        assert len(unsupported(b.finish([result], ["y"]), "cpu")) == refused


def test_hidden_sizes_of_inputs() -> None:
    b = GraphBuilder()
    value = b.input(TensorType(DType.F32, (symbol("n") * 2,)), "x")
    (found,) = unsupported(b.finish([b.emit(Unary("exp"), value)], ["y"]), "cpu")
    assert found["node"] == "x"
    assert "n" in found["reason"]


def test_support_needs_no_max() -> None:
    code = "import sys, fornaxc.lowering.support; sys.exit('max' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize(
    "module", [test_elementwise, test_shape, test_compute, test_small_types], ids=lambda m: m.__name__
)
def test_every_case_lowers(module: object, kind: str) -> None:
    """MAX checks types, devices and dominance as a graph is built: that alone needs no compiler and no GPU."""
    from max.graph import Module

    from fornaxc.lowering.lower import lower_graph

    for name, graph, _ in module.SUITE.cases.values():
        if kind == "gpu" and any(isinstance(node.op, Attention | QuantizedLinear) for node in graph.nodes):
            assert unsupported(graph, kind), name  # operations of the CPU alone: the passes that make them are too
            continue
        try:
            lower_graph(graph, device_kind=kind, name="g", module=Module())
        except Exception as error:
            pytest.fail(f"{name}: {error}")


def test_weights_are_numbered_in_program_order() -> None:
    from fornaxc.lowering.lower import lower_graph

    b = GraphBuilder()
    value = b.input(TensorType(DType.F32, (3,)), "x")
    for k in range(3):
        array = np.full(3, k, np.float32)
        value = b.emit(Binary("add"), value, b.weight(TensorType(DType.F32, (3,)), lambda a=array: a))
    lowered = lower_graph(b.finish([value], ["y"]), device_kind="cpu", name="g", weight_prefix="p")
    assert lowered.weight_names == ["p0", "p1", "p2"]
    assert lowered.custom_extensions == []


def test_a_size_whose_name_nothing_else_reads_is_refused() -> None:
    """MAX 26.7 crashes on it when it compiles."""
    b = GraphBuilder()
    limit = b.input(TensorType(DType.I64, ()), "limit")
    b.origin = Origin("count", "Range")
    bounds = (b.literal(np.array(0)), limit, b.literal(np.array(1)))
    line = b.emit(DynamicRange(b.fresh_dim()), *bounds)
    size = b.dims(line.type.shape)
    found = unsupported(b.finish([size], ["y"]), "cpu")
    assert [r["node"] for r in found] == ["count"] and "MAX crashes" in found[0]["reason"]
    assert unsupported(b.finish([size, line], ["y", "z"]), "cpu") == []
