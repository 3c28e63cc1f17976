"""Rules of matrix products, windows, normalisations, recurrences and control flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from suite import Suite

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.compose import cast, compare, scalar, with_scalar
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import (
    Attention,
    Binary,
    Conv,
    ConvNhwc,
    DynamicBroadcast,
    Gather,
    Gru,
    If,
    Iota,
    LayerNorm,
    Lstm,
    MatMul,
    PackConv,
    Pool,
    QuantizedLinear,
    Reduce,
    RmsNorm,
    Rnn,
    Softmax,
    Unary,
    While,
)
from fornaxc.ir.ops.quantized import packed_shape, unpack
from fornaxc.ir.types import DType, TensorType, dtype_of

SUITE = Suite()
BF16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(7)
LOOSE = 2e-4


def normal(*shape: int, dtype: object = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32).astype(dtype)


def weight(b: GraphBuilder, array: np.ndarray) -> Value:
    return b.weight(TensorType(dtype_of(array.dtype), array.shape), lambda: array)


def add_matmul() -> None:
    for dtype in (np.float32, np.float16, BF16, np.float64):
        a, c = normal(5, 7, dtype=dtype), normal(7, 3, dtype=dtype)
        SUITE.add(
            f"matmul_{a.dtype}",
            lambda b, x, y: b.emit(MatMul(), x, y),
            a,
            c,
            tolerance=LOOSE if a.itemsize > 2 else 2e-2,
        )
    for name in ("int8", "uint8", "int32", "uint32", "int64"):
        a = RNG.integers(0, 100, (4, 6)).astype(name)
        SUITE.add(f"matmul_{name}", lambda b, x, y: b.emit(MatMul(), x, y), a, a.T.copy())
    w = normal(6, 4)
    SUITE.add("matmul_weight", lambda b, x: b.emit(MatMul(), x, weight(b, w)), normal(3, 6), tolerance=LOOSE)
    SUITE.add("matmul_stack", lambda b, x: b.emit(MatMul(), x, weight(b, w)), normal(2, 5, 3, 6), tolerance=LOOSE)
    SUITE.add(
        "matmul_batch", lambda b, x, y: b.emit(MatMul(), x, y), normal(2, 3, 4, 5), normal(2, 3, 5, 6), tolerance=LOOSE
    )
    SUITE.add("matmul_empty_sum", lambda b, x, y: b.emit(MatMul(), x, y), normal(3, 0), normal(0, 4))
    SUITE.add("matmul_no_rows", lambda b, x, y: b.emit(MatMul(), x, y), normal(0, 4), normal(4, 4))
    for n in (3, 0, 1):
        SUITE.add(
            f"matmul_symbolic_{n}",
            lambda b, x, y: b.emit(MatMul(), x, y),
            normal(2, n, 4),
            normal(2, 4, 5),
            shapes=[[2, "n", 4], [2, 4, 5]],
            tolerance=LOOSE,
        )
        SUITE.add(
            f"matmul_symbolic_sum_{n}",
            lambda b, x, y: b.emit(MatMul(), x, y),
            normal(3, n),
            normal(n, 4),
            shapes=[[3, "n"], ["n", 4]],
            tolerance=LOOSE,
        )


def add_windows() -> None:
    def conv(
        name: str, x: tuple[int, ...], w: tuple[int, ...], shapes: object = (), literal: bool = False, **kw: object
    ) -> None:
        rank = len(x) - 2
        fields = {"strides": (1,) * rank, "low": (0,) * rank, "high": (0,) * rank, "dilations": (1,) * rank, **kw}
        filters = normal(*w)
        SUITE.add(
            f"conv_{name}",
            lambda b, v: b.emit(Conv(**fields), v, b.literal(filters) if literal else weight(b, filters)),
            normal(*x),
            shapes=shapes,
            tolerance=LOOSE,
        )

    conv("plain", (2, 3, 9, 8), (4, 3, 3, 3), low=(1, 1), high=(1, 1))
    conv("strided", (1, 3, 9, 8), (4, 3, 3, 2), low=(0, 1), high=(2, 0), strides=(2, 3))
    conv("dilated", (1, 4, 11, 9), (6, 4, 3, 3), dilations=(2, 3), low=(2, 3), high=(2, 3))
    conv("grouped", (1, 6, 7, 7), (4, 3, 3, 3), groups=2, low=(1, 1), high=(1, 1))
    conv("depthwise", (1, 6, 7, 7), (6, 1, 3, 3), groups=6, low=(1, 1), high=(1, 1))
    conv("depthwise_wide", (1, 8, 13, 13), (8, 1, 7, 7), groups=8, low=(3, 3), high=(3, 3))
    conv("1x1", (1, 5, 6, 4), (7, 5, 1, 1))
    conv("literal_1x1", (1, 5, 6, 4), (7, 5, 1, 1), literal=True)
    conv("literal_3x3", (1, 5, 6, 4), (2, 5, 3, 3), literal=True)
    conv("1d", (2, 3, 10), (4, 3, 3), low=(1,), high=(1,), strides=(2,))
    conv("1d_grouped", (1, 4, 10), (4, 2, 3), groups=2)
    conv("3d", (1, 2, 5, 6, 4), (3, 2, 3, 2, 2), low=(1, 0, 1), high=(1, 1, 0))
    conv("4d", (1, 2, 3, 4, 3, 3), (2, 2, 2, 2, 2, 2))
    for n in (1, 3):
        conv(f"batch_{n}", (n, 3, 8, 8), (4, 3, 3, 3), low=(1, 1), high=(1, 1), shapes=[["n", 3, 8, 8]])
        conv(f"image_{n}", (1, 3, 6 + n, 8), (4, 3, 3, 3), strides=(2, 2), shapes=[[1, 3, "h", 8]])
    fields = Conv((1, 1), (1, 1), (1, 1), (1, 1))
    for dtype in (np.float16, BF16, np.float64):
        x, w = normal(1, 3, 5, 5, dtype=dtype), normal(2, 3, 3, 3, dtype=dtype)
        SUITE.add(
            f"conv_{x.dtype}", lambda b, v, f: b.emit(fields, v, f), x, w, tolerance=2e-2 if x.itemsize < 4 else 1e-6
        )
    x, w = RNG.integers(-9, 9, (1, 3, 5, 5)).astype(np.int32), RNG.integers(-9, 9, (2, 3, 3, 3)).astype(np.int32)
    SUITE.add("conv_int32", lambda b, v, f: b.emit(fields, v, f), x, w)
    for fn in ("max", "sum"):
        for name, shape, pool in (
            ("2d", (2, 3, 8, 9), Pool(fn, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1))),
            ("uneven", (1, 2, 7, 7), Pool(fn, (2, 3), (1, 2), (0, 1), (1, 0), (1, 2))),
            ("1d", (1, 2, 9), Pool(fn, (3,), (2,), (1,), (2,), (1,))),
            ("large", (2, 1, 24, 61), Pool(fn, (7, 11), (2, 3), (3, 4), (2, 5), (2, 5))),
            ("long", (1, 2, 150), Pool(fn, (100,), (7,), (20,), (20,), (1,))),
            ("3d", (1, 2, 4, 5, 4), Pool(fn, (2, 2, 2), (1, 2, 2), (0, 0, 0), (1, 0, 0), (1, 1, 1))),
        ):
            SUITE.add(f"pool_{fn}_{name}", lambda b, v, p=pool: b.emit(p, v), normal(*shape))
        small = Pool(fn, (2, 2), (2, 2), (0, 0), (0, 0), (1, 1))
        for dtype in (np.float16, np.float64, np.int8, np.uint8, np.int32):
            x = RNG.integers(-4 if np.dtype(dtype).kind != "u" else 0, 9, (1, 2, 4, 6)).astype(dtype)
            SUITE.add(f"pool_{fn}_{x.dtype}", lambda b, v, p=small: b.emit(p, v), x)
        for n in (6, 9):
            SUITE.add(
                f"pool_{fn}_symbolic_{n}",
                lambda b, v, p=small: b.emit(p, v),
                normal(1, 2, n, 6),
                shapes=[[1, 2, "n", 6]],
            )
        large = Pool(fn, (9, 8), (3, 1), (4, 0), (4, 0), (1, 1))
        x = RNG.integers(-9, 9, (2, 1, 12, 20)).astype(np.int32)
        SUITE.add(f"pool_{fn}_large_symbolic", lambda b, v, p=large: b.emit(p, v), x, shapes=[["n", 1, "h", 20]])
        spoiled = normal(1, 1, 4, 4)
        spoiled[0, 0, 0, 0], spoiled[0, 0, 3, 3] = np.nan, -np.inf
        SUITE.add(f"pool_{fn}_nan", lambda b, v, p=small: b.emit(p, v), spoiled)


def add_packed_convolutions() -> None:
    def conv(
        name: str,
        x: tuple[int, ...],
        w: tuple[int, ...],
        shapes: Sequence[Any] = (),
        packed: bool = False,
        **fields: Any,
    ) -> None:
        filters, bias = normal(*w), normal(w[0])
        settings = {"strides": (1, 1), "low": (1, 1), "high": (1, 1), "dilations": (1, 1), "groups": 1, **fields}
        op = ConvNhwc(w[0], w[2:], **settings)

        def build(b: GraphBuilder, v: Value, *residual: Value) -> Value:
            if packed:
                weights = b.weight(*_packed(filters, op.groups))
            else:
                weights = b.emit(PackConv(op.groups), weight(b, filters))
            return b.emit(op, v, weights, weight(b, bias), *residual)

        images = [normal(*x)]
        if op.residual:
            images.append(normal(*x[:3], w[0]))
        SUITE.add(f"conv_nhwc_{name}", build, *images, shapes=shapes, tolerance=LOOSE)

    conv("plain", (2, 9, 7, 20), (40, 20, 3, 3), packed=True)
    conv("computed", (2, 9, 7, 20), (70, 20, 3, 3))
    conv("no_channels", (1, 6, 6, 0), (4, 0, 3, 3), packed=True)
    conv("no_filters", (1, 6, 6, 4), (0, 4, 3, 3), packed=True)
    conv("grouped", (1, 8, 8, 6), (8, 3, 3, 3), groups=2)
    conv("depthwise", (1, 9, 8, 20), (20, 1, 3, 3), groups=20)
    conv("uneven", (1, 9, 8, 5), (17, 5, 2, 3), low=(0, 2), high=(2, 1), strides=(2, 1), dilations=(2, 1))
    for activation in ("relu", "clip", "silu", "sigmoid", "hardswish"):
        conv(activation, (1, 6, 6, 4), (16, 4, 3, 3), activation=activation, least=-0.5, greatest=0.75)
    conv("residual", (1, 6, 6, 4), (16, 4, 3, 3), residual=True, activation="relu")
    for n in (1, 3):
        conv(f"symbolic_{n}", (n, 6 + n, 6, 4), (16, 4, 3, 3), strides=(2, 2), shapes=[["n", "h", 6, 4]])


def _packed(filters: np.ndarray, groups: int) -> tuple[TensorType, Callable[[], np.ndarray]]:
    (array,) = PackConv(groups).evaluate(filters)
    return TensorType(DType.F32, array.shape), lambda: array


def add_norms() -> None:
    x = normal(2, 3, 4)
    for axis in (0, 1, 2):
        for log in (False, True):
            SUITE.add(
                f"softmax_{axis}_{log}", lambda b, v, a=axis, k=log: b.emit(Softmax(a, k), v), x * 20, tolerance=LOOSE
            )
    spoiled = np.array([[1, 2, np.nan], [np.inf, 1, 2], [-np.inf] * 3, [-np.inf, 0, 1], [3e38, 3e38, 0]], np.float32)
    for log in (False, True):
        SUITE.add(f"softmax_nan_{log}", lambda b, v, k=log: b.emit(Softmax(1, k), v), spoiled)
        for dtype in (np.float16, BF16, np.float64):
            y = normal(3, 5, dtype=dtype)
            SUITE.add(
                f"softmax_{y.dtype}_{log}",
                lambda b, v, k=log: b.emit(Softmax(1, k), v),
                y,
                tolerance=2e-2 if y.itemsize < 4 else 1e-6,
            )
    for n in (3, 1):
        SUITE.add(
            f"softmax_symbolic_{n}",
            lambda b, v: b.emit(Softmax(1), v),
            normal(2, n),
            shapes=[["m", "n"]],
            tolerance=LOOSE,
        )
    scale, bias = normal(3, 4), normal(3, 4)
    SUITE.add(
        "layer_norm",
        lambda b, v: b.emit(LayerNorm(2, 1e-5), v, weight(b, scale[0]), weight(b, bias[0])),
        x,
        tolerance=LOOSE,
    )
    SUITE.add(
        "layer_norm_2",
        lambda b, v: b.emit(LayerNorm(1, 1e-5), v, weight(b, scale), weight(b, bias)),
        x,
        tolerance=LOOSE,
    )
    SUITE.add("rms_norm", lambda b, v: b.emit(RmsNorm(1, 1e-5), v, weight(b, scale)), x, tolerance=LOOSE)
    for n in (1, 4):
        SUITE.add(
            f"layer_norm_symbolic_{n}",
            lambda b, v: b.emit(LayerNorm(1, 1e-5), v, weight(b, scale[0]), weight(b, bias[0])),
            normal(n, 4),
            shapes=[["n", 4]],
            tolerance=LOOSE,
        )
    for dtype in (np.float16, BF16, np.float64):
        y, s = normal(3, 4, dtype=dtype), normal(4, dtype=dtype)
        loose = 3e-2 if y.itemsize < 4 else 1e-6
        SUITE.add(f"layer_norm_{y.dtype}", lambda b, v, s: b.emit(LayerNorm(1, 1e-5), v, s, s), y, s, tolerance=loose)
        SUITE.add(f"rms_norm_{y.dtype}", lambda b, v, s: b.emit(RmsNorm(1, 1e-5), v, s), y, s, tolerance=loose)


def add_attention() -> None:
    """What fuse-attention makes, with literals, weights and sizes that are symbolic; a causal mask is made of broadcasts."""
    q, k, v = normal(2, 5, 6, 8), normal(2, 7, 3, 8), normal(2, 7, 3, 4)
    inside = Attention("blhc", "blhc", "blhc", "blhc")
    number = np.array(0.4, np.float32)
    for name, shapes in (("", []), ("_symbolic", [["b", "m", 6, 8], ["b", "s", 3, 8], ["b", "s", 3, 4]])):
        SUITE.add(
            f"attention{name}",
            lambda b, q, k, v: b.emit(inside, q, k, v, weight(b, number)),
            q,
            k,
            v,
            shapes=shapes,
            tolerance=LOOSE,
        )

        def causal(b: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
            queries, keys = q.type.shape[1], k.type.shape[1]
            row = b.emit(Iota((1, 1, queries, keys), 2, DType.I64))
            column = b.emit(Iota((1, 1, queries, keys), 3, DType.I64))
            seen = compare(b, "le", column, row)
            return b.emit(inside, q, k, v, scalar(b, 0.4, DType.F32), seen, scalar(b, -np.inf, DType.F32))

        SUITE.add(f"attention_causal{name}", causal, q, k, v, shapes=shapes, tolerance=LOOSE)
    bias = normal(2, 1, 1, 7)
    SUITE.add(
        "attention_bias",
        lambda b, q, k, v, m: b.emit(inside, q, k, v, scalar(b, 0.4, DType.F32), with_scalar(b, "mul", m, 3)),
        q,
        k,
        v,
        bias,
        tolerance=LOOSE,
    )


def add_recurrences() -> None:
    time, batch, hidden = 4, 3, 5
    lengths = np.array([4, 2, 0])

    def add(name: str, op: object, gates: int, *more: np.ndarray, states: int = 1, shapes: object = ()) -> None:
        x, r = normal(time, batch, gates * hidden), normal(gates * hidden, hidden) * np.float32(0.3)
        initial = [normal(batch, hidden) for _ in range(states)]
        operands = [x, r, *(more[:1] if gates == 3 else []), *initial, *(more[1:] if gates == 3 else more)]
        SUITE.add(name, lambda b, *v: b.emit_all(op, *v), *operands, shapes=shapes, tolerance=LOOSE)

    for name, op, more in (
        ("plain", Lstm(), []),
        ("reverse", Lstm(reverse=True), []),
        ("lengths", Lstm(lengths=True, reverse=True), [lengths]),
        ("peephole", Lstm(peephole=True, clip=0.5), [normal(3 * hidden)]),
        ("coupled", Lstm(activations=("sigmoid", "relu", "tanh"), input_forget=True), []),
    ):
        add(f"lstm_{name}", op, 4, *more, states=2)
    bias = normal(3 * hidden)
    add("gru", Gru(), 3, bias)
    add("gru_linear", Gru(linear_before_reset=True, lengths=True), 3, bias, lengths)
    add("gru_reverse", Gru(reverse=True, clip=0.7), 3, bias)
    add("rnn", Rnn(), 1)
    add("rnn_relu", Rnn(activation="relu", reverse=True, lengths=True), 1, lengths)
    wide = [["t", "k", 4 * hidden], [4 * hidden, hidden], ["k", hidden], ["k", hidden]]
    add("lstm_symbolic", Lstm(), 4, states=2, shapes=wide)


def region(build: object, types: list[TensorType], parent: GraphBuilder) -> object:
    b = GraphBuilder(parent)
    values = [b.input(t) for t in types]
    return b.finish(build(b, *values))


def add_control() -> None:
    f32, i64 = TensorType(DType.F32, (2, 3)), TensorType(DType.I64, ())
    x = normal(2, 3)

    def branch(b: GraphBuilder, condition: Value, v: Value) -> Value:
        held = weight(b, x)
        yes = region(lambda r: [r.emit(Binary("add"), v, held)], [], b)
        no = region(lambda r: [r.emit(Unary("exp"), v)], [], b)
        return b.emit(If((f32,)), condition, regions=(yes, no))

    for answer in (True, False):
        SUITE.add(f"if_{answer}", branch, np.array(answer), x)

    def count(b: GraphBuilder, limit: Value, v: Value, factor: Value) -> tuple[Value, ...]:
        test = region(lambda r, i, a: [compare(r, "lt", i, limit)], [i64, f32], b)
        step = region(lambda r, i, a: [with_scalar(r, "add", i, 1), r.emit(Binary("mul"), a, factor)], [i64, f32], b)
        return b.emit_all(While(), scalar(b, 0, DType.I64), v, regions=(test, step))

    for trips in (0, 3):
        SUITE.add(f"while_{trips}", count, np.array(trips), x, x)

    def nested(b: GraphBuilder, limit: Value, v: Value, factor: Value) -> tuple[Value, ...]:
        def outer_step(r: GraphBuilder, i: Value, a: Value) -> list[Value]:
            test = region(lambda q, j, c: [compare(q, "lt", j, limit)], [i64, f32], r)
            step = region(
                lambda q, j, c: [with_scalar(q, "add", j, 1), q.emit(Binary("add"), c, factor)], [i64, f32], r
            )
            _, inner = r.emit_all(While(), i, a, regions=(test, step))
            return [with_scalar(r, "add", i, 1), inner]

        test = region(lambda r, i, a: [compare(r, "lt", i, limit)], [i64, f32], b)
        return b.emit_all(While(), scalar(b, 0, DType.I64), v, regions=(test, region(outer_step, [i64, f32], b)))

    SUITE.add("while_nested", nested, np.array(3), x, x, tolerance=LOOSE)

    def choice_in_loop(b: GraphBuilder, limit: Value, v: Value) -> tuple[Value, ...]:
        def step(r: GraphBuilder, i: Value, a: Value) -> list[Value]:
            odd = cast(r, with_scalar(r, "mod", i, 2), DType.BOOL)
            yes = region(lambda q: [q.emit(Unary("neg"), a)], [], r)
            no = region(lambda q: [q.emit(Binary("add"), a, v)], [], r)
            return [with_scalar(r, "add", i, 1), r.emit(If((f32,)), odd, regions=(yes, no))]

        test = region(lambda r, i, a: [compare(r, "lt", i, limit)], [i64, f32], b)
        return b.emit_all(While(), scalar(b, 0, DType.I64), v, regions=(test, region(step, [i64, f32], b)))

    SUITE.add("if_in_while", choice_in_loop, np.array(3), x, tolerance=LOOSE)

    def branch_in_branch(b: GraphBuilder, first: Value, second: Value, v: Value) -> Value:
        far, held, one = b.emit(Unary("exp"), v), weight(b, x), b.literal(np.ones((2, 3), np.float32))

        def inner(r: GraphBuilder) -> list[Value]:
            near = r.emit(Unary("neg"), far)
            yes = region(lambda q: [q.emit(Binary("add"), near, one)], [], r)
            no = region(lambda q: [q.emit(Binary("mul"), q.emit(Binary("add"), far, one), held)], [], r)
            return [r.emit(If((f32,)), second, regions=(yes, no))]

        return b.emit(If((f32,)), first, regions=(region(inner, [], b), region(lambda r: [far], [], b)))

    for answers in ((True, True), (True, False), (False, True)):
        SUITE.add(f"if_in_if_{answers[0]}_{answers[1]}", branch_in_branch, *map(np.array, answers), x, tolerance=LOOSE)

    def symbolic_loop(b: GraphBuilder, v: Value) -> tuple[Value, ...]:
        row = TensorType(DType.F32, (symbol("n"), 3))
        test = region(lambda r, i, a: [compare(r, "lt", i, scalar(r, 2, DType.I64))], [i64, row], b)
        step = region(lambda r, i, a: [with_scalar(r, "add", i, 1), r.emit(Unary("tanh"), a)], [i64, row], b)
        return b.emit_all(While(), scalar(b, 0, DType.I64), v, regions=(test, step))

    for n in (2, 5):
        SUITE.add(f"while_symbolic_{n}", symbolic_loop, normal(n, 3), shapes=[["n", 3]])

    def sized_by_a_maximum(b: GraphBuilder, end: Value, start: Value) -> tuple[Value, ...]:
        size = b.emit(Binary("max"), b.emit(Binary("sub"), end, start), b.literal(np.zeros(1, np.int64)))
        blank = b.emit(DynamicBroadcast((symbol("u"),)), b.literal(np.zeros(1, np.float32)), size)
        test = region(lambda r, i, a: [compare(r, "lt", i, scalar(r, 3, DType.I64))], [i64, blank.type], b)
        step = region(lambda r, i, a: [with_scalar(r, "add", i, 1), with_scalar(r, "add", a, 1)], [i64, blank.type], b)
        return b.emit_all(While(), scalar(b, 0, DType.I64), blank, regions=(test, step))

    for end in (7, 1):
        SUITE.add(f"while_sized_by_a_maximum_{end}", sized_by_a_maximum, np.array([end]), np.array([3]))
    SUITE.add(
        "if_gather",
        lambda b, k, v: b.emit(
            If((TensorType(DType.F32, (3,)),)),
            k,
            regions=(
                region(lambda r: [r.emit(Gather(0), v, r.literal(np.array(1)))], [], b),
                region(lambda r: [r.emit(Gather(0), r.emit(Reduce("sum", (0,)), v), r.literal(np.array(0)))], [], b),
            ),
        ),
        np.array(True),
        x,
    )


def add_quantized() -> None:
    inner, columns = 10, 18
    w = RNG.integers(-128, 128, packed_shape(inner, columns)).astype(np.int8)
    zeros = RNG.integers(-99, 99, columns).astype(np.int32)
    scale, bias = (0.001 + np.abs(normal(columns)) / 1000), normal(columns)
    for dtype, data, floats in (
        (DType.I32, np.uint8, []),
        (DType.F32, np.int8, [scale, bias]),
        (DType.U8, np.uint8, [scale, bias, np.float32([0.25]), np.float32([3])]),
        (DType.I8, np.int8, [scale, bias, np.float32([0.25]), np.float32([3])]),
    ):
        shifted = data is np.uint8
        op = QuantizedLinear(columns, dtype, w_zero=shifted, relu=dtype is DType.F32)
        sums = (unpack(w, inner, columns) - zeros * shifted).sum(0).astype(np.int32)
        vectors = [w, np.array([7], np.int32), sums, *([zeros] if shifted else []), *floats]

        def build(b: GraphBuilder, x: Value, op: QuantizedLinear = op, vectors: list[Any] = vectors) -> Value:
            return b.emit(op, x, *[weight(b, v) for v in vectors])

        x = RNG.integers(0, 256, (5, inner)).astype(np.uint8).view(data)
        SUITE.add(f"quantized_linear_{dtype}", build, x, shapes=[["m", inner]])
        SUITE.add(f"quantized_linear_{dtype}_no_rows", build, x[:0], shapes=[["m", inner]])


add_quantized()
add_matmul()
add_windows()
add_packed_convolutions()
add_norms()
add_attention()
add_recurrences()
add_control()


QUICK = (
    "quantized_linear_i32",
    "quantized_linear_f32",
    "quantized_linear_u8",
    "quantized_linear_i8",
    "matmul_stack",
    "matmul_empty_sum",
    "matmul_symbolic_sum_0",
    "matmul_int8",
    "conv_grouped",
    "conv_nhwc_residual",
    "conv_literal_1x1",
    "conv_1d",
    "pool_max_nan",
    "pool_max_large",
    "pool_sum_long",
    "pool_sum_large_symbolic",
    "softmax_nan_False",
    "layer_norm_2",
    "lstm_lengths",
    "gru_linear",
    "if_True",
    "while_3",
    "while_nested",
    "while_sized_by_a_maximum_7",
    "while_sized_by_a_maximum_1",
    "if_in_while",
)


@pytest.mark.parametrize("name", SUITE.parameters(*QUICK))
def test_compute(name: str) -> None:
    SUITE.verify(name)
