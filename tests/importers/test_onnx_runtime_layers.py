"""onnxruntime's operators that hold a whole layer: attention, embeddings, convolutions with activations, quantised products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from against_onnxruntime import assert_agrees, computed, one_node, reference

from fornaxc.errors import ModelError, UnsupportedError

RNG = np.random.default_rng(11)


def f(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> Any:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> Any:
    """Numbers of seven bits: onnxruntime's sums of u8 times s8 overflow beyond them where the processor has no VNNI."""
    return RNG.integers(-64, 64, shape).astype(np.int8)


def number(value: float, kind: Any = np.float32) -> Any:
    return np.array(value, kind)


X, W, B = f(2, 5, 6), f(6, 24), f(24)
SHORT = np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]], np.int32)
SQUARE = (RNG.random((2, 5, 5)) > 0.3).astype(np.int32)
PAST = f(2, 2, 2, 3, 4)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("mask", "attributes"),
    [
        (None, {}),
        (None, {"unidirectional": 1, "scale": 0.3}),
        (np.array([3, 5], np.int32), {}),
        (np.array([4, 5, 1, 0], np.int32), {}),
        (SHORT, {"mask_filter_value": -3.0}),
        (SHORT, {"unidirectional": 1}),
        (SQUARE, {}),
    ],
)
def test_attention(mask: Any, attributes: dict[str, Any], symbolic: bool) -> None:
    if symbolic and mask is not None and mask.shape == (4,):
        pytest.skip("which of the two forms a mask of one axis has depends on the batch")
    constants = (1, 2) if symbolic else ()
    assert_agrees("Attention", [X, W, B, mask], num_heads=2, symbolic=symbolic, constants=constants, **attributes)


def test_attention_with_a_past_values_of_another_size_and_a_bias() -> None:
    mask = (RNG.random((2, 8)) > 0.3).astype(np.int32)
    assert_agrees("Attention", [X, W, B, None, PAST], ["y", "present"], num_heads=2)
    assert_agrees("Attention", [X, W, B, mask, PAST], ["y", "present"], num_heads=2, unidirectional=1)
    assert_agrees("Attention", [X, f(6, 28), f(28)], num_heads=2, qkv_hidden_sizes=[8, 8, 12])
    assert_agrees("Attention", [X, W, None, None, None, f(1, 2, 5, 5)], num_heads=2)


@pytest.mark.parametrize(("op", "flag"), [("Attention", "do_rotary"), ("Attention", "past_present_share_buffer")])
def test_attention_refuses_by_name(op: str, flag: str) -> None:
    model, feeds = one_node(op, [X, W, B], num_heads=2, **{flag: 1})
    with pytest.raises(UnsupportedError) as refusal:
        computed(model, feeds)
    assert refusal.value.details[0]["reason"] == flag


