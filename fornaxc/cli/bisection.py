"""The search for the first wrong node, as part of `fornaxc verify`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fornaxc.cli.text import facts, table
from fornaxc.errors import FornaxError, UsageError
from fornaxc.phases import Progress

SHOWN = 4  # nodes before and after the guilty one


def check_bisectable(model: Path, expected: Path | None, dataset: Path | None = None) -> None:
    """Raise UsageError where a search cannot be made of what is verified."""
    from fornaxc import api

    api.check_is_model(model, "bisection")
    if dataset is not None:
        raise UsageError(
            "--bisect looks at one sample, and --dataset holds many",
            code="FX253",
            hint="give the sample that fails with --inputs",
        )
    if expected is not None:
        raise UsageError(
            "--bisect compares with the oracle, and --expected takes its place",
            code="FX253",
            hint="leave out one of them",
        )


def bisection(
    model: Path, growth: Path | None, rows: Sequence[Any], choices: Mapping[str, Any], show: Progress
) -> dict[str, Any]:
    """Carry it out on the sample that failed; the JSON document of what was found, or of the error that ended it."""
    from fornaxc import api

    names = (
        "target",
        "inputs",
        "dims",
        "seed",
        "rtol",
        "atol",
        "tolerances",
        "cache_dir",
        "host_fallback",
        "timeout",
        "optimization",
        "entry",
        "freeze",
        "oracles",
    )
    failing = [row.sample for row in rows if row.verdict == "fail"]
    given = {name: choices[name] for name in names if name in choices}
    try:
        found = api.bisect(model, failing=failing, growth=growth, progress=show, **given)
    except FornaxError as error:  # what was verified still holds
        return error.to_json()
    return {**found.to_json(), "page": None if growth is None else str(growth)}


def bisection_text(document: Mapping[str, Any] | None) -> list[str]:
    """The lines for people: the cause, and the errors of the nodes around it."""
    if document is None:
        return []
    if document.get("status") == "error":
        return [
            "",
            f"the bisection failed: {document['message']}",
            *([f"hint: {document['hint']}"] if document["hint"] else []),
        ]
    found = document["found"] or {"steps": [], "notes": [], "node": None, "confirmed": False, "kind": ""}
    steps = _around(found["steps"], found["node"])
    lines = ["", f"cause: {document['cause']}"]
    if steps:
        lines += [f"errors of the nodes (of {len(found['steps'])} values):", table([_row(s) for s in steps], indent=2)]
    lines += [f"note: {note}" for note in (*document["notes"], *found["notes"])]
    lines.append(
        facts(
            {
                "inputs": document["sample"],
                "confirmed without taps": found["confirmed"] if found["kind"] in ("node", "fused") else None,
                "page": document["page"],
            }
        )
    )
    return lines


def _around(steps: Sequence[Mapping[str, Any]], node: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
    if node is None:
        return sorted(steps, key=lambda s: -((s["own"] or {}).get("relative") or 0.0))[:SHOWN]
    at = next((i for i, s in enumerate(steps) if s["index"] == node["index"]), 0)
    return steps[max(0, at - SHOWN) : at + SHOWN + 1]


def _row(step: Mapping[str, Any]) -> dict[str, Any]:
    own = step["own"]
    return {
        "node": step["index"],
        "source": f"{step['source_op']} {step['source_node']}".strip(),
        "operation": step["ir"],
        "type": step["type"],
        "error_so_far": _error(step["so_far"]),
        "its_own": "" if own is None else _error(own) + (" wrong" if own["failed"] else ""),
    }


def _error(deviation: Mapping[str, Any]) -> str:
    return "not comparable" if deviation["relative"] is None else f"{deviation['relative']:.2g}"
