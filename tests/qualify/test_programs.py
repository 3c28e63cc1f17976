"""Programs share modules; one that breaks its module is found, and the others get their outcomes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.ops import Unary
from fornaxc.ir.types import DType, TensorType
from fornaxc.qualify import programs
from fornaxc.qualify.arrays import read_arrays, write_arrays
from fornaxc.qualify.programs import Options, Program, read_outcome, run_folders, run_programs, write_program

X = np.array([1.0, 4.0], np.float32)


def program(name: str, fn: str, scale: float = 1.0) -> Program:
    b = GraphBuilder()
    x = b.input(TensorType(DType.F32, (2,)), "x")
    return Program(name, b.finish([b.emit_all(Unary(fn), x)[0]], ["y"]), [[X * np.float32(scale)]])


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.setattr(programs, "CHILD", "fake_module")
    here = str(Path(__file__).parent)
    return Options(environment={"PYTHONPATH": os.pathsep.join([here, str(Path(__file__).parents[2])])}, timeout=60)


def test_arrays_of_every_element_type(tmp_path: Path) -> None:
    arrays = [np.ones((2, 3), t.numpy) for t in DType] + [np.zeros((0, 2)), np.array(3, np.int8)]
    write_arrays(tmp_path / "a", arrays)
    back = read_arrays(tmp_path / "a")
    assert [(a.dtype, a.shape, a.tobytes()) for a in back] == [(a.dtype, a.shape, a.tobytes()) for a in arrays]


def test_the_guilty_is_found_and_the_others_run(options: Options) -> None:
    cases = [program(f"sqrt{i}", "sqrt", i + 1) for i in range(5)]
    cases[2:2] = [program("uncompilable", "neg"), program("aborts", "abs"), program("dies", "exp")]
    found = run_programs(cases, options)
    assert {n: (o.status, o.phase) for n, o in found.items() if o.status != "ok"} == {
        "uncompilable": ("error", "compile"),
        "aborts": ("crash", "compile"),
        "dies": ("crash", "run"),
    }
    assert "SIGABRT" in found["aborts"].error
    for i in range(5):
        np.testing.assert_array_equal(found[f"sqrt{i}"].outputs[0][0], np.sqrt(X * np.float32(i + 1)))


def test_a_module_that_takes_too_long(options: Options) -> None:
    short = Options(environment=options.environment, timeout=15, workers=2)
    found = run_programs([program("slow", "log"), program("fine", "sqrt")], short)
    assert (found["slow"].status, found["fine"].status) == ("timeout", "ok")


def test_outcomes_are_remembered(options: Options, tmp_path: Path) -> None:
    one = program("one", "sqrt")
    folder = write_program(tmp_path, "v1", one.graph, one.runs)
    told: list[Path] = []
    run_folders([folder], options, told.append)
    assert told == [folder]
    first = read_outcome(folder)
    run_folders([folder], options, told.append)
    assert told == [folder]
    assert first.status == "ok"
    assert write_program(tmp_path, "v1", one.graph, one.runs) == folder
    assert write_program(tmp_path, "v2", one.graph, one.runs) != folder
    other: Any = [[X + 1]]
    assert write_program(tmp_path, "v1", one.graph, other) != folder


def test_modules_are_bounded_in_programs_and_in_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [10, 10, 10, 70, 50, 60, 5]
    folders = [tmp_path / str(i) for i in range(len(sizes))]
    for folder, size in zip(folders, sizes, strict=True):
        folder.mkdir()
        (folder / "graph.json").write_text(" " * size)
    given: list[list[str]] = []
    monkeypatch.setattr(programs, "MODULE_BYTES", 100)
    monkeypatch.setattr(
        programs,
        "run_jobs",
        lambda jobs, **_: given.extend([Path(f).name for f in j.document["folders"]] for j in jobs),
    )
    run_folders(folders, Options(per_module=3))
    assert given == [["3"], ["5", "6"], ["4"], ["0", "1", "2"]]


def test_names_are_unique(options: Options) -> None:
    with pytest.raises(ValueError, match="one name"):
        run_programs([program("a", "sqrt"), program("a", "sqrt")], options)
