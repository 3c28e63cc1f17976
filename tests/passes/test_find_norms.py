"""Layer and root mean square normalisation written out are recognised in the forms of exporters; what is something else is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest
from composed import Array, Form, after, assert_same, counts, imported, odd_rows

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Binary, BroadcastTo, Conv, If, Reduce, Reshape, RmsNorm, Select
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.find_layer_norm import find_layer_norm
from fornaxc.passes.find_rms_norm import find_rms_norm
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.simplify import simplify

RNG = np.random.default_rng(0)
C = 6
SCALE = 1 + RNG.standard_normal(C) / 4
BIAS = RNG.standard_normal(C)


def squared(f: Form, x: str, how: str) -> str:
    return f("Mul", x, x) if how == "mul" else f("Pow", x, 2.0)


def mean(f: Form, x: str, how: str = "mean", axes: Sequence[int] = (-1,)) -> str:
    """The mean of rows as a mean, or as the sum over their width."""
    return f.reduce("Mean", x, axes) if how == "mean" else f("Div", f.reduce("Sum", x, axes), float(C))


def divided(f: Form, x: str, square: str, how: str, scale: str | None = None) -> str:
    """x over the root of `square`, times a scale beside the root where there is one."""
    if how == "div":
        y = f("Div", x, f("Sqrt", square))
        return f("Mul", scale, y) if scale else y
    inverse = {
        "reciprocal": lambda: f("Reciprocal", f("Sqrt", square)),
        "one over": lambda: f("Div", 1.0, f("Sqrt", square)),
        "pow": lambda: f("Pow", square, -0.5),
        "root by pow": lambda: f("Reciprocal", f("Pow", square, 0.5)),
    }[how]()
    return f("Mul", x, f("Mul", inverse, scale) if scale else inverse)


def torch_old(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x"))
    y = f("Div", d, f("Sqrt", f("Add", mean(f, f("Pow", d, 2.0)), 1e-5)))
    return f("Add", f("Mul", y, f.constant(SCALE)), f.constant(BIAS))


def centred_twice(f: Form) -> str:
    """The two differences come from means of their own, the second by a sum."""
    square = mean(f, squared(f, f("Sub", "x", mean(f, "x", "sum")), "mul"))
    y = divided(f, f("Sub", "x", mean(f, "x")), f("Add", 1e-5, square), "pow")
    return f("Add", f.constant(BIAS), f("Mul", f.constant(SCALE), y))


def tensorflow(f: Form) -> str:
    """x * factor + (bias - mean * factor), as tf.nn.batch_normalization has it."""
    m = mean(f, "x")
    square = mean(f, squared(f, f("Sub", "x", m), "mul"))
    factor = f("Mul", f("Reciprocal", f("Sqrt", f("Add", square, 1e-3))), f.constant(SCALE))
    return f("Add", f("Mul", "x", factor), f("Sub", f.constant(BIAS), f("Mul", m, factor)))


def tensorflow_without_scale(f: Form) -> str:
    m = mean(f, "x")
    square = mean(f, squared(f, f("Sub", "x", m), "mul"))
    factor = f("Reciprocal", f("Sqrt", f("Add", square, 1e-3)))
    return f("Add", f("Mul", "x", factor), f("Sub", f.constant(BIAS), f("Mul", m, factor)))


def scale_beside_the_root(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x"))
    y = divided(f, d, f("Add", mean(f, squared(f, d, "mul")), 1e-5), "one over", f.constant(SCALE))
    return f("Add", y, f.constant(BIAS))


def scale_first(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x"))
    root = f("Sqrt", f("Add", mean(f, squared(f, d, "pow")), 1e-5))
    return f("Add", f("Div", f("Mul", f.constant(SCALE), d), root), f.constant(BIAS))


def plain(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x"))
    return divided(f, d, f("Add", mean(f, squared(f, d, "mul")), 1e-5), "div")


def bias_only(f: Form) -> str:
    return f("Add", plain(f), f.constant(BIAS))


def no_epsilon(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x"))
    return divided(f, d, mean(f, squared(f, d, "mul")), "reciprocal", f.constant(SCALE))


LAYER_NORMS = [
    torch_old,
    centred_twice,
    tensorflow,
    tensorflow_without_scale,
    scale_beside_the_root,
    scale_first,
    plain,
    bias_only,
    no_epsilon,
]


@pytest.mark.parametrize("form", LAYER_NORMS, ids=lambda f: f.__name__)
def test_layer_norm(form: Callable[[Form], str]) -> None:
    f = Form(("n", "t", C))
    samples = [[3 * RNG.standard_normal((2, 5, C)).astype(np.float32) + 1]]
    found = after(find_layer_norm, f.model(form(f)), *samples, odd=odd_rows(C)[None])
    assert counts(found)["layer_norm"] == 1 and set(counts(found)) <= {"layer_norm", "reshape", "broadcast_to"}


@pytest.mark.parametrize("how", ["div", "reciprocal", "one over", "pow", "root by pow"])
@pytest.mark.parametrize("place", ["none", "beside", "after"])
def test_rms_norm(how: str, place: str) -> None:
    f = Form(("n", "t", C))
    square = f("Add", mean(f, squared(f, "x", "pow" if how == "pow" else "mul"), "sum"), 1e-6)
    y = divided(f, "x", square, how, f.constant(SCALE) if place == "beside" else None)
    y = f("Mul", f.constant(SCALE), y) if place == "after" else y
    samples = [[3 * RNG.standard_normal((2, 5, C)).astype(np.float32)]]
    found = after(find_rms_norm, f.model(y), *samples, odd=odd_rows(C)[None])
    assert counts(found)["rms_norm"] == 1 and set(counts(found)) <= {"rms_norm", "reshape", "broadcast_to"}
    (op,) = [n.op for n in found.nodes if isinstance(n.op, RmsNorm)]
    assert op.axis == 2 and op.epsilon == float(np.float32(1e-6))


@pytest.mark.parametrize("form", [plain, torch_old], ids=lambda f: f.__name__)
def test_bfloat16(form: Callable[[Form], str]) -> None:
    f = Form((4, C), dtype=ml_dtypes.bfloat16)
    x = RNG.standard_normal((4, C)).astype(ml_dtypes.bfloat16)
    assert counts(after(find_layer_norm, f.model(form(f)), [x]))["layer_norm"] == 1


def test_float32_between_casts_from_float16() -> None:
    f = Form(("n", C), dtype=np.float16)
    wide = f("Cast", "x", to=1)
    square = f("Add", mean(f, f("Pow", wide, f.constant(2, np.float32))), f.constant(1e-6, np.float32))
    y = f("Mul", wide, f("Reciprocal", f("Sqrt", square)))
    y = f("Mul", f("Cast", y, to=10), f.constant(SCALE))
    x = RNG.standard_normal((3, C)).astype(np.float16)
    found = after(find_rms_norm, f.model(y), [x], [300 * x], odd=odd_rows(C, np.float16))
    assert counts(found)["rms_norm"] == 1 and counts(found)["cast"] == 2


def test_several_axes_and_a_scale_of_some_of_them() -> None:
    f = Form(("n", 4, C))
    d = f("Sub", "x", mean(f, "x", axes=(1, 2)))
    y = divided(f, d, f("Add", mean(f, squared(f, d, "mul"), axes=(1, 2)), 1e-5), "reciprocal")
    y = f("Add", f("Mul", y, f.constant(SCALE)), f.constant(RNG.standard_normal((4, 1))))
    x = RNG.standard_normal((3, 4, C)).astype(np.float32)
    assert counts(after(find_layer_norm, f.model(y), [x]))["layer_norm"] == 1


def test_parameters_that_are_no_constants() -> None:
    f = Form(("n", C), (C,), (1, C))
    y = f("Add", f("Mul", plain(f), "x1"), "x2")
    sample = [RNG.standard_normal(s).astype(np.float32) for s in ((3, C), (C,), (1, C))]
    found = after(find_layer_norm, f.model(y), sample)
    assert set(counts(found)) <= {"layer_norm", "reshape"}


def test_a_scale_that_varies_along_the_rows_stays() -> None:
    f = Form(("n", 3, C), ("n", 3, C))
    y = f("Add", f("Mul", plain(f), "x1"), f.constant(BIAS))
    sample = [RNG.standard_normal((2, 3, C)).astype(np.float32) for _ in range(2)]
    found = counts(after(find_layer_norm, f.model(y), sample))
    assert found["layer_norm"] == 1 and found["mul"] == 1 and found["add"] == 1


def test_a_residual_is_no_bias() -> None:
    f = Form((1, 1, C), (1, 1, C))
    y = f("Add", f("Mul", plain(f), f.constant(SCALE)), "x1")
    sample = [RNG.standard_normal((1, 1, C)).astype(np.float32) for _ in range(2)]
    found = counts(after(find_layer_norm, f.model(y), sample))
    assert found["layer_norm"] == 1 and found["mul"] == 0 and found["add"] == 1


def test_what_is_used_elsewhere_is_computed_once() -> None:
    f = Form((3, C))
    inner = plain(f)
    y = f("Mul", inner, f.constant(SCALE))
    found = counts(after(find_layer_norm, f.model(y, inner), [RNG.standard_normal((3, C)).astype(np.float32)]))
    assert found["layer_norm"] == 1 and found["mul"] == 1


def fast_variance(f: Form) -> str:
    """mean(x^2) - mean^2, which is rounded otherwise."""
    m = mean(f, "x")
    square = f("Sub", mean(f, f("Mul", "x", "x")), f("Mul", m, m))
    return divided(f, f("Sub", "x", m), f("Add", square, 1e-5), "div")


def epsilon_outside(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x"))
    return f("Div", d, f("Add", f("Sqrt", mean(f, f("Mul", d, d))), 1e-5))


def unbiased(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x"))
    return divided(f, d, f("Add", f("Div", f.reduce("Sum", f("Mul", d, d)), C - 1.0), 1e-5), "div")


def negative_epsilon(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x"))
    return divided(f, d, f("Add", mean(f, f("Mul", d, d)), -1e-5), "div")


def epsilon_of_each_row(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x"))
    return divided(
        f, d, f("Add", mean(f, f("Mul", d, d)), f.constant([[1e-5], [1e-4], [1e-3], [1e-2], [1], [2]])), "div"
    )


def leading_axis(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x", axes=(0,)))
    return divided(f, d, f("Add", mean(f, f("Mul", d, d), axes=(0,)), 1e-5), "div")


def other_rows(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x"))
    square = f("Transpose", mean(f, f("Mul", d, d)), perm=[1, 0])
    return divided(f, d, f("Add", square, 1e-5), "div")


def reshaped_rows(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x"))
    square = f("Reshape", mean(f, f("Mul", d, d)), f.constant([1, C], np.int64))
    return divided(f, d, f("Add", square, 1e-5), "div")


def mean_of_something_else(f: Form) -> str:
    d = f("Sub", "x", mean(f, f("Abs", "x")))
    return divided(f, f("Sub", "x", mean(f, "x")), f("Add", mean(f, f("Mul", d, d)), 1e-5), "div")


def turned_over(f: Form) -> str:
    d = f("Sub", "x", mean(f, "x"))
    return f("Div", f("Sqrt", f("Add", mean(f, f("Mul", d, d)), 1e-5)), d)


LEFT = [
    fast_variance,
    epsilon_outside,
    unbiased,
    negative_epsilon,
    epsilon_of_each_row,
    leading_axis,
    other_rows,
    reshaped_rows,
    mean_of_something_else,
    turned_over,
]


@pytest.mark.parametrize("form", LEFT, ids=lambda f: f.__name__)
def test_what_is_no_layer_norm_is_left(form: Callable[[Form], str]) -> None:
    f = Form((C, C))
    graph = imported(f.model(form(f)))
    assert find_layer_norm(graph) is graph
    assert find_rms_norm(graph) is graph


def root_mean_square(f: Form) -> str:
    return f("Div", "x", f("Sqrt", mean(f, f("Mul", "x", "x"))))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_float16_whose_squares_overflow_and_float64_are_left(dtype: type) -> None:
    for step, make in ((find_layer_norm, plain), (find_rms_norm, root_mean_square)):
        f = Form((3, C), dtype=dtype)
        graph = imported(f.model(make(f)))
        assert step(graph) is graph


def test_few_long_rows_are_left() -> None:
    for rows, found in ((2, 0), (8, 1)):
        f = Form((rows, 1 << 17))
        y = f("Div", "x", f("Sqrt", f("Add", mean(f, f("Mul", "x", "x")), 1e-5)))
        assert counts(find_rms_norm(imported(f.model(y))))["rms_norm"] == found


def weight(b: GraphBuilder, *shape: int) -> Value:
    array = RNG.standard_normal(shape).astype(np.float32)
    return b.weight(TensorType(DType.F32, shape), lambda: array)


def of_channels(b: GraphBuilder, x: Value) -> Value:
    """Each pixel's channels of x [N, C, H, W] normalised, with a scale and a bias of the channels."""
    channels = int(str(x.type.shape[1]))
    d = compose.binary(b, "sub", x, compose.reduce(b, "mean", x, (1,)))
    square = compose.with_scalar(b, "add", compose.reduce(b, "mean", compose.binary(b, "mul", d, d), (1,)), 1e-6)
    y = compose.binary(b, "div", d, compose.unary(b, "sqrt", square))
    for fn in ("mul", "add"):
        y = compose.binary(b, fn, y, compose.reshape(b, weight(b, channels), (1, channels, 1, 1)))
    return y


