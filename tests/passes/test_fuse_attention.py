"""Attention as models compose it becomes one operation with the same numbers; what is none of it stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, symbol
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Attention, BroadcastTo, MatMul, Reshape, Softmax, Transpose
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.pipeline import optimize

B, H, M, S, C, N = 2, 6, 5, 7, 4, 3
Build = Callable[[GraphBuilder, dict[str, Value]], Value]


def net(build: Build, dtype: DType = DType.F32, symbolic: bool = False, **shapes: tuple[int, ...]) -> Graph:
    """A graph with an input for each of q, k, v (and others given); the batch is symbolic where asked for."""
    sizes = {"q": (B, H, M, C), "k": (B, H, S, C), "v": (B, H, S, N), **shapes}
    b = GraphBuilder()
    given = {}
    for name, shape in sizes.items():
        kind = DType.BOOL if name == "seen" else dtype
        dims = (symbol("batch"), *shape[1:]) if symbolic and shape[0] == B else shape
        given[name] = b.input(TensorType(kind, dims), name)
    return b.finish([build(b, given)], ["y"])


def attend(
    b: GraphBuilder, q: Value, kt: Value, v: Value, mask: Callable[[Value], Value] = lambda s: s, spare: bool = False
) -> Value:
    weights = b.emit(Softmax(q.type.rank - 1), mask(b.emit(MatMul(), q, kt)))
    if spare:
        weights = compose.select(b, compose.unary(b, "is_nan", weights), compose.scalar(b, 0, DType.F32), weights)
    return b.emit(MatMul(), weights, v)


def turned(b: GraphBuilder, k: Value) -> Value:
    return compose.move_axis(b, k, k.type.rank - 1, k.type.rank - 2)


def inputs(graph: Graph) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    found = []
    for value in graph.inputs:
        shape = [d if isinstance(d, int) else B for d in value.type.shape]
        x = rng.standard_normal(shape)
        found.append(x > -0.5 if value.type.dtype is DType.BOOL else x.astype(value.type.dtype.numpy))
    return found


def attentions(graph: Graph) -> list[Attention]:
    return [n.op for n in graph.walk() if isinstance(n.op, Attention)]


def fused(graph: Graph, *others: list[np.ndarray[Any, Any]]) -> Attention:
    """The one attention of the optimised graph, which gives the same numbers."""
    better = optimize(graph, "cpu")
    for given in (inputs(graph), *others):
        for wanted, got in zip(run(graph, given), run(better, given), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    assert not any(isinstance(n.op, Softmax) for n in better.walk())
    (op,) = attentions(better)
    return op


def plain(b: GraphBuilder, x: dict[str, Value]) -> Value:
    return attend(b, x["q"], turned(b, x["k"]), x["v"])


def test_plain() -> None:
    assert fused(net(plain)) == Attention()
    assert fused(net(plain, symbolic=True)) == Attention()


def test_keys_that_come_turned() -> None:
    assert fused(net(lambda b, x: attend(b, x["q"], x["k"], x["v"]), k=(B, H, C, S))) == Attention(k="bhcl")


def test_one_batch_of_heads() -> None:
    def build(b: GraphBuilder, x: dict[str, Value]) -> Value:
        return attend(b, x["q"], turned(b, x["k"]), x["v"], lambda s: compose.binary(b, "add", s, x["mask"]))

    fused(net(build, q=(H, M, C), k=(H, S, C), v=(H, S, N), mask=(1, M, S)))


@pytest.mark.parametrize("fn", ["mul", "div"])
@pytest.mark.parametrize("weight", [False, True])
def test_scale_of_the_scores(fn: str, weight: bool) -> None:
    def build(b: GraphBuilder, x: dict[str, Value]) -> Value:
        number = np.array(0.37, np.float32)
        scale = b.weight(TensorType(DType.F32, ()), lambda: number) if weight else b.literal(number)
        return attend(b, x["q"], turned(b, x["k"]), x["v"], lambda s: compose.binary(b, fn, s, scale))

    fused(net(build))


def test_scale_of_the_queries_stays_before_their_product() -> None:
    """Without it the product may overflow."""

    def build(b: GraphBuilder, x: dict[str, Value]) -> Value:
        return attend(b, compose.with_scalar(b, "mul", x["q"], 1e-30), turned(b, x["k"]), x["v"])

    graph = net(build)
    large = inputs(graph)
    large[0], large[1] = large[0] * np.float32(1e30), large[1] * np.float32(1e20)
    fused(graph, large)


@pytest.mark.parametrize("shape", [(B, 1, 1, S), (1, H, M, 1), (1, 1, M, S), (B, H, M, S), (1, 1, 1, 1)])
@pytest.mark.parametrize("first", [False, True])
def test_mask_that_is_added(shape: tuple[int, ...], first: bool) -> None:
    def build(b: GraphBuilder, x: dict[str, Value]) -> Value:
        def masked(s: Value) -> Value:
            scaled = compose.with_scalar(b, "mul", s, 0.5)
            return compose.binary(b, "add", *((x["mask"], scaled) if first else (scaled, x["mask"])))

        return attend(b, x["q"], turned(b, x["k"]), x["v"], masked)

    graph = net(build, mask=shape)
    barred = inputs(graph)
    barred[3] = np.where(barred[3] > 0, np.float32(-np.inf), barred[3])
    fused(graph, barred)


@pytest.mark.parametrize("spare", [False, True])
@pytest.mark.parametrize("number", [-1e9, -np.inf])
def test_mask_that_chooses(number: float, spare: bool) -> None:
    def build(b: GraphBuilder, x: dict[str, Value]) -> Value:
        def masked(s: Value) -> Value:
            return compose.select(b, x["seen"], s, compose.scalar(b, number, DType.F32))

        return attend(b, x["q"], turned(b, x["k"]), x["v"], masked, spare)

    graph = net(build, seen=(B, 1, M, S))
    nothing = inputs(graph)
    nothing[3][1, :, 2] = False
    nothing[1][0, 0, 0, 0] = np.nan
    assert fused(graph, nothing) == Attention(spare=spare)


def test_heads_inside_the_sequence_need_no_transposes() -> None:
    def build(b: GraphBuilder, x: dict[str, Value]) -> Value:
        q, k, v = (compose.transpose(b, x[n], (0, 2, 1, 3)) for n in "qkv")
        return compose.transpose(b, attend(b, q, turned(b, k), v), (0, 2, 1, 3))

    graph = net(build, symbolic=True, q=(B, M, H, C), k=(B, S, H, C), v=(B, S, H, N))
    assert fused(graph) == Attention("blhc", "blhc", "blhc", "blhc")
    assert len(optimize(graph, "cpu").nodes) == 1


@pytest.mark.parametrize("scaled", [False, True])
def test_shared_heads_are_not_copied(scaled: bool) -> None:
    def spread(b: GraphBuilder, x: Value) -> Value:
        batch, heads, length, size = x.type.shape
        wide = b.emit(BroadcastTo((batch, heads, 3, length, size)), compose.unsqueeze(b, x, (2,)))
        return compose.reshape(b, wide, (batch, H, length, size))

    def build(b: GraphBuilder, x: dict[str, Value]) -> Value:
        k = spread(b, x["k"])
        k = compose.with_scalar(b, "mul", k, 0.3) if scaled else k
        return attend(b, x["q"], turned(b, k), spread(b, x["v"]))

    graph = net(build, symbolic=True, k=(B, 2, S, C), v=(B, 2, S, N))
    fused(graph)
    assert not any(v.type.shape[1:] == (H, S, C) for n in optimize(graph, "cpu").nodes for v in n.outputs)


def spread(b: GraphBuilder, x: Value, each: Dim) -> Value:
    """Each head `each` times, next to one another."""
    batch, heads, length, size = x.type.shape
    wide = b.emit(BroadcastTo((batch, heads, each, length, size)), compose.unsqueeze(b, x, (2,)))
    return compose.reshape(b, wide, (batch, heads * each, length, size))


def test_keys_and_values_that_share_other_heads() -> None:
    def build(b: GraphBuilder, x: dict[str, Value]) -> Value:
        return attend(b, x["q"], turned(b, spread(b, x["k"], 3)), spread(b, x["v"], 2))

    fused(net(build, k=(B, 2, S, C), v=(B, 3, S, N)))


def test_heads_that_are_shared_by_a_number_that_the_run_time_knows() -> None:
    b, each = GraphBuilder(), symbol("each")
    shapes = (B, 2 * each, M, C), (B, 2, S, C), (B, 2, S, N), (each,)
    q, k, v, _ = (b.input(TensorType(DType.F32, s), f"x{i}") for i, s in enumerate(shapes))
    graph = b.finish([attend(b, q, turned(b, spread(b, k, each)), spread(b, v, each))], ["y"])
    given = [np.ones((B, H, M, C)), np.ones((B, 2, S, C)), np.ones((B, 2, S, N)), np.ones(3)]
    arrays = [(a * np.arange(a.size).reshape(a.shape) / 99).astype(np.float32) for a in given]
    np.testing.assert_allclose(run(optimize(graph, "cpu"), arrays)[0], run(graph, arrays)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("heads", [(), (H,)])
def test_a_batch_that_the_mask_names_otherwise(heads: tuple[int, ...]) -> None:
    b, (one, other) = GraphBuilder(), (symbol("one"), symbol("other"))
    shapes = (one, *heads, M, C), (one, *heads, S, C), (other, *heads, S, N), (other, *(1 for _ in heads), M, S)
    q, k, v, mask = (b.input(TensorType(DType.F32, s), f"x{i}") for i, s in enumerate(shapes))
    graph = b.finish([attend(b, q, turned(b, k), v, lambda s: compose.binary(b, "add", mask, s))], ["y"])
    fused(graph)


def test_shared_heads_inside_the_sequence_behind_several_reshapes() -> None:
    """As PyTorch's exporter writes grouped heads: batch and heads are one axis for a while."""

    def spread(b: GraphBuilder, x: Value) -> Value:
        batch, length, heads, size = x.type.shape
        fewer = compose.transpose(b, x, (0, 2, 1, 3))
        wide = b.emit(BroadcastTo((batch, heads, 3, length, size)), compose.unsqueeze(b, fewer, (2,)))
        merged = b.emit(Reshape((batch * H, length, size)), wide)
        return b.emit(Reshape((batch, H, length, size)), merged)

    def build(b: GraphBuilder, x: dict[str, Value]) -> Value:
        return attend(b, x["q"], turned(b, spread(b, x["k"])), spread(b, x["v"]))

    graph = net(build, symbolic=True, k=(B, S, 2, C), v=(B, S, 2, N))
    assert fused(graph) == Attention(k="blhc", v="blhc")
    better = optimize(graph, "cpu")
    assert all(v in better.inputs for v in read_from(better))


