"""Advisory locks, one file a key. They only prevent work from being done twice: nothing that is right depends on one.

A lock's file holds the process and the machine that took it last, so that whoever waits can say for whom."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from fornaxc.cache.records import log

_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}", re.ASCII)
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5


@contextmanager
def holding(
    root: Path, key: str, *, timeout: float | None = None, on_wait: Callable[[str], None] | None = None
) -> Iterator[bool]:
    """Hold the lock of `key` in the cache at `root` during the block; the value says whether it is held.

    While another process holds it: `on_wait` is called once with a name for the holder (`process 4711`, or `another process`
    where it is not known), then at most `timeout` seconds pass (no limit if None).
    It is not held, and the block runs all the same, after the time-out and where locking is impossible (a read-only cache,
    a file system without locks). The lock of a process that died is free.
    """
    fd = _acquire(lock_path(root, key), timeout, on_wait)
    try:
        yield fd is not None
    finally:
        if fd is not None:
            os.close(fd)


def is_held(root: Path, key: str) -> bool:
    """Whether some holder, in this process or another, holds the lock of `key` now."""
    try:
        fd = os.open(lock_path(root, key), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def held_keys(root: Path) -> set[str]:
    """The keys whose locks are held now."""
    return {key for key in known_keys(root) if is_held(root, key)}


def known_keys(root: Path) -> list[str]:
    """The keys that have a lock file, held or not."""
    try:
        names = os.listdir(root / "locks")
    except OSError:
        return []
    keys = (name.removesuffix(".lock") for name in sorted(names) if name.endswith(".lock"))
    return [key for key in keys if _NAME.fullmatch(key)]


def lock_path(root: Path, key: str) -> Path:
    """The file of the lock of `key`. Raises ValueError if `key` cannot be a file's name."""
    if _NAME.fullmatch(key) is None:
        raise ValueError(f"not a name for a lock: {key!r}")
    return root / "locks" / f"{key}.lock"


def _acquire(path: Path, timeout: float | None, on_wait: Callable[[str], None] | None) -> int | None:
    deadline = None if timeout is None else time.monotonic() + timeout
    waiting, pause = False, _FIRST_PAUSE
    while True:
        try:
            fd = _try_acquire(path)
        except OSError as error:
            log.debug("going on without the lock %s: %s", path, error)
            return None
        if fd is not None:
            _sign(fd)
            return fd
        if not waiting and on_wait is not None:
            on_wait(_holder(path))
        waiting = True
        if deadline is not None and time.monotonic() >= deadline:
            if timeout:
                log.warning("another process has held %s for %g s: going on without it", path, timeout)
            return None
        time.sleep(pause if deadline is None else max(0.0, min(pause, deadline - time.monotonic())))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _sign(fd: int) -> None:
    """Say in the lock's file who holds it; a full disk only makes it say nothing."""
    with suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()} {os.uname().nodename}".encode(errors="replace"), 0)


def _holder(path: Path) -> str:
    """A name for the process that holds the lock now."""
    try:
        number, _, machine = path.read_text(errors="replace").partition(" ")
    except OSError:
        number, machine = "", ""
    if not number.isdecimal():
        return "another process"
    return f"process {number}" + ("" if machine == os.uname().nodename else f" on {machine}")


def _try_acquire(path: Path) -> int | None:
    os.makedirs(path.parent, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _still_named(fd, path):
            return fd
    except BlockingIOError:
        pass
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _still_named(fd: int, path: Path) -> bool:
    """A clean-up may have unlinked the file between our opening and locking it: such a lock excludes nobody."""
    try:
        named = os.stat(path)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return False
    ours = os.fstat(fd)
    return (named.st_ino, named.st_dev) == (ours.st_ino, ours.st_dev)
