"""Threads that begin in a process's first run have timers that may be late."""

from __future__ import annotations

import ctypes
import sys
import threading

import pytest

from fornaxc import timers

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the setting is Linux's")


def _slack() -> int:
    """How late, in ns, timers of the calling thread may be."""
    return int(ctypes.CDLL(None).prctl(timers._GET))


def _slack_of_a_new_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(_slack()))
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture(autouse=True)
def _no_run_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "_ended", threading.Event())


def test_only_threads_of_the_first_run_are_late() -> None:
    before = _slack()
    with timers.first_run():
        during = _slack_of_a_new_thread()
    assert (before < timers.LATE, during, _slack()) == (True, timers.LATE, before)
    with timers.first_run():
        assert _slack_of_a_new_thread() == before


def test_the_caller_keeps_its_timers_where_the_run_fails() -> None:
    before = _slack()
    with pytest.raises(ValueError, match="no"), timers.first_run():
        raise ValueError("no")
    assert _slack() == before


def test_another_system_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _slack()
    monkeypatch.setattr(sys, "platform", "darwin")
    with timers.first_run():
        assert _slack() == before


def test_a_run_beside_the_first_one_does_not_wait_for_it() -> None:
    found: list[int] = []

    def beside() -> None:
        with timers.first_run():
            found.append(_slack())

    before = _slack()
    with timers.first_run():
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join(10)
    assert found == [timers.LATE]  # inherited from the thread that made this one, which is in its first run
    assert _slack() == before
