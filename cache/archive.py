"""The `.fxa` file: one artifact as an OCI image layout in an uncompressed zip, laid out so that it can be mapped in place.

Every member's bytes begin at a multiple of 64, those of weights at a multiple of 4096. The same artifact gives the same
bytes. Any zip tool opens it, and unpacked it is a folder that OCI tools read.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from fornaxc.cache.archive_write import ALIGNMENT, WEIGHTS_ALIGNMENT, member_name, write_archive
from fornaxc.cache.descriptor import Descriptor, blobs_of, parse_manifest
from fornaxc.cache.digests import DigestMemory, Identity
from fornaxc.cache.files import CHUNK
from fornaxc.cache.media import MANIFEST, VERIFIED
from fornaxc.cache.store import Store
from fornaxc.errors import ArtifactError

__all__ = ["ALIGNMENT", "WEIGHTS_ALIGNMENT", "Archive", "import_archive", "read_archive", "write_archive"]

_VERIFIED: Final = "verified"
_ZIP_MAGIC: Final = b"PK\x03\x04"
_LARGEST_DOCUMENT: Final = 64 << 20
_BAD_ZIP: Final = (
    zipfile.BadZipFile,
    struct.error,
    ValueError,
    ArithmeticError,
    LookupError,
    NotImplementedError,
    EOFError,
)


@dataclass(frozen=True, slots=True)
class Archive:
    """A readable `.fxa` file. Its manifest is verified; its blobs are when they are read, or all of them by `verify`."""

    path: Path
    descriptor: Descriptor
    raw_manifest: bytes
    places: dict[str, tuple[Descriptor, int]]
    verified: list[dict[str, Any]] = field(default_factory=list)
    """What was proven of the artifact before the file was written."""

    def manifest(self) -> dict[str, Any]:
        """The manifest, as parsed JSON."""
        return parse_manifest(self.raw_manifest)

    def locate(self, digest: str) -> tuple[Path, int, int]:
        """The file, offset and size in bytes of a blob, for mapping it in place. Raises ArtifactError if it is not here."""
        blob, offset = self._place(digest)
        return self.path, offset, blob.size

    def read(self, digest: str) -> bytes:
        """The verified bytes of a blob. Raises ArtifactError."""
        blob, offset = self._place(digest)
        with _open(self.path) as file:
            data = b"".join(_pieces(self.path, file, offset, blob.size))
        if "sha256:" + hashlib.sha256(data).hexdigest() != digest:
            raise self._damaged(blob)
        return data

    def verify(self, digests: DigestMemory | None = None) -> None:
        """Prove every byte of every blob against its digest; raises ArtifactError.

        With `digests`, a file that was proven before and has not changed since is not read again.
        """
        if digests is not None and digests.recall(self.path, _VERIFIED) == self.descriptor.digest:
            return
        with _open(self.path) as file:
            before = Identity.of(os.fstat(file.fileno()))
            for blob, offset in self.places.values():
                fingerprint = hashlib.sha256()
                for piece in _pieces(self.path, file, offset, blob.size):
                    fingerprint.update(piece)
                if "sha256:" + fingerprint.hexdigest() != blob.digest:
                    raise self._damaged(blob)
            unchanged = Identity.of(os.fstat(file.fileno())) == before
        if digests is not None and unchanged:
            digests.remember(self.path, _VERIFIED, self.descriptor.digest, before)

    def _place(self, digest: str) -> tuple[Descriptor, int]:
        if digest not in self.places:
            raise ArtifactError(f"{self.path} holds no blob {digest}", code="FX452")
        return self.places[digest]

    def _damaged(self, blob: Descriptor) -> ArtifactError:
        return _bad(self.path, f"is damaged: the bytes of its {blob.media_type} are not those of {blob.digest}")


def read_archive(path: Path) -> Archive:
    """Open a `.fxa` file and verify its manifest. Raises ArtifactError, saying why, for whatever is not one."""
    with _open(path) as file:
        members = _members(path, file)
        described, verified = _index(path, _document(path, file, members, "index.json"))
        raw = _document(path, file, members, member_name(described.digest))
        if "sha256:" + hashlib.sha256(raw).hexdigest() != described.digest:
            raise _bad(path, "is damaged: its manifest does not have the digest that its index gives")
        try:
            blobs = blobs_of(parse_manifest(raw))
        except ArtifactError as error:
            raise _bad(path, f"cannot be used: {error.message}") from error
        places = {}
        for blob in blobs:
            offset, size, _ = members.get(member_name(blob.digest), _ABSENT)
            if size != blob.size:
                raise _bad(
                    path, f"is damaged: its {blob.media_type} {'is missing' if size < 0 else 'has the wrong size'}"
                )
            places[blob.digest] = (blob, offset)
    return Archive(path, described, raw, places, verified)


def import_archive(store: Store, path: Path) -> Descriptor:
    """Put every blob of a `.fxa` file into the store, verified, its manifest last; returns the manifest's descriptor.

    Raises ArtifactError, and CacheError where the store cannot be written.
    """
    archive = read_archive(path)
    archive.verify()
    with _open(path) as file:
        for blob, offset in archive.places.values():
            if store.put_file(_Stream(_pieces(path, file, offset, blob.size)), blob.media_type) != blob:
                raise _bad(path, "changed while it was read")
    return store.put_bytes(archive.raw_manifest, MANIFEST)


class _Stream:
    """Pieces as a stream; each `read` gives the next one, whatever size is asked for."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, size: int = -1, /) -> bytes:
        return next(self._pieces, b"")


