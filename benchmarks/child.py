"""The process of an engine: `python -m benchmarks.child JOB.json`, as `fornaxc.bench.child`, with the peers too."""

from __future__ import annotations

from benchmarks.engines import ENGINES
from fornaxc.bench.child import main

if __name__ == "__main__":
    main(ENGINES)
