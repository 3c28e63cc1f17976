"""sha256 of files, remembered for as long as a file's size, times and inode stay what they were when it was read."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Final, NamedTuple

from fornaxc.cache.location import prepare
from fornaxc.cache.records import Document, log, read_record, write_record
from fornaxc.errors import CacheError

RACY_NS: Final = 2_000_000_000

SHA256: Final = "sha256"


class Identity(NamedTuple):
    """What changes when a file's bytes do: size in bytes, times in nanoseconds since the epoch."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


class DigestMemory:
    """Facts about files, one small record a path, so that concurrent writers cannot disturb each other.

    A file modified less than two seconds before it was read is not remembered: a second change within the granularity
    of the file system's clock would go unseen. Where the cache cannot be written, nothing is remembered.
    """

    def __init__(self, root: Path) -> None:
        self.folder = root / "digests"

    def of_file(self, path: Path, *, fresh: bool = False) -> str:
        """`sha256:<hex>` of the file's bytes; with `fresh` they are read even if remembered. Raises OSError."""
        known = None if fresh else self.recall(path, SHA256)
        if known is not None:
            return known
        with open(path, "rb") as file:
            before = Identity.of(os.fstat(file.fileno()))
            started = time.time_ns()
            digest = "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
            unchanged = Identity.of(os.fstat(file.fileno())) == before
        if fresh and self.recall(path, SHA256) not in (None, digest):
            self.forget(path, SHA256)
        if unchanged:
            self.remember(path, SHA256, digest, before, started)
        return digest

    def recall(self, path: Path, fact: str) -> str | None:
        """The remembered `fact` about the file as it is now, or None."""
        try:
            now = Identity.of(os.stat(path))
        except OSError:
            return None
        absolute = os.path.abspath(path)
        document = read_record(self._place(absolute, fact), _name(absolute, fact))
        if document is None or document.get("identity") != list(now):
            return None
        value = document.get("value")
        return value if isinstance(value, str) else None

    def remember(self, path: Path, fact: str, value: str, identity: Identity, read_at_ns: int | None = None) -> None:
        """Remember `fact` about the file of `identity`, whose bytes were read from `read_at_ns` on (now, if None)."""
        if (time.time_ns() if read_at_ns is None else read_at_ns) - identity.mtime_ns < RACY_NS:
            return
        absolute = os.path.abspath(path)
        document: Document = {"path": absolute, "fact": fact, "identity": list(identity), "value": value}
        place = self._place(absolute, fact)
        try:
            prepare(self.folder.parent)
            write_record(place, _name(absolute, fact), document, self.folder.parent / "tmp", durable=False)
        except (OSError, CacheError) as error:
            log.debug("the digest of %s is not remembered: %s", path, error)

    def forget(self, path: Path, fact: str) -> None:
        """Forget `fact` about `path`, if the cache can be written."""
        try:
            os.unlink(self._place(os.path.abspath(path), fact))
        except OSError as error:
            log.debug("%s: nothing to forget: %s", path, error)

    def sweep(self, older_than: float) -> int:
        """Remove the memories written before `older_than` (seconds since the epoch); returns how many."""
        removed = 0
        try:
            with os.scandir(self.folder) as places:
                for place in places:
                    if place.stat(follow_symlinks=False).st_mtime < older_than:
                        os.unlink(place.path)
                        removed += 1
        except OSError as error:
            log.debug("%s is not swept: %s", self.folder, error)
        return removed

    def _place(self, absolute: str, fact: str) -> Path:
        return self.folder / hashlib.sha256(_name(absolute, fact).encode("ascii")).hexdigest()


def _name(absolute: str, fact: str) -> str:
    return json.dumps([fact, absolute])
