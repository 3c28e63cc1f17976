"""From a failing model to a small one: the files that `fornaxc reduce` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from fornaxc.cache import Cache
from fornaxc.cache.files import place_for_a_file, write_whole
from fornaxc.compiler import Request
from fornaxc.diagnosis.checks import Check, command_check, compile_check, verify_check
from fornaxc.diagnosis.edits import Case
from fornaxc.diagnosis.reduce import Reduced, reduce
from fornaxc.diagnosis.report_text import report_text
from fornaxc.diagnosis.rounds import drive_with
from fornaxc.diagnosis.session import diagnosis_options
from fornaxc.diagnosis.writing import write_case
from fornaxc.errors import UnsupportedError, UsageError
from fornaxc.ir.graph import Graph
from fornaxc.phases import Clock, Progress
from fornaxc.qualify.programs import Outcome, Program, run_programs
from fornaxc.sources import import_source
from fornaxc.targets import parse_target
from fornaxc.verification.inputs import generate, size_choices
from fornaxc.verification.verify import given_inputs

SAMPLES = 2
COMMAND_SECONDS = 300.0  # for each run of a user's command, unless a time-out is given


@dataclass(frozen=True, slots=True)
class Reduction:
    """The files of a reduced case, and what was found. `reproduced` says that the model file by itself fails in the same way."""

    files: Sequence[Path]
    reduced: Reduced
    reproduced: bool
    rounds: int

    def to_json(self) -> dict[str, Any]:
        return {
            "status": "ok",
            "files": [str(f) for f in self.files],
            "signature": self.reduced.signature,
            "nodes_before": self.reduced.nodes_before,
            "nodes": self.reduced.nodes,
            "operations": [str(n.op) for n in self.reduced.case.graph.walk()],
            "holds_weights_of_the_model": self.reduced.own_weights,
            "holds_inputs_of_the_model": self.reduced.own_inputs,
            "reproduced": self.reproduced,
            "rounds": self.rounds,
            "trail": list(self.reduced.trail),
        }


def reduce_model(
    path: Path,
    request: Request,
    cache: Cache,
    *,
    check: str,
    output: Path,
    inputs: Path | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    progress: Progress,
) -> Reduction:
    """Reduce the model at `path` to `output` (ONNX), with its inputs (.npz) and a report (.md) beside it.

    `check` is `verify`, `compile` or a command. UsageError where the model does not fail it, or the files cannot be written.
    """
    place_for_a_file(output)
    if output.resolve() == path.resolve():
        raise UsageError(f"{output} is the model itself", code="FX252", hint="give another name with -o")
    target = request.target
    if check == "verify" and target.cannot_run(target.record()):
        target = parse_target("cpu")
    judge = _check(check, target.device, request, rtol, atol)
    options = diagnosis_options(cache, request, target)
    options = replace(options, execute=check != "compile")
    rounds = 0

    def run(programs: Sequence[Program]) -> Mapping[str, Outcome]:
        nonlocal rounds
        rounds += 1
        progress("reduce", f"round {rounds}: {len(programs)} candidates")
        return run_programs(programs, options)

    with Clock(progress).phase("reduce"):
        graph, _ = import_source(path, request.dims, cache.digests.of_file, request.choice)
        cases = _cases(graph, inputs, seed)
        reduced = drive_with({"reduce": reduce(cases, judge)}, run)["reduce"]
        files = write_case(reduced.case, output)
        again, _ = import_source(output, {}, cache.digests.of_file)
        (found,) = drive_with({"again": judge([Case(again, reduced.case.inputs)])}, run)["again"]
        reproduced = found == reduced.signature
        text = output.with_suffix(".md")
        write_whole(text, report_text(reduced, check, target.label, output, reproduced).encode())
    return Reduction([*files, text], reduced, reproduced, rounds)


def _check(check: str, device: str, request: Request, rtol: float | None, atol: float | None) -> Check:
    if check == "verify":
        return verify_check(device, rtol, atol, request.disabled_passes, request.optimization)
    if check == "compile":
        return compile_check(device, request.disabled_passes, request.optimization)
    return command_check(check, request.timeout or COMMAND_SECONDS)


def _cases(graph: Graph, inputs: Path | None, seed: int) -> list[Case]:
    """The graph on the inputs given, or on generated ones of a few sizes."""
    if inputs is None:
        made = [generate(graph, sizes, seed + i) for i, sizes in enumerate(islice(size_choices(graph), SAMPLES))]
        if not made:
            raise UnsupportedError(
                "no sizes of the dims suit the model", code="FX310", hint="give inputs with --inputs"
            )
        return [Case(graph, tuple(arrays[n] for n in graph.input_names)) for arrays in made]
    given, _ = given_inputs(graph, inputs)
    return [Case(graph, tuple(given[n] for n in graph.input_names))]
