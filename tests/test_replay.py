"""Recorded runs: what is asked of MAX's engine, in place of which stands one that computes on the host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fornaxc.errors import ToolchainError, UnsupportedError, UsageError
from fornaxc.runtime import Model

X = np.arange(6, dtype=np.float32).reshape(2, 3)
X.flags.writeable = False


# Inputs are copied where they are recorded: a buffer of the host, unlike one of a GPU, is the array itself.


class Engine:
    """y = 2 x into buffers of its own, as a GPU replays: only what the recorded buffers hold now counts."""

    def __init__(self) -> None:
        self.runs: dict[int, tuple[Any, Any]] = {}
        self.asked: list[str] = []
        self.refuses = ""

    def execute(self, x: Any) -> list[Any]:
        from max.driver import Buffer

        self.asked.append("execute")
        return [Buffer.from_numpy(2 * x.to_numpy())]

    def capture(self, key: int, x: Any) -> list[Any]:
        from max.driver import Buffer

        if self.refuses:
            raise RuntimeError(self.refuses)
        self.asked.append("capture")
        result = Buffer.from_numpy(np.zeros(tuple(x.shape), np.float32))
        self.runs[key] = (x, result)
        return [result]

    def replay(self, key: int, x: Any) -> None:
        from max.driver import Buffer

        self.asked.append("replay")
        recorded, result = self.runs[key]
        assert recorded is x
        result.inplace_copy_from(Buffer.from_numpy(2 * recorded.to_numpy()))

    def release_captured_graph(self, key: int) -> None:
        del self.runs[key]


def model(engine: Engine, device: str = "gpu", inputs: int = 1) -> Model:
    from max.driver import CPU

    line = {"dtype": "f32", "shape": ["n", 3]}
    config = {
        "inputs": [{"name": "x", **line}][:inputs],
        "outputs": [{"name": "y", **line}],
        "constraints": [],
        "target": {"device": device, "label": "nvidia:sm_90"},
    }
    return Model(SimpleNamespace(config=config), engine, CPU(), ())  # type: ignore[arg-type]


def test_a_recorded_run_computes_what_it_is_given_each_time() -> None:
    engine = Engine()
    replay = model(engine).capture({"x": X.copy()})
    first = replay(x=X + 1)["y"]
    second = replay(x=X - 5)["y"]
    np.testing.assert_array_equal(first, 2 * (X + 1))  # a copy, which the second run leaves alone
    np.testing.assert_array_equal(second, 2 * (X - 5))
    assert engine.asked == ["execute", "capture", "replay", "replay"]


def test_runs_of_two_shapes_do_not_meet() -> None:
    engine = Engine()
    loaded = model(engine)
    wide, narrow = loaded.capture({"x": X.copy()}), loaded.capture({"x": X[:1].copy()})
    np.testing.assert_array_equal(narrow(x=X[1:])["y"], 2 * X[1:])
    np.testing.assert_array_equal(wide(x=X)["y"], 2 * X)


def test_what_cannot_be_replayed_says_so() -> None:
    engine = Engine()
    replay = model(engine).capture({"x": X.copy()})
    for wrong, code in (({"x": X[:1]}, "FX222"), ({"x": X.astype(np.float64)}, "FX221"), ({"z": X}, "FX220")):
        with pytest.raises(UsageError) as refusal:
            replay.run(wrong)
        assert refusal.value.code == code
    np.testing.assert_array_equal(replay(x=X)["y"], 2 * X)
    replay.release()
    replay.release()
    assert not engine.runs
    with pytest.raises(UsageError) as refusal:
        replay(x=X)
    assert refusal.value.code == "FX264"


def test_what_cannot_be_recorded_says_so() -> None:
    engine = Engine()
    for loaded, given in ((model(engine, "cpu"), {"x": X}), (model(engine, inputs=0), {})):
        with pytest.raises(UnsupportedError) as refusal:
            loaded.capture(given)
        assert refusal.value.code == "FX312"
    engine.refuses = "synchronisation in a recorded stream\nmore"
    with pytest.raises(ToolchainError) as failure:
        model(engine).capture({"x": X.copy()})
    assert (failure.value.code, "more" in failure.value.message) == ("FX514", False)