def of_images(b: GraphBuilder, x: Value) -> Value:
    d = compose.binary(b, "sub", x, compose.reduce(b, "mean", x, (2, 3)))
    square = compose.with_scalar(b, "add", compose.reduce(b, "mean", compose.binary(b, "mul", d, d), (2, 3)), 1e-6)
    return compose.binary(b, "mul", d, compose.unary(b, "rsqrt", square))


@pytest.mark.parametrize("norm", [of_channels, of_images], ids=lambda f: f.__name__)
def test_between_convolutions_channels_come_last(norm: Callable[[GraphBuilder, Value], Value]) -> None:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (symbol("n"), 3, 9, 8)), "x")
    conv = Conv((1, 1), (1, 1), (1, 1), (1, 1), 1)
    y = norm(b, b.emit(conv, x, weight(b, 5, 3, 3, 3)))
    graph = b.finish([b.emit(conv, compose.unary(b, "relu", y), weight(b, 4, 5, 3, 3))], ["y"])
    found = optimize(graph, "cpu")
    kinds = counts(found)
    assert kinds["layer_norm"] == (norm is of_channels) and kinds["rms_norm"] == 0
    moved = [n for n in found.nodes if n.op.name == "transpose" and n.inputs[0].type.rank == 4]
    assert len([n for n in moved if n.inputs[0].type.shape[0] == symbol("n")]) == 2  # of the input and of the output
    sample = RNG.standard_normal((2, 3, 9, 8)).astype(np.float32)
    np.testing.assert_allclose(run(found, [sample])[0], run(graph, [sample])[0], 1e-4, 1e-4)


