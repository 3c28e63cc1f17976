"""Stands in for MAX: the numpy interpreter runs programs after `plant` has changed some of their nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from fornaxc.diagnosis import reduction, rounds
from fornaxc.diagnosis.rounds import Runner
from fornaxc.ir.graph import Graph, Node
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Op
from fornaxc.qualify.programs import Outcome, Program

Plant = Callable[[Graph, Node], Op | None]


class Crash(Exception):
    """Raised by a `plant`: the compiler ends its process."""


class NumpyDevice:
    """Called with the programs of a round; counts rounds and programs, and the bytes of outputs of the largest."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        self.rounds = 0
        self.programs = 0
        self.largest = 0

    def __call__(self, programs: Sequence[Program]) -> Mapping[str, Outcome]:
        self.rounds += 1
        self.programs += len(programs)
        return {p.name: self._run(p) for p in programs}

    def _run(self, program: Program) -> Outcome:
        try:
            nodes = [replace(n, op=self._plant(program.graph, n) or n.op) for n in program.graph.nodes]
        except Crash as crash:
            return Outcome("crash", "compile", f"the process ended with SIGSEGV: {crash}")
        graph = replace(program.graph, nodes=tuple(nodes))
        outputs = [run(graph, inputs) for inputs in program.runs]
        self.largest = max(self.largest, sum(a.nbytes for a in outputs[0]))
        return Outcome("ok", "run", outputs=outputs)


def stand_in(patch: pytest.MonkeyPatch, device: Runner) -> None:
    """Every search and reduction runs its programs on `device`."""
    for module in (rounds, reduction):
        patch.setattr(module, "run_programs", lambda programs, options: device(programs))
