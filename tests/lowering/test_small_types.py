"""Element types that MAX's devices lack, as programs hold them: every code, every way to round, and arithmetic in wider types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from suite import Suite

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import (
    Binary,
    Bitcast,
    Cast,
    Compare,
    Concat,
    Gather,
    MatMul,
    Pad,
    Pool,
    Reduce,
    Reshape,
    ScatterElements,
    Select,
    Slice,
    Transpose,
    Unary,
)
from fornaxc.ir.types import DType, TensorType, dtype_of
from fornaxc.passes.widen_small import widen_small

SUITE = Suite()
FLOATS = [d for d in DType if d.is_small and d.is_float]
INTEGERS = [d for d in DType if d.is_small and d.is_integer]


def numbers() -> Array:
    """float32 around every value of every small float: each, the midpoints between neighbours, and what is next to both."""
    found = [0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, 2e-38, 5.9e-39, 2.0**-128]
    for dtype in FLOATS:
        codes = np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy).astype(np.float64)
        values = np.unique(codes[np.isfinite(codes)])
        middles = (values[1:] + values[:-1]) / 2
        beyond = [values[-1] + (values[-1] - values[-2]) / 2, values[-1] * 2]
        found += [*values, *middles, *beyond]
    exact = np.array(found, np.float64).clip(-3.4e38, 3.4e38).astype(np.float32)
    exact[2:5] = np.inf, -np.inf, np.nan
    apart = [np.nextafter(exact, np.float32(side)) for side in (-np.inf, np.inf)]
    random = np.random.default_rng(0).integers(0, 1 << 32, 4096, np.uint32).view(np.float32)
    return np.unique(np.concatenate([exact, *apart, -exact, random]).view(np.uint32)).view(np.float32)


def add_widened(name: str, build: Callable[..., Value], *inputs: Array, symbolic: bool = False) -> None:
    """A case whose graph the pass has been over; what the program before it gives is expected."""
    b = GraphBuilder()
    dims = [(symbol("n"), *a.shape[1:]) if symbolic else a.shape for a in inputs]
    values = [
        b.input(TensorType(dtype_of(a.dtype), d), f"x{i}") for i, (a, d) in enumerate(zip(inputs, dims, strict=True))
    ]
    graph = b.finish([build(b, *values)], ["y"])
    widened = widen_small(graph)
    check(widened)
    SUITE.add_graph(name, widened, inputs, run(graph, inputs))


def codes(dtype: DType) -> Array:
    """Every value of a small type."""
    return np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy)


CONTAINER = {4: DType.U4, 8: DType.U8}  # in which NaN and -0 compare as bits

for small in FLOATS:
    SUITE.add(f"decode-{small}", lambda b, x: b.emit(Cast(DType.F32), x), codes(small))
    for keep in (True, False):

        def encode(b: GraphBuilder, x: Value, to: DType = small, saturate: bool = keep) -> Value:
            y = b.emit(Cast(to, saturate), x)
            return b.emit(Bitcast(CONTAINER[to.bits]), y) if to.bits in CONTAINER else y

        SUITE.add(f"encode-{small}-{keep}", encode, numbers())

for small in INTEGERS:
    for other in (DType.I8, DType.I64, DType.F32, DType.BF16, DType.BOOL, DType.F8E4M3FN):
        SUITE.add(f"{small}-{other}", lambda b, x, to=other: b.emit(Cast(to), x), codes(small).reshape(2, -1))
    for source in (np.arange(-40, 40), np.arange(80).astype(np.uint8), np.linspace(-20, 20, 161).astype(np.float32)):
        SUITE.add(f"{source.dtype}-{small}", lambda b, x, to=small: b.emit(Cast(to), x), source)

for first, second in (
    (DType.I4, DType.U4),
    (DType.U4, DType.I4),
    (DType.I4, DType.F4E2M1FN),
    (DType.F4E2M1FN, DType.I4),
):
    SUITE.add(f"bits-{first}-{second}", lambda b, x, to=second: b.emit(Bitcast(to), x), codes(first))
SUITE.add("bits-i8-f8e5m2", lambda b, x: b.emit(Bitcast(DType.F8E5M2), x), np.arange(-5, 50, dtype=np.int8))
SUITE.add("bits-f8e5m2-i8", lambda b, x: b.emit(Bitcast(DType.I8), x), codes(DType.F8E5M2))

for other in (DType.F16, DType.BF16, DType.F64, DType.I32, DType.BOOL):
    given: Array = np.arange(-700, 700, 3) if other is DType.I32 else numbers()[::7]
    with np.errstate(all="ignore"):
        SUITE.add(f"{other}-f8e4m3fn", lambda b, x: b.emit(Cast(DType.F8E4M3FN), x), given.astype(other.numpy))
for other in (DType.F16, DType.BF16, DType.I16, DType.BOOL, DType.F8E5M2):
    SUITE.add(f"f8e4m3fn-{other}", lambda b, x, to=other: b.emit(Cast(to), x), codes(DType.F8E4M3FN))
SUITE.add("rank-0", lambda b, x: b.emit(Cast(DType.F32), b.emit(Cast(DType.F8E5M2), x)), np.array(0.3, np.float32))
SUITE.add("empty", lambda b, x: b.emit(Cast(DType.F8E5M2), x), np.zeros((2, 0, 3), np.float32))
SUITE.add(
    "symbolic",
    lambda b, x: b.emit(Cast(DType.F8E4M3FN), x),
    np.linspace(-9, 9, 30, dtype=np.float32).reshape(2, 5, 3),
    shapes=[("a", "b", 3)],
)


def moved(b: GraphBuilder, x: Value, y: Value) -> Value:
    """Every kind of movement, of storage alone."""
    dtype = x.type.dtype
    turned = b.emit(Reshape((3, 8)), b.emit(Transpose((2, 0, 1)), x))
    cut = b.emit(Slice((0, 6), (3, 4), (1, -2)), turned)
    picked = b.emit(Gather(0), y, b.literal(np.array([1, 0, 1])))
    joined = b.emit(Concat(1), cut, picked)
    fill = b.literal(np.ones((), np.float32).astype(dtype.numpy))
    padded = b.emit(Pad((1, 0), (0, 1)), joined, fill)
    chosen = b.emit(Select(), b.emit(Cast(DType.BOOL), padded), padded, padded)
    row = b.literal(np.full((1, 8), 3))
    return b.emit(ScatterElements(0), chosen, row, b.emit(Slice((0, 0), (1, 8), (1, 1)), padded))


for small in (DType.F8E4M3FN, DType.F4E2M1FN, DType.I4, DType.U2):
    every = np.resize(codes(small), 30)
    SUITE.add(f"moved-{small}", moved, every[:24].reshape(2, 4, 3), every[22:].reshape(2, 4))

RANDOM = np.random.default_rng(1)
for small in (DType.F8E4M3FN, DType.F8E5M2FNUZ, DType.F4E2M1FN, DType.F8E5M2):
    left, right = (RANDOM.normal(0, 9, (4, 6)).astype(np.float32).astype(small.numpy) for _ in range(2))
    for fn in ("add", "sub", "mul", "div", "max", "min"):
        add_widened(f"{fn}-{small}", lambda b, x, y, fn=fn: b.emit(Binary(fn), x, y), left, right)
    add_widened(f"lt-{small}", lambda b, x, y: b.emit(Compare("lt"), x, y), left, right, symbolic=True)
    add_widened(f"tanh-{small}", lambda b, x: b.emit(Unary("tanh"), x), left)
    add_widened(f"neg-{small}", lambda b, x: b.emit(Unary("neg"), x), left)
for small in INTEGERS:
    left, right = (RANDOM.permutation(np.resize(codes(small), 64)) for _ in range(2))
    for fn in ("add", "sub", "mul", "max", "and", "xor", "shl"):
        by = right if fn != "shl" else np.resize(np.arange(2, dtype=np.uint8).astype(small.numpy), 64)
        add_widened(f"{fn}-{small}", lambda b, x, y, fn=fn: b.emit(Binary(fn), x, y), left, by)
    add_widened(f"ge-{small}", lambda b, x, y: b.emit(Compare("ge"), x, y), left, right)
    add_widened(f"not-{small}", lambda b, x: b.emit(Unary("not"), x), left)
    add_widened(f"sum-{small}", lambda b, x: b.emit(Reduce("sum", (1,)), x), left.reshape(4, 16))
    add_widened(f"most-{small}", lambda b, x: b.emit(Reduce("max", (1,)), x), left.reshape(16, 4))


def test_extremes_of_no_elements_are_those_of_the_type() -> None:
    """A wrapped byte's least value would be 0."""
    b = GraphBuilder()
    graph = widen_small(b.finish([b.emit(Reduce("max", (0,)), b.input(TensorType(DType.I4, (0,)), "x"))], ["y"]))
    assert run(graph, [np.zeros(0, DType.I4.numpy)])[0].astype(int).tolist() == [-8]


