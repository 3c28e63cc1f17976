"""Shows how many cases are done on stderr: a bar on a terminal, a line every now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fornaxc.cli.session import Session

_EVERY = 30.0
_WORDS = {"prepare": "import and optimise", "run": "compile and run"}


@contextmanager
def counting(session: Session) -> Iterator[Callable[[str, int, int], None]]:
    """A function that hears (step, done, of)."""
    if session.quiet:
        yield lambda step, done, of: None
    elif sys.stderr.isatty():
        with _bar() as show:
            yield show
    else:
        yield _Lines()


class _Lines:
    """A line when a step begins and when it ends, and every half minute in between."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def __call__(self, step: str, done: int, of: int) -> None:
        now = monotonic()
        if step not in self._told or done == of or now - self._told[step] >= _EVERY:
            self._told[step] = now
            print(f"{_WORDS[step]}: {done} of {of}", file=sys.stderr, flush=True)


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    tasks: dict[str, Any] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def show(step: str, done: int, of: int) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(_WORDS[step], total=of)
            bar.update(tasks[step], completed=done)

        yield show
