"""Writing files so that a reader, a second writer or a power cut never meets half of one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from fornaxc.errors import CacheError, UsageError

CHUNK: Final = 1 << 20

_ELSEWHERE: Final = "choose another cache folder with --cache-dir or FORNAXC_CACHE_DIR"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM}
_NOT_A_FOLDER = {errno.ENOTDIR, errno.EEXIST}


def place_for_a_file(path: Path) -> Path:
    """The file that writing to `path` makes or replaces, links followed. Raises UsageError where that can be none.

    A device or a pipe is refused: a file that is renamed over it would destroy it.
    """
    try:
        final = Path(os.path.realpath(path))
        if final.is_dir():
            problem = "is a folder"
        elif final.exists() and not final.is_file():
            problem = "is not an ordinary file"
        elif not final.parent.is_dir():
            problem = f"is in a folder that does not exist: {final.parent}"
        else:
            with suppress(FileNotFoundError):
                os.lstat(final)  # raises where no file can have this name
            return final
    except (OSError, ValueError) as error:
        problem = f"cannot be written: {getattr(error, 'strerror', None) or error}"
    raise UsageError(f"{path} {problem}", code="FX228", hint="give the name of a file in an existing folder")


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte of `data`; raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable, where the file system can."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)


def open_temporary(folder: Path, prefix: str = "") -> tuple[int, Path]:
    """A new file of a unique name in `folder`, open for reading and writing; raises OSError."""
    path = folder / f"{prefix}{os.getpid()}-{os.urandom(8).hex()}.tmp"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), path


@contextmanager
def replacing(final: Path, temporary_folder: Path, *, durable: bool = True, prefix: str = "") -> Iterator[int]:
    """A file descriptor whose content becomes `final` in one step when the block ends without an exception.

    `temporary_folder` must be on the file system of `final`. Raises OSError; whatever is raised, the temporary file goes.
    """
    fd, temporary = open_temporary(temporary_folder, prefix)
    try:
        try:
            yield fd
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, final)
    except BaseException:
        discard(temporary)
        raise
    if durable:
        sync_folder(final.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Write a user's file in one step. Raises UsageError if it is no place for a file, CacheError if writing fails."""
    final = place_for_a_file(path)
    try:
        with replacing(final, final.parent, prefix=f".{final.name[:100]}-") as fd:
            write_all(fd, data)
    except OSError as error:
        raise cache_error(error, path, "choose another place for the file") from error


def discard(path: Path) -> None:
    """Remove a file that nobody needs; not being able to is not a failure."""
    with suppress(OSError):
        os.unlink(path)


@contextmanager
def cache_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a CacheError that names `path` and says what to do."""
    try:
        yield
    except OSError as error:
        raise cache_error(error, path) from error


def cache_error(error: OSError, path: Path, elsewhere: str = _ELSEWHERE) -> CacheError:
    """The CacheError for `error`, which happened while writing at `path`; `elsewhere` ends the hint."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        message, code = f"no space left to write {path}: {reason}", "FX601"
        hint = f"free some space (`fornaxc cache gc --max-size ...` removes old artifacts), or {elsewhere}"
    elif error.errno in _REFUSED:
        message, code = f"{path} cannot be written: {reason}", "FX602"
        hint = f"make the folder writable, or {elsewhere}"
    elif error.errno in _NOT_A_FOLDER:
        message, code = f"{path} cannot be used as a folder: {reason}", "FX603"
        hint = f"move the file that is in the way, or {elsewhere}"
    else:
        message, code = f"reading or writing {path} failed: {reason}", "FX600"
        hint = f"run `fornaxc cache check`, or {elsewhere}"
    return CacheError(message, code=code, hint=hint, details=[{"path": str(path), "errno": error.errno or 0}])
