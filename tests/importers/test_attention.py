"""Attention and RotaryEmbedding."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import Array, f32, run_node

RNG = np.random.default_rng(5)
SYMBOLIC = [(i, axis) for i in range(3) for axis in (0, 2, 3)]


def _tensor(*shape: int) -> Array:
    return f32(RNG.normal(size=shape))


def _attention(q: Array, k: Array, v: Array, allowed: Array) -> Array:
    scores = np.where(allowed, q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -np.inf)
    weights = np.exp(scores - np.max(np.where(allowed, scores, -1e9), -1, keepdims=True))
    total = weights.sum(-1, keepdims=True)
    return np.asarray(np.where(total > 0, weights / np.where(total > 0, total, 1), 0) @ v)


@pytest.mark.parametrize(("queries", "keys"), [(2, 4), (4, 2), (3, 3)])
@pytest.mark.parametrize("symbolic", [[], SYMBOLIC])
def test_causal_masks_align_at_the_upper_left(queries: int, keys: int, symbolic: list[tuple[int, int]]) -> None:
    q, k, v = _tensor(1, 2, queries, 4), _tensor(1, 2, keys, 4), _tensor(1, 2, keys, 3)
    (y,) = run_node("Attention", [q, k, v], opset=23, is_causal=1, symbolic=symbolic)
    allowed = np.arange(keys)[None, :] <= np.arange(queries)[:, None]
    np.testing.assert_allclose(y, _attention(q, k, v, allowed), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("as_float", [False, True])
def test_a_query_that_sees_nothing_gives_zeros(as_float: bool) -> None:
    q, k, v = _tensor(1, 1, 2, 4), _tensor(1, 1, 3, 4), _tensor(1, 1, 3, 4)
    seen = np.array([[False, False, False], [True, False, True]])
    mask = np.where(seen, np.float32(0), np.float32(-np.inf)) if as_float else seen
    (y,) = run_node("Attention", [q, k, v, mask], opset=23)
    np.testing.assert_array_equal(y[0, 0, 0], np.zeros(4))
    np.testing.assert_allclose(y, _attention(q, k, v, seen), rtol=1e-4, atol=1e-5)


def test_past_keys_shift_the_causal_frontier() -> None:
    q, k, v = _tensor(1, 1, 1, 2), _tensor(1, 1, 1, 2), _tensor(1, 1, 1, 2)
    past_k, past_v = _tensor(1, 1, 2, 2), _tensor(1, 1, 2, 2)
    y, key, value = run_node("Attention", [q, k, v, None, past_k, past_v], opset=23, outputs=3, is_causal=1)
    np.testing.assert_array_equal(key, np.concatenate([past_k, k], 2))
    np.testing.assert_array_equal(value, np.concatenate([past_v, v], 2))
    np.testing.assert_allclose(y, _attention(q, key, value, np.ones((1, 3), bool)), rtol=1e-4, atol=1e-5)


def test_packed_grouped_heads() -> None:
    q, k, v = _tensor(1, 3, 4 * 2), _tensor(1, 3, 2 * 2), _tensor(1, 3, 2 * 5)
    (y,) = run_node("Attention", [q, k, v], opset=23, q_num_heads=4, kv_num_heads=2)

    def heads(x: Array, count: int) -> Array:
        return x.reshape(1, 3, count, -1).transpose(0, 2, 1, 3)

    wide = [np.repeat(heads(x, 2), 2, axis=1) for x in (k, v)]
    wanted = _attention(heads(q, 4), *wide, np.ones((3, 3), bool))
    np.testing.assert_allclose(y, wanted.transpose(0, 2, 1, 3).reshape(1, 3, 20), rtol=1e-4, atol=1e-5)


def test_keys_beyond_the_valid_length_are_not_seen() -> None:
    q, k, v = _tensor(2, 1, 1, 4), _tensor(2, 1, 3, 4), _tensor(2, 1, 3, 4)
    lengths = np.array([2, 3], np.int64)
    (y,) = run_node("Attention", [q, k, v, None, None, None, lengths], opset=24)
    allowed = (np.arange(3)[None, :] < lengths[:, None])[:, None, None, :]
    np.testing.assert_allclose(y, _attention(q, k, v, allowed), rtol=1e-4, atol=1e-5)


def test_a_sliding_window() -> None:
    q, k, v = _tensor(1, 1, 4, 4), _tensor(1, 1, 4, 4), _tensor(1, 1, 4, 4)
    (y,) = run_node("Attention", [q, k, v], opset=25, left_window_size=1, right_window_size=0)
    place = np.arange(4)
    allowed = (place[None, :] <= place[:, None]) & (place[None, :] >= place[:, None] - 1)
    np.testing.assert_allclose(y, _attention(q, k, v, allowed), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("interleaved", "wanted"), [(0, [-3, 2, 1, 4, 5]), (1, [-2, 1, 3, 4, 5])])
def test_rotation_of_a_part_of_each_head(interleaved: int, wanted: list[float]) -> None:
    # the first pair turns by 90 degrees, the second not at all
    x = f32([[[[1, 2, 3, 4, 5]]]])
    cos, sin = f32([[[0, 1]]]), f32([[[1, 0]]])
    (y,) = run_node("RotaryEmbedding", [x, cos, sin], opset=23, interleaved=interleaved, rotary_embedding_dim=4)
    np.testing.assert_allclose(y.reshape(-1), wanted)