def test_quantised_attention() -> None:
    x, w = u8(2, 5, 6), i8(6, 24)
    scales = [B, number(0.02), number(0.01)]
    zeros = [number(100, np.uint8), number(3, np.int8)]
    assert_agrees("QAttention", [x, w, *scales, SHORT, *zeros], num_heads=2)
    columns = [B, number(0.02), np.linspace(0.01, 0.03, 24).astype(np.float32)]
    assert_agrees("QAttention", [x, w, *columns, None, zeros[0], i8(24) // 16], num_heads=2, unidirectional=1)
    last = [None, number(100, np.uint8), number(0, np.int8), PAST]
    assert_agrees("QAttention", [x, w, *scales, *last], ["y", "present"], num_heads=2, unidirectional=1)


def test_embed_layer_normalization() -> None:
    words = RNG.integers(0, 20, (2, 5)).astype(np.int32)
    segments = RNG.integers(0, 2, (2, 5)).astype(np.int32)
    tables = [f(20, 8), f(12, 8), f(2, 8), f(8), f(8)]
    assert_agrees("EmbedLayerNormalization", [words, segments, *tables], ["y", "mask", "sum"])
    assert_agrees("EmbedLayerNormalization", [words, segments, *tables, SHORT], ["y", "mask", "sum"], epsilon=1e-3)
    places = RNG.integers(0, 12, (1, 5)).astype(np.int32)
    plain = [words, None, tables[0], tables[1], None, tables[3], tables[4]]
    assert_agrees("EmbedLayerNormalization", [*plain, None, places], ["y", "", "sum"])


@pytest.mark.parametrize(
    "mask", [np.array([3, 5], np.int32), SHORT, (RNG.random((2, 3, 5)) > 0.3).astype(np.int32)], ids=["1", "2", "3"]
)
def test_multi_head_attention_masks(mask: Any) -> None:
    inputs = [f(2, 3, 8), f(2, 5, 8), f(2, 5, 12), None, mask]
    assert_agrees("MultiHeadAttention", inputs, num_heads=2, mask_filter_value=-2.0)


def test_multi_head_attention_to_keys_that_are_split_in_heads() -> None:
    keys = [f(2, 2, 5, 4), f(2, 2, 5, 4)]
    assert_agrees("MultiHeadAttention", [f(2, 3, 8), *keys], num_heads=2)
    assert_agrees("MultiHeadAttention", [f(2, 3, 8), *keys, f(24)], num_heads=2)


def cache(batch: int, new: int, past: int, room: int | None = None) -> list[Any]:
    """Inputs of GroupQueryAttention: `past` elements in a buffer of `room`."""
    size = past if room is None else room
    total = np.full(batch, past + new - 1, np.int32), number(past + new, np.int32)
    parts = [f(batch, new, 64), f(batch, new, 32), f(batch, new, 32)]
    return [*parts, f(batch, 2, size, 16), f(batch, 2, size, 16), *total]


GROUPED: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2, "outputs": ["y", "k", "v"], "constants": (6,)}


@pytest.mark.parametrize(
    "attributes",
    [
        *({"local_window_size": n} for n in (1, 2, 4, 6)),
        {"softcap": 1.5},
        {"smooth_softmax": 1},
        {"scale": 0.7},
    ],
    ids=str,
)
def test_group_query_attention_attributes(attributes: dict[str, Any]) -> None:
    assert_agrees("GroupQueryAttention", cache(1, 2, 4), **GROUPED, **attributes)


@pytest.mark.parametrize(("batch", "new", "past", "room"), [(1, 2, 4, 8), (2, 1, 4, 9), (2, 3, 0, 9), (2, 1, 4, 4)])
def test_group_query_attention_in_a_buffer_with_room(batch: int, new: int, past: int, room: int) -> None:
    assert_agrees("GroupQueryAttention", cache(batch, new, past, room), **GROUPED)


def test_group_query_attention_over_a_prompt_of_different_lengths() -> None:
    inputs = cache(2, 3, 0)
    inputs[5] = np.array([2, 1], np.int32)
    assert_agrees("GroupQueryAttention", [*inputs[:3], None, None, *inputs[5:]], **GROUPED)


def test_group_query_attention_with_positions_a_bias_and_sinks() -> None:
    angles = np.outer(np.arange(16), 0.5 ** np.arange(8)).astype(np.float32)
    tables = [np.cos(angles), np.sin(angles)]
    later = [*cache(1, 2, 4), *tables, np.array([[7, 2]], np.int64)]
    assert_agrees("GroupQueryAttention", later, do_rotary=1, **GROUPED)
    prompt = [*cache(2, 3, 0), *tables, np.array([[7, 8, 9], [3, 4, 5]], np.int64)]
    assert_agrees("GroupQueryAttention", prompt, do_rotary=1, **GROUPED)
    extras = [None, None, None, f(1, 1, 2, 6), f(4)]
    assert_agrees("GroupQueryAttention", [*cache(1, 2, 4), *extras], softcap=2.0, local_window_size=3, **GROUPED)


def test_group_query_attention_refuses_a_total_length_of_the_run_time() -> None:
    model, feeds = one_node("GroupQueryAttention", cache(1, 2, 4), num_heads=4, kv_num_heads=2)
    with pytest.raises(UnsupportedError) as refusal:
        computed(model, feeds)
    assert "total_sequence_length" in refusal.value.details[0]["reason"]


ACTIVATIONS = [
    {"activation": "Relu"},
    {"activation": "LeakyRelu", "activation_params": [0.2]},
    {"activation": "Clip", "activation_params": [-0.5, 0.7]},
    {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
    {"activation": "Tanh"},
    {"activation": "Sigmoid"},
]


@pytest.mark.parametrize("attributes", ACTIVATIONS, ids=lambda a: a["activation"])
def test_fused_convolution(attributes: dict[str, Any]) -> None:
    windows = {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1]}
    inputs = [f(2, 4, 7, 9), f(6, 2, 3, 2), f(6), f(2, 6, 4, 9)]
    assert_agrees("FusedConv", inputs, **windows, **attributes)


def test_fused_convolution_with_channels_last() -> None:
    x, w, bias, more = f(2, 4, 7, 9), f(6, 4, 3, 2), f(6), f(2, 6, 5, 8)
    (wanted,) = reference(*one_node("FusedConv", [x, w, bias, more], activation="Relu"))
    last = [np.moveaxis(x, 1, 3), w, bias, np.moveaxis(more, 1, 3)]
    (found,) = computed(*one_node("NhwcFusedConv", last, activation="Relu"))
    np.testing.assert_allclose(found, np.moveaxis(wanted, 1, 3), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "attributes",
    [
        {"activation": "Relu"},
        {"activation": "LeakyRelu", "activation_alpha": 0.3},
        {"activation": "Elu", "activation_alpha": 0.3},
        {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.4},
        {"activation": "Softsign"},
        {"activation": "ThresholdedRelu", "activation_alpha": 0.3},
    ],
    ids=lambda a: a["activation"],
)
def test_fused_gemm(attributes: dict[str, Any]) -> None:
    assert_agrees("FusedGemm", [f(4, 3), f(5, 4), f(5)], transA=1, transB=1, alpha=0.5, **attributes)


@pytest.mark.parametrize(
    ("left", "right", "attributes"),
    [
        ((4, 2, 3, 5), (2, 3, 5, 6), {"transBatchA": 1}),
        ((5, 2, 3, 4), (2, 3, 5, 6), {"transBatchA": 1, "transA": 1}),
        ((2, 3, 4, 5), (6, 2, 3, 5), {"transBatchB": 1, "transB": 1, "alpha": 2.0}),
    ],
)
def test_fused_matmul_with_batches_moved(left: Any, right: Any, attributes: dict[str, Any]) -> None:
    assert_agrees("FusedMatMul", [f(*left), f(*right)], **attributes)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances(metric: str) -> None:
    assert_agrees("CDist", [f(4, 3), f(5, 3)], metric=metric)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 0, 1, 1]},
        {"pads": [1, 0, 1, 1], "count_include_pad": 1},
        {"ceil_mode": 1},
        {"channels_last": 1, "pads": [1, 1, 0, 1]},
    ],
    ids=str,
)
def test_quantised_average_pool(attributes: dict[str, Any]) -> None:
    scales = [number(0.02), number(120, np.uint8), number(0.0317), number(10, np.uint8)]
    inputs = [u8(2, 3, 7, 9), *scales]
    assert_agrees("QLinearAveragePool", inputs, kernel_shape=[3, 2], strides=[2, 2], **attributes)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_mean_of_a_quantised_tensor(keepdims: int) -> None:
    x = u8(2, 3, 4)
    inputs = [x, number(0.02), number(120, np.uint8), number(0.05), number(7, np.uint8)]
    model, feeds = one_node("QLinearReduceMean", inputs, constants=range(1, 5), axes=[-1, 1], keepdims=keepdims)
    (found,) = computed(model, feeds)
    mean = ((x.astype(np.float64) - 120) * 0.02).mean((1, 2), keepdims=bool(keepdims))
    np.testing.assert_array_equal(found, np.clip(np.rint(mean / 0.05) + 7, 0, 255).astype(np.uint8))