class _Member(NamedTuple):
    """Where the bytes of a member lie, and their CRC-32."""

    offset: int
    size: int
    crc: int


_ABSENT: Final = _Member(0, -1, 0)


def _members(path: Path, file: BinaryIO) -> dict[str, _Member]:
    """Each member by its name."""
    whole = os.fstat(file.fileno()).st_size
    if whole == 0:
        raise _bad(path, "is empty")
    magic = file.read(4)
    try:
        with zipfile.ZipFile(file) as opened:
            infos = opened.infolist()
    except _BAD_ZIP as error:
        if magic == _ZIP_MAGIC:
            raise _bad(path, "is cut short or damaged: it has no readable list of contents at its end") from error
        raise _bad(path, "is not a fornaxc artifact (a .fxa file)") from error
    members: dict[str, _Member] = {}
    for info in infos:
        header = os.pread(file.fileno(), 30, info.header_offset) if 0 <= info.header_offset < whole else b""
        if len(header) < 30 or header[:4] != _ZIP_MAGIC:
            raise _bad(path, f"is damaged at the beginning of {info.filename!r}")
        name_length, extra_length = struct.unpack_from("<HH", header, 26)
        offset = info.header_offset + 30 + name_length + extra_length
        if info.filename in members or offset + info.file_size > whole:
            raise _bad(path, f"is damaged: {info.filename!r} is there twice, or reaches past the end of the file")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.compress_size != info.file_size:
            raise _bad(path, f"is not a fornaxc artifact: {info.filename!r} in it is compressed or encrypted")
        members[info.filename] = _Member(offset, info.file_size, info.CRC)
    if "oci-layout" not in members or "index.json" not in members:
        raise _bad(path, "is a zip file, but not a fornaxc artifact: it has no OCI image layout in it")
    return members


def _document(path: Path, file: BinaryIO, members: dict[str, _Member], name: str) -> bytes:
    offset, size, crc = members.get(name, _ABSENT)
    if not 0 <= size <= _LARGEST_DOCUMENT:
        raise _bad(path, f"is damaged: {name} in it is {'missing' if size < 0 else 'too large'}")
    data = b"".join(_pieces(path, file, offset, size))
    if zlib.crc32(data) != crc:
        raise _bad(path, f"is damaged: the bytes of {name} in it are not those that its list of contents promises")
    return data


def _index(path: Path, index: bytes) -> tuple[Descriptor, list[dict[str, Any]]]:
    """The one manifest that the index names, and what was proven of it."""
    try:
        manifests = json.loads(index)["manifests"]
        count = len(manifests)
        descriptor = Descriptor.from_json(manifests[0]) if count == 1 else None
        verified = json.loads((manifests[0].get("annotations") or {}).get(VERIFIED, "[]")) if count == 1 else []
        if not isinstance(verified, list) or not all(isinstance(record, dict) for record in verified):
            raise TypeError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ArtifactError) as error:
        raise _bad(path, "is damaged: its index.json is not an OCI image index") from error
    if descriptor is None:
        raise _bad(path, f"holds {count} artifacts, not one")
    if descriptor.media_type != MANIFEST:
        raise _bad(path, f"is not a fornaxc artifact: its index names a {descriptor.media_type}")
    return descriptor, verified


def _pieces(path: Path, file: BinaryIO, offset: int, size: int) -> Iterator[bytes]:
    """The `size` bytes from `offset` on; raises ArtifactError where they end early or cannot be read."""
    at, end = offset, offset + size
    while at < end:
        try:
            piece = os.pread(file.fileno(), min(CHUNK, end - at), at)
        except OSError as error:
            raise _bad(path, f"cannot be read: {error.strerror or error}") from error
        if not piece:
            raise _bad(path, "is cut short")
        at += len(piece)
        yield piece


def _open(path: Path) -> BinaryIO:
    try:
        if path.is_dir():
            raise _bad(path, "is a folder, not an artifact")
        if path.exists() and not path.is_file():
            raise _bad(path, "is not an ordinary file")
        return path.open("rb")
    except FileNotFoundError as error:
        raise _bad(path, "does not exist", hint="check the name; `fornaxc compile -o FILE.fxa` makes one") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _bad(path, f"cannot be read: {reason}") from error


def _bad(path: Path, what: str, *, hint: str = "") -> ArtifactError:
    hint = hint or "copy the file again from where it was made, or compile the model again"
    return ArtifactError(f"{path} {what}", code="FX452", hint=hint, details=[{"path": str(path), "problem": what}])
