"""`fornaxc targets`."""

from __future__ import annotations

from typing import Any

import click

from fornaxc.cli.session import Session, reporting
from fornaxc.cli.text import table


@click.command("targets")
@click.option("--all", "everything", is_flag=True, help="List every LLVM CPU name too.")
@reporting
def command(session: Session, everything: bool) -> int:
    """List the targets, with whether this machine can compile for them and run them.

    \b
    Examples:
      fornaxc targets
      fornaxc targets --all --json
    """
    from fornaxc.targets import known_targets, parse_target

    listed = {"cpu": "cpu", "nvidia": "nvidia", "amd": "amd", **{name: name for name in known_targets()}}
    rows = [
        _row(name, parse_target(name)) for name in listed if everything or session.json or not name.startswith("cpu:")
    ]
    session.show({"targets": rows}, lambda: _text(rows, everything))
    return 0


def _row(name: str, target: Any) -> dict[str, Any]:
    from fornaxc.errors import UnsupportedError

    reason = None
    try:
        target.check_compilable()
    except UnsupportedError as error:
        reason = error.message
    return {
        "target": name,
        "label": target.label,
        "description": target.description,
        "compiles_here": reason is None,
        "cannot_compile": reason,
        "runs_here": target.cannot_run() is None,
        "cannot_run": target.cannot_run(),
        "limits": list(target.limits),
    }


def _text(rows: list[dict[str, Any]], everything: bool) -> str:
    shown = []
    for row in rows:
        same = "" if row["label"] == row["target"] else f"= {row['label']}, "
        notes = row["limits"] if row["target"] == row["label"] else []
        what = f"{same}{row['description']}" + (f" ({'; '.join(notes)})" if notes else "")
        shown.append({**row, "what": what})
    text = table(shown, ["target", "compiles_here", "runs_here", "what"])
    more = "" if everything else "\ncpu:NAME also takes every LLVM CPU name, such as cpu:x86-64-v3: --all lists them."
    beyond = "\ngaudi, ascend and qualcomm are not possible: MAX has no backend for them."
    return text + more + beyond
