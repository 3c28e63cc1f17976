"""Arrays on their way to the process that runs a model."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from fornaxc.errors import ToolchainError, UsageError
from fornaxc.npz import load_npz, save_npz
from fornaxc.runner import Running, load_tensors, run_in_child, save_tensors

X = np.array([1.5, -2])
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


ECHO = """#!/bin/bash
folder=$(dirname "$3")
answers=$(sed 's/.*"answers": \\([0-9]*\\).*/\\1/' "$3")
echo started >> LOG
while read -r line; do
    if [ "$(cat MODE)" = die ]; then echo last words >&2; kill -SEGV $$; fi
    if [ "$(cat MODE)" = sleep ]; then exec sleep 60; fi
    cp -r "$folder/in" "$folder/out"
    echo '{"kernels": ["one"]}' > "$folder/result.json"
    eval "printf . >&$answers"
done
"""


@pytest.fixture
def mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that says what the child process, which gives its inputs back, does at each call: echo, die or sleep."""
    child, mode = tmp_path / "child", tmp_path / "mode"
    child.write_text(ECHO.replace("MODE", str(mode)).replace("LOG", str(tmp_path / "log")))
    child.chmod(0o700)
    mode.write_text("echo")
    monkeypatch.setattr(sys, "executable", str(child))
    return mode


def test_one_process_runs_sample_after_sample(mode: Path) -> None:
    with Running(Path("none")) as run:
        for number in range(3):
            assert run({"x": np.full(2, number)})["x"].tolist() == [number, number]
        assert run.kernels == ["one"]
    assert mode.with_name("log").read_text() == "started\n"
    assert [a["x"].tolist() for a in run_in_child(Path("none"), [{"x": np.array([n])} for n in (1, 2)])] == [[1], [2]]


def test_after_a_death_the_next_call_starts_anew(mode: Path) -> None:
    with Running(Path("none")) as run:
        mode.write_text("die")
        with pytest.raises(ToolchainError) as caught:
            run({"x": X})
        assert (caught.value.code, caught.value.details) == ("FX513", [{"stderr": "last words"}])
        mode.write_text("echo")
        assert run({"x": X})["x"].tolist() == X.tolist()
    assert mode.with_name("log").read_text() == "started\nstarted\n"


def test_a_call_that_takes_too_long_ends_its_process(mode: Path) -> None:
    mode.write_text("sleep")
    with Running(Path("none"), timeout=1) as run:
        with pytest.raises(ToolchainError, match="longer than 1 s") as caught:
            run({"x": X})
        assert caught.value.code == "FX512"
