"""From a request to a qualification, its files and the check of its gaps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from fornaxc.cache import Cache
from fornaxc.cache.location import cache_dir
from fornaxc.errors import CacheError, UsageError
from fornaxc.manifest import toolchain_versions
from fornaxc.places import check_places
from fornaxc.qualify.cases import dump, frozen
from fornaxc.qualify.compare import Tolerance
from fornaxc.qualify.gaps import check_gaps, update_gaps
from fornaxc.qualify.html import qualification_page
from fornaxc.qualify.report import Qualification
from fornaxc.qualify.run import Plan, Told, run_cases
from fornaxc.qualify.suites import load_suite
from fornaxc.qualify.support import write_support
from fornaxc.targets import parse_target


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a qualification; see `fornaxc.api.qualify`."""

    suite: str
    target: str
    filters: Sequence[str]
    limit: int | None
    freeze: bool
    jobs: int | None
    per_module: int
    tolerance: Tolerance
    timeout: float
    state: Path | None
    cache: Path | None
    json: Path | None
    html: Path | None
    gaps: Path | None
    update_gaps: Path | None
    support: Path | None


def qualify(wanted: Wanted, told: Told) -> Qualification:
    """Run a suite and write the files that are wanted."""
    start = perf_counter()
    target = parse_target(wanted.target)
    target.check_compilable()
    _check_outputs(wanted)
    cases = load_suite(wanted.suite, wanted.filters, wanted.limit)
    if wanted.freeze:
        cases = [frozen(c) for c in cases]
    root = cache_dir(wanted.cache)
    state = wanted.state or root / "qualify"
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CacheError(f"{state} cannot be made: {error.strerror}", code="FX602") from error
    plan = Plan(
        target,
        state,
        wanted.tolerance,
        wanted.jobs or os.cpu_count() or 1,
        wanted.per_module,
        wanted.timeout,
        Cache.at(root).toolchain_environment(),
    )
    results = run_cases(cases, plan, told)
    inputs = "frozen" if wanted.freeze else "run-time"
    whole = not wanted.filters and wanted.limit is None
    differences: list[str] = []
    if wanted.update_gaps is not None:
        update_gaps(wanted.update_gaps, target.label, wanted.suite, inputs, results, whole)
    if wanted.gaps is not None:
        differences = check_gaps(wanted.gaps, wanted.suite, inputs, results, whole)
    found = Qualification(
        wanted.suite,
        target.label,
        inputs,
        target.label if plan.executes else None,
        results,
        toolchain_versions("onnx", "numpy"),
        perf_counter() - start,
        differences,
        wanted.gaps is not None,
    )
    _write(wanted, found)
    return found


def _check_outputs(wanted: Wanted) -> None:
    """Before an hour of work, not after it."""
    if wanted.support is not None and (wanted.filters or wanted.limit is not None):
        raise UsageError("support data is made of whole suites", code="FX245", hint="leave out --filter and --limit")
    check_places([wanted.json, wanted.html, wanted.update_gaps])


def _write(wanted: Wanted, found: Qualification) -> None:
    document = found.to_json()
    if wanted.json is not None:
        dump(document, wanted.json)
    if wanted.html is not None:
        wanted.html.write_text(qualification_page(document))
    if wanted.support is not None:
        write_support(wanted.support, found)
