"""Products of quantised numbers become one operation of exact sums; what is none of them stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from composed import Array, Form, counts, imported

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Conv, MatMul, QuantizedLinear, Transpose
from fornaxc.ir.serialize import graph_digest
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.fuse_quantized import DEEPEST, DEEPEST_IN_F32, fuse_quantized
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack

K, N = 10, 18
MICROSOFT = {"domain": "com.microsoft"}


def whole(shape: tuple[int, ...], dtype: Any = np.int8, seed: int = 0) -> Array:
    """Bytes, signed ones of 7 bits: in onnxruntime sums of u8 by s8 overflow on some processors."""
    low, high = (-64, 64) if np.dtype(dtype).kind == "i" else (0, 128)
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def steps(size: int | None) -> Array:
    """Scales: one, or one for each column."""
    return np.float32(0.01) if size is None else (0.01 + np.arange(size) / 1000).astype(np.float32)


def restored(
    f: Form, x: str | Array, scale: Array, zero: Array | None = None, axis: int = 1, dtype: Any = np.uint8
) -> str:
    """DequantizeLinear of bytes, or of what QuantizeLinear makes of a value."""
    limits = [f.constant(scale, np.float32)]
    if zero is not None:
        limits.append(f.constant(zero, x.dtype if isinstance(x, np.ndarray) else dtype))
    if isinstance(x, np.ndarray):
        return f("DequantizeLinear", f.constant(x, x.dtype), *limits, axis=axis)
    return f("DequantizeLinear", f("QuantizeLinear", x, *limits, axis=axis), *limits, axis=axis)


def linear(model: onnx.ModelProto, samples: list[Array], dtype: Any = np.float32) -> tuple[QuantizedLinear, Graph]:
    """The one product that the pass makes of a model, and its graph, which gives the numbers of before and of onnxruntime: bytes within one step."""
    before = imported(model)
    graph = fuse_quantized(before)
    check(graph)
    (found,) = (n.op for n in prepack(graph).nodes if isinstance(n.op, QuantizedLinear))
    given = dict(zip(before.input_names, samples, strict=True))
    (reference,) = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, given
    )
    for wanted in (run(before, samples)[0], reference):
        (y,) = run(graph, samples)
        assert (y.dtype, y.shape) == (np.dtype(dtype), wanted.shape)
        if np.dtype(dtype).kind == "f":
            np.testing.assert_allclose(y, wanted, 1e-5, 1e-5)
        else:
            assert np.abs(y.astype(int) - wanted).max() <= 1
            assert (y != wanted).mean() < 0.02
    return found, graph


@pytest.mark.parametrize("w_type", [np.int8, np.uint8])
@pytest.mark.parametrize(("x_type", "zero"), [(np.uint8, None), (np.uint8, 128), (np.int8, -3)])
@pytest.mark.parametrize(("columns", "w_zero"), [(None, 0), (N, 0), (None, 3), (N, 5)])
def test_dequantised_bytes(w_type: Any, x_type: Any, zero: int | None, columns: int | None, w_zero: int) -> None:
    f = Form((2, "m", K))
    left = restored(f, "x", np.float32(0.03), None if zero is None else np.array(zero), dtype=x_type)
    scale = steps(columns)
    right = restored(f, whole((K, N), w_type), scale, np.full(scale.shape, w_zero))
    op, _ = linear(f.model(f("MatMul", left, right)), [numbers(2, 3, K)])
    assert op == QuantizedLinear(N, DType.F32, w_zero=bool(w_zero) or w_type is np.uint8)


@pytest.mark.parametrize("wide", [False, True])
def test_what_follows_is_inside(wide: bool) -> None:
    f = Form(("m", K))
    product = f("MatMul", restored(f, "x", 0.03, np.array(120)), restored(f, whole((K, N)), steps(N)))
    y = f("Relu", f("Add", f.constant(numbers(N)), product))
    bytes_ = f("QuantizeLinear", y, f.constant(0.02), f.constant(7, np.uint8))
    model = f.model(
        f("DequantizeLinear", bytes_, 0.02, f.constant(7, np.uint8)) if wide else bytes_,
        dtype=None if wide else np.uint8,
    )
    before = imported(model)
    after = fuse_quantized(before)
    (op,) = (n.op for n in prepack(after).nodes if isinstance(n.op, QuantizedLinear))
    assert op == QuantizedLinear(N, DType.U8, relu=True)
    x = numbers(40, K)
    (found,), (wanted,) = run(after, [x]), run(before, [x])
    assert np.abs(found.astype(float) - wanted).max() <= (0.0201 if wide else 1)
    assert (found != wanted).mean() < 0.01
    assert not {"mat_mul", "relu"} & counts(prepack(after)).keys()


@pytest.mark.parametrize("per_row", [False, True])
def test_a_transposed_matrix(per_row: bool) -> None:
    f = Form(("m", K))
    right = f("Transpose", restored(f, whole((N, K)), steps(N if per_row else None), axis=0), perm=[1, 0])
    linear(f.model(f("MatMul", restored(f, "x", 0.03, np.array(3)), right)), [numbers(4, K)])


def test_gemm() -> None:
    f = Form(("m", K))
    operands = restored(f, "x", 0.03, np.array(3)), restored(f, whole((N, K)), steps(None)), f.constant(numbers(N))
    op, graph = linear(f.model(f("Gemm", *operands, transB=1)), [numbers(4, K)])
    assert op == QuantizedLinear(N, DType.F32)
    assert prepack(graph).nodes[-1].op == op, "the bias is inside"


CHANNELS, FILTERS = 5, 7
GEOMETRIES: dict[str, dict[str, Any]] = {
    "one pixel": {"kernel_shape": [1, 1]},
    "strides": {"kernel_shape": [1, 1], "strides": [2, 3]},
    "padded": {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1]},
    "dilated": {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [2, 3, 0, 1], "dilations": [3, 2]},
    "SAME_UPPER": {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
}


def filters(*window: int, dtype: Any = np.int8) -> Array:
    return whole((FILTERS, CHANNELS, *window), dtype)


@pytest.mark.parametrize("x_type", [np.uint8, np.int8])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_convolution_of_dequantised_bytes(geometry: str, x_type: Any) -> None:
    f = Form(("n", CHANNELS, 9, 8))
    attributes = GEOMETRIES[geometry]
    x = restored(f, "x", np.float32(0.03), np.array(9), dtype=x_type)
    w = restored(f, filters(*attributes["kernel_shape"]), steps(FILTERS), np.zeros(FILTERS), axis=0)
    y = f("Relu", f("Conv", x, w, f.constant(numbers(FILTERS)), **attributes))
    y = f("QuantizeLinear", y, f.constant(0.1), f.constant(3, x_type))
    op, graph = linear(f.model(y, dtype=x_type), [numbers(2, CHANNELS, 9, 8)], x_type)
    assert op == QuantizedLinear(FILTERS, op.dtype, relu=True)
    assert op.dtype is (DType.U8 if x_type is np.uint8 else DType.I8)
    assert not {"conv", "relu"} & counts(prepack(graph)).keys()


def test_a_convolution_over_a_line() -> None:
    f = Form((2, CHANNELS, 11))
    x, w = restored(f, "x", 0.03, np.array(9)), restored(f, filters(3, dtype=np.uint8), 0.02, np.array(40), axis=0)
    op, _ = linear(f.model(f("Conv", x, w, pads=[2, 1], strides=[2])), [numbers(2, CHANNELS, 11)])
    assert op == QuantizedLinear(FILTERS, DType.F32, w_zero=True)


def test_an_image_of_open_size() -> None:
    f = Form(("n", CHANNELS, "h", "w"))
    x, w = restored(f, "x", 0.03, np.array(9)), restored(f, filters(3, 3), steps(FILTERS), axis=0)
    linear(f.model(f("Conv", x, w, pads=[1, 1, 1, 1])), [numbers(2, CHANNELS, 5, 6)])


def test_an_integer_convolution() -> None:
    f = byte_input((2, CHANNELS, 6, 7))
    y = f("ConvInteger", "x", f.constant(filters(3, 3), np.int8), f.constant(5, np.uint8), pads=[1, 1, 1, 1])
    op, _ = linear(f.model(y, dtype=np.int32), [whole((2, CHANNELS, 6, 7), np.uint8)], np.int32)
    assert op == QuantizedLinear(FILTERS, DType.I32)


def test_a_quantised_convolution() -> None:
    """Its bias is of whole numbers."""
    f = byte_input((2, CHANNELS, 6, 7))
    x = ["x", f.constant(0.02, np.float32), f.constant(4, np.uint8)]
    w = [
        f.constant(filters(3, 3), np.int8),
        f.constant(steps(FILTERS), np.float32),
        f.constant(np.zeros(FILTERS), np.int8),
    ]
    limits = (
        f.constant(0.05, np.float32),
        f.constant(90, np.uint8),
        f.constant(np.arange(FILTERS) * 100 - 300, np.int32),
    )
    y = f("QLinearConv", *x, *w, *limits, pads=[1, 0, 0, 2])
    op, graph = linear(f.model(y, dtype=np.uint8), [whole((2, CHANNELS, 6, 7), np.uint8)], np.uint8)
    assert op == QuantizedLinear(FILTERS, DType.U8)
    assert "add" not in counts(prepack(graph))


def test_one_layout_between_convolutions() -> None:
    """Bytes go from one to the next channels last."""
    f = Form((1, CHANNELS, 6, 7))
    y = restored(f, "x", 0.03, np.array(9))
    for filter in (filters(3, 3), whole((CHANNELS, FILTERS, 1, 1)), filters(3, 3)):
        y = f("Conv", y, restored(f, filter, 0.02, axis=0), auto_pad="SAME_UPPER")
        y = restored(f, f("Relu", y), 0.05, np.array(3))
    graph = prepack(optimize(imported(f.model(y)), "cpu"))
    assert counts(graph)["quantized_linear"] == 3
    assert counts(graph)["transpose"] == 2, "what goes in, and what comes out"


def byte_input(shape: tuple[int | str, ...], dtype: Any = np.uint8) -> Form:
    return Form(shape, dtype=dtype)


def test_integer_product() -> None:
    f = byte_input(("m", K))
    zeros = f.constant(3, np.uint8), f.constant(np.arange(N) - 5, np.int8)
    y = f("MatMulInteger", "x", f.constant(whole((K, N)), np.int8), *zeros)
    op, _ = linear(f.model(y, dtype=np.int32), [whole((5, K), np.uint8)], np.int32)
    assert op == QuantizedLinear(N, DType.I32, w_zero=True)


def test_integer_product_as_floats() -> None:
    f = byte_input((2, "m", K), np.int8)
    total = f("Cast", f("MatMulInteger", "x", f.constant(whole((K, N)), np.int8), f.constant(3, np.int8)), to=1)
    y = f("Add", f("Mul", total, f.constant(steps(N), np.float32)), f.constant(numbers(N), np.float32))
    op, _ = linear(f.model(y, dtype=np.float32), [whole((2, 3, K))])
    assert op == QuantizedLinear(N, DType.F32)


def test_dynamic_quantisation() -> None:
    f = Form(("m", K))
    operands = "x", f.constant(whole((K, N)), np.int8), f.constant(steps(N)), f.constant(np.arange(N) - 9, np.int8)
    y = f("DynamicQuantizeMatMul", *operands, f.constant(numbers(N)), **MICROSOFT)
    op, _ = linear(with_microsoft(f.model(y)), [numbers(7, K)])
    assert op == QuantizedLinear(N, DType.F32, w_zero=True)


def with_microsoft(model: onnx.ModelProto) -> onnx.ModelProto:
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return model


def test_integer_to_float() -> None:
    f = byte_input(("m", K))
    limits = f.constant(0.02, np.float32), f.constant(steps(N), np.float32), f.constant(4, np.uint8)
    y = f("MatMulIntegerToFloat", "x", f.constant(whole((K, N)), np.int8), *limits, **MICROSOFT)
    op, _ = linear(with_microsoft(f.model(y, dtype=np.float32)), [whole((5, K), np.uint8)])
    assert op == QuantizedLinear(N, DType.F32)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantised_product(dtype: Any) -> None:
    f = byte_input(("m", K), dtype)
    x = [f.constant(0.02, np.float32), f.constant(4, dtype)]
    w = [f.constant(whole((K, N)), np.int8), f.constant(steps(None), np.float32), f.constant(0, np.int8)]
    y = f("QLinearMatMul", "x", *x, *w, f.constant(0.05, np.float32), f.constant(9, dtype))
    op, _ = linear(f.model(y, dtype=dtype), [whole((50, K), dtype)], dtype)
    assert op.dtype is (DType.U8 if dtype is np.uint8 else DType.I8)


def test_halves_go_to_even_and_what_is_beyond_saturates() -> None:
    f = Form(("m", 1))
    product = f(
        "MatMul",
        restored(f, "x", 1.0, np.array(0), dtype=np.int8),
        restored(f, np.array([[1, 100, -100]], np.int8), 1.0),
    )
    model = f.model(f("QuantizeLinear", product, f.constant(2.0), f.constant(10, np.uint8)), dtype=np.uint8)
    _, graph = linear(model, [np.array([[1], [3], [5], [-1], [-3]], np.float32)], np.uint8)
    (found,) = run(graph, [np.array([[1], [3], [5], [-1], [-3]], np.float32)])
    np.testing.assert_array_equal(found, [[10, 60, 0], [12, 160, 0], [12, 255, 0], [10, 0, 60], [8, 0, 160]])


def test_another_model_of_the_structure_is_the_same_program() -> None:
    def digest(seed: int, zero: int) -> str:
        f = Form(("m", K))
        left = restored(f, "x", 0.03 + seed, np.array(zero))
        right = restored(f, whole((K, N), seed=seed), steps(N) * (1 + seed), np.arange(N) - zero)
        y = f("Relu", f("Add", f("MatMul", left, right), f.constant(numbers(N, seed=seed))))
        y = f("QuantizeLinear", y, f.constant(0.02 + seed), f.constant(zero, np.uint8))
        graph = prepack(optimize(imported(f.model(y, dtype=np.uint8)), "cpu"))
        assert counts(graph)["quantized_linear"] == 1
        return graph_digest(graph)

    assert digest(0, 3) == digest(1, 77)


def stays(f: Form, y: str, dtype: Any = np.float32) -> Graph:
    graph = fuse_quantized(imported(f.model(y, dtype=dtype)))
    assert not any(isinstance(n.op, QuantizedLinear) for n in graph.nodes)
    return graph


def test_a_matrix_that_is_no_constant_stays() -> None:
    for inner, columns in ((K, N), (K, "n"), ("k", "n")):
        f = Form(("m", inner), (inner, columns))
        stays(f, f("MatMul", restored(f, "x", 0.1, np.array(3)), restored(f, "x1", 0.1, np.array(3))))


def test_filters_that_are_no_constant_stay() -> None:
    f = Form(("n", CHANNELS, "h", "w"), (FILTERS, CHANNELS, 3, 3))
    stays(f, f("Conv", restored(f, "x", 0.1, np.array(3)), restored(f, "x1", 0.1, np.array(3))))


def test_a_convolution_in_groups_and_one_over_a_volume_stay() -> None:
    f = Form((1, 6, 5, 5))
    stays(f, f("Conv", restored(f, "x", 0.1, np.array(3)), restored(f, whole((6, 2, 3, 3)), steps(6), axis=0), group=3))
    f = Form((1, 2, 5, 5, 5))
    stays(f, f("Conv", restored(f, "x", 0.1, np.array(3)), restored(f, whole((6, 2, 3, 3, 3)), steps(6), axis=0)))


def conv_type(model: onnx.ModelProto, x: Array) -> DType:
    """The element type of the one convolution that the pass leaves in a model, which gives onnxruntime's integers."""
    graph = fuse_quantized(imported(model))
    check(graph)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(run(graph, [x])[0], session.run(None, {graph.input_names[0]: x})[0])
    (node,) = (n for n in graph.nodes if isinstance(n.op, Conv))
    return node.outputs[0].type.dtype


