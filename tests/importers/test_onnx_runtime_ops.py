"""onnxruntime's own operators against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from against_onnxruntime import assert_same

from fornaxc.errors import UnsupportedError
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto

RNG = np.random.default_rng(7)
F = np.float32
X = RNG.standard_normal((2, 3, 8)).astype(F)
U = RNG.integers(0, 256, (2, 3, 4, 4)).astype(np.uint8)
LINE = {
    "g": RNG.standard_normal(8).astype(F),
    "h": RNG.standard_normal(8).astype(F),
    "k": RNG.standard_normal(8).astype(F),
}
QUANT = {"s": F(0.02), "z": np.uint8(120), "t": F(0.05), "w": np.uint8(7)}
OTHER = {**QUANT, "v": RNG.integers(0, 256, (3, 1, 4)).astype(np.uint8)}
GEMM = {
    **QUANT,
    "m": RNG.integers(-64, 64, (5, 8)).astype(np.int8),  # with eight bits onnxruntime's sums overflow without VNNI
    "ms": np.linspace(0.01, 0.05, 5).astype(F),
    "mz": np.zeros(5, np.int8),
    "c": RNG.integers(-99, 99, 5).astype(np.int32),
}
BITS = {
    "q": RNG.integers(0, 256, (6, 2, 8)).astype(np.uint8),
    "qs": RNG.standard_normal((6, 2)).astype(F),
    "qz": RNG.integers(0, 256, (6, 1)).astype(np.uint8),
}

CASES: list[tuple[str, str, Any, dict[str, Any], int]] = [
    ("skip", "y, a, b, u = com.microsoft.SkipLayerNormalization<epsilon=1e-5>(x, x, g, h, k)", X, LINE, 2),
    ("skip_plain", "y = com.microsoft.SkipLayerNormalization<epsilon=1e-5>(x, x, g)", X, LINE, 1),
    ("skip_rms", "y, a, b, u = com.microsoft.SkipSimplifiedLayerNormalization<epsilon=1e-5>(x, x, g, k)", X, LINE, 2),
    ("rms", "y = SimplifiedLayerNormalization<epsilon=1e-5>(x, g)", X, LINE, 1),
    ("bias_gelu", "y = com.microsoft.BiasGelu(x, g)", X, LINE, 1),
    ("fast_gelu", "y = com.microsoft.FastGelu(x, g)", X, LINE, 1),
    ("gelu", "y = com.microsoft.Gelu(x)", X, {}, 1),
    ("quick_gelu", "y = com.microsoft.QuickGelu<alpha=1.5>(x)", X, {}, 1),
    ("fused_matmul", "y = com.microsoft.FusedMatMul<alpha=0.5, transB=1>(x, x)", X, {}, 1),
    ("qadd", "y = com.microsoft.QLinearAdd(x, s, z, v, t, w, t, z)", U, OTHER, 1),
    ("qmul", "y = com.microsoft.QLinearMul(x, s, z, v, t, w, t, z)", U, OTHER, 1),
    ("qsigmoid", "y = com.microsoft.QLinearSigmoid(x, s, z, t, w)", U, QUANT, 1),
    ("qleaky", "y = com.microsoft.QLinearLeakyRelu<alpha=0.1>(x, s, z, t, z)", U, QUANT, 1),
    ("qpool", "y = com.microsoft.QLinearGlobalAveragePool(x, s, z, t, w)", U, QUANT, 1),
    ("qpool_last", "y = com.microsoft.QLinearGlobalAveragePool<channels_last=1>(x, s, z, t, w)", U, QUANT, 1),
    (
        "qsoftmax",
        "y = com.microsoft.QLinearSoftmax<axis=-1, opset=13>(x, t, z, p, n)",
        U,
        {**QUANT, "p": F(1 / 256), "n": np.uint8(0)},
        1,
    ),
    ("qconcat", "y = com.microsoft.QLinearConcat<axis=1>(t, w, x, s, z, x, t, w)", U, QUANT, 1),
    ("qgemm", "y = com.microsoft.QGemm<transB=1, alpha=0.5>(x, s, z, m, ms, mz, c, t, w)", U.reshape(-1, 8), GEMM, 1),
    ("qgemm_float", "y = com.microsoft.QGemm<transB=1>(x, s, z, m, ms, mz, c)", U.reshape(-1, 8), GEMM, 1),
    (
        "nbits",
        "y = com.microsoft.MatMulNBits<K=32, N=6, bits=4, block_size=16>(x, q, qs, qz)",
        RNG.standard_normal((3, 32)).astype(F),
        BITS,
        1,
    ),
    (
        "nbits_symmetric",
        "y = com.microsoft.MatMulNBits<K=32, N=6, bits=4, block_size=16>(x, q, qs)",
        RNG.standard_normal((3, 32)).astype(F),
        BITS,
        1,
    ),
]


def parsed(inputs: dict[str, Any], names: list[str], node: str, constants: dict[str, Any]) -> onnx.ModelProto:
    """A model of one node; the types of its outputs are left to inference."""
    kinds = {"float32": "float", "uint8": "uint8", "int32": "int32", "int64": "int64"}
    taken = ", ".join(f"{kinds[x.dtype.name]}{list(x.shape) if x.ndim else ''} {name}" for name, x in inputs.items())
    head = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    model = onnx.parser.parse_model(f"{head} ({taken}) => ({', '.join('float ' + v for v in names)}) {{ {node} }}")
    for output in model.graph.output:
        output.ClearField("type")
    used = {name for n in model.graph.node for name in n.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items() if k in used
    )
    return model


@pytest.mark.parametrize(("name", "node", "x", "constants", "outputs"), CASES, ids=[case[0] for case in CASES])
def test_it_agrees_with_onnxruntime(name: str, node: str, x: Any, constants: dict[str, Any], outputs: int) -> None:
    names = ["y", "u"][:outputs]
    assert_same(parsed({"x": x}, names, node.replace("a, b,", '"", "",'), constants), {"x": x})


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(F)


ANGLES = np.outer(np.arange(16), 0.5 ** np.arange(4)).astype(F)
ROTATION = {"cos": np.cos(ANGLES), "sin": np.sin(ANGLES)}
WIDE_ROTATION = {name: np.concatenate([table, table[:, ::-1]], axis=1) for name, table in ROTATION.items()}


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("places", [np.array([3]), np.array([[0, 1, 2], [5, 6, 7]])])
def test_rotary_embedding(interleaved: int, places: Any) -> None:
    inputs = {"x": floats(2, 3, 32), "p": places}
    node = f"y = com.microsoft.RotaryEmbedding<interleaved={interleaved}>(x, p, cos, sin)"
    assert_same(parsed(inputs, ["y"], node, ROTATION), inputs)


@pytest.mark.parametrize("causal", [0, 1])
def test_multi_head_attention_with_a_past(causal: int) -> None:
    inputs = {
        "q": floats(2, 3, 8),
        "k": floats(2, 3, 8),
        "v": floats(2, 3, 8),
        "pk": floats(2, 2, 4, 4),
        "pv": floats(2, 2, 4, 4),
    }
    attributes = f"num_heads=2, unidirectional={causal}"
    node = f'y, nk, nv = com.microsoft.MultiHeadAttention<{attributes}>(q, k, v, bias, "", add, pk, pv)'
    constants = {"bias": floats(24), "add": floats(1, 2, 3, 7)}
    assert_same(parsed(inputs, ["y", "nk", "nv"], node, constants), inputs)


def test_multi_head_attention_over_padded_keys() -> None:
    inputs = {"q": floats(2, 3, 8), "k": floats(2, 5, 8), "v": floats(2, 5, 8)}
    node = "y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v, bias, mask)"
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    assert_same(parsed(inputs, ["y"], node, {"bias": floats(24), "mask": mask}), inputs)


@pytest.mark.parametrize("causal", [0, 1])
def test_multi_head_attention_of_inputs_whose_sizes_have_other_names(causal: int) -> None:
    inputs = {"q": floats(2, 3, 8), "k": floats(2, 3, 8), "v": floats(2, 3, 8)}
    model = parsed(
        inputs, ["y"], f"y = com.microsoft.MultiHeadAttention<num_heads=2, unidirectional={causal}>(q, k, v)", {}
    )
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim[:2]):
            dim.dim_param = f"{value.name}{axis}"
    assert_same(model, inputs)


def test_unidirectional_attention_to_more_keys_than_queries_is_refused() -> None:
    inputs = {"q": floats(2, 3, 8), "k": floats(2, 5, 8), "v": floats(2, 5, 8)}
    node = "y = com.microsoft.MultiHeadAttention<num_heads=2, unidirectional=1>(q, k, v)"
    with pytest.raises(UnsupportedError) as refusal:
        import_model(model_from_proto(parsed(inputs, ["y"], node, {})), {})
    assert "3 queries to 5 new keys" in refusal.value.details[0]["reason"]


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("past", "new"), [(0, 3), (5, 1), (4, 2)])
def test_group_query_attention(rotary: int, packed: bool, past: int, new: int) -> None:
    batch = 1 if past and new > 1 else 2
    inputs = {"q": floats(batch, new, 128 if packed else 64)}
    if not packed:
        inputs |= {"k": floats(batch, new, 32), "v": floats(batch, new, 32)}
    inputs |= {"pk": floats(batch, 2, past, 16), "pv": floats(batch, 2, past, 16)}
    constants = {"n": np.full(batch, past + new - 1, np.int32), "t": np.int32(past + new), **WIDE_ROTATION}
    given = '"", ""' if packed else "k, v"
    tables = ", cos, sin" if rotary else ""
    attributes = f"num_heads=4, kv_num_heads=2, do_rotary={rotary}"
    node = f"y, nk, nv = com.microsoft.GroupQueryAttention<{attributes}>(q, {given}, pk, pv, n, t{tables})"
    assert_same(parsed(inputs, ["y", "nk", "nv"], node, constants), inputs)


def test_group_query_attention_over_pasts_of_different_lengths() -> None:
    inputs = {"q": floats(2, 1, 64), "k": floats(2, 1, 32), "v": floats(2, 1, 32)}
    inputs |= {"pk": floats(2, 2, 5, 16), "pv": floats(2, 2, 5, 16)}
    constants = {"n": np.array([5, 3], np.int32), "t": np.int32(6), **WIDE_ROTATION}
    attributes = "num_heads=4, kv_num_heads=2, do_rotary=1"
    node = f"y, nk, nv = com.microsoft.GroupQueryAttention<{attributes}>(q, k, v, pk, pv, n, t, cos, sin)"
    assert_same(parsed(inputs, ["y"], node, constants), inputs)
