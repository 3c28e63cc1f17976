"""How exactly the system keeps the timers of threads that MAX starts."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SET, _GET = 29, 30  # PR_SET_TIMERSLACK and PR_GET_TIMERSLACK of prctl(2)
LATE = 100_000_000  # ns that a timer may be late
_lock = threading.Lock()
_ended = threading.Event()


@contextmanager
def first_run() -> Iterator[None]:
    """Around a run. Threads that begin in the process's first one get timers that may be `LATE`; the caller keeps its own. Linux only: elsewhere nothing happens.

    With that run MAX 26.7 starts the thread that writes its log. It looks for something to write every 0.1 ms, forever, which costs the models that run a fifth of
    a core on a virtual machine (docs/max-notes.md). What it is told of wakes it at once all the same.
    """
    if _ended.is_set() or not sys.platform.startswith("linux") or not _lock.acquire(blocking=False):
        yield  # another thread's run beside the first one may be the one that starts threads: they are exact then
        return
    try:
        prctl = ctypes.CDLL(None).prctl
        kept = prctl(_GET)
        prctl(_SET, ctypes.c_ulong(LATE))
        try:
            yield
        finally:
            prctl(_SET, ctypes.c_ulong(max(kept, 0)))
            _ended.set()
    finally:
        _lock.release()
