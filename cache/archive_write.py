"""Writing the `.fxa` file (see `archive`)."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fornaxc.cache.descriptor import Descriptor, blobs_of, parse_manifest
from fornaxc.cache.files import CHUNK, cache_error, place_for_a_file, replacing, write_all
from fornaxc.cache.media import MANIFEST, OCI_LAYOUT, VERIFIED
from fornaxc.cache.store import index_document
from fornaxc.cache.zipfmt import Member, directory, local_header
from fornaxc.errors import ArtifactError

ALIGNMENT: Final = 64
WEIGHTS_ALIGNMENT: Final = 4096
_WEIGHTS: Final = "application/vnd.fornaxc.weights."
_ELSEWHERE: Final = "choose another place for the file"


def write_archive(
    path: Path,
    manifest: bytes,
    blobs: Sequence[tuple[Descriptor, Path]],
    verified: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write an artifact to `path` in one step; `blobs` are those that `manifest` names, each with its file.

    `verified` is what was proven of it: that stands in the index beside the manifest, whose digest it leaves alone.

    The blobs are verified while they are copied. Raises ArtifactError if one is missing or is not what its descriptor says,
    UsageError if `path` is no place for a file, CacheError if writing fails.
    """
    described = Descriptor(MANIFEST, "sha256:" + hashlib.sha256(manifest).hexdigest(), len(manifest))
    given = {descriptor.digest: source for descriptor, source in blobs}
    notes = {VERIFIED: json.dumps([dict(r) for r in verified], sort_keys=True)} if verified else None
    contents: dict[str, tuple[Descriptor, Path | bytes]] = {
        "oci-layout": _plain(OCI_LAYOUT),
        "index.json": _plain(index_document([described], notes)),
        member_name(described.digest): (described, manifest),
    }
    for blob in blobs_of(parse_manifest(manifest)):
        if blob.digest not in given:
            raise ArtifactError(f"the blob {blob.digest} ({blob.media_type}) of the artifact is missing", code="FX452")
        contents[member_name(blob.digest)] = (blob, given[blob.digest])
    final = place_for_a_file(path)
    try:
        with replacing(final, final.parent, prefix=f".{final.name[:100]}-") as fd:
            members = [_write_member(fd, name, *contents[name]) for name in sorted(contents)]
            write_all(fd, directory(members, os.lseek(fd, 0, os.SEEK_CUR)))
    except OSError as error:
        raise cache_error(error, path, _ELSEWHERE) from error


def member_name(digest: str) -> str:
    """The name that the blob of a digest has in an OCI image layout."""
    return "blobs/sha256/" + digest.removeprefix("sha256:")


def _plain(data: bytes) -> tuple[Descriptor, bytes]:
    return Descriptor("application/json", "sha256:" + hashlib.sha256(data).hexdigest(), len(data)), data


def _write_member(fd: int, name: str, descriptor: Descriptor, source: Path | bytes) -> Member:
    offset = os.lseek(fd, 0, os.SEEK_CUR)
    alignment = WEIGHTS_ALIGNMENT if descriptor.media_type.startswith(_WEIGHTS) else ALIGNMENT
    write_all(fd, local_header(Member(name, offset, descriptor.size, 0), alignment))
    fingerprint, crc, size = hashlib.sha256(), 0, 0
    for piece in _pieces(source):
        fingerprint.update(piece)
        crc = zlib.crc32(piece, crc)
        size += len(piece)
        write_all(fd, piece)
    if size != descriptor.size or "sha256:" + fingerprint.hexdigest() != descriptor.digest:
        raise ArtifactError(
            f"{source if isinstance(source, Path) else name} is damaged: its bytes are not those of {descriptor.digest}",
            code="FX452",
            hint="run `fornaxc cache check --repair`, then compile the model again",
        )
    member = Member(name, offset, size, crc)
    os.pwrite(fd, local_header(member, alignment), offset)
    return member


def _pieces(source: Path | bytes) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    try:
        file = source.open("rb")
    except OSError as error:
        raise ArtifactError(f"{source} cannot be read: {error.strerror or error}", code="FX452") from error
    with file:
        while piece := file.read(CHUNK):
            yield piece
