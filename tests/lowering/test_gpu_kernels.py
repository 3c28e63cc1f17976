"""The kernels for GPUs, the same source compiled for the CPU: threads of a block run one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest
import test_compute
from suite import Suite

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Conv, ConvNhwc, MatMul, PackConv, Pool, Transpose
from fornaxc.ir.ops.packed import ACTIVATIONS

SUITE = Suite(rules="gpu")
RNG = np.random.default_rng(11)
BF16 = np.dtype(ml_dtypes.bfloat16)
LOOSE = 2e-4
PLAIN = Conv((1, 1), (0, 0), (0, 0), (1, 1), 1)
SHARED = ("matmul", "conv", "pool", "lstm", "gru", "rnn", "max_pool", "sum_pool")


def normal(*shape: int, dtype: object = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32).astype(dtype)


def add_shared() -> None:
    """Every case of the operations that have a kernel."""
    for name, (_, graph, inputs) in test_compute.SUITE.cases.items():
        if name.startswith(SHARED):
            suite = test_compute.SUITE
            SUITE.add_graph(name, graph, inputs, suite.expected[name], suite.tolerances[name])


def add_products() -> None:
    def product(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.emit(MatMul(), x, y)

    def by_transposed(b: GraphBuilder, x: Value, y: Value) -> Value:
        axes = tuple(range(y.type.rank))
        return b.emit(MatMul(), x, b.emit(Transpose((*axes[:-2], axes[-1], axes[-2])), y))

    sizes = {
        "tiles": (64, 32, 64),
        "odd": (67, 33, 129),
        "row": (1, 50, 70),
        "column": (70, 17, 1),
        "deep": (3, 1000, 5),
    }
    for name, (m, k, n) in sizes.items():
        SUITE.add(f"product_{name}", product, normal(m, k), normal(k, n), tolerance=LOOSE)
        SUITE.add(f"product_{name}_transposed", by_transposed, normal(m, k), normal(n, k), tolerance=LOOSE)
    SUITE.add("product_batches", product, normal(2, 3, 65, 20), normal(2, 3, 20, 66), tolerance=LOOSE)
    SUITE.add("product_batches_transposed", by_transposed, normal(5, 9, 20), normal(5, 70, 20), tolerance=LOOSE)
    SUITE.add("product_narrow_batches", product, normal(3, 9, 20), normal(3, 20, 5), tolerance=LOOSE)
    symbolic = (["b", "m", "k"], ["b", "k", "n"])
    SUITE.add("product_symbolic", product, normal(2, 70, 30), normal(2, 30, 65), shapes=symbolic, tolerance=LOOSE)
    SUITE.add("product_of_nothing", product, normal(2, 7, 0), normal(2, 0, 65), shapes=symbolic)
    SUITE.add("product_no_batch", product, normal(0, 7, 3), normal(0, 3, 6), shapes=symbolic)
    SUITE.add("product_static_nothing", product, normal(4, 0), normal(0, 5))
    for dtype, tolerance in ((np.float16, 5e-3), (BF16, 4e-2), (np.float64, 1e-9)):
        kind = np.dtype(dtype).name
        SUITE.add(
            f"product_{kind}", product, normal(66, 40, dtype=dtype), normal(40, 70, dtype=dtype), tolerance=tolerance
        )
    for dtype in (np.int8, np.uint8, np.int32, np.int64):
        a, c = (RNG.integers(-100, 100, s).astype(dtype) for s in ((3, 5), (5, 4)))
        SUITE.add(f"product_{np.dtype(dtype).name}", product, a, c)
    a, c = normal(66, 20), normal(20, 66)
    a[3, 4], a[65, 1], c[0, 65], a[7, 2] = np.nan, np.inf, -np.inf, -np.inf
    SUITE.add("product_not_finite", product, a, c, tolerance=LOOSE)


def add_convolutions() -> None:
    def conv(
        name: str,
        x: Sequence[int],
        w: Sequence[int],
        op: Conv = PLAIN,
        dtype: object = np.float32,
        tolerance: float = LOOSE,
        shape: Sequence[str | int] | None = None,
    ) -> None:
        operands = normal(*x, dtype=dtype), normal(*w, dtype=dtype)
        shapes = [] if shape is None else [shape]
        SUITE.add(f"kernel_{name}", lambda b, u, v: b.emit(op, u, v), *operands, shapes=shapes, tolerance=tolerance)

    wide = Conv((2, 1), (1, 2), (0, 1), (1, 2), 1)
    conv("point", (2, 20, 5, 7), (70, 20, 1, 1))
    conv("odd", (2, 5, 11, 9), (67, 5, 3, 2), wide)
    conv("symbolic", (2, 5, 11, 9), (67, 5, 3, 2), wide, shape=["n", 5, "h", "w"])
    conv("groups", (1, 40, 6, 6), (60, 20, 3, 3), Conv((1, 1), (1, 1), (1, 1), (1, 1), 2))
    conv("narrow_groups", (2, 12, 6, 5), (20, 3, 3, 3), Conv((1, 2), (1, 1), (1, 1), (1, 1), 4))
    conv("depthwise", (2, 9, 8, 7), (9, 1, 3, 3), Conv((2, 2), (1, 1), (1, 1), (1, 1), 9))
    conv("multiplier", (2, 9, 8, 7), (18, 1, 5, 3), Conv((1, 1), (4, 1), (4, 1), (2, 1), 9))
    conv("line", (2, 9, 20), (8, 9, 3), Conv((2,), (1,), (1,), (1,), 1))
    conv("f16", (1, 20, 6, 6), (30, 20, 3, 3), dtype=np.float16, tolerance=1e-2)
    conv("bf16", (1, 20, 6, 6), (30, 20, 3, 3), dtype=BF16, tolerance=6e-2)
    SUITE.add(
        "kernel_not_finite",
        lambda b, u, v: b.emit(Conv((1, 1), (1, 1), (1, 1), (1, 1), 1), u, v),
        np.where(RNG.random((1, 3, 6, 6)) < 0.05, np.nan, normal(1, 3, 6, 6)).astype(np.float32),
        np.where(RNG.random((4, 3, 3, 3)) < 0.02, np.inf, normal(4, 3, 3, 3)).astype(np.float32),
        tolerance=LOOSE,
    )


def add_fused() -> None:
    """Channels last, with everything that a pass may put into the kernel."""

    def fused(name: str, x: np.ndarray, filters: tuple[int, ...], op: ConvNhwc) -> None:
        def build(b: GraphBuilder, v: Value, w: Value, bias: Value, *rest: Value) -> Value:
            return b.emit(op, v, b.emit(PackConv(op.groups), w), bias, *rest)

        operands = [x, normal(*filters), normal(filters[0])]
        if op.residual:  # the sizes of x are those of the result
            operands.append(normal(*x.shape[:3], filters[0]))
        SUITE.add(f"fused_{name}", build, *operands, tolerance=LOOSE)

    plain = {"window": (3, 3), "strides": (1, 1), "low": (1, 1), "high": (1, 1), "dilations": (1, 1)}
    for activation in ACTIVATIONS:
        op = ConvNhwc(70, **plain, groups=1, activation=activation, least=-0.5, greatest=1.25)
        x = normal(1, 5, 4, 6)
        x[0, 0, 0, 0] = np.nan
        fused(activation, x, (70, 6, 3, 3), op)
    for name, groups, k, c in (
        ("deep", 1, 130, 40),
        ("groups", 2, 150, 20),
        ("narrow", 4, 20, 12),
        ("depthwise", 12, 12, 12),
    ):
        op = ConvNhwc(k, **plain, groups=groups, activation="relu", residual=True)
        fused(name, normal(2, 9, 7, c), (k, c // groups, 3, 3), op)


def add_pools() -> None:
    def pool(name: str, op: Pool, x: np.ndarray, shape: Sequence[str | int] | None = None) -> None:
        SUITE.add(
            f"window_{name}", lambda b, v: b.emit(op, v), x, shapes=[] if shape is None else [shape], tolerance=LOOSE
        )

    strange = ((3, 2), (2, 1), (1, 1), (1, 0), (1, 2))
    spotted = normal(2, 3, 9, 8)
    spotted[0, 1, 2, 3], spotted[1, 2, 4, 4] = np.nan, -np.inf
    for fn in ("max", "sum"):
        pool(f"{fn}_first", Pool(fn, *strange), spotted)
        pool(f"{fn}_last", Pool(fn, *strange, channels_last=True), spotted)
        pool(f"{fn}_line", Pool(fn, (3,), (2,), (1,), (1,), (1,)), spotted)
        pool(f"{fn}_symbolic", Pool(fn, *strange), spotted, ["n", "c", "h", "w"])
        pool(f"{fn}_i32", Pool(fn, *strange), RNG.integers(-99, -1, (1, 2, 7, 7)).astype(np.int32))
        pool(f"{fn}_f16", Pool(fn, *strange), normal(1, 2, 7, 7, dtype=np.float16))


add_shared()
add_products()
add_convolutions()
add_fused()
add_pools()


@pytest.mark.parametrize(
    "name",
    SUITE.parameters(
        "product_odd",
        "product_odd_transposed",
        "product_of_nothing",
        "kernel_odd",
        "kernel_depthwise",
        "window_max_first",
    ),
)
def test_kernel(name: str) -> None:
    SUITE.verify(name)
