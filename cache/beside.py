"""What lies beside the artifacts: MAX's own caches, outcomes of qualification, logs. Losing it costs time, never an artifact."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fornaxc.cache.files import discard

FOLDERS: Final = ("toolchain", "qualify", "logs")


@dataclass(frozen=True, slots=True)
class Unit:
    """A file or folder that goes or stays as a whole: `size` in bytes, `newest` in seconds since the epoch."""

    name: str
    path: Path
    size: int
    newest: float

    def remove(self) -> bool:
        """Remove it; whether it is gone."""
        if self.path.is_dir():
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            discard(self.path)
        return not os.path.lexists(self.path)


def units(root: Path) -> list[Unit]:
    """What lies beside the artifacts of the cache at `root`, oldest first."""
    found = []
    for folder in FOLDERS:
        try:
            paths = sorted((root / folder).iterdir())
        except OSError:
            continue
        found += [_unit(f"{folder}/{path.name}", path) for path in paths]
    return sorted(found, key=lambda unit: unit.newest)


def _unit(name: str, path: Path) -> Unit:
    """MAX's files may need each other, so a folder is one unit."""
    files = [Path(base, file) for base, _, names in os.walk(path) for file in names] or [path]
    size, newest = 0, 0.0
    for file in files:
        try:
            status = file.stat(follow_symlinks=False)
        except OSError:
            continue
        size, newest = size + status.st_size, max(newest, status.st_mtime)
    return Unit(name, path, size, newest)