@pytest.mark.parametrize("shape", [(6, 2, 3, 3), (6, 2, 2, 3, 3)])
def test_integer_sums_in_groups_are_exact_in_floats(shape: tuple[int, ...]) -> None:
    image = (1, 6, *(5,) * (len(shape) - 2))
    form = Form(image, dtype=np.uint8)
    zeros = [form.constant(np.array(7), t) for t in (np.uint8, np.int8)]
    y = form("ConvInteger", "x", form.constant(whole(shape), np.int8), *zeros, group=3)
    assert conv_type(form.model(y, dtype=np.int32), whole(image, np.uint8)) is DType.F32


def test_integer_sums_that_floats_cannot_hold_stay_integers() -> None:
    for deep, dtype in ((DEEPEST_IN_F32, DType.F32), (DEEPEST_IN_F32 + 1, DType.I32)):
        form = Form((1, 2, deep), dtype=np.uint8)
        y = form("ConvInteger", "x", form.constant(np.full((2, 1, deep), 255), np.uint8), group=2)
        assert conv_type(form.model(y, dtype=np.int32), np.full((1, 2, deep), 255, np.uint8)) is dtype


def test_numbers_that_are_not_quantised_stay() -> None:
    f = Form(("m", K))
    stays(f, f("MatMul", "x", restored(f, whole((K, N)), steps(N))))
    f = Form(("m", K))
    stays(f, f("MatMul", restored(f, "x", 0.1, np.array(3)), f.constant(numbers(K, N))))


