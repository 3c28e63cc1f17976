"""The single-file artifact: round trip, layout, determinism, and everything that is not one."""

from __future__ import annotations

import gzip
import hashlib
import json
import mmap
import os
import random
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fornaxc.cache import Cache, Descriptor, StoredArtifact, media, zipfmt
from fornaxc.cache.archive import Archive, import_archive, read_archive, write_archive
from fornaxc.cache.maintenance import check
from fornaxc.errors import ArtifactError

KEY = "b" * 64
Flip = Callable[[Path, int], None]


@pytest.fixture
def whole(cache: Cache, publish: Callable[..., StoredArtifact]) -> StoredArtifact:
    return publish(cache, KEY, weights=random.Random(1).randbytes(20_001))


@pytest.fixture
def written(cache: Cache, whole: StoredArtifact, tmp_path: Path) -> Path:
    return write(cache, whole, tmp_path / "m.fxa")


def write(cache: Cache, whole: StoredArtifact, path: Path) -> Path:
    raw = cache.store.read(whole.descriptor)
    assert raw is not None
    write_archive(path, raw, whole.blobs())
    return path


def contents(archive: Archive) -> dict[str, bytes]:
    return {digest: archive.read(digest) for digest in archive.places}


def test_round_trip_through_a_file_into_another_cache(whole: StoredArtifact, written: Path, tmp_path: Path) -> None:
    archive = read_archive(written)
    archive.verify()
    assert archive.manifest() == whole.manifest
    assert archive.descriptor == whole.descriptor
    assert contents(archive) == {digest: path.read_bytes() for digest, path in whole.paths.items()}

    other = Cache.at(tmp_path / "other" / "v1")
    descriptor = import_archive(other.store, written)
    assert descriptor == whole.descriptor
    other.attach(KEY, descriptor)
    found = other.lookup(KEY, "full")
    assert found is not None
    assert found.manifest == whole.manifest
    assert check(other).findings == []
    assert write(other, found, tmp_path / "again.fxa").read_bytes() == written.read_bytes()


def test_blobs_lie_in_place_aligned(whole: StoredArtifact, written: Path) -> None:
    archive = read_archive(written)
    with written.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for blob, source in whole.blobs():
            path, offset, size = archive.locate(blob.digest)
            assert path == written
            assert offset % (4096 if blob.media_type == media.WEIGHTS else 64) == 0
            assert mapped[offset : offset + size] == source.read_bytes()


@pytest.mark.parametrize("alignment", [64, 4096])
def test_padding_is_a_whole_extra_field_wherever_a_member_begins(alignment: int) -> None:
    for offset in range(200):
        header = zipfmt.local_header(zipfmt.Member("blobs", offset, 10, 0), alignment)
        assert (offset + len(header)) % alignment == 0
        name_length, extra_length = struct.unpack_from("<HH", header, 26)
        extra = header[30 + name_length :]
        assert len(extra) == extra_length
        if extra:
            assert struct.unpack_from("<H", extra, 2)[0] == len(extra) - 4


def test_same_artifact_same_bytes_whatever_the_clock_and_the_order_say(
    cache: Cache, whole: StoredArtifact, written: Path, tmp_path: Path
) -> None:
    copies: list[tuple[Descriptor, Path]] = []
    for blob, path in reversed(whole.blobs()):
        copy = tmp_path / f"copy{len(copies)}"
        copy.write_bytes(path.read_bytes())
        os.utime(copy, (time.time() - 10**6, time.time() - 10**6))
        copies.append((blob, copy))
    raw = cache.store.read(whole.descriptor)
    assert raw is not None
    write_archive(tmp_path / "b.fxa", raw, copies)
    assert (tmp_path / "b.fxa").read_bytes() == written.read_bytes()


def test_what_was_proven_travels_beside_the_manifest(
    cache: Cache, whole: StoredArtifact, written: Path, tmp_path: Path
) -> None:
    raw = cache.store.read(whole.descriptor)
    assert raw is not None
    proven = tmp_path / "proven.fxa"
    write_archive(proven, raw, whole.blobs(), [{"oracle": "onnxruntime", "verdict": "pass"}])
    archive = read_archive(proven)
    assert archive.verified == [{"oracle": "onnxruntime", "verdict": "pass"}]
    assert archive.descriptor == read_archive(written).descriptor == whole.descriptor
    assert read_archive(written).verified == []
    content = proven.read_bytes()
    proven.write_bytes(content.replace(b"onnxruntime", b"0nnxruntime", 1))
    with pytest.raises(ArtifactError, match=r"the bytes of index\.json"):
        read_archive(proven)


