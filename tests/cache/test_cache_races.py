"""Several processes at one cache: work is done once where locks work, and the result is right where they do not."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fornaxc.cache import Cache, key_of
from fornaxc.cache.lock import held_keys, holding, is_held, lock_path
from fornaxc.cache.maintenance import check, gc

KEY = "e" * 64
processes = multiprocessing.get_context("fork")


def run_all(work: Callable[[int], None], count: int) -> None:
    children = [processes.Process(target=work, args=(i,)) for i in range(count)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * count


def note(path: Path, word: str) -> None:
    with path.open("a") as file:
        file.write(word + "\n")


def test_one_process_works_and_the_others_wait_for_its_result(tmp_path: Path, publish: Callable[..., Any]) -> None:
    log = tmp_path / "log"

    def work(number: int) -> None:
        cache = Cache.at(tmp_path / "v1")
        if cache.lookup(KEY) is None:
            with cache.lock(KEY, timeout=30, on_wait=lambda who: note(log, "waits")) as held:
                assert held
                if cache.lookup(KEY) is None:
                    note(log, "works")
                    time.sleep(0.4)
                    publish(cache, KEY)
        assert cache.lookup(KEY, "full") is not None
        note(log, "has it")

    run_all(work, 4)
    words = log.read_text().split("\n")
    assert words.count("works") == 1
    assert words.count("has it") == 4
    assert 1 <= words.count("waits") <= 3


def test_without_locks_everyone_works_and_the_result_is_one_whole_artifact(
    tmp_path: Path, publish: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)

    def work(number: int) -> None:
        cache = Cache.at(tmp_path / "v1")
        for turn in range(10):
            with cache.lock(KEY) as held:
                assert not held
                publish(cache, KEY, mef=b"not reproducible %d %d" % (number, turn))
                assert cache.lookup(KEY, "full") is not None

    run_all(work, 4)
    assert check(Cache.at(tmp_path / "v1")).findings == []


def test_a_clean_up_beside_writers_costs_at_most_a_miss(tmp_path: Path, publish: Callable[..., Any]) -> None:
    root = tmp_path / "v1"

    def work(number: int) -> None:
        cache = Cache.at(root)
        for turn in range(25):
            if number == 0:
                gc(cache, max_size=0)
                continue
            weights = b"weights %d" % (turn % 3)
            key = key_of({"weights": turn % 3})
            try:
                publish(cache, key, weights=weights)
            except Exception as error:
                assert type(error).__name__ in ("CacheError", "ArtifactError"), error
            found = cache.lookup(key)
            assert found is None or found.paths.keys() == {b.digest for b, _ in found.blobs()}

    run_all(work, 3)
    cache = Cache.at(root)
    check(cache, repair=True)
    assert check(cache).findings == []
    publish(cache, KEY)
    assert cache.lookup(KEY, "full") is not None


def test_a_lock_is_free_once_its_holder_died(tmp_path: Path) -> None:
    ready = processes.Event()

    def hold() -> None:
        with holding(tmp_path, KEY):
            ready.set()
            time.sleep(60)

    holder = processes.Process(target=hold)
    holder.start()
    assert ready.wait(10)
    assert is_held(tmp_path, KEY)
    assert held_keys(tmp_path) == {KEY}
    waits: list[str] = []
    with holding(tmp_path, KEY, timeout=0.2, on_wait=waits.append) as held:
        assert not held
    assert waits == [f"process {holder.pid}"], "told once, however long it waits"
    holder.kill()
    holder.join()
    assert lock_path(tmp_path, KEY).exists(), "the file stays; it blocks nobody"
    with holding(tmp_path, KEY, timeout=5, on_wait=waits.append) as held:
        assert held
    assert len(waits) == 1
    assert held_keys(tmp_path) == set()


def test_locks_of_different_keys_are_apart_and_are_given_back_after_an_error(tmp_path: Path) -> None:
    with holding(tmp_path, KEY) as one, holding(tmp_path, "f" * 64, timeout=0) as two:
        assert one
        assert two
    with pytest.raises(KeyError), holding(tmp_path, KEY):
        raise KeyError
    assert not is_held(tmp_path, KEY)
    with pytest.raises(ValueError, match="not a name"), holding(tmp_path, "../x"):
        pass


def test_a_lock_whose_file_was_swept_meanwhile_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fcntl.flock
    swept: list[Path] = []

    def flock(fd: int, how: int) -> None:
        if not swept:
            swept.append(lock_path(tmp_path, KEY))
            swept[0].unlink()
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with holding(tmp_path, KEY, timeout=5) as held:
        assert held
        assert is_held(tmp_path, KEY), "the name leads to the file that is locked"


def test_where_no_lock_can_be_made_the_block_runs_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with holding(tmp_path / "file", KEY) as held:
        assert not held
