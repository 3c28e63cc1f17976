"""Takes the cases of a suite through the whole path: import, optimise, lower, compile, run, compare."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fornaxc.ir.graph import Array
from fornaxc.manifest import sources_digest, toolchain_versions
from fornaxc.qualify.arrays import write_arrays
from fornaxc.qualify.cases import AnyCase, Case, Result, facts_of, tensors_of
from fornaxc.qualify.compare import Tolerance, compare
from fornaxc.qualify.exact import closer_than_shipped
from fornaxc.qualify.processes import Ended, Job, run_jobs
from fornaxc.qualify.programs import Options, read_outcome, run_folders
from fornaxc.qualify.selfchecking import SelfChecking, judge_selfchecking, write_selfchecking
from fornaxc.targets import Target

Told = Callable[[str, int, int], None]
"""Hears (step, done, of): the step is `prepare`, counted in cases, or `run`, counted in programs that differ."""

_PREPARED_AT_ONCE = 250
_DECIDING = (
    "runtime.py",
    "worker.py",
    "ir/small.py",
    "qualify/module.py",
    "qualify/programs.py",
    "qualify/arrays.py",
)
"""The sources that decide what becomes of a lowered program: how it is compiled, fed, run and told."""
_FAILURES = {"error": "failed", "crash": "failed", "timeout": "failed", "refused": "refused"}


@dataclass(frozen=True, slots=True)
class Plan:
    """How a suite is run. `state` is the folder that remembers outcomes; `workers` processes run at a time, `per_module` cases each."""

    target: Target
    state: Path
    tolerance: Tolerance = field(default_factory=Tolerance)
    workers: int = 1
    per_module: int = 60
    timeout: float = 900
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def executes(self) -> bool:
        """Whether cases are run: on this machine's CPU only. For any other target they end when they are compiled."""
        return self.target.device == "cpu" and self.target.cannot_run() is None


def run_cases(cases: Sequence[AnyCase], plan: Plan, told: Told = lambda step, done, of: None) -> list[Result]:
    """What became of every case, in order. Ids must be unique."""
    if len({c.id for c in cases}) != len(cases):
        raise ValueError("two cases have one id")
    with tempfile.TemporaryDirectory(prefix="fornaxc-cases-") as scratch:
        folders = [_write_case(Path(scratch) / str(number), case) for number, case in enumerate(cases)]
        _prepare(folders, plan, told)
        prepared = [json.loads((f / "prepared.json").read_text()) for f in folders]
        programs = list(dict.fromkeys(Path(p["program"]) for p in prepared if p["program"]))
        _run(programs, plan, told)
        return [_result(c, p, plan, f) for c, p, f in zip(cases, prepared, folders, strict=True)]


def _write_case(folder: Path, case: AnyCase) -> Path:
    """The case as files for the child that prepares it; without its expected outputs, which stay with the judge."""
    folder.mkdir()
    if isinstance(case, SelfChecking):
        write_selfchecking(folder, case)
        return folder
    model = case.path
    if model is None or not case.data or case.model.graph.initializer:  # a model in memory may not be its file any more
        model = folder / "model.onnx"
        model.write_bytes(case.model.SerializeToString())
    runs = [tensors_of(inputs) for inputs, _ in case.data]
    tensors = [r for r in runs if r is not None]
    for index, arrays in enumerate(tensors):
        write_arrays(folder / f"inputs{index}", arrays)
    document = {"model": str(model), "runs": len(runs) if len(tensors) == len(runs) else None}
    (folder / "case.json").write_text(json.dumps(document))
    return folder


def _version(plan: Plan) -> str:
    """All that decides the outcome of a program, beside what it is lowered to and its inputs."""
    parts = {
        "target": plan.target.key_parts(),
        "executes": plan.executes,
        "toolchain": toolchain_versions("numpy"),
        "sources": sources_digest(*_DECIDING),
    }
    return json.dumps(parts, sort_keys=True)


