"""Suites of operator cases, and what is known to work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fornaxc.qualify.report import Qualification
    from fornaxc.support.table import Row


def qualify(
    suite: str | Path,
    *,
    target: str = "cpu",
    filters: Sequence[str] = (),
    limit: int | None = None,
    freeze_shape_inputs: bool = False,
    jobs: int | None = None,
    per_module: int = 60,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    timeout: float = 1800,
    resume: Path | None = None,
    cache_dir: Path | None = None,
    json: Path | None = None,
    html: Path | None = None,
    gaps: Path | None = None,
    update_gaps: Path | None = None,
    support: Path | None = None,
    progress: Callable[[str, int, int], None] = lambda step, done, of: None,
) -> Qualification:
    """Take every case of a suite through the whole path and compare it with the outputs that the suite ships.

    `suite` is onnx:node, onnx:simple, onnx:pytorch-operator, onnx:pytorch-converted or a folder of cases in the ONNX backend-test layout, or of
    StableHLO modules that check themselves; `filters`
    are glob patterns of ids or operators. `jobs` processes (default: one per core) each compile `per_module` cases at a time, within `timeout`
    seconds. `resume` is the folder that remembers outcomes, by default in the cache. `json`, `html`, `support` (a folder)
    and `update_gaps` are files to write, `gaps` a list of known gaps to check against. Cases of a target that is not this
    machine's CPU end when they are compiled. Raises UsageError, UnsupportedError or CacheError.
    """
    from fornaxc.qualify.compare import Tolerance
    from fornaxc.qualify.session import Wanted
    from fornaxc.qualify.session import qualify as run_suite

    tolerance = Tolerance(rtol, atol)
    wanted = Wanted(
        str(suite), target, filters, limit, freeze_shape_inputs, jobs, per_module, tolerance, timeout, resume, cache_dir,
        json, html, gaps, update_gaps, support,
    )  # fmt: skip
    return run_suite(wanted, progress)


def support(operator: str | None = None, *, target: str = "cpu", folder: str | Path | None = None) -> list[Row]:
    """What is known to work on a target, per operator and version of its schema, from the data that shipped or that `qualify` wrote to
    `folder` as its `support`. UsageError where nothing is known, or where the data cannot be read."""
    from fornaxc.support.table import load_support, rows_of
    from fornaxc.targets import parse_target

    place = None if folder is None else Path(folder)
    return rows_of(load_support(parse_target(target).label, place), operator)
