"""The attention operators of ONNX and of onnxruntime, as the importer composes them, become one operation with the same numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper

from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Attention, BroadcastTo, Concat, Softmax
from fornaxc.passes.pipeline import optimize

Array = np.ndarray[Any, Any]
MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(3)


def f(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def imported(op: str, inputs: list[Array | None], outputs: int = 1, symbolic: bool = False, **attributes: Any) -> Graph:
    """The graph of one node; its opset is 24. `symbolic`: the importer does not know sizes that are 3, 5 or 8. `constants`: inputs that are initializers."""
    domain, constants = attributes.pop("domain", ""), attributes.pop("constants", ())
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    infos = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(a.dtype),
            [f"n{d}" if symbolic and d in (3, 5, 8) else d for d in a.shape],
        )
        for i, (name, a) in enumerate(zip(names, inputs, strict=True))
        if a is not None and i not in constants
    ]
    tensors = [numpy_helper.from_array(inputs[i], names[i]) for i in constants]
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info(r) for r in results], tensors)
    imports = [helper.make_opsetid("", 24), helper.make_opsetid(MICROSOFT, 1)]
    return import_model(model_from_proto(helper.make_model(graph, opset_imports=imports, ir_version=10)), {})


def same(graph: Graph, *feeds: list[Array]) -> Graph:
    """The optimised graph, which gives the same numbers."""
    better = optimize(graph, "cpu")
    for given in feeds:
        for wanted, got in zip(run(graph, given), run(better, given), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    return better


def fused(op: str, inputs: list[Array | None], outputs: int = 1, symbolic: bool = False, **attributes: Any) -> Graph:
    graph = imported(op, inputs, outputs, symbolic, **attributes)
    given = [a for i, a in enumerate(inputs) if a is not None and i not in attributes.get("constants", ())]
    strange = [a.copy() for a in given]
    strange[0][:1, -1:] = np.nan
    strange[1][-1:, :1] = np.inf
    better = same(graph, given, strange)
    assert len([n for n in better.walk() if isinstance(n.op, Attention)]) == 1
    assert not any(isinstance(n.op, Softmax) for n in better.walk())
    return better


SEEN = RNG.random((3, 5)) > 0.4
SEEN[1] = False
MASKS = [None, SEEN, np.where(SEEN, np.float32(0), np.float32(-np.inf)), f(2, 1, 3, 5), f(4, 3, 5)]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("mask", MASKS, ids=["none", "bool", "-inf", "float", "heads"])
def test_attention_of_opset_23(mask: Array | None, symbolic: bool) -> None:
    fused("Attention", [f(2, 4, 3, 6), f(2, 4, 5, 6), f(2, 4, 5, 7), mask], symbolic=symbolic)


@pytest.mark.parametrize("symbolic", [False, True])
def test_causal(symbolic: bool) -> None:
    fused("Attention", [f(2, 4, 3, 6), f(2, 4, 5, 6), f(2, 4, 5, 7)], symbolic=symbolic, is_causal=1, scale=0.3)
    fused("Attention", [f(2, 4, 3, 6), f(2, 4, 5, 6), f(2, 4, 5, 7), SEEN], symbolic=symbolic, is_causal=1)


@pytest.mark.parametrize("symbolic", [False, True])
def test_shared_heads_are_not_copied(symbolic: bool) -> None:
    better = fused("Attention", [f(2, 4, 3, 6), f(2, 2, 5, 6), f(2, 2, 5, 7)], symbolic=symbolic)
    assert not any(v.type.shape[1:3] == (4, 5) for n in better.walk() for v in n.outputs)


@pytest.mark.parametrize("symbolic", [False, True])
def test_packed_heads_need_no_transposes(symbolic: bool) -> None:
    better = fused(
        "Attention", [f(2, 3, 24), f(2, 5, 24), f(2, 5, 28)], symbolic=symbolic, q_num_heads=4, kv_num_heads=4
    )
    (op,) = (n.op for n in better.walk() if isinstance(n.op, Attention))
    assert op == Attention("blhc", "blhc", "blhc", "blhc")


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_cache_of_keys_and_values(symbolic: bool) -> None:
    past = [f(2, 2, 8, 6), f(2, 2, 8, 7)]
    mask = RNG.random((1, 1, 1, 9)) > 0.3
    inputs = [f(2, 4, 1, 6), f(2, 2, 1, 6), f(2, 2, 1, 7), mask, *past]
    better = fused("Attention", inputs, 3, symbolic)
    assert sum(isinstance(n.op, Concat) for n in better.walk()) == 2
    assert not any(isinstance(n.op, BroadcastTo) and n.outputs[0].type.rank == 5 for n in better.walk())
    fused("Attention", [*inputs[:3], None, *past], 3, symbolic, is_causal=1)


def test_keys_beyond_the_valid_length() -> None:
    lengths = np.array([2, 4], np.int64)
    fused("Attention", [f(2, 4, 3, 6), f(2, 4, 5, 6), f(2, 4, 5, 7), None, None, None, lengths])


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention(unidirectional: int, symbolic: bool) -> None:
    queries = 5 if unidirectional else 3
    inputs = [f(2, queries, 24), f(2, 5, 24), f(2, 5, 28)]
    past = [f(2, 4, 1, 6), f(2, 4, 1, 7)]
    kind = {"domain": MICROSOFT, "num_heads": 4, "unidirectional": unidirectional, "symbolic": symbolic}
    fused("MultiHeadAttention", list(inputs), **kind)
    fused("MultiHeadAttention", [*inputs, None, None, f(2, 4, queries, 6), *past], 3, **kind)
    fused("MultiHeadAttention", [*inputs, None, np.array([[1, 1, 0, 1, 0], [1] * 5], np.int32)], **kind)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_of_onnxruntime(unidirectional: int) -> None:
    mask = np.array([[1, 1, 0, 1, 0], [1] * 5], np.int32)
    kind = {"domain": MICROSOFT, "num_heads": 2, "unidirectional": unidirectional}
    fused("Attention", [f(2, 5, 6), f(6, 24), f(24)], **kind)
    fused("Attention", [f(2, 5, 6), f(6, 24), f(24), mask], **kind)


def cache(new: int, past: int) -> list[Array | None]:
    """Inputs of GroupQueryAttention up to the past values: 4 heads share 2, all of size 6."""
    return [f(2, new, 24), f(2, new, 12), f(2, new, 12), f(2, 2, past, 6), f(2, 2, past, 6)]


@pytest.mark.parametrize("extra", [{}, {"local_window_size": 2}, {"scale": 0.3}], ids=str)
def test_group_query_attention(extra: dict[str, Any]) -> None:
    kind = {"domain": MICROSOFT, "num_heads": 4, "kv_num_heads": 2, "constants": (6,), **extra}
    filled = [np.array([8, 6], np.int32), np.array(9, np.int32)]
    better = fused("GroupQueryAttention", [*cache(1, 8), *filled], 3, **kind)
    assert not any(v.type.shape[1:3] == (4, 9) for n in better.walk() for v in n.outputs)
    prompt = [np.array([4, 4], np.int32), np.array(5, np.int32)]
    fused("GroupQueryAttention", [*cache(5, 0)[:3], None, None, *prompt], 3, **kind)
    fused("GroupQueryAttention", [*cache(1, 8), *filled, None, None, None, f(1, 1, 1, 9)], 3, **kind)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_attention_of_halves(dtype: Any) -> None:
    inputs = [a.astype(dtype) for a in (f(2, 4, 3, 6), f(2, 2, 5, 6), f(2, 2, 5, 7))]
    graph = imported("Attention", inputs, is_causal=1)
    better = optimize(graph, "cpu")
    assert any(isinstance(n.op, Attention) for n in better.walk())
    (wanted,), (got,) = run(graph, inputs), run(better, inputs)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(
        got.astype(float), wanted.astype(float), rtol=4e-2, atol=4e-2 if dtype != np.float16 else 4e-3
    )


def test_capped_scores_and_scores_that_are_shown_stay_composed() -> None:
    inputs = [f(2, 4, 3, 6), f(2, 4, 5, 6), f(2, 4, 5, 7)]
    for graph in (imported("Attention", list(inputs), softcap=2.0), imported("Attention", [*inputs, SEEN], 4)):
        better = same(graph, inputs if len(graph.inputs) == 3 else [*inputs, SEEN])
        assert not any(isinstance(n.op, Attention) for n in better.walk())