def test_scales_along_the_sum_stay() -> None:
    f = Form(("m", K))
    stays(f, f("MatMul", restored(f, "x", steps(K), np.full(K, 3)), restored(f, whole((K, N)), steps(N))))
    f = Form(("m", K))
    stays(f, f("MatMul", restored(f, "x", 0.1, np.array(3)), restored(f, whole((K, N)), steps(K), axis=0)))


def test_sums_that_may_overflow_stay_in_floats() -> None:
    for inner, fused in ((DEEPEST, 1), (DEEPEST + 1, 0)):
        f = Form(("m", inner))
        y = f("MatMul", restored(f, "x", 0.1, np.array(3)), restored(f, whole((inner, 16)), steps(16)))
        graph = fuse_quantized(imported(f.model(y)))
        assert counts(graph)["quantized_linear"] == fused


def test_a_product_that_is_used_twice_stays_a_float() -> None:
    f = Form(("m", K))
    y = f("MatMul", restored(f, "x", 0.1, np.array(3)), restored(f, whole((K, N)), steps(N)))
    both = f("Add", f("Relu", y), f("DequantizeLinear", f("QuantizeLinear", y, 0.1), 0.1))
    op, graph = linear(f.model(both), [numbers(4, K) / 10])
    assert op == QuantizedLinear(N, DType.F32)
    assert counts(prepack(graph))["quantized_linear"] == 1


