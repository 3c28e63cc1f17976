"""Results on disk: written after each measurement, so that a run which was stopped goes on where it stood."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Foreign(Exception):
    """Results in the file that were measured with other software or on another machine; the text names what differs."""


class Results:
    """The results of one machine and one set of versions, which `header` says; `units` are the measurements by name."""

    def __init__(self, path: Path, header: Mapping[str, Any], fresh: bool = False) -> None:
        """Take up what is in the file, or start anew where there is none, or where `fresh`. Raises `Foreign`."""
        self.path = path
        self.header = dict(header)
        self.units: dict[str, Any] = {}
        self.skipped: dict[str, str] = {}
        if fresh or not path.exists():
            return
        document = json.loads(path.read_text())
        other = sorted(
            key for key in {*document["header"], *self.header} if document["header"].get(key) != self.header.get(key)
        )
        if other:
            raise Foreign(", ".join(other))
        self.units = document["units"]
        self.skipped = document["skipped"]

    def __contains__(self, name: str) -> bool:
        return name in self.units

    def add(self, name: str, found: Mapping[str, Any]) -> None:
        """Keep a measurement, on disk too."""
        self.units[name] = dict(found)
        self.save()

    def skip(self, what: str, why: str) -> None:
        """Note a model or an engine that is left out."""
        self.skipped[what] = why
        self.save()

    def to_json(self) -> dict[str, Any]:
        return {"header": self.header, "skipped": self.skipped, "units": self.units}

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.to_json(), indent=1) + "\n")
        partial.replace(self.path)
