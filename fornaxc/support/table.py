"""Reads the support data that ships with the package. Needs neither onnx nor max."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fornaxc.errors import UsageError

FOLDER = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Row:
    """The evidence for one operator since one opset: how many cases ran well, and which were not taken, by reason.

    `figures` holds (good, cases) by how inputs were posed: `run-time`, as the cases are shipped, or `frozen`. `shapes` holds static, symbolic or
    both; `max_abs` is the largest error that any case had.
    """

    operator: str
    since: int
    cases: int
    good: int
    figures: dict[str, tuple[int, int]]
    dtypes: tuple[str, ...]
    ranks: tuple[int, ...]
    shapes: tuple[str, ...]
    max_abs: float | None
    tolerance: dict[str, float] | None
    refused: dict[str, int]
    wrong: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "operator": self.operator,
            "since": self.since,
            "cases": self.cases,
            "good": self.good,
            "figures": {how: {"good": good, "cases": cases} for how, (good, cases) in self.figures.items()},
            "dtypes": list(self.dtypes),
            "ranks": list(self.ranks),
            "shapes": list(self.shapes),
            "max_abs": self.max_abs,
            "tolerance": self.tolerance,
            "refused": [{"reason": reason, "cases": count} for reason, count in self.refused.items()],
            "wrong": list(self.wrong),
        }


def file_name(label: str) -> str:
    """The stem of a target's files: `amd-gfx942`."""
    return label.replace(":", "-")


def load_support(label: str, folder: Path | None = None) -> dict[str, Any]:
    """The support document of a target, by default the one that ships. UsageError where there is none, or where it cannot be read."""
    folder = folder or FOLDER
    path = folder / f"{file_name(label)}.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        have = ", ".join(sorted(p.stem.replace("-", ":", 1) for p in folder.glob("*.json"))) or "none"
        raise UsageError(
            f"there is no support data for {label}",
            code="FX243",
            hint=f"targets with data: {have}; `fornaxc qualify onnx:node --target {label} --support DIR` makes some, "
            f"and `fornaxc ops --target {label} --support DIR` reads it",
        ) from None
    except (OSError, ValueError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("operators"), dict):
        raise UsageError(f"{path} is no support data", code="FX243", hint="`fornaxc qualify --support DIR` writes it")
    return document


def evidence(document: dict[str, Any], operator: str, since: int) -> Row | None:
    """The row of one operator at one version of its schema; None where no case has it."""
    sections = document["operators"].get(operator, {}).get(str(since))
    return None if sections is None else _row(operator, since, sections)


def rows_of(document: dict[str, Any], operator: str | None = None) -> list[Row]:
    """A row per operator and schema version, of all suites together, by name. UsageError for an operator without evidence."""
    names = [n for n in document["operators"] if operator is None or n.lower() == operator.lower()]
    if operator is not None and not names:
        from difflib import get_close_matches

        near = get_close_matches(operator, document["operators"], n=3, cutoff=0.5)
        hint = f"near: {', '.join(near)}" if near else "`fornaxc ops` lists all"
        raise UsageError(f"no case has the operator {operator!r}", code="FX244", hint=hint)
    return [
        _row(name, int(since), sections)
        for name in sorted(names)
        for since, sections in sorted(document["operators"][name].items(), key=lambda item: int(item[0]))
    ]


def _row(name: str, since: int, by_suite: Mapping[str, dict[str, Any]]) -> Row:
    sections = list(by_suite.values())
    figures: dict[str, tuple[int, int]] = {}
    for suite, section in by_suite.items():
        how = suite.rpartition(" ")[2]
        good, cases = figures.get(how, (0, 0))
        figures[how] = (good + section["good"], cases + section["cases"])
    errors = [s["max_abs"] for s in sections if s["max_abs"] is not None]
    refused: dict[str, int] = {}
    for section in sections:
        for entry in section["refused"]:
            refused[entry["reason"]] = max(refused.get(entry["reason"], 0), entry["cases"])
    return Row(
        name,
        since,
        sum(s["cases"] for s in sections),
        sum(s["good"] for s in sections),
        figures,
        _union(s["dtypes"] for s in sections),
        tuple(sorted(_union(s["ranks"] for s in sections))),
        _union(s["shapes"] for s in sections),
        max(errors, default=None),
        next((s["tolerance"] for s in sections if s["tolerance"]), None),
        refused,
        _union(s["wrong"] for s in sections),
    )


def _union(lists: Any) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(item for items in lists for item in items))
