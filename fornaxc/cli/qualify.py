"""`fornaxc qualify`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from fornaxc.cli import options
from fornaxc.cli.counting import counting
from fornaxc.cli.session import open_session, verbosity_options
from fornaxc.cli.text import facts, table

_SHOWN = 40


@click.command("qualify")
@click.argument("suite")
@options.target("What to compile for")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="GLOB",
    help="Only cases whose id, or one of whose operators, matches; may be repeated.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N cases.")
@click.option(
    "--freeze-shape-inputs",
    is_flag=True,
    help="Make inputs that carry shapes, axes, starts, repeats... initializers, as real models have them.",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes at a time; default: one per core."
)
@click.option(
    "--per-module",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    metavar="N",
    help="Cases that are compiled together.",
)
@click.option("--rtol", type=options.Finite(min=0), default=1e-3, show_default=True, help="Relative tolerance.")
@click.option("--atol", type=options.Finite(min=0), default=1e-5, show_default=True, help="Absolute tolerance.")
@click.option(
    "--timeout",
    type=options.Finite(min=0, min_open=True),
    default=1800,
    show_default=True,
    metavar="SECONDS",
    help="For one module.",
)
@click.option("--json", type=options.FILE, metavar="OUT", help="Write the results as JSON; - is stdout.")
@click.option("--html", type=options.FILE, metavar="OUT", help="Write the results as one HTML page.")
@click.option("--gaps", type=options.FILE, metavar="FILE", help="Check against this list of known gaps, strictly.")
@click.option("--update-gaps", type=options.FILE, metavar="FILE", help="Write the list of known gaps.")
@click.option("--support", type=options.FILE, metavar="DIR", help="Write DIR/TARGET.json and .md, what `ops` prints.")
@click.option("--resume", type=options.FILE, metavar="DIR", help="The folder of outcomes; default: in the cache.")
@options.cache_dir
@verbosity_options
@click.pass_context
def command(ctx: click.Context, /, suite: str, quiet: bool, verbose: int, json: Path | None, **choices: Any) -> int:
    """Run the cases of SUITE through the whole path and compare them with the outputs that it ships.

    SUITE is onnx:node, onnx:simple, onnx:pytorch-operator or onnx:pytorch-converted (of the installed onnx package), or a folder: of cases in the
    ONNX backend-test layout, and of StableHLO modules that check themselves. Cases share compilations, and outcomes are remembered: an interrupted run goes on where it was.
    For a GPU target, cases end when they are compiled. Exit status 1 where a value is wrong or a case failed; with
    --gaps, where the result is not exactly what is listed.

    \b
    Examples:
      fornaxc qualify onnx:node --filter Softmax --filter 'test_resize_*'
      fornaxc qualify onnx:node --freeze-shape-inputs --json out.json --html out.html
      fornaxc qualify onnx:node --target amd --limit 50
      fornaxc qualify path/to/cases --gaps gaps.toml
    """
    from fornaxc import api

    to_stdout = json is not None and str(json) == "-"
    session = open_session(ctx, quiet, verbose, to_stdout)
    with counting(session) as show:
        found = api.qualify(suite, json=None if to_stdout else json, progress=show, **choices)
    document = found.to_json()
    session.show(document, lambda: _text(document, session.verbose > 0))
    return found.exit


def _text(document: dict[str, Any], everything: bool) -> str:
    rows = [_row(c) for c in document["cases"] if everything or c["verdict"] not in ("pass", "compiled")]
    order = ["mismatch", "failed", "refused", "compiled", "pass"]
    rows.sort(key=lambda r: order.index(r["verdict"]))
    shown = rows if everything else rows[:_SHOWN]
    lines = [table(shown, ["verdict", "phase", "case", "reason"])] if shown else []
    if len(rows) > len(shown):
        lines.append(f"... and {len(rows) - len(shown)} more; -v shows all, --json and --html keep them")
    reasons = Counter(c["phase"] for c in document["cases"] if c["verdict"] in ("refused", "failed"))
    lines += [f"gap: {line}" for line in document["gaps"]["differences"]]
    lines.append(
        facts(
            {
                "suite": document["suite"],
                "inputs": document["inputs"],
                "target": document["target"],
                "executed on": document["executed_on"] or "nothing: the cases were compiled only",
                "totals": document["totals"],
                **_by_second_rule(document["cases"]),
                "ended in": dict(reasons),
                "seconds": f"{document['seconds']:.0f}",
            }
        )
    )
    return "\n".join(lines)


def _by_second_rule(cases: list[dict[str, Any]]) -> dict[str, str]:
    """How many passes rest on the rule for floats of 16 bits; nothing where none does."""
    count = sum(c["verdict"] == "pass" and c["rule"] == "float64" for c in cases)
    return (
        {"of the passes": f"{count} are 16-bit floats no farther from float64 than the shipped output"} if count else {}
    )


def _row(case: dict[str, Any]) -> dict[str, Any]:
    return {
        "verdict": case["verdict"],
        "phase": case["phase"],
        "case": case["id"],
        "reason": " ".join(case["reason"].split())[:200],
    }
