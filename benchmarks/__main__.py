"""`python -m benchmarks`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchmarks.catalogue import select, unmatched
from benchmarks.models import table
from benchmarks.report import render
from benchmarks.results import Foreign, Results
from benchmarks.runner import MEASURES, available, header, measure, place
from fornaxc.bench.session import busy

ROOT = Path(__file__).parents[1]


class CannotRun(click.ClickException):
    """A target that does not run on this machine."""

    exit_code = 3


def _counts(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        counts = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise click.BadParameter("give numbers with commas between, as in 1,2") from None
    if min(counts) < 1:
        raise click.BadParameter("there is at least one thread")
    return counts


@click.command()
@click.option(
    "--models", "patterns", multiple=True, metavar="GLOB", help="Only models whose name matches; may be given again."
)
@click.option(
    "--measures", multiple=True, type=click.Choice(MEASURES), help="Only this; may be given again. [default: all]"
)
@click.option("--threads", default="1,2", show_default=True, callback=_counts, help="Numbers of threads for latency.")
@click.option(
    "--target", default="cpu", show_default=True, help="What fornaxc compiles for; it must run on this machine."
)
@click.option(
    "--work",
    type=click.Path(path_type=Path),
    default=ROOT / ".benchmarks",
    help="Keeps models and artifacts. [default: .benchmarks]",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    help="The page; its JSON file stands beside it. [default: docs/benchmarks.md, or docs/benchmarks-TARGET.md]",
)
@click.option(
    "--fresh", is_flag=True, help="Measure everything again, in place of going on with the results in the JSON file."
)
@click.option("--list", "listing", is_flag=True, help="List the models and the engines, and measure nothing.")
def main(
    patterns: tuple[str, ...],
    measures: tuple[str, ...],
    threads: tuple[int, ...],
    target: str,
    work: Path,
    report: Path | None,
    fresh: bool,
    listing: bool,
) -> None:
    """Measure fornaxc against the engines that are installed, and write docs/benchmarks.md.

    Run it on a quiet machine. A run that was stopped goes on where it stood.
    """
    models = table()
    for pattern in unmatched(models, patterns):
        raise click.BadParameter(f"no model is named {pattern!r}; --list shows them", param_hint="--models")
    chosen = select(models, patterns)
    label, device = _target(target)
    peers, lacking = available(device)
    for title, why in lacking.items():
        click.echo(f"{title}: left out: {why}")
    if listing:
        for model in chosen:
            click.echo(f"{model.name}: {model.origin}")
        click.echo(f"engines: {', '.join(peer.title for peer in peers)}")
        return
    page = report or ROOT / "docs" / ("benchmarks.md" if label == "cpu" else f"benchmarks-{label.replace(':', '-')}.md")
    told = header(label)
    results = _results(page.with_suffix(".json"), told, fresh)
    for peer in peers:
        results.skipped.pop(peer.title, None)
    for title, why in lacking.items():
        results.skip(title, why)
    counts = threads if device == "cpu" else (max(threads),)
    try:
        measure(place(work.resolve(), told, peers), chosen, measures or MEASURES, counts, results, click.echo, busy)
    finally:  # what a run that is stopped has measured stands on the page too
        page.write_text(render(results.to_json(), {model.name: model.origin for model in models}))
        click.echo(f"wrote {page}")


def _results(path: Path, told: dict[str, Any], fresh: bool) -> Results:
    try:
        return Results(path, told, fresh)
    except Foreign as other:
        raise click.UsageError(
            f"the results in {path} are of another machine or of other software ({other}); --fresh starts anew"
        ) from None


def _target(text: str) -> tuple[str, str]:
    """The label of a target that runs here and its kind of device. `CannotRun` where it does not."""
    from fornaxc.errors import FornaxError
    from fornaxc.targets import parse_target

    try:
        target = parse_target(text)
    except FornaxError as error:
        raise click.BadParameter(error.message, param_hint="--target") from None
    reason = target.cannot_run()
    if reason:
        raise CannotRun(f"the target {target.label} cannot run on this machine: {reason}")
    return target.label, target.device


if __name__ == "__main__":
    main()