@pytest.mark.parametrize("small", INTEGERS, ids=str)
def test_sums_and_products_of_integers_wrap(small: DType) -> None:
    most = np.full((1, 3), (1 << (small.bits - small.is_signed)) - 1)
    x = most.astype(small.numpy)
    kinds = {
        "sum": Reduce("sum", (1,)),
        "prod": Reduce("prod", (1,)),
        "pool": Pool("sum", (3,), (1,), (0,), (0,), (1,)),
    }
    for name, op in kinds.items():
        b = GraphBuilder()
        graph = widen_small(b.finish([b.emit(op, b.input(TensorType(small, (1, 3)), "x"))], ["y"]))
        whole = most.prod() if name == "prod" else most.sum()
        left = int(whole) % (1 << small.bits)
        wanted = left - (1 << small.bits) if small.is_signed and left >= 1 << (small.bits - 1) else left
        assert run(graph, [x])[0].astype(int).tolist() == [[wanted]], name


def test_products_are_summed_in_float32() -> None:
    """0.1 of 3 million would be lost in any 8-bit sum."""
    b = GraphBuilder()
    x, y = (b.input(TensorType(DType.F8E4M3FN, shape), "xy"[i]) for i, shape in enumerate([(1, 64), (64, 1)]))
    graph = widen_small(b.finish([b.emit(MatMul(), x, y)], ["y"]))
    ones = np.full(64, 1.125, DType.F8E4M3FN.numpy)
    assert float(run(graph, [ones.reshape(1, 64), ones.reshape(64, 1)])[0][0, 0]) == 80.0  # 81, half way to 88 or below


@pytest.mark.parametrize(
    "name",
    SUITE.parameters(
        "decode-f8e4m3fn",
        "decode-f8e8m0fnu",
        "encode-f8e4m3fn-True",
        "encode-f8e5m2-False",
        "encode-f8e4m3fnuz-True",
        "encode-f4e2m1fn-True",
        "int64-i4",
        "i4-f32",
        "bits-i4-f4e2m1fn",
        "rank-0",
        "empty",
        "symbolic",
        "moved-f8e4m3fn",
        "moved-i4",
        "mul-f8e4m3fn",
        "add-u4",
    ),
)
def test_small_types(name: str) -> None:
    SUITE.verify(name)
