"""`fornaxc ops`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fornaxc.cli import options
from fornaxc.cli.session import Session, reporting
from fornaxc.cli.text import facts, table


@click.command("ops")
@click.argument("operator", required=False)
@options.target("Whose evidence to list")
@click.option(
    "--support", type=options.FILE, metavar="DIR", help="Read what `qualify --support DIR` wrote, not what shipped."
)
@reporting
def command(session: Session, operator: str | None, target: str, support: Path | None) -> int:
    """List the ONNX operators with what is known to work on a target; with OPERATOR, all that is known of it.

    The evidence comes from qualification runs, those that shipped with this version or, with --support, one of yours: element types, ranks, static or symbolic shapes, the largest
    error, and what is refused and why.

    \b
    Examples:
      fornaxc ops
      fornaxc ops Resize
      fornaxc ops Softmax --target cpu --json
      fornaxc ops --target nvidia --support mine/
    """
    from fornaxc import api

    rows = [row.to_json() for row in api.support(operator, target=target, folder=support)]
    document = {"target": target, "operators": rows}
    session.show(document, lambda: "\n\n".join(map(_whole, rows)) if operator else table([_row(r) for r in rows]))
    return 0


def _row(row: dict[str, Any]) -> dict[str, Any]:
    refused = sum(entry["cases"] for entry in row["refused"])
    return {
        "operator": row["operator"],
        "since": row["since"] or None,
        "good": f"{row['good']}/{row['cases']}",
        "refused": refused or None,
        "wrong": len(row["wrong"]) or None,
        "ranks": row["ranks"],
        "shapes": row["shapes"],
        "max_abs": row["max_abs"],
        "dtypes": row["dtypes"],
    }


def _figure(row: dict[str, Any], how: str) -> str | None:
    figure = row["figures"].get(how)
    return figure and f"{figure['good']} of {figure['cases']} cases work"


def _whole(row: dict[str, Any]) -> str:
    told = facts(
        {
            "operator": row["operator"],
            "since opset": row["since"] or None,
            "as shipped": _figure(row, "run-time"),
            "steering inputs constant": _figure(row, "frozen"),
            "element types": row["dtypes"],
            "ranks": row["ranks"],
            "shapes": row["shapes"],
            "largest error": row["max_abs"],
            "tolerance": row["tolerance"],
            "wrong values": row["wrong"],
        }
    )
    if not row["refused"]:
        return told
    return f"{told}\nrefused:\n{table(row['refused'], ['cases', 'reason'], indent=2)}"