def test_a_residual_and_a_gate_stay_outside() -> None:
    f = Form(("m", K), ("m", N))
    y = f("MatMul", restored(f, "x", 0.1, np.array(3)), restored(f, whole((K, N)), steps(N)))
    op, graph = linear(f.model(f("Mul", f("Add", y, "x1"), "x1")), [numbers(4, K), numbers(4, N)])
    assert op == QuantizedLinear(N, DType.F32)
    assert counts(graph)["add"] >= 1


def test_a_factor_after_a_bias_stays_outside() -> None:
    f = Form(("m", K))
    y = f("MatMul", restored(f, "x", 0.1, np.array(3)), restored(f, whole((K, N)), steps(N)))
    y = f("Mul", f("Relu", f("Add", y, f.constant(numbers(N)))), f.constant(-steps(N)))
    op, _ = linear(f.model(y), [numbers(4, K)])
    assert op == QuantizedLinear(N, DType.F32, relu=True)


def test_a_transpose_that_changes_nothing() -> None:
    w = whole((K, K))
    b = GraphBuilder()
    x = b.input(TensorType(DType.U8, (3, K)), "x")
    matrix = compose.cast(b, b.weight(TensorType(DType.I8, (K, K)), lambda: w), DType.I32)
    product = b.emit(MatMul(), compose.cast(b, x, DType.I32), b.emit(Transpose((0, 1)), matrix))
    graph = b.finish([product], ["y"])
    given = [whole((3, K), np.uint8)]
    np.testing.assert_array_equal(run(fuse_quantized(graph), given)[0], run(graph, given)[0])


