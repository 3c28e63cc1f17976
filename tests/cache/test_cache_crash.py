"""A writer killed before, or in the middle of, any of its calls to the system leaves nothing that a reader could mistake."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fornaxc.cache import Cache, media
from fornaxc.cache.archive import import_archive, read_archive, write_archive
from fornaxc.cache.maintenance import GRACE, check, gc
from fornaxc.errors import ArtifactError

KEY = "c" * 64
OTHER = "d" * 64
CALLS = ("open", "write", "fsync", "replace", "utime", "chmod", "mkdir", "unlink", "pwrite", "close")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def dies_at(step: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child that is killed at its call number `step`, a write after half its bytes; False if it ended first."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            count = 0

            def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
                def call(*args: Any, **kwargs: Any) -> Any:
                    nonlocal count
                    count += 1
                    if count == step:
                        if name == "write":
                            real(args[0], bytes(args[1])[: len(args[1]) // 2])
                        os.kill(os.getpid(), signal.SIGKILL)
                    return real(*args, **kwargs)

                return call

            for name in CALLS:
                setattr(os, name, counted(name, getattr(os, name)))
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed by itself"
    return os.WIFSIGNALED(status)


def every_step(work: Callable[[int], object]) -> Iterator[int]:
    """Kill at step 1, 2, ... until `work` runs to its end; yields each step after the kill."""
    for step in range(1, 1000):
        if not dies_at(step, lambda: work(step)):  # noqa: B023
            assert step > 5, "no call was seen: the kills prove nothing"
            return
        yield step
    raise AssertionError("never ended")


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: a killed process, unlike a power cut, loses nothing that was written."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="fornaxc-test-") as folder:
        yield Path(folder)


def assert_sound(cache: Cache) -> None:
    report = check(cache, now=time.time() + 2 * GRACE)
    assert {finding.problem for finding in report.findings} <= {"stray temporary file"}


def test_publishing_into_an_empty_cache(tmp_path: Path, publish: Callable[..., Any]) -> None:
    outcomes = set()
    for step in every_step(lambda step: publish(Cache.at(tmp_path / str(step)), KEY)):
        cache = Cache.at(tmp_path / str(step))
        found = cache.lookup(KEY, "full")
        outcomes.add(found is not None)
        assert_sound(cache)
        whole = publish(cache, KEY)
        assert found is None or found.manifest == whole.manifest
        assert cache.lookup(KEY, "full") == whole
        gc(cache, now=time.time() + 2 * GRACE)
        assert list((cache.root / "tmp").iterdir()) == []
        assert cache.lookup(KEY, "full") == whole
    assert outcomes == {False, True}


def test_replacing_what_a_key_leads_to(tmp_path: Path, publish: Callable[..., Any]) -> None:
    cache = Cache.at(tmp_path / "v1")
    old = publish(cache, KEY)
    outcomes = []
    for _ in every_step(lambda step: publish(Cache.at(cache.root), KEY, weights=b"new")):
        found = cache.lookup(KEY, "full")
        assert found is not None
        outcomes.append(found == old)
        assert_sound(cache)
        publish(cache, KEY)
        gc(cache, now=time.time() + 2 * GRACE)
    assert {True, False} == set(outcomes)


def test_cleaning_up(tmp_path: Path, publish: Callable[..., Any]) -> None:
    cache = Cache.at(tmp_path / "v1")
    kept = publish(cache, OTHER)
    publish(cache, KEY, weights=b"old", mef=b"old mef")
    for _ in every_step(lambda step: gc(Cache.at(cache.root), max_size=0, keep=[OTHER])):
        found = cache.lookup(KEY, "full")
        assert found is None or len(found.paths) == 3
        assert cache.lookup(OTHER, "full") == kept
        assert_sound(cache)
        publish(cache, KEY, weights=b"old", mef=b"old mef")


def test_writing_an_archive(tmp_path: Path, publish: Callable[..., Any]) -> None:
    cache = Cache.at(tmp_path / "v1")
    old, new = publish(cache, KEY), publish(cache, OTHER, weights=b"new" * 1000)
    target = tmp_path / "out" / "m.fxa"
    target.parent.mkdir()

    def write(artifact: Any) -> None:
        raw = cache.store.read(artifact.descriptor)
        assert raw is not None
        write_archive(target, raw, artifact.blobs())

    write(old)
    for _ in every_step(lambda step: write(new)):
        archive = read_archive(target)
        archive.verify()
        assert archive.descriptor in (old.descriptor, new.descriptor)
        write(old)
    assert read_archive(target).descriptor == new.descriptor


def test_importing_an_archive(tmp_path: Path, publish: Callable[..., Any]) -> None:
    source = Cache.at(tmp_path / "v1")
    artifact = publish(source, KEY)
    raw = source.store.read(artifact.descriptor)
    assert raw is not None
    write_archive(tmp_path / "m.fxa", raw, artifact.blobs())
    for step in every_step(lambda step: import_archive(Cache.at(tmp_path / f"i{step}").store, tmp_path / "m.fxa")):
        cache = Cache.at(tmp_path / f"i{step}")
        assert_sound(cache)
        if cache.store.find(artifact.descriptor) is not None:
            cache.artifact(artifact.descriptor, "full")
        else:
            with pytest.raises(ArtifactError):
                cache.artifact(artifact.descriptor)


def test_a_killed_stream_leaves_a_temporary_file_that_is_cleaned_up_after_an_hour(tmp_path: Path) -> None:
    class Deadly:
        def read(self, size: int = -1, /) -> bytes:
            os.kill(os.getpid(), signal.SIGKILL)
            return b""

    cache = Cache.at(tmp_path / "v1")
    cache.store.put_bytes(b"x", media.IR)
    assert dies_at(10**6, lambda: cache.store.put_file(Deadly(), media.MEF))
    (left,) = (cache.root / "tmp").iterdir()
    gc(cache)
    assert left.exists(), "it may belong to a running process"
    report = check(cache, repair=True, now=time.time() + 2 * GRACE)
    assert [finding.path for finding in report.findings] == [left]
    assert report.ok
    assert not left.exists()
