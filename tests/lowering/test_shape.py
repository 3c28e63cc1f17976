"""Rules that move elements, index and reduce them, at static and symbolic sizes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from suite import Suite

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.compose import rebind
from fornaxc.ir.dims import dim_max, symbol
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import (
    ArgReduce,
    BroadcastTo,
    Cast,
    Concat,
    Cumulative,
    Dims,
    DynamicBroadcast,
    DynamicRange,
    DynamicReshape,
    DynamicSlice,
    Gather,
    GatherElements,
    GatherNd,
    Iota,
    NonZero,
    Pad,
    Reduce,
    Repeat,
    Reshape,
    ScatterElements,
    ScatterNd,
    Slice,
    StridedSlice,
    TopK,
    Transpose,
)
from fornaxc.ir.types import DType

SUITE = Suite()
BF16 = np.dtype(ml_dtypes.bfloat16)
KINDS = (np.float32, np.float16, BF16, np.float64, np.int8, np.int32, np.int64, np.uint8, np.bool_)
N = symbol("n")


def numbers(*shape: int, dtype: object = np.float32) -> np.ndarray:
    line = np.arange(int(np.prod(shape)))
    return ((line * 7 + 3) % 23 - 11).astype(np.float32).astype(dtype).reshape(shape)


def add_movement() -> None:
    x = numbers(4, 3, 5)
    SUITE.add("reshape", lambda b, v: b.emit(Reshape((6, 10)), v), x)
    SUITE.add("reshape_scalar", lambda b, v: b.emit(Reshape(()), v), x[:1, 0, :1])
    SUITE.add("reshape_empty", lambda b, v: b.emit(Reshape((0, 7)), v), x[:0])
    for n in (4, 2):
        y = numbers(n, 3, 5)
        SUITE.add(f"reshape_product_{n}", lambda b, v: b.emit(Reshape((N * 15,)), v), y, shapes=[["n", 3, 5]])
        SUITE.add(f"reshape_split_{n}", lambda b, v: b.emit(Reshape((5, N, 3)), v), y, shapes=[["n", 3, 5]])
        SUITE.add(f"transpose_{n}", lambda b, v: b.emit(Transpose((2, 0, 1)), v), y, shapes=[["n", 3, 5]])
        SUITE.add(
            f"reshape_sum_{n}",
            lambda b, v, w: b.emit(Reshape((3, N + symbol("m"), 5)), b.emit(Concat(0), v, w)),
            y,
            numbers(6, 3, 5),
            shapes=[["n", 3, 5], ["m", 3, 5]],
        )
        SUITE.add(
            f"dims_{n}", lambda b, v: b.emit(Dims((N * 2 + 1, 7, N // 2, dim_max(N, 3)))), y, shapes=[["n", 3, 5]]
        )
        SUITE.add(f"iota_{n}", lambda b, v: b.emit(Iota((3, N), 1, DType.F32)), y, shapes=[["n", 3, 5]])
        SUITE.add(
            f"dynamic_reshape_{n}",
            lambda b, v, s: b.emit(DynamicReshape((symbol("u"), symbol("w"))), v, s),
            y,
            np.array([15, n]),
            shapes=[["n", 3, 5]],
        )
        SUITE.add(
            f"dynamic_broadcast_{n}",
            lambda b, v, s: b.emit(DynamicBroadcast((symbol("u"), symbol("w"), 5)), v, s),
            y[:, :1],
            np.array([n if n > 2 else 1, 4, 1]),
            shapes=[["n", 1, 5]],
        )
        SUITE.add(
            f"input_expression_{n}",
            lambda b, v, w: b.emit(Concat(0), v, rebind(b, w, (N + 1,))),
            numbers(n),
            numbers(n + 1),
            shapes=[["n"], [N + 1]],
        )
    for dtype in KINDS:
        y = numbers(2, 3, 4, dtype=dtype)
        name = y.dtype.name
        SUITE.add(f"transpose_{name}", lambda b, v: b.emit(Transpose((1, 2, 0)), v), y)
        SUITE.add(f"concat_{name}", lambda b, v: b.emit(Concat(1), v, v, v), y)
        many = numbers(19, 3, 33, dtype=dtype)
        SUITE.add(f"concat_rows_{name}", lambda b, v, w: b.emit(Concat(2), v, w, v), many, many[:, :, :1])
        SUITE.add(f"transpose_blocks_{name}", lambda b, v: b.emit(Transpose((1, 2, 0)), v), many)
        SUITE.add(f"slice_{name}", lambda b, v: b.emit(Slice((0, 1, 3), (2, 2, 2), (1, 1, -2)), v), y)
        SUITE.add(f"repeat_{name}", lambda b, v: b.emit(Repeat((2, 1, 3)), v), y)
        SUITE.add(f"broadcast_{name}", lambda b, v: b.emit(BroadcastTo((2, 3, 4)), v), y[:, :1])
        fill = np.zeros((), dtype)
        SUITE.add(f"pad_{name}", lambda b, v, f=fill: b.emit(Pad((1, 0, 2), (0, 1, 1)), v, b.literal(f)), y)
    for axis, sizes in ((0, (40, 1, 300)), (1, (700, 3)), (1, (1, 1, 64, 15, 17))):
        parts = [numbers(*((size, 90) if axis == 0 else (90, size))) for size in sizes]
        SUITE.add(f"concat_{axis}_of_{len(parts)}", lambda b, *v, a=axis: b.emit(Concat(a), *v), *parts)
    for n in (45, 2, 0):
        parts, shapes = [numbers(3, n, 8), numbers(3, 7, 8)], [[3, "n", 8], None]
        SUITE.add(f"concat_symbolic_{n}", lambda b, v, w: b.emit(Concat(1), v, w, v), *parts, shapes=shapes)
        SUITE.add(
            f"transpose_symbolic_{n}", lambda b, v: b.emit(Transpose((0, 2, 1)), v), *parts[:1], shapes=shapes[:1]
        )
    SUITE.add("concat_empty", lambda b, v: b.emit(Concat(0), v, b.literal(np.zeros((0, 3, 5), np.float32))), x)
    SUITE.add("iota_i64", lambda b: b.emit(Iota((4, 2), 0, DType.I64)))
    SUITE.add("iota_bf16", lambda b: b.emit(Iota((3,), 0, DType.BF16)))


def add_slices() -> None:
    x = numbers(7, 6)
    for index, (starts, sizes, steps) in enumerate(
        [
            ((6, 5), (7, 6), (-1, -1)),
            ((6, 0), (4, 2), (-2, 4)),
            ((2, 3), (1, 0), (3, 1)),
            ((0, 0), (0, 6), (2, 1)),
            ((3, 5), (4, 2), (-1, -5)),
        ]
    ):
        SUITE.add(f"slice_{index}", lambda b, v, a=starts, s=sizes, k=steps: b.emit(Slice(a, s, k), v), x)
    SUITE.add("slice_reversed_rows", lambda b, v: b.emit(Slice((0, 32), (4, 33), (1, -1)), v), numbers(4, 33))
    SUITE.add("slice_scalar", lambda b, v: b.emit(Slice((), (), ()), v), np.float32(3).reshape(()))
    for n in (7, 4):
        y = numbers(n, 6)
        for name, start, size, step in (
            ("head", 0, N - 2, 1),
            ("tail", N - 3, 3, 1),
            ("stride", 0, (N + 1) // 2, 2),
            ("flip", N - 1, N, -1),
            ("back", N - 1, N - 1, -1),
        ):
            SUITE.add(
                f"slice_{name}_{n}",
                lambda b, v, s=start, k=size, t=step: b.emit(Slice((s, 0), (k, 6), (t, 1)), v),
                y,
                shapes=[["n", 6]],
            )
        for at in (1, 5, -3):
            SUITE.add(
                f"dynamic_slice_{n}_{at}",
                lambda b, v, s: b.emit(DynamicSlice((3, 2)), v, s),
                y,
                np.array([at, 1]),
                shapes=[["n", 6]],
            )
        for k, (start, end, step) in enumerate(
            [(1, -1, 1), (-2, 100, 1), (-1, -100, -1), (5, 0, -2), (3, 2, 1), (0, n, 3)]
        ):
            SUITE.add(
                f"strided_{n}_{k}",
                lambda b, v, s, e, t: b.emit(StridedSlice((symbol("u"), 6)), v, s, e, t),
                y,
                np.array([start, 0]),
                np.array([end, 6]),
                np.array([step, 1]),
                shapes=[["n", 6]],
            )
    zero = np.float32(0).reshape(())
    SUITE.add(
        "pad_interior", lambda b, v: b.emit(Pad((1, 0), (0, 2), interior=(2, 0)), v, b.literal(zero)), numbers(3, 2)
    )
    SUITE.add("pad_inf", lambda b, v: b.emit(Pad((1,), (1,)), v, b.literal(zero - np.inf)), numbers(3))
    for mode in ("reflect", "edge", "wrap"):
        SUITE.add(f"pad_{mode}", lambda b, v, m=mode: b.emit(Pad((2, 0), (3, 1), m), v), numbers(4, 3))
        for n in (4, 6):
            SUITE.add(f"pad_{mode}_{n}", lambda b, v, m=mode: b.emit(Pad((2,), (3,), m), v), numbers(n), shapes=[["n"]])
    for start, limit, delta in ((0, 5, 2), (5, 0, -2), (3, 3, 1), (0, 6, 3), (4, 1, 1)):
        for dtype in (np.int64, np.int32, np.float32):
            given = [np.array(v, dtype) for v in (start, limit, delta)]
            SUITE.add(
                f"range_{start}_{limit}_{np.dtype(dtype)}", lambda b, *v: b.emit(DynamicRange(symbol("u")), *v), *given
            )
    SUITE.add(
        "range_fraction",
        lambda b, *v: b.emit(DynamicRange(symbol("u")), *v),
        *(np.array(v, np.float32) for v in (0, 1, 0.3)),
    )


def add_indexing() -> None:
    x = numbers(5, 4, 3)
    for dtype in KINDS:
        y = numbers(5, 4, 3, dtype=dtype)
        name = y.dtype.name
        SUITE.add(f"gather_{name}", lambda b, v, i: b.emit(Gather(1), v, i), y, np.array([[3, 0], [1, 1]]))
        updates = numbers(2, 4, 3, dtype=dtype)
        where = np.array([[[0, 1, 2]] * 4, [[3, 4, 0]] * 4])
        SUITE.add(f"scatter_{name}", lambda b, v, i, u: b.emit(ScatterElements(0), v, i, u), y, where, updates)
        SUITE.add(
            f"scatter_nd_{name}", lambda b, v, i, u: b.emit(ScatterNd(), v, i, u), y, np.array([[4], [2]]), updates
        )
    SUITE.add("gather_scalar", lambda b, v, i: b.emit(Gather(1), v, i), x, np.array(2))
    SUITE.add("gather_i32", lambda b, v, i: b.emit(Gather(0), v, i), x, np.array([4, 0], np.int32))
    SUITE.add("gather_none", lambda b, v, i: b.emit(Gather(0), v, i), x, np.zeros(0, np.int64))
    index = np.array([[[0, 1, 2]], [[4, 3, 0]]])
    SUITE.add("gather_elements_0", lambda b, v, i: b.emit(GatherElements(0), v, i), x, index)
    SUITE.add("gather_elements_2", lambda b, v, i: b.emit(GatherElements(2), v, i), x, index % 3)
    SUITE.add("gather_nd", lambda b, v, i: b.emit(GatherNd(), v, i), x, np.array([[1, 2], [4, 0], [0, 3]]))
    SUITE.add("gather_nd_whole", lambda b, v, i: b.emit(GatherNd(), v, i), x, np.array([[1, 2, 0], [4, 0, 2]]))
    SUITE.add("gather_nd_batch", lambda b, v, i: b.emit(GatherNd(1), v, i), x, np.array([[0], [3], [2], [1], [0]]))
    for n in (5, 3):
        y = numbers(n, 4)
        SUITE.add(
            f"gather_elements_symbolic_{n}",
            lambda b, v, i: b.emit(GatherElements(1), v, i),
            y,
            np.arange(n * 2).reshape(n, 2) % 4,
            shapes=[["n", 4], ["n", 2]],
        )
        for largest in (True, False):
            SUITE.add(
                f"top_k_{n}_{largest}",
                lambda b, v, f=largest: b.emit_all(TopK(3, 0, f), v),
                np.round(y / 3) * 3,
                shapes=[["n", 4]],
            )
        flags = (y > 0).astype(np.float32)
        SUITE.add(f"non_zero_{n}", lambda b, v: b.emit(NonZero(symbol("u")), v), flags, shapes=[["n", 4]])
        SUITE.add(
            f"non_zero_then_gather_{n}",
            lambda b, v: b.emit(Gather(1), b.emit(NonZero(symbol("u")), v), b.literal(np.array([0, 1]))),
            flags,
            shapes=[["n", 4]],
        )
    spoiled = np.array([[1, np.nan, 3, np.inf], [np.nan, -np.inf, 2, np.nan]], np.float32)
    SUITE.add("top_k_nan", lambda b, v: b.emit_all(TopK(4, 1), v), spoiled)
    SUITE.add("bottom_k_nan", lambda b, v: b.emit_all(TopK(4, 1, False), v), spoiled)
    SUITE.add("top_k_i64", lambda b, v: b.emit_all(TopK(2, 0), v), numbers(5, 4, dtype=np.int64))
    target, where = numbers(6, 3), np.array([[0, 1, 0], [0, 5, 5]])
    for reduction in ("add", "mul", "min", "max"):
        SUITE.add(
            f"scatter_{reduction}",
            lambda b, v, i, u, r=reduction: b.emit(ScatterElements(0, r), v, i, u),
            target,
            where,
            numbers(2, 3) + 1,
        )
        for dtype in (np.float32, np.float16, np.int64):
            SUITE.add(
                f"scatter_nd_{reduction}_{np.dtype(dtype)}",
                lambda b, v, i, u, r=reduction: b.emit(ScatterNd(r), v, i, u),
                target.astype(dtype),
                np.array([[1], [1], [4]]),
                numbers(3, 3, dtype=dtype),
            )
    SUITE.add(
        "scatter_nothing",
        lambda b, v, i, u: b.emit(ScatterElements(0), v, i, u),
        target,
        np.zeros((0, 3), np.int64),
        np.zeros((0, 3), np.float32),
    )


def add_reductions() -> None:
    x = numbers(3, 4, 5)
    for fn in ("sum", "prod", "max", "min", "mean"):
        for axes in ((0,), (2,), (0, 2), (0, 1, 2), ()):
            SUITE.add(f"{fn}_{axes}", lambda b, v, f=fn, a=axes: b.emit(Reduce(f, a), v), x)
        for dtype in (np.float16, BF16, np.float64, np.int32, np.int64, np.int8, np.uint8):
            y = numbers(3, 4, dtype=dtype)
            if fn != "mean" or y.dtype.kind not in "iu":
                SUITE.add(f"{fn}_{y.dtype}", lambda b, v, f=fn: b.emit(Reduce(f, (1,)), v), y)
        SUITE.add(f"{fn}_nothing", lambda b, v, f=fn: b.emit(Reduce(f, (0,)), v), x[:0])
        for n in (3, 0):
            y = numbers(n, 4)
            SUITE.add(f"{fn}_symbolic_{n}", lambda b, v, f=fn: b.emit(Reduce(f, (0,)), v), y, shapes=[["n", 4]])
        spoiled = np.array([[1, np.nan, 2], [np.inf, 1, -np.inf], [-np.inf] * 3, [1, 2, 3]], np.float32)
        SUITE.add(f"{fn}_nan", lambda b, v, f=fn: b.emit(Reduce(f, (1,)), v), spoiled)
    for fn in ("max", "min"):
        flags = np.array([[True, False], [False, False], [True, True]])
        SUITE.add(f"{fn}_bool", lambda b, v, f=fn: b.emit(Reduce(f, (1,)), v), flags)
        for last in (False, True):
            ties = np.array([[1, 3, 3, 0], [0, 0, 2, 2], [np.nan, 1, np.nan, 5]], np.float32)
            SUITE.add(f"arg{fn}_{last}", lambda b, v, f=fn, k=last: b.emit(ArgReduce(f, 1, k), v), ties)
            SUITE.add(
                f"arg{fn}_{last}_i32",
                lambda b, v, f=fn, k=last: b.emit(ArgReduce(f, 0, k), v),
                ties[:2].astype(np.int32),
            )
    for fn in ("sum", "prod"):
        for exclusive in (False, True):
            for reverse in (False, True):
                SUITE.add(
                    f"running_{fn}_{exclusive}_{reverse}",
                    lambda b, v, f=fn, e=exclusive, r=reverse: b.emit(Cumulative(f, 1, e, r), v),
                    numbers(3, 4, 2),
                )
    SUITE.add("running_i64", lambda b, v: b.emit(Cumulative("sum", 0), v), numbers(5, dtype=np.int64))
    SUITE.add("running_f16", lambda b, v: b.emit(Cumulative("sum", 0), v), numbers(5, dtype=np.float16))


def shape_arithmetic(b: GraphBuilder, v: Value) -> Value:
    sizes = b.emit(Cast(DType.I64), b.emit(Dims((N, 3, N * 3))))
    picked = b.emit(Gather(0), sizes, b.literal(np.array([2])))
    return b.emit(DynamicReshape((symbol("u"),)), v, picked)


for _n in (4, 2):
    SUITE.add(f"shape_arithmetic_{_n}", shape_arithmetic, numbers(_n, 3), shapes=[["n", 3]])
add_movement()
add_slices()
add_indexing()
add_reductions()


QUICK = (
    "reshape_sum_4",
    "dims_2",
    "dynamic_reshape_4",
    "dynamic_broadcast_2",
    "input_expression_4",
    "slice_flip_4",
    "strided_7_2",
    "strided_7_4",
    "dynamic_slice_4_-3",
    "pad_interior",
    "pad_reflect_6",
    "pad_bool",
    "range_0_5_int64",
    "gather_scalar",
    "gather_nd_batch",
    "scatter_bool",
    "top_k_nan",
    "non_zero_3",
    "max_nan",
    "max_symbolic_0",
    "argmax_False",
    "running_prod_True_True",
)


@pytest.mark.parametrize("name", SUITE.parameters(*QUICK))
def test_shape(name: str) -> None:
    SUITE.verify(name)