@pytest.mark.parametrize(
    ("dtype", "zero", "fuses"),
    [(DType.I8, None, True), (DType.U8, None, False), (DType.I8, -128, True), (DType.I8, 128, False)],
)
def test_zero_points_that_are_no_bytes_of_the_data_stay_in_floats(dtype: DType, zero: int | None, fuses: bool) -> None:
    """Their sums may overflow."""
    b = GraphBuilder()
    x = b.input(TensorType(DType.I8, (1, DEEPEST)), "x")
    w = np.full((DEEPEST, 1), -128, np.int8)
    given = b.input(TensorType(dtype, ()), "zero")
    offset = compose.cast(b, given, DType.I32) if zero is None else compose.scalar(b, zero, DType.I32)

    def restored(data: Value) -> Value:
        centred = compose.binary(b, "sub", compose.cast(b, data, DType.I32), offset)
        return compose.with_scalar(b, "mul", compose.cast(b, centred, DType.F32), 0.5)

    matrix = restored(b.weight(TensorType(DType.I8, w.shape), lambda: w))
    graph = b.finish([b.emit(MatMul(), restored(x), matrix)], ["y"])
    after = fuse_quantized(graph)
    assert counts(after)["quantized_linear"] == fuses
    arrays = [np.full((1, DEEPEST), -128, np.int8), np.array(255 if dtype is DType.U8 else 127, dtype.numpy)]
    np.testing.assert_allclose(run(after, arrays)[0], run(graph, arrays)[0], 1e-4)
