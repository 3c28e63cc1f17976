"""`fornaxc compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fornaxc.cli import options
from fornaxc.cli.comparing import output_row
from fornaxc.cli.measuring import measuring, ratio_text, side_rows
from fornaxc.cli.progress import progress
from fornaxc.cli.session import Session, reporting
from fornaxc.cli.text import facts, size, table

SHOWN = 20  # differences of a kind


@click.command("compare")
@click.argument("a", type=options.FILE)
@click.argument("b", type=options.FILE)
@options.inputs
@options.seed
@options.tolerances
@options.tolerances_file
@measuring(20)
@click.option("--speed/--no-speed", default=True, show_default=True, help="Measure the two in turn.")
@click.option(
    "--max-slowdown",
    type=options.Finite(min=0, min_open=True),
    metavar="RATIO",
    help="Fail where B takes more than RATIO times as long as A, in every block.",
)
@options.cache_dir
@options.timeout
@reporting
def command(session: Session, a: Path, b: Path, **choices: Any) -> int:
    """Say what differs between the artifacts A and B (.fxa, or paths in the cache) of one model: B, the new one, is judged by A.

    Signatures, manifests, programs and sizes; and where this machine can run both, the outputs and the speed. Exit status 1 where B cannot
    take A's place: an output differs, an input or output is another one, or it is slower than --max-slowdown allows.

    \b
    Examples:
      fornaxc compare yesterday.fxa today.fxa
      fornaxc compare main.fxa branch.fxa --max-slowdown 1.1 --json
      fornaxc compare amd.fxa nvidia.fxa --no-speed
    """
    from fornaxc import api

    with progress(session) as show:
        found = api.compare(a, b, progress=show, **choices)
    document = found.to_json()
    session.show(document, lambda: _text(document))
    return found.exit


def _text(document: dict[str, Any]) -> str:
    parts = [table([_side(name, document[name]) for name in ("a", "b")])]
    parts += _differences("signature", document["signature"], "no difference")
    parts += _differences("manifest", document["manifest"], "no difference: the same code and the same source")
    parts += _differences("operations", document["operations"], "the same number of each")
    if document["kernels"] is not None:
        parts += _differences("kernels", document["kernels"], "the same number of each")
    if document["outputs"]:
        parts += ["outputs of B, by those of A:", table([output_row(o) for o in document["outputs"]], indent=2)]
    speed = document["speed"]
    if speed is not None:
        rows = [{**row, "": name} for name, row in zip("AB", side_rows([speed["a"], speed["b"]]), strict=True)]
        parts += [f"speed with {speed['threads']} threads:", table(rows, indent=2)]
    parts += [f"note: {note}" for note in document["notes"]]
    parts.append(
        facts(
            {
                "samples": document["samples"],
                "not compared": document["not_compared"],
                "time of B / A": ratio_text(speed["ratio"]) if speed else "",
                "slower than allowed": "yes" if speed and speed["slower"] else "",
                "verdict": document["verdict"],
            }
        )
    )
    return "\n".join(part for part in parts if part)


def _side(name: str, side: dict[str, Any]) -> dict[str, Any]:
    sizes = {f"{part}_size": size(count) for part, count in side["sizes"].items()}
    return {"": name.upper(), "artifact": side["path"], "target": side["target"], "MAX": side["max"], **sizes}


def _differences(what: str, rows: list[dict[str, Any]], none: str) -> list[str]:
    if not rows:
        return [f"{what}: {none}"]
    left = f" (of {len(rows)}; the rest in --json)" if len(rows) > SHOWN else ""
    return [
        f"{what} differ{'' if what.endswith('s') else 's'}:{left}",
        table([_cells(row) for row in rows[:SHOWN]], indent=2),
    ]


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    """A difference whose digests are short; what breaks says so."""
    cells = {name: _short(value) for name, value in row.items() if name != "breaks"}
    return {**cells, "": "B cannot take A's place" if row.get("breaks") else ""}


def _short(value: Any) -> Any:
    long = isinstance(value, str) and len(value) >= 64 and all(c in "0123456789abcdef" for c in value[-64:])
    return f"{value[:-52]}..." if long else value
