"""fornaxc's own kernels as MAX takes them: precompiled once, and kept where MAX keeps what it compiles."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from max.graph import KernelLibrary

import fornaxc

KERNELS = Path(fornaxc.__file__).parent / "kernels"


@cache
def kernel_library() -> KernelLibrary:
    """The library of the kernels. Building it takes seconds, once for the kernels' sources and MAX's version where MODULAR_CACHE_DIR is set."""
    folder = os.environ.get("MODULAR_CACHE_DIR")
    stem = f"fornaxc_kernels_{_sources()}"
    kept = _kept(Path(folder), stem) if folder else None
    if kept is not None:
        return _loaded(kept)
    library = _loaded(KERNELS)
    if folder:
        with suppress(OSError):  # a full or read-only disk costs the seconds, nothing else
            _keep(library.library_paths()[0], Path(folder), stem)
    return library


def _loaded(path: Path) -> KernelLibrary:
    library = KernelLibrary()
    library.load_paths([path])
    return library


def _sources() -> str:
    """A digest of all that decides what the precompiled kernels are."""
    digest = hashlib.sha256(version("max").encode())
    for path in sorted(KERNELS.glob("*.mojo")):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:32]


def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def _kept(folder: Path, stem: str) -> Path | None:
    """The kept file, if it is whole: its folder's name ends with the digest of its content, because MAX loads a damaged one."""
    with suppress(OSError):
        found = sorted(folder.glob(f"{stem}_*/*.mojoc"))
        return next((p for p in found if p.parent.name == f"{stem}_{_content(p)}"), None)
    return None


def _keep(built: Path, folder: Path, stem: str) -> None:
    """Copy the file, under the name that it was built with: it is that of the module inside, by which MAX looks for it."""
    place = folder / f"{stem}_{_content(built)}"
    place.mkdir(parents=True, exist_ok=True)
    number, part = tempfile.mkstemp(dir=place, prefix=".part")
    os.close(number)
    try:
        shutil.copyfile(built, part)
        os.replace(part, place / built.name)
    finally:
        Path(part).unlink(missing_ok=True)