def of_jax(x: TensorType) -> Graph:
    """As jnp.mean, jnp.var and flax's LayerNorm with its slow variance are lowered: reductions without their axis, sums over the width."""
    b = GraphBuilder()
    rows, width = x.shape[:-1], x.shape[-1]
    value = b.input(x, "x")

    def total(v: Value) -> Value:
        return b.emit(Reshape(rows), b.emit(Reduce("sum", (x.rank - 1,)), v))

    def repeated(number: float) -> Value:
        return compose.full(b, number, x.with_shape(rows))

    def over(v: Value) -> Value:
        return b.emit(Reshape((*rows, 1)), b.emit(Binary("div"), v, repeated(float(str(width)))))

    def centred() -> Value:
        return b.emit(Binary("sub"), value, b.emit(BroadcastTo(x.shape), over(total(value))))

    d = centred()
    variance = b.emit(Reshape(rows), over(total(b.emit(Binary("mul"), d, d))))
    valid = compose.full(b, True, TensorType(DType.BOOL, rows))
    variance = b.emit(Select(), valid, variance, repeated(np.nan))
    inverse = compose.unary(b, "rsqrt", b.emit(Binary("add"), variance, repeated(1e-6)))
    factor = b.emit(BroadcastTo(x.shape), b.emit(Reshape((*rows, 1)), inverse))
    scale, bias = (compose.expand(b, weight(b, int(str(width))), x.shape) for _ in range(2))
    y = b.emit(Binary("mul"), centred(), b.emit(Binary("mul"), factor, scale))
    return b.finish([b.emit(Binary("add"), y, bias)], ["y"])


