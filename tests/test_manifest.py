"""What an artifact's config must hold, and how packed weights are read from a file that another tool wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fornaxc.ir.graph import Constant
from fornaxc.ir.types import DType, TensorType
from fornaxc.manifest import malformed_part
from fornaxc.weights import read_weights, write_weights

CONFIG: dict[str, Any] = {
    "key": "k",
    "key_parts": {},
    "request": {},
    "source": {},
    "ir_digest": "d",
    "target": {"label": "cpu", "device": "cpu"},
    "toolchain": {"max": "1"},
    "options": {},
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 4]}],
    "outputs": [{"name": "y", "dtype": "f32", "shape": []}],
    "constraints": [["batch", ">=", 1, "why"]],
    "weights": [["f32", [4]]],
    "host_nodes": [],
}


def test_a_whole_config() -> None:
    assert malformed_part(CONFIG) == ""


@pytest.mark.parametrize("part", CONFIG)
@pytest.mark.parametrize("value", [None, 3, [3], [[]], {"label": 1}])
def test_every_part_is_looked_at(part: str, value: Any) -> None:
    without = {name: content for name, content in CONFIG.items() if name != part}
    assert malformed_part(without) == part
    if not (isinstance(value, dict) and part in ("key_parts", "request", "source", "options")):
        assert malformed_part({**CONFIG, part: value}) == part


@pytest.mark.parametrize(
    "own, part", [([True], ""), (None, ""), ([], "own_outputs"), ([1], "own_outputs"), ("y", "own_outputs")]
)
def test_whether_outputs_have_memory_of_their_own_may_be_unknown(own: Any, part: str) -> None:
    assert malformed_part({**CONFIG, "own_outputs": own}) == part


@pytest.mark.parametrize("shift", [0, 1, 4, 64])
def test_weights_are_aligned_wherever_they_lie(tmp_path: Path, shift: int) -> None:
    type = TensorType(DType.F32, (3, 5))
    content = np.arange(15, dtype=np.float32).reshape(3, 5)
    path = tmp_path / "packed"
    with path.open("wb") as file:
        file.write(bytes(shift))
        write_weights(file, [Constant(type, lambda: content, False, "w")])
    (array,) = read_weights(path, shift, [type])
    assert np.array_equal(array, content)
    assert array.ctypes.data % 4 == 0


def test_a_weight_of_rank_0_keeps_its_shape(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    type = TensorType(DType.F32, ())
    with path.open("wb") as file:
        write_weights(file, [Constant(type, lambda: np.array(2.5, np.float32), False, "w")])
    (array,) = read_weights(path, 0, [type])
    assert array.shape == () and array == np.float32(2.5)
