"""fornaxc's own kernels as MAX takes them: precompiled once, and kept where MAX keeps what it compiles.

Run as `python -m fornaxc.lowering.kernel_package`, it only sees to it that they are there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import fornaxc

if TYPE_CHECKING:
    from max.graph import KernelLibrary

KERNELS = Path(fornaxc.__file__).parent / "kernels"


@cache
def kernel_library() -> KernelLibrary:
    """The library of the kernels. Building it takes seconds, once for the kernels' sources and MAX's version where MODULAR_CACHE_DIR is set: who comes while
    another process builds it waits."""
    folder = os.environ.get("MODULAR_CACHE_DIR")
    if not folder:
        return _loaded(KERNELS)
    with _alone(Path(folder)):
        kept = _kept(Path(folder))
        if kept is not None:
            return _loaded(kept)
        library = _loaded(KERNELS)
        with suppress(OSError):  # a full or read-only disk costs the seconds, nothing else
            _keep(library.library_paths()[0], Path(folder))
        return library


@contextmanager
def kernels_ahead(environment: Mapping[str, str]) -> Iterator[None]:
    """Where they are not there yet, the kernels are built by a process of its own while the caller does something else. `environment` is that of the process that
    will want them."""
    folder = environment.get("MODULAR_CACHE_DIR")
    builder = _builder(environment) if folder and _kept(Path(folder)) is None else None
    try:
        yield
    finally:
        if builder is not None:
            with suppress(ProcessLookupError):
                os.killpg(builder.pid, signal.SIGKILL)  # MAX's own process too, which does the work
            builder.wait()


def _builder(environment: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
    """A process that builds the kernels, in a group of its own; None where the system has no room for one, or nothing can be kept."""
    try:
        Path(environment["MODULAR_CACHE_DIR"]).mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", "fornaxc.lowering.kernel_package"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **environment},
        )
    except OSError:
        return None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process builds the kernels for `folder` meanwhile, where it can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / f"{_stem()}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):  # where locking is impossible, each builds for itself
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _loaded(path: Path) -> KernelLibrary:
    from max.graph import KernelLibrary

    library = KernelLibrary()
    library.load_paths([path])
    return library


def _stem() -> str:
    return f"fornaxc_kernels_{_sources()}"


def _sources() -> str:
    """A digest of all that decides what the precompiled kernels are."""
    digest = hashlib.sha256(version("max").encode())
    for path in sorted(KERNELS.glob("*.mojo")):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:32]


def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def _kept(folder: Path) -> Path | None:
    """The kept file, if it is whole: its folder's name ends with the digest of its content, because MAX loads a damaged one."""
    with suppress(OSError):
        stem = _stem()
        found = sorted(folder.glob(f"{stem}_*/*.mojoc"))
        return next((p for p in found if p.parent.name == f"{stem}_{_content(p)}"), None)
    return None


def _keep(built: Path, folder: Path) -> None:
    """Copy the file, under the name that it was built with: it is that of the module inside, by which MAX looks for it."""
    place = folder / f"{_stem()}_{_content(built)}"
    place.mkdir(parents=True, exist_ok=True)
    number, part = tempfile.mkstemp(dir=place, prefix=".part")
    os.close(number)
    try:
        shutil.copyfile(built, part)
        os.replace(part, place / built.name)
    finally:
        Path(part).unlink(missing_ok=True)


if __name__ == "__main__":
    kernel_library()
    os._exit(0)  # MAX may abort in its own clean-up
