"""Shows phases on stderr while they run: a spinner with elapsed seconds on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from fornaxc.phases import PHASES, Progress, silent

if TYPE_CHECKING:
    from fornaxc.cli.session import Session

_DESCRIPTIONS = {phase.name: phase.description for phase in PHASES}


class _Display(Protocol):
    def __call__(self, phase: str, event: str) -> None: ...

    def close(self) -> None: ...


@contextmanager
def progress(session: Session) -> Iterator[Progress]:
    """A `Progress` for the API. Nothing is imported or shown before the first phase begins."""
    if session.quiet:
        yield silent
        return
    display: list[_Display] = []

    def show(phase: str, event: str) -> None:
        if not display:
            display.append(_make(sys.stderr.isatty()))
        display[0](phase, event)

    try:
        yield show
    finally:
        for made in display:
            made.close()


def _make(terminal: bool) -> _Display:
    if not terminal:
        return Lines()
    from fornaxc.cli.spinner import Spinner

    return Spinner()


class Lines:
    """A line when a phase begins and one when it ends or fails."""

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}

    def __call__(self, phase: str, event: str) -> None:
        if event == "start":
            self._begun[phase] = perf_counter()
            line = f"{phase}: {_DESCRIPTIONS.get(phase, '')}".rstrip(": ")
        elif event == "end":
            line = f"{phase}: done in {self._seconds(phase):.1f} s"
        elif event == "failed":
            line = f"{phase}: failed after {self._seconds(phase):.1f} s"
        else:
            line = f"{phase}: {event}"
        print(line, file=sys.stderr, flush=True)

    def _seconds(self, phase: str) -> float:
        now = perf_counter()
        return now - self._begun.pop(phase, now)

    def close(self) -> None:
        self._begun.clear()