def _prepare(folders: Sequence[Path], plan: Plan, told: Told) -> None:
    version = _version(plan)

    def done() -> int:
        return sum((f / "prepared.json").exists() for f in folders)

    def job(part: Sequence[Path]) -> Job:
        document = {
            "cases": [str(f) for f in part],
            "programs": str(plan.state),
            "version": version,
            "target": plan.target.worker_job(),
        }
        return Job("fornaxc.qualify.prepare", document, lambda ended: after(part, ended))

    def after(part: Sequence[Path], ended: Ended) -> Iterator[Job]:
        left = [f for f in part if not (f / "prepared.json").exists()]
        if left:  # the process died at one of them
            guilty = Path(ended.report.get("running", left[0]))
            reason = f"the importing process ended with {ended.how}: {ended.log[-300:]}"
            found = {"phase": "import", "verdict": "failed", "reason": reason, "program": "", "seconds": 0.0}
            ((guilty if guilty in left else left[0]) / "prepared.json").write_text(json.dumps(found))
            left = [f for f in left if not (f / "prepared.json").exists()]
        told("prepare", done(), len(folders))
        if left:
            yield job(left)

    told("prepare", 0, len(folders))
    parts = [folders[i : i + _PREPARED_AT_ONCE] for i in range(0, len(folders), _PREPARED_AT_ONCE)]
    run_jobs([job(p) for p in parts], workers=plan.workers, timeout=plan.timeout, environment=plan.environment)


def _run(programs: Sequence[Path], plan: Plan, told: Told) -> None:
    options = Options(
        plan.target.worker_job(),
        plan.executes,
        plan.per_module,
        plan.workers,
        plan.timeout,
        plan.environment,
    )
    finished = {p for p in programs if (p / "result.json").exists()}

    def hear(folder: Path) -> None:
        finished.add(folder)
        told("run", len(finished), len(programs))

    told("run", len(finished), len(programs))
    run_folders(programs, options, hear)


def _result(case: AnyCase, prepared: dict[str, str], plan: Plan, folder: Path) -> Result:
    facts, seconds = facts_of(case), float(prepared["seconds"])
    if not prepared["program"]:
        return Result(case.id, facts, prepared["phase"], prepared["verdict"], prepared["reason"], seconds=seconds)
    outcome = read_outcome(Path(prepared["program"]))
    seconds += outcome.seconds
    if outcome.status != "ok":
        verdict = _FAILURES[outcome.status]
        return Result(case.id, facts, outcome.phase, verdict, outcome.error, seconds=seconds)
    if not plan.executes:
        return Result(case.id, facts, "compile", "compiled", seconds=seconds)
    passed = Result(case.id, facts, "pass", "pass", seconds=seconds)
    if isinstance(case, SelfChecking):
        difference = judge_selfchecking(folder, outcome.outputs[0])
        return _judged(passed, difference.reason, difference.max_abs)
    return _judge(case, outcome.outputs, passed, plan.tolerance)


def _judge(case: Case, outputs: Sequence[Sequence[Array]], passed: Result, tolerance: Tolerance) -> Result:
    """Compare every run with the shipped outputs; a case that ships none, or has nothing to compare, does not pass."""
    errors: list[float] = []
    reason = "" if case.data else "the case ships no data to compare with"
    closer = bool(case.data)
    for found, (given, shipped) in zip(outputs, case.data, strict=True):
        inputs, expected = tensors_of(given), tensors_of(shipped)
        if expected is None:
            reason, closer = reason or "the shipped outputs are not tensors of numbers", False
            continue
        difference = compare(found, expected, tolerance)
        errors += [difference.max_abs] if difference.max_abs is not None else []
        reason = reason or difference.reason
        if difference.reason and closer:
            closer = inputs is not None and closer_than_shipped(case, inputs, found, expected, tolerance)
    judged = _judged(passed, reason, max(errors, default=None))
    if reason and closer:
        judged = replace(judged, phase="pass", verdict="pass", rule="float64")
    return replace(judged, tolerance=tolerance.to_json())


def _judged(passed: Result, reason: str, max_abs: float | None) -> Result:
    judged = replace(passed, max_abs=max_abs)
    return replace(judged, phase="mismatch", verdict="mismatch", reason=reason) if reason else judged