def test_zip_tools_and_oci_tools_can_read_it(written: Path, whole: StoredArtifact) -> None:
    with zipfile.ZipFile(written) as opened:
        assert opened.testzip() is None
        assert opened.namelist() == sorted(opened.namelist())
        assert json.loads(opened.read("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
        index = json.loads(opened.read("index.json"))
        assert index["manifests"] == [whole.descriptor.to_json()]
        for name in opened.namelist():
            if name.startswith("blobs/sha256/"):
                assert hashlib.sha256(opened.read(name)).hexdigest() == name.removeprefix("blobs/sha256/")


def test_members_beyond_four_gigabytes(
    cache: Cache, whole: StoredArtifact, written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 64-bit records are read back right; the limit is lowered, because the field's marker must still be 0xFFFFFFFF."""
    monkeypatch.setattr(zipfmt, "_fits", lambda number: number < 1000)
    large = write(cache, whole, tmp_path / "large.fxa")
    assert large.read_bytes() != written.read_bytes()
    with zipfile.ZipFile(large) as opened:
        assert opened.testzip() is None
    archive = read_archive(large)
    archive.verify()
    assert contents(archive) == contents(read_archive(written))
    for blob, _ in whole.blobs():
        assert archive.locate(blob.digest)[1] % (4096 if blob.media_type == media.WEIGHTS else 64) == 0


@pytest.mark.slow
def test_weights_of_more_than_four_gigabytes(cache: Cache, tmp_path: Path) -> None:
    size = (1 << 32) + 12_345
    source = tmp_path / "weights"
    with source.open("wb") as file:
        file.truncate(size)
        file.seek(size - 3)
        file.write(b"end")
    weights = Descriptor(media.WEIGHTS, cache.digests.of_file(source), size)
    config = cache.store.put_bytes(b"{}", media.CONFIG)
    manifest = {
        "schemaVersion": 2,
        "mediaType": media.MANIFEST,
        "config": config.to_json(),
        "layers": [weights.to_json()],
    }
    blobs = [(weights, source), (config, cache.store.path_of(config.digest))]
    write_archive(tmp_path / "m.fxa", json.dumps(manifest).encode(), blobs)
    archive = read_archive(tmp_path / "m.fxa")
    _, offset, found = archive.locate(weights.digest)
    assert (offset % 4096, found) == (0, size)
    with (tmp_path / "m.fxa").open("rb") as file:
        file.seek(offset + size - 3)
        assert file.read(3) == b"end"
    archive.verify()


def test_every_flipped_byte_is_found_or_changes_nothing(written: Path, tmp_path: Path) -> None:
    raw = written.read_bytes()
    expected = contents(read_archive(written))
    weights = next(d for d in read_archive(written).places.values() if d[0].media_type == media.WEIGHTS)
    inside = range(weights[1] + 50, weights[1] + weights[0].size - 50)
    victim = tmp_path / "flipped.fxa"
    found = 0
    for at in [*(i for i in range(len(raw)) if i not in inside)][::5] + [*inside][::997]:
        victim.write_bytes(raw[:at] + bytes([raw[at] ^ 0x10]) + raw[at + 1 :])
        try:
            archive = read_archive(victim)
            archive.verify()
            assert contents(archive) == expected
        except ArtifactError as error:
            assert str(victim) in error.message
            found += 1
    assert found > 500


def test_every_truncation_is_found(written: Path, tmp_path: Path) -> None:
    raw = written.read_bytes()
    victim = tmp_path / "short.fxa"
    for length in [*range(0, len(raw), 211), *range(len(raw) - 30, len(raw))]:
        victim.write_bytes(raw[:length])
        with pytest.raises(ArtifactError) as caught:
            read_archive(victim)
        assert str(victim) in caught.value.message
        assert caught.value.exit == 4
        assert caught.value.hint


def test_foreign_files_are_named_for_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("hello")
    (tmp_path / "gzip").write_bytes(gzip.compress(b"hello"))
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with zipfile.ZipFile(tmp_path / "zip", "w") as opened:
        opened.writestr("a.txt", "hello")
    cases = {
        "absent": "does not exist", "empty": "is empty", "text": "is not a fornaxc artifact", "folder": "is a folder",
        "gzip": "is not a fornaxc artifact", "zip": "is a zip file, but not", "fifo": "is not an ordinary file",
        "text/inside": "cannot be read",
    }  # fmt: skip
    for name, message in cases.items():
        with pytest.raises(ArtifactError, match=message) as caught:
            read_archive(tmp_path / name)
        assert str(tmp_path / name) in caught.value.message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index.json": b"{}"}, "index"),
        ({"index.json": b"[]"}, "index"),
        ({"index.json": b'{"manifests": []}'}, "0 artifacts"),
        ({"index.json": b'{"manifests": [{"digest": "../../etc/passwd", "size": 1}]}'}, "index"),
        ({"index.json": b"\xff\xfe"}, "index"),
        ({"index.json": b"[" * 100_000}, "index"),
        ({"oci-layout": None}, "no OCI image layout"),
    ],
)
def test_a_zip_with_another_inside_is_refused(
    written: Path, tmp_path: Path, change: dict[str, bytes | None], message: str
) -> None:
    victim = tmp_path / "changed.fxa"
    with zipfile.ZipFile(written) as old, zipfile.ZipFile(victim, "w") as new:
        for name in old.namelist():
            data = change.get(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    with pytest.raises(ArtifactError, match=message):
        read_archive(victim)


def test_members_missing_doubled_or_compressed_are_refused(written: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(written) as old:
        members = {name: old.read(name) for name in old.namelist()}
    for i, name in enumerate(members):
        victim = tmp_path / f"without{i}.fxa"
        with zipfile.ZipFile(victim, "w") as new:
            for other, data in members.items():
                if other != name:
                    new.writestr(other, data)
        with pytest.raises(ArtifactError):
            read_archive(victim)
    with zipfile.ZipFile(tmp_path / "packed.fxa", "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in members.items():
            new.writestr(name, data)
    with pytest.raises(ArtifactError, match="compressed"):
        read_archive(tmp_path / "packed.fxa")
    with zipfile.ZipFile(tmp_path / "doubled.fxa", "w") as new, pytest.warns(UserWarning, match="Duplicate"):
        for name, data in [*members.items(), ("index.json", b"{}")]:
            new.writestr(name, data)
    with pytest.raises(ArtifactError, match="twice"):
        read_archive(tmp_path / "doubled.fxa")


def test_a_flipped_blob_is_never_exported(cache: Cache, whole: StoredArtifact, tmp_path: Path, flip: Flip) -> None:
    flip(next(path for path in whole.paths.values() if path.stat().st_size == 20_001), 777)
    with pytest.raises(ArtifactError, match="is damaged"):
        write(cache, whole, tmp_path / "out.fxa")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache"]


def test_a_flipped_archive_is_never_imported(written: Path, tmp_path: Path, flip: Flip) -> None:
    archive = read_archive(written)
    for _, offset in archive.places.values():
        flip(written, offset)
        other = Cache.at(tmp_path / "other" / "v1")
        with pytest.raises(ArtifactError, match="is damaged"):
            import_archive(other.store, written)
        assert other.store.blobs() == []
        flip(written, offset)
    read_archive(written).verify()


def test_a_proven_archive_is_not_read_again_until_it_changes(
    cache: Cache, written: Path, flip: Flip, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(written, (time.time() - 100, time.time() - 100))
    archive = read_archive(written)
    archive.verify(cache.digests)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", lambda *_: pytest.fail("read again"))
        archive.verify(cache.digests)
    flip(written, next(offset for _, offset in archive.places.values()))
    with pytest.raises(ArtifactError, match="is damaged"):
        read_archive(written).verify(cache.digests)


def test_read(written: Path, whole: StoredArtifact, flip: Flip) -> None:
    archive = read_archive(written)
    mef = next(blob for blob, _ in whole.blobs() if blob.media_type == media.MEF)
    assert archive.read(mef.digest) == whole.paths[mef.digest].read_bytes()
    with pytest.raises(ArtifactError, match="holds no blob"):
        archive.locate("sha256:" + "0" * 64)
    flip(written, archive.locate(mef.digest)[1])
    with pytest.raises(ArtifactError, match="is damaged"):
        archive.read(mef.digest)
