"""Every operation, exported, in onnxruntime against the numpy interpreter: many element types, ranks, static and symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from exported import Shape, agree, build

from fornaxc.export.kernels import RUNTIME_TYPES
from fornaxc.export.onnx import export_onnx
from fornaxc.export.registry import exported_ops
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.compose import rebind, with_scalar
from fornaxc.ir.dims import dim_max, dim_min, symbol
from fornaxc.ir.graph import Array, Graph, Value
from fornaxc.ir.ops import (
    ArgReduce,
    Attention,
    Binary,
    Bitcast,
    BroadcastTo,
    Cast,
    Compare,
    Concat,
    Conv,
    ConvNhwc,
    Cumulative,
    Dims,
    DynamicBroadcast,
    DynamicRange,
    DynamicReshape,
    DynamicSlice,
    FromPool,
    Gather,
    GatherElements,
    GatherNd,
    Gru,
    If,
    Im2col,
    Iota,
    LayerNorm,
    LocalResponseNorm,
    Lstm,
    MatMul,
    NonZero,
    PackConv,
    PackedRecurrence,
    Pad,
    Pool,
    QuantizedLinear,
    Reduce,
    Repeat,
    Reshape,
    RmsNorm,
    Rnn,
    ScatterElements,
    ScatterNd,
    Select,
    Slice,
    Softmax,
    StridedSlice,
    TopK,
    Transpose,
    Unary,
    While,
    by_name,
)
from fornaxc.ir.ops.elementwise import BINARY, FLOAT_UNARY, NUMBER_UNARY, PREDICATES, integer_range
from fornaxc.ir.ops.packed import packed_size
from fornaxc.ir.ops.quantized import packed_shape
from fornaxc.ir.types import DType, TensorType

RNG = np.random.default_rng(11)
QUICK = {DType.F32, DType.BF16, DType.I64}  # the others are marked slow
TYPES = sorted(RUNTIME_TYPES - {DType.F8E8M0FNU}, key=lambda d: d.value)
N = symbol("n")


@dataclass
class Case:
    """A graph to export, and inputs for it."""

    make: Callable[..., Any]
    inputs: Sequence[Array]
    shapes: Sequence[Shape | None] = ()
    tolerance: float = 0.0


CASES: dict[str, Case] = {}
SLOW: set[str] = set()


def add(
    name: str,
    make: Callable[..., Any],
    *inputs: Array,
    shapes: Sequence[Shape | None] = (),
    tolerance: float = 0.0,
    dtype: DType | None = None,
) -> None:
    label = name if dtype is None else f"{name}-{dtype}"
    assert label not in CASES, label
    CASES[label] = Case(make, inputs, shapes, tolerance)
    if dtype is not None and dtype not in QUICK:
        SLOW.add(label)


def sample(dtype: DType, *shape: int) -> Array:
    if dtype is DType.BOOL:
        return RNG.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        low, high = integer_range(dtype)
        return RNG.integers(max(low, -50), min(high, 100), shape, endpoint=True).astype(dtype.numpy)
    return (RNG.standard_normal(shape) * 2).astype(np.float32).astype(dtype.numpy)


def one(op: Any) -> Callable[..., Any]:
    """Builds the operation on its inputs."""
    return lambda b, *v: b.emit_all(op, *v)


def add_elementwise(d: DType) -> None:
    x, y = sample(d, 3, 4), sample(d, 3, 4)
    if d.is_float:
        positive = (np.abs(x.astype(np.float32)) + 1).astype(d.numpy)
        inside = (np.tanh(x.astype(np.float32)) * 0.9).astype(d.numpy)
        for fn in (*FLOAT_UNARY, *PREDICATES):
            domain = positive if fn in ("log", "sqrt", "rsqrt", "acosh") else inside if fn in ("atanh", "log1p") else x
            add(fn, one(Unary(fn)), domain, dtype=d)
    if d is not DType.BOOL:
        for fn in NUMBER_UNARY:
            add(fn, one(Unary(fn)), x, dtype=d)
    if not d.is_float and d.bits >= 8:
        add("not", one(Unary("not")), x, dtype=d)
    nonzero = np.where(y == 0, np.ones((), y.dtype), y)
    counts = RNG.integers(0, 2, (3, 4)).astype(d.numpy)
    for fn in BINARY:
        if (fn in ("and", "or", "xor") and d.is_float) or (fn in ("shl", "shr") and not d.is_integer):
            continue
        if (fn == "atan2" and not d.is_float) or (fn not in ("and", "or", "xor") and d is DType.BOOL):
            continue
        right = nonzero if fn in ("div", "mod", "rem") else counts if fn in ("shl", "shr", "pow") else y
        add(fn, one(Binary(fn)), x, right, dtype=d)
    for fn in ("eq", "ne", "lt", "le", "gt", "ge"):
        add(fn, one(Compare(fn)), x, y, dtype=d)
    add("select", one(Select()), sample(DType.BOOL, 3, 4), x, y, dtype=d)
    for target in TYPES:
        if d.bits >= 8 or target.bits >= 8 or target is d:  # numpy has no casts between types below a byte
            add(f"cast_{target}", one(Cast(target)), x, dtype=d)
        small = {(t.bits < 16 and t.is_float) or t.bits < 8 for t in (d, target)}
        if target.bits == d.bits and (small == {False} or target is d):
            add(f"bitcast_{target}", one(Bitcast(target)), x, dtype=d)


def add_movement(d: DType) -> None:
    x = sample(d, 4, 3, 5)
    add("transpose", one(Transpose((2, 0, 1))), x, dtype=d)
    add("reshape", one(Reshape((6, 10))), x, dtype=d)
    add("broadcast_to", one(BroadcastTo((4, 3, 5))), x[:, :1], dtype=d)
    add("repeat", one(Repeat((2, 1, 3))), x, dtype=d)
    add("concat", one(Concat(2)), x, x, x, dtype=d)
    add("slice", one(Slice((1, 2, 0), (2, 3, 2), (1, -1, 3))), x, dtype=d)
    add("dynamic_slice", one(DynamicSlice((2, 3, 1))), x, np.array([9, -2, 1]), dtype=d)
    add("gather", one(Gather(1)), x, np.array([[2, 0], [1, 1]]), dtype=d)
    add("gather_elements", one(GatherElements(0)), x, RNG.integers(0, 4, (2, 3, 5)), dtype=d)
    add("gather_nd", one(GatherNd()), x, np.array([[0, 1], [3, 2]], np.int32), dtype=d)
    for mode in ("reflect", "edge", "wrap"):
        add(f"pad_{mode}", one(Pad((7, 0, 2), (9, 1, 0), mode)), x, dtype=d)
    fill = sample(d)
    pad = Pad((1, 0, 2), (0, 1, 0), interior=(1, 0, 2))
    add("pad", lambda b, v: b.emit(pad, v, b.literal(fill)), x, dtype=d)
    add("non_zero", one(NonZero(symbol("u"))), x, dtype=d)
    for reduction in ("none", "add", "mul", "min", "max"):
        rows = np.array([[[1, 2, 0, 3, 1]]], np.int32)
        add(f"scatter_{reduction}", one(ScatterElements(0, reduction)), x, rows, sample(d, 1, 1, 5), dtype=d)
        pair = np.array([[1], [3]], np.int32)
        add(f"scatter_nd_{reduction}", one(ScatterNd(reduction)), x, pair, sample(d, 2, 3, 5), dtype=d)
    for largest in (True, False):
        add(f"top_k_{largest}", one(TopK(2, 1, largest)), x, dtype=d)
    for answer in (True, False):
        add(f"if_{answer}", choice, np.array(answer), x, dtype=d)
    add("while", halvings, np.array(3), x, dtype=d)
    if d is not DType.BOOL:
        add("iota", one(Iota((2, 3), 1, d)), dtype=d)


def add_computation(d: DType) -> None:
    x = sample(d, 4, 3, 5)
    for fn in ("sum", "prod", "max", "min", "mean"):
        if (fn == "mean" and not d.is_float) or (fn not in ("max", "min") and d is DType.BOOL):
            continue
        add(f"reduce_{fn}", one(Reduce(fn, (0, 2))), x, dtype=d)
        add(f"reduce_{fn}_nothing", one(Reduce(fn, (0, 2))), x[:0], dtype=d)
    for fn in ("max", "min"):
        for last in (True, False):
            add(f"arg_{fn}_{last}", one(ArgReduce(fn, 1, last)), x, dtype=d)
    if d is DType.BOOL:
        return
    for fn in ("sum", "prod"):
        add(f"cumulative_{fn}", one(Cumulative(fn, 1, exclusive=True, reverse=True)), x, dtype=d)
    add("matmul", one(MatMul()), x, sample(d, 4, 5, 2), dtype=d)
    for fn in ("max", "sum"):
        add(f"pool_{fn}", one(Pool(fn, (2, 2), (1, 2), (1, 0), (0, 1), (1, 1))), sample(d, 2, 3, 4, 5), dtype=d)
    last = Pool("max", (2, 2), (1, 2), (1, 0), (0, 1), (1, 1), channels_last=True)
    add("pool_channels_last", one(last), sample(d, 2, 4, 5, 3), dtype=d)
    if d.bits > 8 or d in (DType.I8, DType.U8):
        conv = Conv((1, 2), (1, 0), (0, 1), (1, 1), 2)
        add("conv", one(conv), sample(d, 2, 4, 4, 5), sample(d, 4, 2, 2, 3), dtype=d)
        add("range", one(DynamicRange(symbol("u"))), *(np.array(k).astype(d.numpy) for k in (0, 5, 2)), dtype=d)
    if d.is_float:
        for log in (False, True):
            add(f"softmax_{log}", one(Softmax(1, log)), x, dtype=d)
        scale, bias = sample(d, 3, 5), sample(d, 3, 5)
        add("layer_norm", one(LayerNorm(1, 1e-5)), x, scale, bias, dtype=d)
        add("rms_norm", one(RmsNorm(1, 1e-5)), x, scale, dtype=d)
    if d is DType.F32:
        add("local_response_norm", one(LocalResponseNorm(1, 2, 0.25, 0.75, 1.5)), x, dtype=d, tolerance=1e-5)


def region(parent: GraphBuilder, make: Callable[..., Sequence[Value]], types: Sequence[TensorType] = ()) -> Graph:
    b = GraphBuilder(parent)
    return b.finish(make(b, *(b.input(t) for t in types)))


def choice(b: GraphBuilder, condition: Value, x: Value) -> Value:
    """A branch that moves elements, and one that is a value from outside."""
    yes = region(b, lambda r: [r.emit(Slice((3, 0, 0), (4, 3, 5), (-1, 1, 1)), x)])
    return b.emit(If((x.type,)), condition, regions=(yes, region(b, lambda r: [x])))


def halvings(b: GraphBuilder, limit: Value, x: Value) -> tuple[Value, ...]:
    """A loop that turns `x` over `limit` times."""
    types = [limit.type, x.type]
    test = region(b, lambda r, i, v: [r.emit(Compare("gt"), i, r.literal(np.array(0)))], types)
    turn = Slice((3, 0, 0), (4, 3, 5), (-1, 1, 1))
    step = region(b, lambda r, i, v: [with_scalar(r, "sub", i, 1), r.emit(turn, v)], types)
    return b.emit_all(While(), limit, x, regions=(test, step))


def add_ranks() -> None:
    for shape in ((), (3,), (0, 3), (2, 3, 4), (2, 1, 3, 2), (2, 1, 2, 1, 3)):
        x = sample(DType.F32, *shape)
        label = f"rank{len(shape)}_{x.size}"
        add(f"add_{label}", one(Binary("add")), x, x)
        add(f"reshape_{label}", one(Reshape((1, *shape, 1))), x)
        add(f"transpose_{label}", one(Transpose(tuple(reversed(range(len(shape)))))), x)
        add(f"reduce_{label}", one(Reduce("max", tuple(range(len(shape))))), x)
        add(f"erf_{label}", one(Unary("erf")), x.astype(np.float64))
        add(f"softplus_{label}", one(Unary("softplus")), x)
        add(f"cast_{label}", one(Cast(DType.I8)), x)
        add(f"slice_{label}", one(Slice((0,) * len(shape), shape, (1,) * len(shape))), x)
        zeros, ones = (0,) * len(shape), (1,) * len(shape)
        pad = Pad(zeros, ones)
        add(f"pad_{label}", lambda b, v, p=pad: b.emit(p, v, b.literal(np.float32(7).reshape(()))), x)
        if shape:
            add(f"pad_edge_{label}", one(Pad(zeros, zeros, "edge")), x)
            add(f"gather_{label}", one(Gather(len(shape) - 1)), x, np.array([1, 0]))
            add(f"top_k_{label}", one(TopK(2, len(shape) - 1)), x)
            add(f"cumulative_{label}", one(Cumulative("sum", len(shape) - 1)), x)
            add(f"iota_{label}", one(Iota(shape, 0, DType.I32)))


def add_symbolic(n: int) -> None:
    x = sample(DType.F32, n, 6)
    rows: list[Shape | None] = [["n", 6]]

    def both(name: str, make: Callable[..., Any], *more: Array, shapes: Sequence[Shape | None] = rows) -> None:
        add(f"{name}_at_{n}", make, x, *more, shapes=shapes)

    both("dims", lambda b, v: b.emit(Dims((N * 2 + 1, 7, N // 2, dim_max(N, 3), dim_min(N - 5, N // 3)))))
    both("reshape_product", one(Reshape((N * 6,))))
    both("reshape_split", one(Reshape((2, N, 3))))
    both("repeat_symbolic", lambda b, v: b.emit(Repeat((3, 2)), v))
    both("expand_symbolic", lambda b, v: b.emit(BroadcastTo((N, 4)), b.emit(Slice((0, 2), (N, 1), (1, 1)), v)))
    both("iota_symbolic", lambda b, v: b.emit(Iota((3, N), 1, DType.F16)))
    for name, start, size, step in (
        ("head", 0, N - 2, 1),
        ("tail", N - 3, 3, 1),
        ("stride", 0, (N + 1) // 2, 2),
        ("flip", N - 1, N, -1),
        ("back", N - 1, N - 1, -1),
        ("none", N - 1, N - N, -1),
    ):
        both(f"slice_{name}", one(Slice((start, 0), (size, 6), (step, 1))))
    for at in (1, 5, -3):
        both(f"dynamic_slice_{at}", one(DynamicSlice((3, 2))), np.array([at, 1]))
    for start, end, step in ((1, -1, 1), (-2, 100, 1), (-1, -100, -1), (5, 0, -2), (3, 2, 1), (0, n, 3)):
        bounds = [np.array(pair) for pair in ((start, 0), (end, 6), (step, 1))]
        both(f"strided_slice_{start}_{end}_{step}", one(StridedSlice((symbol("u"), 6))), *bounds)
    zero = np.float32(0).reshape(())
    both("pad_by_size", lambda b, v: b.emit(Pad((N // 2, 0), (N, 1)), v, b.literal(zero)))
    both("pad_between", lambda b, v: b.emit(Pad((0, 0), (0, 0), interior=(2, 0)), v, b.literal(zero)))
    for mode in ("reflect", "edge", "wrap"):
        both(f"pad_{mode}", one(Pad((2, 0), (3, 1), mode)))
    both(
        "concat_sizes",
        lambda b, v, w: b.emit(Reshape((6, N + symbol("m"))), b.emit(Concat(0), v, w)),
        sample(DType.F32, 2, 6),
        shapes=[["n", 6], ["m", 6]],
    )
    both("dynamic_reshape", one(DynamicReshape((symbol("u"), 3))), np.array([2 * n, 3]))
    both(
        "dynamic_broadcast",
        lambda b, v, s: b.emit(DynamicBroadcast((2, symbol("u"), 6)), b.emit(Reshape((1, N, 6)), v), s),
        np.array([2, n, 1]),
    )
    both("rebind", lambda b, v, w: b.emit(Binary("add"), v, rebind(b, w, (N, 6))), x, shapes=[["n", 6], ["m", 6]])
    both("of_found", lambda b, v: b.emit(Reshape((symbol("u") * 2,)), b.emit(NonZero(symbol("u")), v)))
    both("top_k_symbolic", one(TopK(N - 2, 0)))
    both("matmul_symbolic", one(MatMul()), sample(DType.F32, 6, n), shapes=[["n", 6], [6, "n"]])
    both("pool_symbolic", one(Pool("sum", (2, 2), (2, 2), (0, 0), (1, 0), (1, 1))))
    for fn in ("sum", "max", "mean", "prod"):
        both(f"reduce_{fn}_symbolic", one(Reduce(fn, (0,))))
    image = sample(DType.F64, 1, 3, n, 8)
    conv = Conv((2, 1), (1, 1), (1, 1), (1, 2))
    for d in (np.float32, np.float64):
        w = sample(DType.F32, 4, 3, 3, 3).astype(d)
        add(f"conv_{np.dtype(d)}_at_{n}", one(conv), image.astype(d), w, shapes=[[1, 3, "n", 8]], tolerance=1e-4)
    types = [["n", 2, 12], [12, 3], [2, 3], [2, 3]]
    operands = [sample(DType.F32, *(n if s == "n" else s for s in t)) for t in types]
    add(f"lstm_at_{n}", one(Lstm(reverse=True)), *operands, shapes=types, tolerance=1e-4)

    def doubled(b: GraphBuilder, v: Value) -> tuple[Value, ...]:
        """A loop over rows of which the number is not known."""
        i64 = TensorType(DType.I64, ())
        test = region(b, lambda r, i, a: [r.emit(Compare("lt"), i, r.literal(np.array(2)))], [i64, v.type])
        step = region(b, lambda r, i, a: [with_scalar(r, "add", i, 1), r.emit(Binary("add"), a, a)], [i64, v.type])
        return b.emit_all(While(), b.literal(np.array(0)), v, regions=(test, step))

    both("while_symbolic", doubled)


def add_edges() -> None:
    values = (
        "0 -0 1e-8 -1e-8 1e-3 .1 -.3 .5 -.5 .9 1 -1 1.5 2.5 -2.5 3.7 -5 10 20.5 -30 60 88.5 -80 1e3 1e5 inf -inf nan"
    )
    for d in (np.float32, np.float64, np.float16):
        x = np.array(values.split(), np.float64).astype(d)
        for fn in (*FLOAT_UNARY, *PREDICATES, "neg", "abs", "sign", "relu"):
            add(f"{fn}_edges_{x.dtype}", one(Unary(fn)), x, tolerance=5e-3 if d is np.float16 else 0.0)
        pair = [v.copy() for v in np.meshgrid(x[np.abs(x) != 1e-8], x[np.abs(x) != 1e-8])]
        for fn in ("mod", "rem", "min", "max", "div", "atan2"):
            if d is not np.float16:
                add(f"{fn}_edges_{x.dtype}", one(Binary(fn)), *pair)
        for target in TYPES:
            if not (target.is_float and target.bits <= 8):
                add(f"cast_edges_{x.dtype}_{target}", one(Cast(target)), x)
        spoiled = x.reshape(2, -1)
        for fn in ("sum", "max", "min", "mean"):
            add(f"reduce_{fn}_edges_{x.dtype}", one(Reduce(fn, (1,))), spoiled)
        for largest in (True, False):
            add(f"top_k_edges_{largest}_{x.dtype}", one(TopK(7, 1, largest)), spoiled)
            add(f"arg_edges_{largest}_{x.dtype}", one(ArgReduce("max" if largest else "min", 1)), spoiled)
        for fn in ("max", "sum"):
            add(f"pool_{fn}_edges_{x.dtype}", one(Pool(fn, (2,), (1,), (1,), (1,), (1,))), spoiled)
    for d in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
        info = np.iinfo(d)
        if info.bits == 8:
            for target in sorted((t for t in RUNTIME_TYPES if t.is_float and t.bits == 8), key=str):
                add(f"bitcast_{d}_{target}", one(Bitcast(target)), np.arange(256, dtype=np.uint8).view(d))
        x = np.array([0, 1, 2, 7, 100, info.max, info.max - 1, info.min, info.min + 1], d)
        a, c = (v.copy() for v in np.meshgrid(x, x))
        for fn in ("add", "sub", "mul", "min", "max"):
            add(f"{fn}_edges_{d}", one(Binary(fn)), a, c)
        for fn in ("div", "mod", "rem"):
            add(f"{fn}_edges_{d}", one(Binary(fn)), a[c != 0], c[c != 0])
        count = np.array([0, 1, info.bits - 1, info.bits, info.bits + 3], d)
        for fn in ("shl", "shr"):
            add(f"{fn}_edges_{d}", one(Binary(fn)), *(v.copy() for v in np.meshgrid(x, count)))
        for fn in ("max", "min", "prod", "sum"):
            add(f"reduce_{fn}_edges_{d}", one(Reduce(fn, (0,))), a)
        for largest in (True, False):
            add(f"top_k_edges_{largest}_{d}", one(TopK(4, 0, largest)), a)


def add_recurrences() -> None:
    time, batch, hidden = 4, 3, 5
    lengths = np.array([4, 2, 0])
    for d in (DType.F32, DType.F64):

        def inputs(gates: int, states: int, bias: bool, d: DType = d) -> list[Array]:
            more = [sample(d, gates * hidden)] if bias else []
            return [
                sample(d, time, batch, gates * hidden),
                sample(d, gates * hidden, hidden),
                *more,
                *(sample(d, batch, hidden) for _ in range(states)),
            ]

        p = sample(d, 3 * hidden)
        for name, lstm, more in (
            ("plain", Lstm(), []),
            ("reverse", Lstm(reverse=True), []),
            ("lengths", Lstm(lengths=True), [lengths]),
            ("reverse_lengths", Lstm(lengths=True, reverse=True), [lengths]),
            ("peephole", Lstm(peephole=True, clip=0.5, lengths=True), [lengths, p]),
            ("coupled", Lstm(activations=("sigmoid", "relu", "softplus"), input_forget=True), []),
        ):
            add(f"lstm_{name}_{d}", one(lstm), *inputs(4, 2, False), *more, tolerance=1e-4)
        for before in (True, False):
            for reverse in (True, False):
                gru = Gru(linear_before_reset=before, reverse=reverse, lengths=reverse, clip=0.7)
                extra = [lengths] if reverse else []
                add(f"gru_{before}_{reverse}_{d}", one(gru), *inputs(3, 1, True), *extra, tolerance=1e-4)
        add(f"rnn_{d}", one(Rnn()), *inputs(1, 1, False), tolerance=1e-4)
        relu = Rnn(activation="relu", reverse=True, lengths=True)
        add(f"rnn_relu_{d}", one(relu), *inputs(1, 1, False), lengths, tolerance=1e-4)


def add_packed_recurrences() -> None:
    time, batch, hidden = 4, 3, 5
    for kind, gates, states, activations in (
        ("lstm", 4, 2, ("sigmoid", "tanh", "tanh")),
        ("gru", 3, 1, ("sigmoid", "tanh")),
        ("rnn", 1, 1, ("tanh",)),
    ):
        op = PackedRecurrence(kind, hidden, activations, lengths=True, reverse=True)
        parts = (2 * hidden, hidden) if kind == "gru" else (gates * hidden,)
        size = sum(packed_size(rows, hidden, 1, 1) for rows in parts)
        r = sample(DType.F32, size)
        bias = [sample(DType.F32, 3 * hidden)] if kind == "gru" else []
        x = sample(DType.F32, time, batch, gates * hidden)
        state = [sample(DType.F32, batch, hidden) for _ in range(states)]
        lengths = np.array([4, 2, 0])
        add(f"packed_{kind}", one(op), x, r, *bias, *state, lengths, tolerance=1e-4)

        def constant(
            b: GraphBuilder, x: Value, *v: Value, op: PackedRecurrence = op, r: Array = r
        ) -> tuple[Value, ...]:
            return b.emit_all(op, x, b.weight(TensorType(DType.F32, r.shape), lambda: r), *v)

        add(f"packed_{kind}_weight", constant, x, *bias, *state, lengths, tolerance=1e-4)


def add_quantized() -> None:
    rng = np.random.default_rng(3)
    inner, columns = 10, 18
    w = np.zeros(packed_shape(inner, columns), np.int8)
    w[:] = rng.integers(-128, 128, w.shape)
    for dtype, signed, zeros, relu in (
        (DType.I32, False, True, False),
        (DType.F32, True, False, True),
        (DType.U8, False, True, True),
        (DType.I8, True, False, False),
    ):
        op = QuantizedLinear(columns, dtype, w_zero=zeros, relu=relu)
        x = rng.integers(-128, 128, (5, inner)).astype(np.int8)
        vectors = [np.array([7], np.int32), rng.integers(-999, 999, columns).astype(np.int32)]
        if zeros:
            vectors.append(rng.integers(-9, 9, columns).astype(np.int32))
        if dtype is not DType.I32:
            vectors += [np.abs(sample(DType.F32, columns)) / 1000, sample(DType.F32, columns)]
        if dtype in (DType.U8, DType.I8):
            vectors += [np.array([0.25], np.float32), np.array([3], np.float32)]
        data = x if signed else x.view(np.uint8)
        add(f"quantized_linear_{dtype}", one(op), data, w, *vectors, shapes=[["m", inner]])

    for name, op in {
        "padded": Im2col((3, 2), (2, 1), (1, 0), (2, 1), (1, 1)),
        "dilated": Im2col((2, 3), (1, 2), (0, 2), (0, 2), (3, 2)),
    }.items():
        image = rng.integers(-128, 128, (2, 7, 6, 3)).astype(np.int8)
        add(f"im2col_{name}", one(op), image, np.array(5, np.int8), shapes=[["n", "h", "w", 3], []])


def add_attention() -> None:
    q, k, v = sample(DType.F32, 2, 6, 4, 5), sample(DType.F32, 2, 2, 7, 5), sample(DType.F32, 2, 7, 2, 3)
    scale, fill, spare = sample(DType.F32), sample(DType.F32), sample(DType.F32)
    seen = np.random.default_rng(0).random((2, 1, 4, 7)) > 0.5
    seen[1, 0, 2] = False
    add("attention", one(Attention(v="blhc")), q, k, v, scale, tolerance=1e-4)
    add("attention_mask", one(Attention(v="blhc")), q, k, v, scale, sample(DType.F32, 1, 6, 1, 7), tolerance=1e-4)
    add("attention_choice", one(Attention(v="blhc")), q, k, v, scale, seen, fill, tolerance=1e-4)
    barred = np.float32(-np.inf)
    arranged = [q.transpose(0, 2, 1, 3), k.transpose(0, 1, 3, 2), v]
    op = Attention("blhc", "bhcl", "blhc", "blhc", spare=True)
    add("attention_spare", one(op), *arranged, scale, seen, np.asarray(barred), spare, tolerance=1e-4)


def add_packed() -> None:
    fields = {"filters": 20, "window": (3, 2), "strides": (2, 1), "low": (1, 0), "high": (1, 1), "dilations": (1, 1)}
    for groups, channels in ((1, 4), (2, 4), (20, 20)):
        x, w = sample(DType.F32, 2, 6, 5, channels), sample(DType.F32, 20, channels // groups, 3, 2)
        bias = sample(DType.F32, 20)
        for activation in ("none", "relu", "clip", "silu", "sigmoid", "hardswish"):
            op = ConvNhwc(**fields, groups=groups, activation=activation, least=-0.5, greatest=2.0)

            def packed(b: GraphBuilder, x: Value, w: Value, bias: Value, op: ConvNhwc = op) -> Value:
                return b.emit(op, x, b.emit(PackConv(op.groups), w), bias)

            add(f"conv_nhwc_{groups}_{activation}", packed, x, w, bias, tolerance=1e-4)
        ready = PackConv(groups).evaluate(w)[0]
        plain = ConvNhwc(**fields, groups=groups, residual=True)
        y = sample(DType.F32, 2, 3, 5, 20)
        add(f"conv_nhwc_computed_{groups}", one(plain), x, ready, bias, y, tolerance=1e-4)

        def constant(b: GraphBuilder, x: Value, bias: Value, y: Value, op: ConvNhwc = plain, a: Array = ready) -> Value:
            return b.emit(op, x, b.weight(TensorType(DType.F32, a.shape), lambda: a), bias, y)

        add(f"conv_nhwc_weight_{groups}", constant, x, bias, y, tolerance=1e-4)
        pool = np.concatenate([np.ones(3, np.float32), ready])

        def pooled(b: GraphBuilder, x: Value, bias: Value, y: Value, op: ConvNhwc = plain, a: Array = pool) -> Value:
            whole = b.weight(TensorType(DType.F32, a.shape), lambda: a)
            return b.emit(op, x, b.emit(FromPool(3, (a.size - 3,)), whole), bias, y)

        add(f"conv_nhwc_from_pool_{groups}", pooled, x, bias, y, tolerance=1e-4)
        add(f"pack_conv_{groups}", one(PackConv(groups)), w)
    add("from_pool", one(FromPool(3, (2, 4))), sample(DType.F32, 12))


with np.errstate(all="ignore"):
    for _d in TYPES:
        add_elementwise(_d)
        add_movement(_d)
        add_computation(_d)
    add_ranks()
    add_symbolic(6)
    add_symbolic(9)
    add_edges()
    add_recurrences()
    add_attention()
    add_packed()
    add_packed_recurrences()
    add_quantized()


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in CASES])
def test_agrees_with_the_interpreter(name: str) -> None:
    case = CASES[name]
    agree(build(case.make, case.inputs, case.shapes), case.inputs, case.tolerance)


def test_every_operation_has_a_rule_and_a_case() -> None:
    assert exported_ops() == set(by_name().values())
    tried = {type(node.op) for c in CASES.values() for node in build(c.make, c.inputs, c.shapes).walk()}
    assert tried == set(by_name().values())


def test_models_are_valid() -> None:
    import onnx

    for name in (
        "reshape_split_at_6",
        "while_symbolic_at_6",
        "if_True-f32",
        "lstm_at_6",
        "rebind_at_6",
        "pad_between_at_6",
    ):
        case = CASES[name]
        onnx.checker.check_model(export_onnx(build(case.make, case.inputs, case.shapes)), full_check=False)
