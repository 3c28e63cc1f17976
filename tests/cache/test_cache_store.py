"""Blobs, actions and remembered digests: what is damaged is a miss with a warning, and is healed by the next writer."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fornaxc.cache import Cache, Descriptor, cache_dir, media
from fornaxc.cache.digests import DigestMemory
from fornaxc.errors import ArtifactError, CacheError

KEY = "0123456789abcdef" * 4
Flip = Callable[[Path, int], None]
Warnings = Callable[[], list[str]]


def test_the_root_is_versioned_and_marked_as_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Cache
) -> None:
    monkeypatch.setenv("FORNAXC_CACHE_DIR", str(tmp_path / "env"))
    assert cache_dir() == tmp_path / "env" / "v1"
    assert cache_dir(tmp_path / "given") == tmp_path / "given" / "v1"
    monkeypatch.chdir(tmp_path)
    assert cache_dir(Path("here")) == tmp_path / "here" / "v1"
    monkeypatch.setenv("FORNAXC_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir().name == "v1"
    assert "fornaxc" in cache_dir().parts

    assert not cache.root.exists()
    cache.store.put_bytes(b"x", media.IR)
    assert (cache.root / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55\n")
    assert json.loads((cache.root / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}


def test_reading_an_absent_cache_creates_nothing_and_warns_of_nothing(cache: Cache, warnings: Warnings) -> None:
    absent = Descriptor(media.MEF, "sha256:" + "0" * 64, 3)
    assert cache.lookup(KEY) is None
    assert cache.store.find(absent) is None
    assert cache.store.read(absent) is None
    assert not cache.root.exists()
    assert warnings() == []


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (3 << 20) + 5])
def test_a_blob_comes_back_as_it_went_in(cache: Cache, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "source").write_bytes(data)
    expected = Descriptor(media.WEIGHTS, "sha256:" + hashlib.sha256(data).hexdigest(), size)
    assert cache.store.put_file(tmp_path / "source", media.WEIGHTS) == expected
    assert cache.store.put_file(io.BytesIO(data), media.WEIGHTS) == expected
    assert cache.store.put_bytes(data, media.WEIGHTS) == expected
    assert cache.store.read(expected) == data
    file = cache.store.open(expected, "full")
    assert file is not None
    with file:
        assert file.read() == data
    assert (tmp_path / "source").read_bytes() == data
    assert [path.name for path in cache.store.blobs()] == [expected.digest.removeprefix("sha256:")]
    assert list((cache.root / "tmp").iterdir()) == []


def test_a_moved_file_becomes_the_blob_without_a_copy(cache: Cache) -> None:
    with cache.store.temporary() as path:
        path.write_bytes(b"made in place")
        inode = path.stat().st_ino
        descriptor = cache.store.put_file(path, media.MEF, move=True)
    assert cache.store.path_of(descriptor.digest).stat().st_ino == inode
    with cache.store.temporary() as path:
        path.write_bytes(b"made in place")
        assert cache.store.put_file(path, media.MEF, move=True) == descriptor
        assert not path.exists()
    assert cache.store.path_of(descriptor.digest).stat().st_ino == inode, "the first writer's blob stays"


def test_a_blob_is_read_only_and_as_private_as_the_user_asks(cache: Cache) -> None:
    before = os.umask(0o077)
    try:
        descriptor = cache.store.put_bytes(b"secret", media.WEIGHTS)
    finally:
        os.umask(before)
    assert stat.S_IMODE(cache.store.path_of(descriptor.digest).stat().st_mode) == 0o400


@pytest.mark.parametrize("verify", ["remembered", "full"])
@pytest.mark.parametrize("same_mtime", [False, True])
def test_a_flipped_byte_is_a_miss_and_the_next_writer_heals_it(
    cache: Cache, flip: Flip, warnings: Warnings, verify: str, same_mtime: bool
) -> None:
    data = os.urandom(300_000)
    descriptor = cache.store.put_bytes(data, media.WEIGHTS)
    path = cache.store.path_of(descriptor.digest)
    assert cache.store.find(descriptor) == path
    times = path.stat()
    flip(path, 123_456)
    if same_mtime:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert cache.store.find(descriptor, verify) is None  # type: ignore[arg-type]
    assert cache.store.read(descriptor) is None
    assert str(path) in warnings()[0]
    assert cache.store.put_bytes(data, media.WEIGHTS) == descriptor
    assert cache.store.read(descriptor) == data
    assert cache.store.find(descriptor, verify) == path  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 1, 4999, 5001])
def test_a_blob_of_another_size_is_a_miss_even_without_reading_it(cache: Cache, warnings: Warnings, size: int) -> None:
    descriptor = cache.store.put_bytes(b"w" * 5000, media.WEIGHTS)
    path = cache.store.path_of(descriptor.digest)
    os.truncate(path, size)
    assert cache.store.find(descriptor, "size") is None
    assert f"{size} bytes, not 5000" in warnings()[0]


def test_an_unchanged_blob_is_not_read_twice(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = cache.store.put_bytes(b"w" * 5000, media.WEIGHTS)
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("read again"))
    assert cache.store.find(descriptor) is not None


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"mediaType": "x", "digest": "sha256:zz", "size": 1}, {"mediaType": "x", "digest": "../../x", "size": 1},
     {"mediaType": "x", "digest": "sha256:" + "0" * 64, "size": -1}, {"mediaType": 1, "digest": "sha256:" + "0" * 64, "size": 1},
     {"mediaType": "x", "digest": "sha256:" + "0" * 64, "size": True}, {"mediaType": "x", "digest": "sha256:" + "A" * 64, "size": 1}],
)  # fmt: skip
def test_what_is_no_descriptor_is_refused(document: object) -> None:
    with pytest.raises(ArtifactError):
        Descriptor.from_json(document)


def test_a_descriptor_survives_json() -> None:
    descriptor = Descriptor(media.MEF, "sha256:" + "0" * 64, 12)
    assert Descriptor.from_json(json.loads(json.dumps(descriptor.to_json()))) == descriptor


def test_actions_are_apart_by_namespace_and_remember_their_last_use(cache: Cache) -> None:
    cache.actions.put("code", KEY, {"seconds": 1.5})
    cache.actions.put("source", "sha256:" + KEY, {"external": ["a.bin"]})
    assert cache.actions.get("weights", KEY) is None
    assert cache.actions.get("source", KEY) == {"external": ["a.bin"]}
    entry = cache.actions.path_of("code", KEY)
    os.utime(entry, (1000, 1000))
    assert cache.actions.peek("code", KEY) == {"seconds": 1.5}
    assert entry.stat().st_mtime == 1000
    assert cache.actions.get("code", KEY) == {"seconds": 1.5}
    assert entry.stat().st_mtime > time.time() - 60
    assert [(e.namespace, e.key) for e in cache.actions.entries()] == [("code", KEY), ("source", KEY)]


@pytest.mark.parametrize("key", ["", "..", "abc", KEY + "0", KEY.upper().replace("0", "G"), "../" + KEY[3:]])
def test_a_key_that_is_no_digest_is_a_mistake_of_the_caller(cache: Cache, key: str) -> None:
    with pytest.raises(ValueError, match="not the name of an action"):
        cache.actions.get("request", key)


def test_a_damaged_action_is_a_miss_whichever_byte_changed(cache: Cache, warnings: Warnings) -> None:
    document = {"manifest": "sha256:" + KEY, "n": 3}
    cache.actions.put("request", KEY, document)
    path = cache.actions.path_of("request", KEY)
    raw = path.read_bytes()
    for i in range(len(raw)):
        path.write_bytes(raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :])
        assert cache.actions.peek("request", KEY) in (None, document)
        path.write_bytes(raw[:i])
        assert cache.actions.peek("request", KEY) in (None, document)
    assert len(warnings()) > len(raw)
    path.write_bytes(raw)
    assert cache.actions.peek("request", KEY) == document


def test_an_action_under_the_name_of_another_is_a_miss(cache: Cache, warnings: Warnings) -> None:
    cache.actions.put("request", KEY, {"n": 3})
    other = KEY[::-1]
    cache.actions.path_of("request", KEY).rename(cache.actions.path_of("request", other))
    assert cache.actions.get("request", other) is None
    assert len(warnings()) == 1


def test_a_lookup_needs_every_blob(cache: Cache, publish: Callable[..., object], warnings: Warnings) -> None:
    publish(cache, KEY)
    found = cache.lookup(KEY)
    assert found is not None
    victims = [*found.paths.values(), cache.store.path_of(found.descriptor.digest)]
    for victim in victims:
        data = victim.read_bytes()
        victim.unlink()
        assert cache.lookup(KEY) is None
        assert "missing or damaged" in warnings()[-1]
        cache.store.put_bytes(data, media.MEF)
        assert cache.lookup(KEY) == found


def test_an_action_that_names_no_manifest_is_a_miss(cache: Cache, warnings: Warnings) -> None:
    text = cache.store.put_bytes(b"not a manifest", media.MANIFEST)
    for document in ({}, {"manifest": 3}, {"manifest": text.to_json()}):
        cache.actions.put("request", KEY, document)
        assert cache.lookup(KEY) is None
    assert len(warnings()) == 3


def test_publishing_without_the_blobs_is_refused(cache: Cache, publish: Callable[..., object]) -> None:
    publish(cache, KEY)
    found = cache.lookup(KEY)
    assert found is not None
    next(iter(found.paths.values())).unlink()
    with pytest.raises(CacheError, match="missing or damaged"):
        cache.publish(KEY[::-1], found.manifest)
    assert cache.actions.peek("request", KEY[::-1]) is None


def test_a_damaged_index_changes_nothing_and_is_written_anew(cache: Cache, publish: Callable[..., object]) -> None:
    publish(cache, KEY)
    (cache.root / "index.json").write_bytes(b'{"manifests": [{"')
    found = cache.lookup(KEY)
    assert found is not None
    publish(cache, KEY[::-1], weights=b"others")
    index = json.loads((cache.root / "index.json").read_bytes())
    assert index["schemaVersion"] == 2
    other = cache.lookup(KEY[::-1])
    assert other is not None
    assert other.descriptor.to_json() in index["manifests"]


def aged(path: Path, seconds: float = 60) -> None:
    past = time.time() - seconds
    os.utime(path, (past, past))


def test_a_file_is_read_once_until_it_changes(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    real = hashlib.file_digest

    def counting(file: Any, name: str) -> Any:
        reads.append(file.name)
        return real(file, name)

    monkeypatch.setattr(hashlib, "file_digest", counting)
    model = tmp_path / "model.onnx"

    def expect(count: int) -> None:
        assert cache.digests.of_file(model) == "sha256:" + hashlib.sha256(model.read_bytes()).hexdigest()
        assert len(reads) == count

    model.write_bytes(b"one")
    aged(model)
    expect(1)
    expect(1)
    model.write_bytes(b"two")
    aged(model)
    expect(2)
    model.write_bytes(b"longer")
    aged(model, 30)
    expect(3)
    (tmp_path / "other").write_bytes(b"LONGER")
    aged(tmp_path / "other", 30)
    (tmp_path / "other").replace(model)
    expect(4)
    expect(4)


def test_a_file_that_was_changed_just_now_is_not_remembered(cache: Cache, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(b"one")
    cache.digests.of_file(model)
    assert cache.digests.recall(model, "sha256") is None
    os.utime(model, (time.time() + 1000, time.time() + 1000))
    cache.digests.of_file(model)
    assert cache.digests.recall(model, "sha256") is None, "a time in the future says nothing"


def test_a_damaged_memory_is_forgotten(cache: Cache, tmp_path: Path, flip: Flip) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(b"one")
    aged(model)
    digest = cache.digests.of_file(model)
    (record,) = (cache.root / "digests").iterdir()
    for at in range(0, record.stat().st_size, 7):
        flip(record, at)
        assert cache.digests.of_file(model) == digest


def test_memory_of_one_path_is_not_that_of_another(tmp_path: Path, cache: Cache) -> None:
    memory = DigestMemory(cache.root)
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
        aged(tmp_path / name)
    assert memory.of_file(tmp_path / "a") != memory.of_file(tmp_path / "b")
    assert len(list((cache.root / "digests").iterdir())) == 2
    assert memory.sweep(time.time() + 10) == 2
