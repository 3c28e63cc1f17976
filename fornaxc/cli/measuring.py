"""Options of the verbs that measure time, and how their numbers are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from fornaxc.cli.options import sizes
from fornaxc.cli.text import size

Command = TypeVar("Command", bound=Callable[..., Any])


def measuring(default: int | None) -> Callable[[Command], Command]:
    """Add --iterations (None means as many as suit), --warmup, --threads and --size."""
    told = "what 5 s hold, 6 to 100" if default is None else str(default)
    iterations = click.option(
        "--iterations",
        type=click.IntRange(min=1),
        default=default,
        help=f"Runs that count, of each side; default {told}.",
    )
    warmup = click.option(
        "--warmup",
        type=click.IntRange(min=0),
        help="Runs before each block that do not count; default 3, or 1 where a run takes half a second.",
    )
    threads = click.option("--threads", type=click.IntRange(min=1), help="Processors to use (Linux); default all.")
    return lambda command: iterations(warmup(threads(sizes(command))))


def side_rows(sides: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a side for a table: what was measured of it."""
    return [
        {
            "": side["name"],
            "version": side["version"],
            **{name: milliseconds(side["latency"][name]) for name in ("p50", "p90", "p95", "p99", "lowest", "highest")},
            "runs/s": f"{side['runs_per_second']:.4g}",
            "first_run": milliseconds(side["first_run_seconds"]),
            "load": milliseconds(side["load_seconds"]),
            "import": milliseconds(side["import_seconds"]),
            "peak_memory": "not available" if side["peak_memory"] is None else size(side["peak_memory"]),
        }
        for side in sides
    ]


def milliseconds(seconds: float) -> str:
    """`1.23 ms`."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def ratio_text(ratio: Mapping[str, Any]) -> str:
    """The median of the blocks' ratios, and how far they spread."""
    return f"{ratio['median']:.2f} (blocks {ratio['lowest']:.2f} to {ratio['highest']:.2f})"