def test_a_result_that_is_read_in_both_layouts_is_computed_once() -> None:
    def build(b: GraphBuilder, x: dict[str, Value]) -> Value:
        y = plain(b, x)
        inside = compose.unary(b, "abs", compose.transpose(b, y, (0, 2, 1, 3)))
        return compose.binary(
            b, "add", compose.reshape(b, inside, (B * H * M * N,)), compose.reshape(b, y, (B * H * M * N,))
        )

    fused(net(build))


def read_from(graph: Graph) -> list[Value]:
    """The queries, keys and values of the one attention of a graph."""
    (node,) = (n for n in graph.walk() if isinstance(n.op, Attention))
    return list(node.inputs[:3])


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize(("factor", "moves"), [(0.5, True), (1e-30, False), (1.5, False)])
def test_a_factor_of_the_keys_moves_to_the_queries_where_nothing_overflows(
    factor: float, moves: bool, weight: bool
) -> None:
    def build(b: GraphBuilder, x: dict[str, Value]) -> Value:
        number = np.array(factor, np.float32)
        scale = b.weight(TensorType(DType.F32, ()), lambda: number) if weight else b.literal(number)
        return attend(b, x["q"], turned(b, compose.binary(b, "mul", x["k"], scale)), x["v"])

    graph = net(build)
    fused(graph)
    keys = read_from(better := optimize(graph, "cpu"))[1]
    assert (keys in better.inputs) == moves


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
@pytest.mark.parametrize("widened", [False, True])
def test_halves_are_computed_in_f32(dtype: DType, widened: bool) -> None:
    """Also where the softmax alone is in f32, as in the Transformers library."""

    def build(b: GraphBuilder, x: dict[str, Value]) -> Value:
        scores = b.emit(MatMul(), x["q"], turned(b, compose.with_scalar(b, "mul", x["k"], 0.5)))
        scores = compose.binary(b, "add", scores, x["mask"])
        weights = b.emit(Softmax(3), compose.cast(b, scores, DType.F32) if widened else scores)
        return compose.transpose(b, b.emit(MatMul(), compose.cast(b, weights, dtype), x["v"]), (0, 2, 1, 3))

    graph = net(build, dtype, mask=(1, 1, M, S))
    better = optimize(graph, "cpu")
    assert attentions(better) == [Attention(result="blhc")]
    assert not any(isinstance(n.op, Softmax | Transpose) for n in better.walk())
    given = inputs(graph)
    odd = [a.copy() for a in given]
    odd[0][0, 0, 1, 2], odd[1][1, 1, 2, 3], odd[3][0, 0, 1] = np.nan, np.inf, -np.inf
    for arrays in (given, odd):
        (wanted,), (got,) = run(graph, arrays), run(better, arrays)
        assert got.dtype == wanted.dtype
        tolerance = 4e-3 if dtype is DType.F16 else 4e-2
        np.testing.assert_allclose(got.astype(float), wanted.astype(float), rtol=tolerance, atol=tolerance)


