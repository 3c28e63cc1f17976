"""The checks that a reduction repeats: what, if anything, is wrong with a case, as a text that tells one failure from another."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fornaxc.diagnosis.allowed import Chosen
from fornaxc.diagnosis.deviation import differs
from fornaxc.diagnosis.edits import Case
from fornaxc.diagnosis.rounds import Search
from fornaxc.errors import FornaxError, UsageError
from fornaxc.ir.checker import check as check_graph
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.lowering.support import unsupported
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack
from fornaxc.qualify.programs import Outcome, Program

Check = Callable[[Sequence[Case]], Search[list[str]]]
"""For each case the signature of its failure, "" where it does not fail or is no valid case."""

WRONG = "wrong values"
TOO_LONG = "the command takes too long"


def verify_check(
    device: str = "cpu",
    rtol: float | None = None,
    atol: float | None = None,
    disabled: Sequence[str] = (),
    optimization: int = 1,
) -> Check:
    """Compiled, run and compared with the numpy interpreter on the graph before any pass; `disabled` passes are left out."""

    def check(cases: Sequence[Case]) -> Search[list[str]]:
        programs = [_program(c.graph, device, disabled, optimization) for c in cases]
        return (yield from _compiled(cases, programs, lambda case, outcome: _verdict(case, outcome, rtol, atol)))

    return check


def compile_check(device: str = "cpu", disabled: Sequence[str] = (), optimization: int = 1) -> Check:
    """Lowered and compiled."""

    def check(cases: Sequence[Case]) -> Search[list[str]]:
        programs = [_program(c.graph, device, disabled, optimization) for c in cases]
        return (yield from _compiled(cases, programs, lambda case, outcome: signature(outcome)))

    return check


def _compiled(
    cases: Sequence[Case], graphs: Sequence[tuple[Graph | None, str]], judge: Callable[[Case, Outcome], str]
) -> Search[list[str]]:
    programs, found = [], [""] * len(cases)
    for index, (case, (graph, broken)) in enumerate(zip(cases, graphs, strict=True)):
        if graph is None:
            found[index] = broken
        else:
            programs.append(Program(str(index), graph, [case.inputs]))
    outcomes = (yield programs) if programs else {}
    for program in programs:
        found[int(program.name)] = judge(cases[int(program.name)], outcomes[program.name])
    return found


def _program(graph: Graph, device: str, disabled: Sequence[str], optimization: int) -> tuple[Graph | None, str]:
    """The graph as it is lowered; where a pass breaks on a valid graph, the signature of that."""
    try:
        check_graph(graph)
    except Exception:
        return None, ""
    try:
        program = prepack(optimize(graph, device, disabled, optimization))
        check_graph(program)
        return (None, "") if unsupported(program, device) else (program, "")
    except FornaxError:
        return None, ""
    except Exception as error:
        return None, f"{type(error).__name__} in a pass: {_normal(str(error))}"


def _verdict(case: Case, outcome: Outcome, rtol: float | None, atol: float | None) -> str:
    if outcome.status != "ok":
        return signature(outcome)
    try:
        wanted = run(case.graph, case.inputs)
    except Exception:  # inputs that the model does not take
        return ""
    stated = {v: case.stated[v.type.dtype] for v in case.graph.outputs if v.type.dtype in case.stated}
    return WRONG if differs(case.graph, case.inputs, outcome.outputs[0], wanted, Chosen(rtol, atol, stated)) else ""


def signature(outcome: Outcome) -> str:
    """What tells a failure of the toolchain from another one: status, phase and message without numbers, names and paths."""
    if outcome.status in ("ok", "refused"):
        return ""
    return f"{outcome.status} in phase {outcome.phase}: {_normal(outcome.error)}".rstrip(": ")


def is_timeout(signature: str) -> bool:
    """Whether a failure is that MAX or a command was stopped as it took too long."""
    return signature == TOO_LONG or signature.startswith("timeout in phase ")


def _normal(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    for pattern in (
        r"'[^']*'",
        r'"[^"]*"',
        r"\[[^\]]*\]",
        r"\S*/\S*",
        r"\b0x[0-9a-fA-F]+\b",
        r"\b[gw]?[0-9a-f]{8,}\b",
        r"\d+",
    ):
        first = re.sub(pattern, "_", first)
    return " ".join(first.split())[:160]


def command_check(command: str, timeout: float) -> Check:
    """A command of the user on the exported case: `{}` in it stands for the model's file, else the file is its last argument.

    The inputs lie beside the model, as .npz. A case fails the way the command ends: exit status, signal, or after `timeout` seconds.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"the command {command!r} cannot be read: {error}", code="FX250") from None
    if not words:
        raise UsageError("the command is empty", code="FX250")

    def check(cases: Sequence[Case]) -> Search[list[str]]:
        yield from ()
        return [_command(words, case, timeout) for case in cases]

    return check


def _command(words: Sequence[str], case: Case, timeout: float) -> str:
    from fornaxc.diagnosis.writing import write_case

    with TemporaryDirectory(prefix="fornaxc-reduce-") as folder:
        path = Path(folder) / "model.onnx"
        try:
            check_graph(case.graph)
            write_case(case, path)
        except Exception:  # what cannot be exported is no case
            return ""
        filled = [w.replace("{}", str(path)) for w in words]
        command = filled if filled != list(words) else [*words, str(path)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return TOO_LONG
        except OSError as error:
            raise UsageError(f"the command {words[0]!r} cannot be run: {error.strerror}", code="FX250") from None
        code = done.returncode
        if code == 0:
            return ""
        return f"the command ends with {signal.Signals(-code).name if code < 0 else f'status {code}'}"
