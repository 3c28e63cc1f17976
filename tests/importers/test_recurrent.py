"""LSTM, GRU and RNN against the equations of the specification, one step and one sequence at a time."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import Array, f32, run_node

from fornaxc.errors import UnsupportedError

T, B, SIZE, H = 4, 3, 2, 2
RNG = np.random.default_rng(7)
LENGTHS = np.array([4, 1, 3], np.int32)


def _random(*shape: int) -> Array:
    return f32(RNG.normal(size=shape))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gru(x: Array, w: Array, r: Array, bias: Array, h: Array, linear: bool) -> Array:
    """One sequence: [steps, hidden]."""
    wz, wr, wh = np.split(w, 3)
    rz, rr, rh = np.split(r, 3)
    bz, br, bh, cz, cr, ch = np.split(bias, 6)
    out = []
    for step in x:
        z = _sigmoid(wz @ step + rz @ h + bz + cz)
        gate = _sigmoid(wr @ step + rr @ h + br + cr)
        carried = gate * (rh @ h + ch) if linear else rh @ (gate * h) + ch
        h = (1 - z) * np.tanh(wh @ step + bh + carried) + z * h
        out.append(h)
    return np.array(out)


def _expected(x: Array, w: Array, r: Array, bias: Array, lengths: Array, reverse: bool, linear: bool) -> Array:
    y = np.zeros((T, B, H))
    for i, length in enumerate(lengths):
        line = x[:length, i][::-1] if reverse else x[:length, i]
        found = _gru(line, w, r, bias, np.zeros(H), linear)
        y[:length, i] = found[::-1] if reverse else found
    return y


@pytest.mark.parametrize("linear", [0, 1])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("with_lengths", [False, True])
def test_gru(linear: int, with_bias: bool, direction: str, with_lengths: bool) -> None:
    count = 2 if direction == "bidirectional" else 1
    x, w, r, bias = _random(T, B, SIZE), _random(count, 3 * H, SIZE), _random(count, 3 * H, H), _random(count, 6 * H)
    lengths = LENGTHS if with_lengths else np.full(B, T, np.int32)
    y, last = run_node(
        "GRU",
        [x, w, r, bias if with_bias else None, lengths if with_lengths else None],
        opset=14,
        outputs=2,
        constants=[1, 2, 3],
        symbolic=[(0, 0), (0, 1)],
        hidden_size=H,
        direction=direction,
        linear_before_reset=linear,
    )
    for i, reverse in enumerate({"forward": [False], "reverse": [True]}.get(direction, [False, True])):
        used = bias[i] if with_bias else np.zeros(6 * H)
        wanted = _expected(x, w[i], r[i], used, lengths, reverse, bool(linear))
        np.testing.assert_allclose(y[:, i], wanted, rtol=1e-5, atol=1e-6)
        ends = [wanted[0 if reverse else n - 1, k] for k, n in enumerate(lengths)]
        np.testing.assert_allclose(last[i], ends, rtol=1e-5, atol=1e-6)


def test_lstm_with_peepholes_initial_states_and_clip() -> None:
    x, w, r, bias = _random(2, 1, SIZE), _random(1, 4 * H, SIZE), _random(1, 4 * H, H), _random(1, 8 * H)
    h, cell, peep = _random(1, 1, H), _random(1, 1, H), _random(1, 3 * H)
    y, last_h, last_c = run_node(
        "LSTM", [x, w, r, bias, None, h, cell, peep], opset=22, outputs=3, hidden_size=H, clip=0.7
    )
    state, c = h[0, 0], cell[0, 0]
    pi, po, pf = np.split(peep[0], 3)

    def bounded(v: Array) -> Array:
        return np.clip(v, -0.7, 0.7)

    for step in range(2):
        i, o, f, n = np.split(w[0] @ x[step, 0] + r[0] @ state + bias[0, : 4 * H] + bias[0, 4 * H :], 4)
        i, f = _sigmoid(bounded(i + pi * c)), _sigmoid(bounded(f + pf * c))
        c = f * c + i * np.tanh(bounded(n))
        state = _sigmoid(bounded(o + po * c)) * np.tanh(c)
        np.testing.assert_allclose(y[step, 0, 0], state, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last_h[0, 0], state, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last_c[0, 0], c, rtol=1e-5, atol=1e-6)


def test_batch_first_layout_moves_axes_only() -> None:
    x, w, r, h = _random(T, B, SIZE), _random(2, H, SIZE), _random(2, H, H), _random(2, B, H)
    plain = run_node("RNN", [x, w, r, None, None, h], opset=14, outputs=2, hidden_size=H, direction="bidirectional")
    moved = run_node(
        "RNN",
        [x.transpose(1, 0, 2), w, r, None, None, h.transpose(1, 0, 2)],
        opset=14,
        outputs=2,
        hidden_size=H,
        direction="bidirectional",
        layout=1,
    )
    np.testing.assert_allclose(moved[0], plain[0].transpose(2, 0, 1, 3), rtol=1e-6)
    np.testing.assert_allclose(moved[1], plain[1].transpose(1, 0, 2), rtol=1e-6)


def test_each_direction_has_its_activations() -> None:
    x, w, r = f32([[[2]], [[-3]]]), f32([[[1]], [[1]]]), f32([[[1]], [[1]]])
    (y,) = run_node("RNN", [x, w, r], opset=22, hidden_size=1, direction="bidirectional", activations=["Relu", "Tanh"])
    back = np.tanh(-3)
    np.testing.assert_allclose(y.reshape(2, 2), [[2, np.tanh(2 + back)], [0, back]], rtol=1e-6)


def test_an_activation_with_parameters_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        run_node("RNN", [_random(1, 1, SIZE), _random(1, H, SIZE), _random(1, H, H)], opset=22, activations=["Elu"])
