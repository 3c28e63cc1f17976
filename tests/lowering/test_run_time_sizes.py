"""Sizes that are entries of a tensor: nothing reads what gives them their names, and wrong ones stop the run."""

from __future__ import annotations

import numpy as np
import pytest
from suite import Suite

from fornaxc.importers.onnx.steering import bind_sizes, require_at_run_time
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import DynamicReshape, If, Iota, Pad
from fornaxc.ir.types import DType, TensorType

SUITE = Suite()


def line(b: GraphBuilder, sizes: Value) -> Value:
    (n,) = bind_sizes(b, sizes)
    return b.emit(Iota((n,), 0, DType.I64))


def padded(b: GraphBuilder, x: Value, sizes: Value) -> Value:
    low, high = bind_sizes(b, sizes)
    return b.emit(Pad((0, low), (high, 0)), x, c.scalar(b, 7, DType.F32))


def product(b: GraphBuilder, sizes: Value) -> Value:
    n, m = bind_sizes(b, sizes)
    return c.reshape(b, b.dims((n * m + 1,)), ())


def in_a_branch(b: GraphBuilder, flag: Value, sizes: Value) -> Value:
    inner, other = GraphBuilder(b), GraphBuilder(b)
    total = c.reduce(inner, "sum", line(inner, sizes), (0,))
    regions = (inner.finish([total]), other.finish([other.literal(np.array([-1]))]))
    return b.emit(If((TensorType(DType.I64, (1,)),)), flag, regions=regions)


def positive(b: GraphBuilder, x: Value) -> Value:
    return require_at_run_time(b, x, c.compare(b, "gt", x, c.scalar(b, 0, DType.I64)))


def named_by_large_values(b: GraphBuilder, x: Value, sizes: Value) -> Value:
    """Nothing reads the tensor that names the size, and its values have no sum in i64."""
    rows = b.fresh_dim()
    b.emit(DynamicReshape((rows, b.fresh_dim())), x, sizes)
    return b.emit(Iota((rows,), 0, DType.I64))


def shaped(b: GraphBuilder, x: Value, sizes: Value) -> Value:
    return b.emit(DynamicReshape((b.fresh_dim(), b.fresh_dim())), x, sizes)


for _n in (5, 1, 0):
    SUITE.add(f"line_{_n}", line, np.array([_n]))
SUITE.add("padded", padded, np.arange(6, dtype=np.float32).reshape(2, 3), np.array([2, 1]))
SUITE.add("product", product, np.array([3, 4]))
SUITE.add("branch", in_a_branch, np.array(True), np.array([4]))
SUITE.add("condition_holds", positive, np.array([3]))
LARGE = np.where(np.arange(6) < 2, np.iinfo(np.int64).max, 0)  # they add up to -2
SUITE.add("large_values", named_by_large_values, LARGE, np.array([3, 2]))

STOPS = Suite()
NOTHING = [np.zeros(1, np.int64)]
STOPS.add("negative_size", line, np.array([-3]), expected=NOTHING)
STOPS.add("condition_fails", positive, np.array([-3]), expected=NOTHING)
STOPS.add("reshape_of_other_count", shaped, np.zeros(12, np.float32), np.array([3, 5]), expected=NOTHING)


@pytest.mark.parametrize("name", SUITE.parameters("line_5", "padded", "large_values"))
def test_sizes(name: str) -> None:
    SUITE.verify(name)


@pytest.mark.slow
def test_wrong_sizes_stop_the_run() -> None:
    for name, outcome in STOPS.outcomes().items():
        assert outcome.status != "ok" and outcome.phase == "run", f"{name}: {outcome}"
