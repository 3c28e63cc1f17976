"""Which of fornaxc's own kernels a MAX graph calls, as a digest of their sources."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

import fornaxc

_FOLDER = Path(fornaxc.__file__).parent / "kernels"
_CALLED = re.compile(r'symbol = "(\w+)"')
_REGISTERED = re.compile(r'register\("(\w+)"\)')
_IMPORTED = re.compile(r"^from \.(\w+) import", re.MULTILINE)


def kernels_digest(text: str) -> str:
    """sha256 over the Mojo files of the kernels that a printed MAX graph calls, and the files that those import."""
    called = set(_CALLED.findall(text))
    pending = sorted({file for name in called for file in _registry().get(name, [])})
    found: set[str] = set()
    while pending:
        file = pending.pop()
        if file not in found:
            found.add(file)
            pending += _IMPORTED.findall(_source(file))
    digest = hashlib.sha256()
    for file in sorted(found):
        digest.update(f"{file}\0{_source(file)}\0".encode())
    return digest.hexdigest()


@cache
def _source(name: str) -> str:
    return (_FOLDER / f"{name}.mojo").read_text()


@cache
def _registry() -> dict[str, list[str]]:
    """The files that register each kernel, by the kernel's name."""
    found: dict[str, list[str]] = {}
    for path in sorted(_FOLDER.glob("*.mojo")):
        for name in _REGISTERED.findall(_source(path.stem)):
            found.setdefault(name, []).append(path.stem)
    return found
