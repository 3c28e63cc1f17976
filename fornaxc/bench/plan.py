"""How often and in which order things are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from time import sleep
from typing import Any, NamedTuple, Protocol

BLOCK = 10  # runs of one side before the other's turn
PAUSE = 0.1  # seconds before each block: threads of the side before go on spinning for about 0.04 s
SECONDS = 5.0  # what the runs of one side shall take where their number is not given


class Run(NamedTuple):
    """The seconds of one run: inputs to the device, the program started, its end awaited, outputs from the device."""

    inputs: float
    execute: float
    wait: float
    outputs: float

    @property
    def whole(self) -> float:
        """What the caller of the run waits."""
        return sum(self)


class Side(Protocol):
    """Something that runs on the same inputs again and again."""

    def block(self, warmup: int, runs: int) -> list[Run]:
        """The times of `runs` runs, after `warmup` ones that are not timed."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of the blocks, and the runs before each that do not count."""

    blocks: tuple[int, ...]
    warmup: int

    @property
    def iterations(self) -> int:
        """The runs that count, of each side."""
        return sum(self.blocks)

    def to_json(self, sides: int) -> dict[str, Any]:
        """`sides` is how many were measured in turn."""
        return {
            "iterations": self.iterations,
            "blocks": list(self.blocks),
            "warmup": self.warmup,
            "pause_seconds": PAUSE,
            "order": "AB" * len(self.blocks) if sides == 2 else "A" * len(self.blocks),
        }


def plan(iterations: int | None, warmup: int | None, seconds: float) -> Plan:
    """The plan for a side of which one run takes `seconds`; what is not given follows from that."""
    count = iterations or min(100, max(6, round(SECONDS / max(seconds, 1e-9))))
    number = max(1, min(count, max(3, ceil(count / BLOCK))))
    blocks = tuple(count // number + (i < count % number) for i in range(number))
    return Plan(blocks, (3 if seconds < 0.5 else 1) if warmup is None else warmup)


def interleave(
    sides: Sequence[Side],
    plan: Plan,
    tell: Callable[[int], None] = lambda done: None,
    pause: Callable[[float], None] = sleep,
) -> list[list[list[Run]]]:
    """The times of each side, block by block: the sides take turns, with a pause before each block. `tell` hears of finished rounds."""
    times: list[list[list[Run]]] = [[] for _ in sides]
    for done, size in enumerate(plan.blocks, start=1):
        for side, found in zip(sides, times, strict=True):
            pause(PAUSE)
            found.append(side.block(plan.warmup, size))
        tell(done)
    return times
