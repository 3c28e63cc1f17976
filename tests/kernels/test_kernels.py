"""The CPU's own kernels against onnxruntime, every size symbolic."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from cases import Array, Case, all_cases

CASES = all_cases()


def run_kernels(cases: Sequence[Case], folder: Path, *options: str) -> dict[str, list[Array]]:
    """The results of each case, from a process of its own."""
    operands = {f"{c.name}/{c.kernel}/{i}": a for c in cases for i, a in enumerate(c.operands)}
    np.savez(folder / "job.npz", **operands)  # type: ignore[arg-type]
    command = [sys.executable, str(Path(__file__).with_name("child.py"))]
    done = subprocess.run(
        [*command, str(folder / "job.npz"), str(folder / "result.npz"), *options],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    if not (folder / "result.npz").exists():
        pytest.fail(f"the kernels' process gave no results (status {done.returncode}):\n{done.stderr[-3000:]}")
    with np.load(folder / "result.npz") as found:
        return {c.name: [found[f"{c.name}/{i}"] for i in range(len(c.wanted))] for c in cases}


def check(case: Case, found: Sequence[Array]) -> None:
    for one, wanted in zip(found, case.wanted, strict=True):
        assert one.shape == wanted.shape
        assert one.dtype == wanted.dtype
        np.testing.assert_allclose(one, wanted, rtol=case.rtol, atol=case.atol)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Array]]:
    return run_kernels(CASES, tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_kernel(case: Case, results: dict[str, list[Array]]) -> None:
    check(case, results[case.name])


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot pin a process to a processor")
def test_one_thread(tmp_path: Path, results: dict[str, list[Array]]) -> None:
    cases = [c for c in CASES if "thread" in c.name]
    assert len(cases) > 5
    for name, found in run_kernels(cases, tmp_path, "--one-processor").items():
        for one, with_threads in zip(found, results[name], strict=True):
            np.testing.assert_array_equal(one, with_threads)


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for another x86-64 processor and runs it here")
def test_narrower_vectors(tmp_path: Path) -> None:
    found = run_kernels(CASES, tmp_path, "--cpu", "x86-64-v3")
    for case in CASES:
        check(case, found[case.name])
