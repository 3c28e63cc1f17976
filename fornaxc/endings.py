"""How a child process ended that left no result: in words, and with what to do."""

from __future__ import annotations

import signal

_FROM_OUTSIDE = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


def ending(status: int, crashed: str) -> tuple[str, str]:
    """What to say of a `returncode` (negative: a signal's number), and a hint, which is `crashed` where the process itself failed."""
    if status >= 0:
        return f"ended with status {status} and no result", crashed
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if -status == signal.SIGKILL:
        return (
            f"was killed ({name})",
            "something outside it did that: the system where memory runs out, or a job's limit",
        )
    if -status in _FROM_OUTSIDE:
        return f"was terminated from outside ({name})", "somebody, or a job's limit, stopped it; run the command again"
    return f"crashed ({name})", crashed
