"""Arrays on their way to the process that runs a model."""

from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from fornaxc.errors import UsageError
from fornaxc.npz import load_npz, save_npz
from fornaxc.runner import load_tensors, save_tensors

ARRAYS = [
    np.array([1.5, -2], ">f4"),
    np.array([1, 2], ">i8"),
    np.array(3.0, ml_dtypes.bfloat16),
    np.array([[1.0, np.inf]], ml_dtypes.float8_e5m2),
    np.array([], ml_dtypes.int4),
    np.array(True),
    np.array(["a"]),
    np.array([(1, 2)], [("a", "i4"), ("b", "i4")]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: str(a.dtype))
def test_values_types_and_byte_order_arrive(
    tmp_path: Path, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]
) -> None:
    save_tensors(tmp_path / "in", {"x": array})
    found = load_tensors(tmp_path / "in")["x"]
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_files_of_the_other_byte_order_are_read_as_values(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([1.5, -2], ">f4"), n=np.array([1, -2], ">i8"))
    found = load_npz(tmp_path / "x.npz", "inputs")
    assert (found["x"].dtype, found["x"].tolist()) == (np.dtype("float32"), [1.5, -2])
    assert (found["n"].dtype, found["n"].tolist()) == (np.dtype("int64"), [1, -2])


def test_outputs_do_not_replace_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path / ("z" * 300), tmp_path / "no" / "o.npz"):
        with pytest.raises(UsageError) as caught:
            save_npz(place, {"x": np.zeros(1)})
        assert caught.value.code == "FX228"
    assert (tmp_path / "pipe").is_fifo()
