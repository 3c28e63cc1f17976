"""How much memory this process has used."""

from __future__ import annotations

import sys


def peak_bytes() -> int | None:
    """The most main memory that this process has held at once, mapped files that were read included; None where the system does not tell."""
    try:
        with open("/proc/self/status") as status:  # getrusage would count the parent's pages from before exec too
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        return None
    peak = getrusage(RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
