"""Elementwise rules against numpy: ordinary, edge and non-finite arguments."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from suite import Suite

from fornaxc.ir.compose import with_scalar
from fornaxc.ir.ops import Binary, Bitcast, Cast, Compare, Select, Unary
from fornaxc.ir.ops.elementwise import FLOAT_UNARY
from fornaxc.ir.types import DType, dtype_of

SUITE = Suite()
BF16 = np.dtype(ml_dtypes.bfloat16)
ARGUMENTS = "0 -0 1e-8 -1e-8 1e-3 .1 -.3 .5 -.5 .9 1 -1 1.5 2.5 -2.5 3.7 -5 10 20.5 -30 60 88.5 95 -80 1e3 -1e3 1e5"
EDGES = np.array([*ARGUMENTS.split(), "inf", "-inf", "nan"], np.float64)
INTS = {
    "int8": [0, 1, -1, 7, -7, 100, -128, 127],
    "uint8": [0, 1, 2, 7, 9, 100, 128, 255],
    "int16": [0, 1, -1, 7, -7, 100, -(2**15), 2**15 - 1],
    "uint16": [0, 1, 2, 7, 9, 100, 2**15, 2**16 - 1],
    "int32": [0, 1, -1, 7, -7, 1000, -(2**31), 2**31 - 1],
    "uint32": [0, 1, 2, 7, 9, 1000, 2**31, 2**32 - 1],
    "int64": [0, 1, -1, 7, -7, 1000, -(2**63), 2**63 - 1],
    "uint64": [0, 1, 2, 7, 9, 1000, 2**63, 2**64 - 1],
}


def grid(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(values, values, indexing="ij")
    return a.copy(), b.copy()


def add_cases() -> None:
    for fn in FLOAT_UNARY:
        for dtype in (np.float32, np.float64):
            x = EDGES.astype(dtype)
            SUITE.add(f"{fn}_{x.dtype}", lambda b, v, fn=fn: b.emit(Unary(fn), v), x)
    for fn in ("exp", "sigmoid", "sin", "gelu", "round", "sqrt"):
        for dtype in (np.float16, BF16):
            x = EDGES[np.abs(EDGES) < 50].astype(dtype)
            SUITE.add(f"{fn}_{x.dtype}", lambda b, v, fn=fn: b.emit(Unary(fn), v), x)
    for fn in ("neg", "abs", "sign", "relu", "is_nan", "is_inf"):
        for dtype in (np.float32, np.float16, BF16):
            x = EDGES.astype(dtype)
            SUITE.add(f"{fn}_{x.dtype}", lambda b, v, fn=fn: b.emit(Unary(fn), v), x)
    for dtype in (np.float32, np.float64, BF16):  # not 0, and so another whole number
        least = ml_dtypes.finfo(dtype).smallest_subnormal
        x = np.array([least, -least, 0, -0.0, 0.75, -0.75, -7.5, np.inf], dtype)
        for fn in ("floor", "ceil", "sign"):
            SUITE.add(f"{fn}_subnormal_{x.dtype}", lambda b, v, fn=fn: b.emit(Unary(fn), v), x)
    for name, values in INTS.items():
        x = np.array(values, name)
        for fn in ("neg", "abs", "sign", "relu", "not"):
            if name in ("int8", "uint8", "int32", "uint32", "int64"):
                SUITE.add(f"{fn}_{name}", lambda b, v, fn=fn: b.emit(Unary(fn), v), x)
    bytes_ = np.array([0, 1, 128, 255], np.uint8)
    SUITE.add("zero_minus_uint8", lambda b, v: b.emit(Binary("sub"), b.literal(np.zeros(4, np.uint8)), v), bytes_)
    flags = np.array([True, False, True])
    SUITE.add("not_bool", lambda b, v: b.emit(Unary("not"), v), flags)
    add_binary()
    add_one_value_twice()
    add_casts()


def add_binary() -> None:
    special = np.array([0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3.5, 1e-3, 250.75, 1e6, np.inf, -np.inf, np.nan])
    for fn in ("add", "sub", "mul", "div", "mod", "rem", "pow", "min", "max", "atan2"):
        for dtype in (np.float32, np.float64):
            a, c = grid(special.astype(dtype))
            SUITE.add(f"{fn}_{a.dtype}", lambda b, x, y, fn=fn: b.emit(Binary(fn), x, y), a, c)
    for exponent in (1.0, 2.0, 3.0, -1.0, 0.5, 4.0):
        x = special.astype(np.float32)
        SUITE.add(f"pow_by_{exponent}", lambda b, v, e=exponent: with_scalar(b, "pow", v, e), x)
    for fn in ("add", "min", "pow"):
        for dtype in (np.float16, BF16):
            a, c = grid(special[np.abs(special) < 300].astype(dtype))
            SUITE.add(f"{fn}_{a.dtype}", lambda b, x, y, fn=fn: b.emit(Binary(fn), x, y), a, c)
    for name, values in INTS.items():
        a, c = grid(np.array(values, name))
        for fn in ("add", "sub", "mul", "min", "max", "and", "or", "xor"):
            if name in ("int8", "uint8", "int32", "int64", "uint64"):
                SUITE.add(f"{fn}_{name}", lambda b, x, y, fn=fn: b.emit(Binary(fn), x, y), a, c)
        for fn in ("div", "mod", "rem"):
            keep = (c != 0) & ~((c.astype(float) == -1) & (a == np.iinfo(name).min))
            x, y = a[keep], c[keep]
            SUITE.add(f"{fn}_{name}", lambda b, x, y, fn=fn: b.emit(Binary(fn), x, y), x, y)
        width = np.iinfo(name).bits
        shift = np.array([0, 1, 3, width - 1], name)
        x, y = (v.copy() for v in np.meshgrid(np.array(values, name), shift))
        for fn in ("shl", "shr"):
            SUITE.add(f"{fn}_{name}", lambda b, x, y, fn=fn: b.emit(Binary(fn), x, y), x, y)
    base, power = (v.copy() for v in np.meshgrid(np.array([0, 1, -1, 2, -3, 7]), np.array([0, 1, 2, 5, 11])))
    for name in ("int32", "int64"):
        SUITE.add(f"pow_{name}", lambda b, x, y: b.emit(Binary("pow"), x, y), base.astype(name), power.astype(name))
    zero = np.array([5, -5, 0, 7], np.int32)
    for fn, answer in (("div", [0, 0, 0, -7]), ("rem", [5, -5, 0, 0]), ("mod", [5, -5, 0, 0])):
        SUITE.add(
            f"{fn}_by_zero",
            lambda b, x, y, fn=fn: b.emit(Binary(fn), x, y),
            zero,
            np.array([0, 0, 0, -1], np.int32),
            expected=[np.array(answer, np.int32)],
        )
    least = np.array([-(2**31)], np.int32)
    SUITE.add(
        "div_least", lambda b, x, y: b.emit(Binary("div"), x, y), least, np.array([-1], np.int32), expected=[least]
    )
    flags = grid(np.array([True, False]))
    for fn in ("and", "or", "xor"):
        SUITE.add(f"{fn}_bool", lambda b, x, y, fn=fn: b.emit(Binary(fn), x, y), *flags)
    for fn in ("eq", "ne", "lt", "le", "gt", "ge"):
        for a, c in (
            grid(special.astype(np.float32)),
            grid(special.astype(np.float16)),
            grid(np.array(INTS["int64"], np.int64)),
            grid(np.array(INTS["uint8"], np.uint8)),
            flags,
        ):
            SUITE.add(f"{fn}_{a.dtype}", lambda b, x, y, fn=fn: b.emit(Compare(fn), x, y), a, c)
    condition = np.array([True, False, True, False])
    for dtype in (np.float32, np.float16, BF16, np.float64, np.int64, np.uint8, np.bool_):
        x, y = np.array([1, 0, 1, 0]).astype(dtype), np.array([0, 1, 0, 1]).astype(dtype)
        SUITE.add(f"select_{x.dtype}", lambda b, k, x, y: b.emit(Select(), k, x, y), condition, x, y)


def add_one_value_twice() -> None:
    """What a compiler that forgets NaN and infinity would answer without looking."""
    for dtype in (np.float32, np.float64, np.float16, BF16):
        x = np.array([1.5, np.nan, np.inf, -np.inf, 0, -2], dtype)
        for fn in ("eq", "ne", "lt", "le", "gt", "ge"):
            SUITE.add(f"{fn}_itself_{x.dtype}", lambda b, v, fn=fn: b.emit(Compare(fn), v, v), x)
        for fn in ("sub", "div", "max", "min"):
            SUITE.add(f"{fn}_itself_{x.dtype}", lambda b, v, fn=fn: b.emit(Binary(fn), v, v), x)
    x = np.array([1.5, np.nan, np.inf, -np.inf, 0, -2], np.float32)
    zero = np.zeros(6, np.float32)
    for name, build in (
        ("eq_itself_times_one", lambda b, v: b.emit(Compare("eq"), v, with_scalar(b, "mul", v, 1))),
        ("ne_exponentials", lambda b, v: b.emit(Compare("ne"), *(b.emit(Unary("exp"), v) for _ in range(2)))),
        ("less_itself_plus_zero", lambda b, v: b.emit(Binary("sub"), v, with_scalar(b, "add", v, 0))),
        ("plus_its_negative", lambda b, v: b.emit(Binary("add"), v, b.emit(Unary("neg"), v))),
        ("times_zero", lambda b, v: b.emit(Binary("mul"), v, b.literal(zero))),
        ("zero_times", lambda b, v: b.emit(Binary("mul"), b.literal(zero), v)),
        ("zero_over_it", lambda b, v: b.emit(Binary("div"), b.literal(zero), v)),
    ):
        SUITE.add(name, build, x)


def add_casts() -> None:
    floats = np.array(
        [0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.7, 127.9, 128, 255.5, 256, 300, -300, 7e4, 3e9, -3e9, 5e18, 1e19]
    )
    floats = np.concatenate([floats, [2e19, -1e19, np.inf, -np.inf, np.nan]])
    kinds = [DType.BOOL, DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.U32, DType.I64, DType.U64]
    wide = [DType.F16, DType.BF16, DType.F32, DType.F64]
    for source in (np.float32, np.float64, np.float16, BF16):
        x = floats.astype(source)
        for target in (*kinds, *wide):
            SUITE.add(f"cast_{x.dtype}_{target}", lambda b, v, t=target: b.emit(Cast(t), v), x)
    for name, values in INTS.items():
        x = np.array(values, name)
        for target in (*kinds, *wide):
            if name in ("int64", "uint8", "int32"):
                SUITE.add(f"cast_{name}_{target}", lambda b, v, t=target: b.emit(Cast(t), v), x)
    flags = np.array([True, False])
    for target in (*kinds, *wide):
        SUITE.add(f"cast_bool_{target}", lambda b, v, t=target: b.emit(Cast(t), v), flags)
    for source, target in (
        (np.float32, np.int32),
        (np.int64, np.float64),
        (np.float16, np.uint16),
        (np.uint8, np.int8),
    ):
        x = np.array([0, 1, 2, 100]).astype(source)
        wanted = dtype_of(target)
        SUITE.add(f"bitcast_{x.dtype}", lambda b, v, t=wanted: b.emit(Bitcast(t), v), x)
    for target in (DType.U8, DType.I8):
        SUITE.add(f"bitcast_bool_{target}", lambda b, v, t=target: b.emit(Bitcast(t), v), flags)
    for kind in (np.uint8, np.int8):
        x = np.array([0, 1, 2, 127]).astype(kind)
        SUITE.add(f"bitcast_{x.dtype}_bool", lambda b, v: b.emit(Bitcast(DType.BOOL), v), x)
    for shape in ((), (0, 3), (2, 3, 4), (1, 2, 1, 2, 3)):
        x = np.linspace(-2, 2, int(np.prod(shape))).astype(np.float32).reshape(shape)
        SUITE.add(f"shape_{len(shape)}_{x.size}", lambda b, v: b.emit(Unary("exp"), b.emit(Binary("add"), v, v)), x)
    for size in (3, 5):
        x = np.ones((size, 4), np.float32)
        SUITE.add(f"symbolic_{size}", lambda b, v: b.emit(Unary("tanh"), v), x, shapes=[["n", 4]])


with np.errstate(all="ignore"):
    add_cases()


QUICK = (
    "exp_float32",
    "exp_float64",
    "relu_float32",
    "sigmoid_bfloat16",
    "max_float32",
    "pow_float32",
    "div_int32",
    "div_by_zero",
    "div_least",
    "mod_int64",
    "ne_float32",
    "xor_int32",
    "shr_int64",
    "cast_float32_i8",
    "cast_float32_i64",
    "select_bool",
    "bitcast_float32",
    *(f"{fn}_itself_float32" for fn in ("eq", "ne", "le", "ge", "sub")),
    "eq_itself_times_one",
    "less_itself_plus_zero",
    "plus_its_negative",
    "times_zero",
    "zero_over_it",
    "symbolic_3",
    "symbolic_5",
    "shape_0_1",
)


@pytest.mark.parametrize("name", SUITE.parameters(*QUICK))
def test_elementwise(name: str) -> None:
    SUITE.verify(name)
