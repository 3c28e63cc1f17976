"""Listing, measuring, checking and cleaning."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fornaxc.cache import Cache, maintenance, media
from fornaxc.cache.digests import Identity
from fornaxc.cache.evidence import known, merged, remember
from fornaxc.cache.maintenance import GRACE, check, gc, ls, usage

Publish = Callable[..., Any]
Flip = Callable[[Path, int], None]
DAY = 86_400.0


def key(letter: str) -> str:
    return letter * 64


def used_before(cache: Cache, letter: str, seconds: float, namespace: Any = "request") -> None:
    then = time.time() - seconds
    os.utime(cache.actions.path_of(namespace, key(letter)), (then, then))


def keys(cache: Cache) -> set[str]:
    return {entry.key[0] for entry in cache.actions.entries()}


def size_of(cache: Cache, letter: str) -> int:
    return next(listed.size for listed in ls(cache) if listed.key == key(letter))


def test_ls_and_usage(cache: Cache, publish: Publish) -> None:
    assert ls(cache) == []
    assert usage(cache).size == 0
    publish(cache, key("a"))
    publish(cache, key("b"), weights=b"v" * 9000)
    used_before(cache, "b", DAY)
    first, second = ls(cache)
    assert (first.key, second.key) == (key("a"), key("b"))
    assert (first.target, first.source) == ("cpu", "m.onnx")
    assert second.size - first.size == 4000
    assert abs(first.created - time.time()) < 60
    assert second.last_used < time.time() - DAY / 2
    total = usage(cache)
    assert total.blobs == 6, "config and mef are shared"
    assert total.size == sum(path.stat().st_size for path in cache.store.blobs())


def test_check_finds_each_kind_of_harm_and_repair_leaves_a_sound_cache(
    cache: Cache, publish: Publish, flip: Flip
) -> None:
    for letter in "abcd":
        publish(cache, key(letter), weights=letter.encode() * 5000)
    cache.actions.put("code", key("e"), cache.store.put_bytes(b"code", media.MEF).to_json())
    assert check(cache).findings == []

    weights = {a: cache.lookup(key(a)).paths for a in "abc"}  # type: ignore[union-attr]
    by_size = {a: next(p for p in paths.values() if p.stat().st_size == 5000) for a, paths in weights.items()}
    flip(by_size["a"], 4321)
    os.truncate(by_size["b"], 100)
    by_size["c"].unlink()
    flip(cache.actions.path_of("code", key("e")), 30)
    (cache.root / "blobs" / "sha256" / "notes.txt").write_text("not ours")
    stray = cache.root / "tmp" / "1-abc.tmp"
    stray.write_bytes(b"half")

    report = check(cache, now=time.time() + 2 * GRACE)
    assert not report.ok
    assert sorted(finding.problem for finding in report.findings) == [
        "damaged action", "damaged blob", "damaged blob", "dangling action", "dangling action", "dangling action",
        "foreign file", "stray temporary file",
    ]  # fmt: skip
    assert {f.path for f in report.findings if f.problem == "damaged blob"} == {by_size["a"], by_size["b"]}
    assert stray.exists(), "without --repair nothing is touched"

    assert check(cache, repair=True, now=time.time() + 2 * GRACE).ok
    assert check(cache, now=time.time() + 2 * GRACE).findings == []
    assert keys(cache) == {"d"}
    assert cache.lookup(key("d"), "full") is not None


def test_check_notices_what_the_memory_of_digests_cannot(cache: Cache) -> None:
    """Bytes that rot on the disk change neither size nor times."""
    descriptor = cache.store.put_bytes(b"w" * 5000, media.WEIGHTS)
    path = cache.store.path_of(descriptor.digest)
    path.chmod(0o600)
    path.write_bytes(b"v" + b"w" * 4999)
    cache.digests.remember(path, "sha256", descriptor.digest, Identity.of(path.stat()), time.time_ns() + 10**10)
    assert cache.store.find(descriptor) is not None
    assert [finding.path for finding in check(cache).findings] == [path]
    assert cache.store.find(descriptor) is None


def test_gc_without_limits_removes_only_what_nothing_names(cache: Cache, publish: Publish) -> None:
    whole = publish(cache, key("a"))
    orphan = cache.store.put_bytes(b"orphan", media.MEF)
    report = gc(cache)
    assert (report.blobs, report.actions) == (0, [])
    assert cache.store.find(orphan) is not None, "a running compile may be about to name it"
    report = gc(cache, now=time.time() + 2 * GRACE, dry_run=True)
    assert (report.blobs, report.freed) == (1, 6)
    assert cache.store.find(orphan) is not None
    report = gc(cache, now=time.time() + 2 * GRACE)
    assert (report.blobs, report.freed) == (1, 6)
    assert cache.store.find(orphan) is None
    assert cache.lookup(key("a"), "full") == whole


def test_a_blob_that_is_put_again_is_young_again(cache: Cache) -> None:
    descriptor = cache.store.put_bytes(b"orphan", media.MEF)
    first = cache.store.path_of(descriptor.digest).stat().st_ctime_ns
    time.sleep(0.02)
    cache.store.put_bytes(b"orphan", media.MEF)
    assert cache.store.path_of(descriptor.digest).stat().st_ctime_ns > first


def test_gc_by_age(cache: Cache, publish: Publish) -> None:
    for letter in "abc":
        publish(cache, key(letter), weights=letter.encode() * 5000)
    used_before(cache, "a", 10 * DAY)
    used_before(cache, "b", 10 * DAY)
    assert cache.lookup(key("b")) is not None
    report = gc(cache, max_age=5 * DAY)
    assert report.actions == [f"request/{key('a')}"]
    assert report.blobs == 2, "its manifest and its weights; mef and config are shared"
    assert keys(cache) == {"b", "c"}
    assert cache.lookup(key("c"), "full") is not None
    assert check(cache).findings == []


def test_gc_by_size_removes_what_was_used_longest_ago_and_keeps_what_it_is_told(cache: Cache, publish: Publish) -> None:
    for days, letter in enumerate("abcd"):
        publish(cache, key(letter), weights=letter.encode() * 50_000, mef=letter.encode())
        used_before(cache, letter, (days + 1) * DAY)
    limit = size_of(cache, "a") + size_of(cache, "d")
    report = gc(cache, max_size=limit, keep=[key("d")])
    assert keys(cache) == {"a", "d"}
    assert report.kept <= limit
    assert usage(cache).size == report.kept
    assert report.freed > 100_000


def test_code_and_weights_live_as_long_as_an_artifact_that_uses_them(cache: Cache, publish: Publish) -> None:
    whole = publish(cache, key("a"))
    mef = next(d for d, _ in whole.blobs() if d.media_type == media.MEF)
    cache.actions.put("code", key("b"), mef.to_json())
    used_before(cache, "b", 10 * DAY, "code")
    assert gc(cache, max_age=5 * DAY).actions == []
    used_before(cache, "a", 10 * DAY)
    assert len(gc(cache, max_age=5 * DAY).actions) == 2
    assert cache.store.blobs() == []


def test_gc_leaves_what_is_locked_or_in_use(cache: Cache, publish: Publish) -> None:
    for letter in "abc":
        publish(cache, key(letter), weights=letter.encode() * 5000)
    used_before(cache, "a", 10 * DAY)
    used_before(cache, "b", 10 * DAY)
    with cache.lock(key("a")):
        report = gc(cache, max_size=0)
        assert keys(cache) == {"a", "c"}, "a is locked; c was used by what may be the process that holds the lock"
        assert sorted(report.in_use) == [f"request/{key('a')}", f"request/{key('c')}"]
        assert cache.lookup(key("a"), "full") is not None
    foreign = cache.root / "locks" / ".nfs0001.lock"
    foreign.touch()
    gc(cache, max_size=0)
    assert foreign.exists()
    assert keys(cache) == set()
    assert cache.store.blobs() == []
    assert not list((cache.root / "locks").glob("a*.lock")), "locks that nobody holds are swept"


def test_gc_leaves_code_whose_lock_carries_its_namespace(cache: Cache) -> None:
    cache.actions.put("code", key("a"), cache.store.put_bytes(b"code", media.MEF).to_json())
    used_before(cache, "a", 10 * DAY, "code")
    with cache.lock(f"code-{key('a')}"):
        assert gc(cache, max_size=0).actions == []
    assert gc(cache, max_size=0).actions == [f"code/{key('a')}"]


def beside(cache: Cache, name: str, size: int, age: float = 0.0) -> Path:
    """A file of `size` bytes below a folder beside the artifacts, `age` seconds old."""
    path = cache.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_what_lies_beside_the_artifacts_counts_and_goes_first(cache: Cache, publish: Publish) -> None:
    publish(cache, key("a"))
    kernel = beside(cache, "toolchain/kernels/deep/k1", 40_000)
    log = beside(cache, "logs/x.log", 1000, 10 * DAY)
    assert usage(cache).beside == 41_000
    planned = gc(cache, max_age=5 * DAY, dry_run=True)
    assert (planned.beside, log.exists()) == (["logs/x.log"], True)
    assert gc(cache, max_age=5 * DAY).freed == 1000
    report = gc(cache, max_size=size_of(cache, "a"))
    assert (report.beside, report.actions, kernel.exists()) == (["toolchain/kernels"], [], False)
    assert report.kept == usage(cache).size
    assert cache.lookup(key("a"), "full") is not None


@pytest.mark.parametrize("reason", ["a lock", "a qualification"])
def test_what_a_compilation_may_be_writing_stays_and_presses_nothing_out(
    cache: Cache, publish: Publish, reason: str
) -> None:
    publish(cache, key("a"))
    used_before(cache, "a", DAY)
    kernel = beside(cache, "toolchain/kernels/k1", 40_000)
    if reason == "a qualification":
        beside(cache, "qualify/outcomes/one.json", 10)
    with cache.lock(key("b") if reason == "a lock" else "index", timeout=0):
        report = gc(cache, max_size=size_of(cache, "a"))
    assert "toolchain/kernels" in report.in_use
    assert (kernel.exists(), report.actions) == (True, [])


def test_what_was_proven_lives_as_long_as_its_artifact(cache: Cache, publish: Publish) -> None:
    digest = publish(cache, key("a")).descriptor.digest
    remember(cache, digest, [{"when": "2026-01-01", "oracle": "o", "verdict": "pass"}])
    gone = "sha256:" + key("e")
    remember(cache, gone, [{"when": "2026-01-01", "oracle": "o", "verdict": "pass"}])
    for name in (digest, gone):
        os.utime(cache.actions.path_of("verified", name), (time.time() - 10 * DAY,) * 2)
    assert gc(cache, max_size=0, dry_run=True).actions == [f"request/{key('a')}"]
    assert gc(cache, max_age=5 * DAY).actions == [f"verified/{key('e')}"]
    assert len(known(cache, digest)) == 1
    assert check(cache).findings == []


def test_a_weak_proof_hides_no_strong_one(cache: Cache) -> None:
    digest = "sha256:" + key("a")
    strong = {"when": "1", "oracle": "onnxruntime", "executed_on": "amd", "samples": ["n=2", "n=3"], "verdict": "pass"}
    weak = {**strong, "when": "2", "oracle": "its own graph"}
    remember(cache, digest, [strong])
    remember(cache, digest, [weak])
    assert known(cache, digest) == [weak, strong]
    newer = {**strong, "when": "3", "verdict": "fail"}
    remember(cache, digest, [newer])
    assert known(cache, digest) == [newer, weak], "the same proof made again is one record"
    assert merged([newer], "damaged", None, [weak, 3]) == [newer, weak]


def test_gc_of_an_absent_cache_creates_nothing(cache: Cache) -> None:
    assert gc(cache, max_size=0).blobs == 0
    assert check(cache, repair=True).ok
    assert not cache.root.exists()


def test_gc_leaves_a_blob_that_another_process_puts_meanwhile(
    cache: Cache, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(cache, key("a"), mef=b"shared")
    time.sleep(0.02)

    def put_meanwhile(root: Path) -> set[str]:
        cache.store.put_bytes(b"shared", media.MEF)
        return set()

    monkeypatch.setattr(maintenance, "held_keys", put_meanwhile)
    assert gc(cache, max_size=0).blobs == 3
    (left,) = cache.store.blobs()
    assert left.read_bytes() == b"shared"