@pytest.mark.parametrize("rows", [(11, 1), (symbol("n"), 1), (1100, 7)], ids=str)
def test_form_of_jax(rows: tuple[object, ...]) -> None:
    graph = of_jax(TensorType(DType.F32, (*rows, C)))  # type: ignore[arg-type]
    found = find_layer_norm(simplify(graph))
    check(found)
    assert counts(found)["layer_norm"] == 1 and set(counts(found)) <= {"layer_norm", "reshape", "broadcast_to"}
    if rows[1] == 1:
        x = odd_rows(C)[:, None]
        assert_same(run(found, [x])[0], run(graph, [x])[0])


def test_in_the_body_of_control_flow() -> None:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (3, C)), "x")
    condition = b.input(TensorType(DType.BOOL, ()), "c")
    scale = weight(b, C)
    bodies = []
    for fn in ("neg", "abs"):
        inner = GraphBuilder(b)
        value = compose.unary(inner, fn, x)
        square = compose.reduce(inner, "mean", compose.binary(inner, "mul", value, value), (1,))
        y = compose.binary(
            inner, "div", value, compose.unary(inner, "sqrt", compose.with_scalar(inner, "add", square, 1e-5))
        )
        bodies.append(inner.finish([compose.binary(inner, "mul", y, scale)]))
    graph = b.finish([b.emit(If((x.type,)), condition, regions=tuple(bodies))], ["y"])
    found = find_rms_norm(graph)
    check(found)
    assert counts(found)["rms_norm"] == 2 and counts(found)["mean"] == 0
    sample: list[Array] = [RNG.standard_normal((3, C)).astype(np.float32), np.array(True)]
    assert_same(run(found, sample)[0], run(graph, sample)[0])
