"""A loaded model judges inputs once for their types and shapes, and refuses what it refused before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fornaxc import runtime
from fornaxc.errors import UsageError
from fornaxc.runtime import JUDGED, Model


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    original = runtime.check_inputs

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return original(*arguments)

    monkeypatch.setattr(runtime, "check_inputs", counted)
    return calls


@pytest.fixture
def model() -> Model:
    from max.driver import CPU

    config: dict[str, Any] = {
        "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 3]}, {"name": "w", "dtype": "bool", "shape": ["n"]}],
        "outputs": [],
        "constraints": [],
    }
    return Model(SimpleNamespace(config=config), None, CPU(), ())  # type: ignore[arg-type]


def inputs(n: int, value: float = 0.0) -> dict[str, Any]:
    return {"w": np.arange(n) > 0, "x": np.full((n, 3), value, np.float32)}


def test_the_same_types_and_shapes_are_judged_once(model: Model, judged: list[int]) -> None:
    for value in (1.0, 2.0, 3.0):
        x, w = model.prepare(inputs(2, value))
        np.testing.assert_array_equal(x.to_numpy(), np.full((2, 3), value, np.float32))
        np.testing.assert_array_equal(w.to_numpy(), [False, True])
    assert len(judged) == 1
    model.prepare(inputs(5))
    assert len(judged) == 2
    for n in range(2 * JUDGED):  # what is remembered has a bound
        model.prepare(inputs(n))
    assert model.prepare(inputs(2 * JUDGED))[0].shape == (2 * JUDGED, 3)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"x": np.zeros((2, 3))}, "FX221"),
        ({"x": np.zeros((3, 3), np.float32)}, "FX222"),
        ({"x": np.zeros((2, 3, 1), np.float32)}, "FX222"),
        ({"y": np.zeros((2, 3), np.float32)}, "FX220"),
        ({"x": "text"}, "FX221"),
        ({"x": None}, "FX221"),
    ],
)
def test_what_is_wrong_is_refused_after_what_is_right(model: Model, wrong: dict[str, Any], code: str) -> None:
    model.prepare(inputs(2))
    with pytest.raises(UsageError) as refusal:
        model.prepare({**inputs(2), **wrong})
    assert refusal.value.code == code
    with pytest.raises(UsageError):
        model.prepare({"w": inputs(2)["w"], "z": inputs(2)["x"]})


def test_what_is_no_array_of_numpy_is_taken_too(model: Model) -> None:
    class Named(np.ndarray):
        pass

    x, _ = model.prepare({**inputs(2), "x": inputs(2)["x"].view(Named)})
    assert x.shape == (2, 3)
    _, w = model.prepare({**inputs(2), "w": [True, False]})
    np.testing.assert_array_equal(w.to_numpy(), [True, False])
    turned = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal(model.prepare({**inputs(2), "x": turned})[0].to_numpy(), turned)