def test_what_is_none_of_it() -> None:
    def read_twice(b: GraphBuilder, x: dict[str, Value]) -> Value:
        scores = b.emit(MatMul(), x["q"], turned(b, x["k"]))
        return b.emit(MatMul(), compose.binary(b, "mul", b.emit(Softmax(3), scores), scores), x["v"])

    def other_axis(b: GraphBuilder, x: dict[str, Value]) -> Value:
        return b.emit(MatMul(), b.emit(Softmax(2), b.emit(MatMul(), x["q"], turned(b, x["k"]))), x["v"])

    def logarithm(b: GraphBuilder, x: dict[str, Value]) -> Value:
        return b.emit(MatMul(), b.emit(Softmax(3, True), b.emit(MatMul(), x["q"], turned(b, x["k"]))), x["v"])

    def no_product(b: GraphBuilder, x: dict[str, Value]) -> Value:
        return b.emit(MatMul(), b.emit(Softmax(3), x["scores"]), x["v"])

    graphs = [
        net(read_twice),
        net(other_axis),
        net(logarithm),
        net(no_product, scores=(B, H, M, S)),
        net(plain, DType.F64),
    ]
    for graph in graphs:
        better = optimize(graph, "cpu")
        assert attentions(better) == []
        given = inputs(graph)
        np.testing.assert_allclose(run(better, given)[0], run(graph, given)[0], rtol=1e-3)
    assert attentions(optimize(net(plain), "gpu")) == []
    assert attentions(optimize(net(plain), "cpu", ("fuse-attention",))) == []


def test_all_layouts_mean_the_same() -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal(s).astype(np.float32) for s in [(B, H, M, C), (B, 2, S, C), (B, 2, S, N)])
    scale = np.array(0.5, np.float32)
    (wanted,) = Attention().evaluate(q, k, v, scale)
    perms = {"bhlc": (0, 1, 2, 3), "blhc": (0, 2, 1, 3), "bhcl": (0, 1, 3, 2)}
    for ql, kl, vl, yl in product(("bhlc", "blhc"), perms, ("bhlc", "blhc"), ("bhlc", "blhc")):
        op = replace(Attention(), q=ql, k=kl, v=vl, result=yl)
        arrays = [a.transpose(perms[n]) for a, n in ((q, ql), (k, kl), (v, vl))]
        types = [TensorType(DType.F32, a.shape) for a in (*arrays, scale)]
        (found,) = op.evaluate(*arrays, scale)
        assert op.infer(*types)[0].shape == found.shape
        np.testing.assert_allclose(found.transpose(perms[yl]), wanted, rtol=1e-6)