def test_maximum_pool_with_channels_last() -> None:
    assert_agrees("NhwcMaxPool", [u8(2, 7, 9, 3)], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1])
    windows = {"kernel_shape": [2, 2], "dilations": [2, 1], "strides": [2, 2]}
    assert_agrees("NhwcMaxPool", [i8(2, 7, 9, 3)], ceil_mode=1, **windows)


def test_quantised_where() -> None:
    parameters = [number(0.03), number(10, np.uint8)]
    first = [u8(2, 3, 7, 5), number(0.02), number(120, np.uint8)]
    condition = RNG.random((3, 7, 1)) > 0.5
    assert_agrees("QLinearWhere", [condition, *first, u8(1, 3, 7, 5), *parameters, *parameters])


@pytest.mark.parametrize("last", [0, 1])
def test_quantised_convolution(last: int) -> None:
    x = u8(2, 5, 7, 3) if last else u8(2, 3, 5, 7)
    w = [u8(4, 3, 2, 3), number(0.01), number(128, np.uint8)]
    result = [number(0.2), number(100, np.uint8), RNG.integers(-99, 99, 4).astype(np.int32)]
    inputs = [x, number(0.02), number(120, np.uint8), *w, *result]
    assert_agrees("QLinearConv", inputs, constants=(3,), **({"channels_last": 1} if last else {}))


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_rows_of_a_quantised_table(bits: int, zeros: bool) -> None:
    columns = 24 * 8 // bits
    blocks = -(-columns // 16)
    inputs = [u8(10, 24), np.array([[1, -3, 9], [0, 0, 5]], np.int64), f(10, blocks)]
    inputs += [u8(10, -(-blocks * bits // 8))] if zeros else []
    assert_agrees("GatherBlockQuantized", inputs, constants=(0, 3), bits=bits, block_size=16, quantize_axis=1)


def test_product_with_eight_bit_weights_and_a_bias() -> None:
    blocks = [u8(6, 2, 16), f(12) / 50, u8(12)]
    inputs = [f(3, 32), *blocks, None, f(6)]
    assert_agrees("MatMulNBits", inputs, constants=(1, 3), K=32, N=6, bits=8, block_size=16)


def test_prepacked_weights_are_refused() -> None:
    inputs = [f(3, 32), u8(6, 2, 16), f(12)]
    model, feeds = one_node("MatMulNBits", inputs, constants=(1,), K=32, N=6, bits=8, block_size=16, weight_prepacked=1)
    with pytest.raises(UnsupportedError):
        computed(model, feeds)


@pytest.mark.parametrize("symbolic", [False, True])
def test_product_of_activations_quantised_as_they_come(symbolic: bool) -> None:
    w, columns = i8(5, 6), np.linspace(0.01, 0.03, 6).astype(np.float32)
    rest: dict[str, Any] = {"symbolic": symbolic, "constants": (1, 2, 3, 4)}
    assert_agrees("DynamicQuantizeMatMul", [f(2, 4, 5), w, number(0.02), None, f(6)], **rest)
    assert_agrees("DynamicQuantizeMatMul", [f(2, 4, 5), w, columns, i8(6) // 32], **rest)
    assert_agrees("DynamicQuantizeMatMul", [np.zeros((4, 5), np.float32), w, number(0.02), None, f(6)], **rest)
    each = [u8(2, 5, 6), np.abs(f(2, 1, 6)), u8(2, 1, 6)]
    assert_agrees("DynamicQuantizeMatMul", [f(2, 4, 5), *each])


def test_integer_product_as_float() -> None:
    x, w = u8(2, 4, 5), i8(5, 6)
    columns = np.linspace(0.01, 0.03, 6).astype(np.float32)
    scales = [number(0.02), number(0.03), number(7, np.uint8)]
    assert_agrees("MatMulIntegerToFloat", [x, w, *scales, None, f(6)])
    assert_agrees("MatMulIntegerToFloat", [x, w, number(0.02), columns, number(7, np.uint8), i8(6) // 32])
    assert_agrees("MatMulIntegerToFloat", [i8(2, 4, 5), w, number(0.02), number(0.03)])


@pytest.mark.parametrize("kind", [np.int16, np.uint16])
def test_product_of_sixteen_bit_integers(kind: Any) -> None:
    x, w = (RNG.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape).astype(kind) for shape in ((2, 4, 5), (5, 6)))
    (found,) = computed(*one_node("MatMulInteger16", [x, w]))
    wide = np.uint32 if kind is np.uint16 else np.int32
    assert found.dtype == wide
    np.testing.assert_array_equal(found, x.astype(wide) @ w.astype(wide))


def test_a_product_without_the_scale_of_its_weights_is_invalid() -> None:
    with pytest.raises(ModelError) as problem:
        computed(*one_node("MatMulIntegerToFloat", [u8(4, 5), i8(5, 6), number(0.02), None]))
    assert "a scale, is missing" in problem.value.message


def test_layer_normalization_of_an_old_model() -> None:
    assert_agrees("LayerNormalization", [f(2, 3, 8), f(8), f(8)], domain="", opset=11)


@pytest.mark.parametrize("batch", [1, 3])
def test_lstm_of_eight_bits(batch: int) -> None:
    weights = [i8(2, 3, 20), i8(2, 5, 20), f(2, 40)]
    states = [None, f(2, batch, 5), f(2, batch, 5), None]
    steps = [np.array([0.01, 0.02], np.float32), np.array([3, -2], np.int8)]
    inputs = [f(7, batch, 3), *weights, *states, *steps, *steps]
    fixed = (1, 2, 8, 9, 10, 11)
    outputs = ["y", "h", "c"]
    assert_agrees("DynamicQuantizeLSTM", inputs, outputs, constants=fixed, direction="bidirectional", hidden_size=5)
    columns = [np.linspace(0.01, 0.02, 20).astype(np.float32)[None], np.zeros((1, 20), np.int8)]
    start = [f(7, batch, 3), weights[0][:1], weights[1][:1], None, None, None, None, None]
    inputs = [*start, *columns, *columns]
    assert_agrees("DynamicQuantizeLSTM", inputs, outputs, constants=fixed, direction="reverse", hidden_size=5)


def test_zeros_are_quantised_with_the_step_one() -> None:
    zeros = np.zeros((2, 3), np.float32)
    assert_agrees("DynamicQuantizeLinear", [zeros], ["y", "scale", "zero"], domain="")


@pytest.mark.parametrize("upper", [0, 1])
def test_triangles(upper: int) -> None:
    assert_agrees("Trilu", [f(2, 4, 5), np.array(1)], upper=upper)
