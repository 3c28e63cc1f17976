"""A full disk, a read-only cache and a cache that is no folder: reading goes on, writing says what to do, nothing is lost."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fornaxc.cache import Cache, media
from fornaxc.cache.archive import read_archive, write_archive
from fornaxc.cache.maintenance import check, gc, ls
from fornaxc.errors import CacheError, UsageError

KEY = "a" * 64
Publish = Callable[..., Any]


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace", "chmod", "utime", "mkdir"])
@pytest.mark.parametrize(
    ("number", "code", "hint"),
    [
        (errno.ENOSPC, "FX601", "gc --max-size"),
        (errno.EROFS, "FX602", "--cache-dir"),
        (errno.EIO, "FX600", "cache check"),
    ],
)
def test_a_failing_call_is_a_cache_error_and_leaves_nothing(
    cache: Cache, publish: Publish, monkeypatch: pytest.MonkeyPatch, call: str, number: int, code: str, hint: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(CacheError) as caught:
            publish(cache, KEY)
        assert caught.value.exit == 6
        assert caught.value.code == code
        assert str(cache.root) in caught.value.message
        assert hint in caught.value.hint
        assert cache.lookup(KEY) is None
    assert left_in(cache.root / "tmp") == []
    assert check(cache).findings == []
    assert publish(cache, KEY) == cache.lookup(KEY, "full")


def test_a_full_disk(tiny_disk: Callable[[str], Path], publish: Publish) -> None:
    cache = Cache.at(tiny_disk("size=256k") / "v1")
    small = publish(cache, KEY)
    with pytest.raises(CacheError, match="no space left") as caught:
        cache.store.put_bytes(os.urandom(1 << 20), media.WEIGHTS)
    assert caught.value.code == "FX601"
    assert left_in(cache.root / "tmp") == []
    assert cache.lookup(KEY, "full") == small
    archive = cache.root.parent / "m.fxa"
    filler = cache.root.parent / "filler"
    with pytest.raises(OSError, match="No space"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    raw = cache.store.read(small.descriptor)
    assert raw is not None
    with pytest.raises(CacheError, match="no space left"):
        write_archive(archive, raw, small.blobs())
    assert sorted(p.name for p in cache.root.parent.iterdir()) == ["filler", "v1"]
    filler.unlink()
    write_archive(archive, raw, small.blobs())
    read_archive(archive).verify()


def test_a_read_only_cache_is_read(tiny_disk: Callable[[str], Path], publish: Publish) -> None:
    place = tiny_disk("size=2m")
    cache = Cache.at(place / "v1")
    whole = publish(cache, KEY)
    if subprocess.run(["mount", "-o", "remount,ro", str(place)], capture_output=True, check=False).returncode:
        pytest.skip("remounting is not allowed here")
    assert cache.lookup(KEY, "full") == whole
    assert [listed.key for listed in ls(cache)] == [KEY]
    assert check(cache, repair=True).findings == []
    with cache.lock(KEY) as held:
        assert not held
    with pytest.raises(CacheError, match="cannot be written") as caught:
        publish(cache, KEY[::-1], weights=b"other")
    assert caught.value.code == "FX602"
    report = gc(cache, max_size=0)
    assert report.blobs == 0
    assert cache.lookup(KEY, "full") == whole


def test_a_cache_without_permission(cache: Cache, publish: Publish) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    publish(cache, KEY)
    for folder in (cache.root / "tmp", cache.root / "blobs" / "sha256"):
        folder.chmod(0o500)
    try:
        assert cache.lookup(KEY) is not None
        with pytest.raises(CacheError, match="cannot be written"):
            cache.store.put_bytes(b"new", media.MEF)
    finally:
        for folder in (cache.root / "tmp", cache.root / "blobs" / "sha256"):
            folder.chmod(0o700)


@pytest.mark.parametrize("below", ["v1", "deeper/v1", ""])
def test_a_file_where_the_cache_should_be(tmp_path: Path, publish: Publish, below: str) -> None:
    (tmp_path / "file").write_text("precious")
    cache = Cache.at(tmp_path / "file" / below)
    assert cache.lookup(KEY) is None
    with pytest.raises(CacheError) as caught:
        publish(cache, KEY)
    assert caught.value.code == "FX603"
    assert (tmp_path / "file").read_text() == "precious"


def test_an_interrupted_writer_takes_its_file_away(cache: Cache) -> None:
    class Interrupted:
        def read(self, size: int = -1, /) -> bytes:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.store.put_file(Interrupted(), media.MEF)
    assert left_in(cache.root / "tmp") == []


def test_places_that_are_none_for_an_archive(tmp_path: Path, cache: Cache, publish: Publish) -> None:
    whole = publish(cache, KEY)
    raw = cache.store.read(whole.descriptor)
    assert raw is not None
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for place in (tmp_path, tmp_path / "absent" / "m.fxa", fifo):
        with pytest.raises(UsageError, match=str(place)):
            write_archive(place, raw, whole.blobs())
    link = tmp_path / "link.fxa"
    link.symlink_to(tmp_path / "real.fxa")
    write_archive(link, raw, whole.blobs())
    assert link.is_symlink(), "a link is followed, not replaced"
    read_archive(tmp_path / "real.fxa").verify()


def test_the_hit_path_imports_nothing_heavy() -> None:
    code = (
        "import sys, fornaxc.cache, fornaxc.cache.maintenance; "
        "heavy = {'max', 'onnx', 'onnxruntime', 'jaxlib', 'numpy', 'rich', 'click', 'zipfile', 'platformdirs'}; "
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_bytes_are_durable_before_their_name_and_the_name_before_what_follows(
    cache: Cache, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a power cut may lose is decided by the order of these calls."""
    publish(cache, KEY)
    calls: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def synced(fd: int) -> None:
        calls.append(("sync", os.path.realpath(f"/proc/self/fd/{fd}")))
        fsync(fd)

    def renamed(old: Path, new: Path) -> None:
        assert ("sync", str(old)) in calls or Path(new).parent.name == "digests" or Path(new).name == "index.json"
        calls.append(("rename", str(new)))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    whole = publish(cache, KEY, weights=b"new")
    blobs = str(cache.root / "blobs" / "sha256")
    action = calls.index(("rename", str(cache.actions.path_of("request", KEY))))
    for digest in (whole.descriptor.digest, "sha256:" + hashlib.sha256(b"new").hexdigest()):
        named = calls.index(("rename", str(cache.store.path_of(digest))))
        assert ("sync", blobs) in calls[named:action]
    assert ("sync", str(cache.actions.path_of("request", KEY).parent)) in calls[action:]
