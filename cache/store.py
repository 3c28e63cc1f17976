"""The blobs: an OCI image layout whose files are named by their sha256 and never change."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Protocol

from fornaxc.cache.descriptor import Descriptor, check_digest
from fornaxc.cache.digests import SHA256, DigestMemory, Identity
from fornaxc.cache.files import CHUNK, cache_errors, discard, open_temporary, replacing, sync_folder, write_all
from fornaxc.cache.location import prepare
from fornaxc.cache.lock import holding
from fornaxc.cache.media import INDEX, MANIFEST
from fornaxc.cache.records import log

Verify = Literal["size", "remembered", "full"]
"""How well a blob is looked at before it is used: its size only; its whole digest unless it is remembered that the file was
verified and has not changed since (size, times, inode); its whole digest always."""


class Stream(Protocol):
    """What `put_file` reads: `read(n)` gives some bytes, or none at the end."""

    def read(self, size: int = -1, /) -> bytes: ...


INDEX_LOCK: Final = "index"

BLOB_MTIME: Final = 315_532_800
"""Blobs carry this modification time (1980-01-01, seconds since the epoch), so that any later write to one shows."""


class Store:
    """Blobs below `root`. Reading never raises for a damaged or missing blob; writing raises CacheError."""

    def __init__(self, root: Path, digests: DigestMemory | None = None) -> None:
        self.root = root
        self.digests = DigestMemory(root) if digests is None else digests

    def path_of(self, digest: str) -> Path:
        """Where the blob of `digest` is, or would be. Raises ArtifactError if `digest` is none."""
        return self.root / "blobs" / "sha256" / check_digest(digest).removeprefix("sha256:")

    def find(self, descriptor: Descriptor, verify: Verify = "remembered") -> Path | None:
        """The file of an intact blob; None if it is missing or, with a warning, damaged."""
        path = self.path_of(descriptor.digest)
        try:
            size = os.stat(path).st_size
            if size != descriptor.size:
                log.warning("%s is damaged and is ignored: it has %d bytes, not %d", path, size, descriptor.size)
                return None
            if verify != "size" and self.digests.of_file(path, fresh=verify == "full") != descriptor.digest:
                log.warning("%s is damaged and is ignored: its bytes do not have the digest in its name", path)
                return None
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("%s cannot be read and is ignored: %s", path, error.strerror or error)
            return None
        return path

    def open(self, descriptor: Descriptor, verify: Verify = "remembered") -> BinaryIO | None:
        """An intact blob open for reading; None as `find` says."""
        path = self.find(descriptor, verify)
        try:
            return None if path is None else path.open("rb")
        except OSError as error:
            log.warning("%s cannot be read and is ignored: %s", path, error.strerror or error)
            return None

    def read(self, descriptor: Descriptor) -> bytes | None:
        """The verified bytes of a small blob; None as `find` says."""
        file = self.open(descriptor, "size")
        if file is None:
            return None
        with file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != descriptor.digest.removeprefix("sha256:"):
            log.warning("%s is damaged and is ignored: its bytes do not have the digest in its name", file.name)
            return None
        return data

    def put_bytes(self, data: bytes, media_type: str) -> Descriptor:
        """Store `data`. Raises CacheError."""
        descriptor = Descriptor(media_type, "sha256:" + hashlib.sha256(data).hexdigest(), len(data))
        if not self._refreshed(descriptor):
            with self.temporary() as temporary:
                with _writing(temporary) as fd, cache_errors(temporary):
                    write_all(fd, data)
                self._adopt(temporary, descriptor)
        return descriptor

    def put_file(self, source: Path | Stream, media_type: str, *, move: bool = False) -> Descriptor:
        """Store the bytes of a file, or of a stream from where it stands, in pieces of 1 MiB.

        With `move` the file at `source` itself becomes the blob, or is removed where the blob exists: it must be
        complete, and lie on the cache's file system (see `temporary`). Raises CacheError, and OSError where the source
        cannot be read.
        """
        if not isinstance(source, Path):
            return self._put_stream(source, media_type)
        if not move:
            with source.open("rb") as stream:
                return self._put_stream(stream, media_type)
        with source.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            digest = "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
        descriptor = Descriptor(media_type, digest, size)
        if self._refreshed(descriptor):
            discard(source)
        else:
            prepare(self.root)
            self._adopt(source, descriptor)
        return descriptor

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """An empty file on the cache's file system, for a writer that needs a path; removed at the end if still there."""
        prepare(self.root)
        folder = self.root / "tmp"
        with cache_errors(folder):
            folder.mkdir(exist_ok=True)
            fd, path = open_temporary(folder)
            os.close(fd)
        try:
            yield path
        finally:
            discard(path)

    def blobs(self) -> list[Path]:
        """Every file among the blobs, sorted by name."""
        try:
            return sorted((self.root / "blobs" / "sha256").iterdir())
        except OSError:
            return []

    def list_manifest(self, descriptor: Descriptor) -> None:
        """Add a manifest to `index.json`, which other OCI tools read and fornaxc itself never does. Raises CacheError."""
        with holding(self.root, INDEX_LOCK, timeout=10):
            known = {d.digest: d for d in self._listed()}
            if descriptor.digest not in known:
                self.rewrite_index([*known.values(), descriptor])

    def rewrite_index(self, manifests: list[Descriptor]) -> None:
        """Make `index.json` list exactly these manifests. Raises CacheError."""
        path = self.root / "index.json"
        with cache_errors(path), replacing(path, self.root / "tmp", durable=False) as fd:
            write_all(fd, index_document(sorted(manifests, key=lambda d: d.digest)))

    def _listed(self) -> list[Descriptor]:
        try:
            entries = json.loads((self.root / "index.json").read_bytes())["manifests"]
            return [Descriptor.from_json(entry) for entry in entries]
        except FileNotFoundError:
            return []
        except Exception as error:
            log.warning("%s is damaged and is written anew: %s", self.root / "index.json", error)
            return []

    def _put_stream(self, stream: Stream, media_type: str) -> Descriptor:
        with self.temporary() as temporary:
            fingerprint, size = hashlib.sha256(), 0
            with _writing(temporary) as fd:
                while piece := stream.read(CHUNK):
                    fingerprint.update(piece)
                    size += len(piece)
                    with cache_errors(temporary):
                        write_all(fd, piece)
            descriptor = Descriptor(media_type, "sha256:" + fingerprint.hexdigest(), size)
            if not self._refreshed(descriptor):
                self._adopt(temporary, descriptor)
            return descriptor

    def _refreshed(self, descriptor: Descriptor) -> bool:
        """Whether the blob is here and intact; if so it counts as new, so that a running clean-up leaves it."""
        path = self.path_of(descriptor.digest)
        if not path.exists() or self.find(descriptor) is None:
            return False
        self._seal(path, descriptor.digest)
        return True

    def _adopt(self, temporary: Path, descriptor: Descriptor) -> None:
        final = self.path_of(descriptor.digest)
        with cache_errors(final):
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.chmod(temporary, stat.S_IMODE(os.stat(temporary).st_mode) & 0o444)
            os.utime(temporary, (BLOB_MTIME, BLOB_MTIME))
            final.parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary, final)
            sync_folder(final.parent)
            self.digests.remember(final, SHA256, descriptor.digest, Identity.of(os.stat(final)), time.time_ns())

    def _seal(self, path: Path, digest: str) -> None:
        try:
            os.utime(path, (BLOB_MTIME, BLOB_MTIME))
            self.digests.remember(path, SHA256, digest, Identity.of(os.stat(path)))
        except OSError as error:
            log.debug("%s is used as it is: %s", path, error)


@contextmanager
def _writing(path: Path) -> Iterator[int]:
    with cache_errors(path):
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def index_document(manifests: list[Descriptor], annotations: Mapping[str, str] | None = None) -> bytes:
    """The bytes of an OCI image index over `manifests`, in the order given; each carries the `annotations`."""
    noted = {"annotations": dict(annotations)} if annotations else {}
    document: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [Descriptor(MANIFEST, d.digest, d.size).to_json() | noted for d in manifests],
    }
    return json.dumps(document, sort_keys=True, indent=1).encode("ascii") + b"\n"
