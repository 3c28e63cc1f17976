"""The process of an engine: `python -m benchmarks.child JOB.json`, as `fornaxc.bench.child`, with the peers too."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from benchmarks.engines import ENGINES
from fornaxc.bench.child import serve


def main() -> None:
    """Do the job in the file that the command line names; what libraries print goes to stderr."""
    job = json.loads(Path(sys.argv[1]).read_text())
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(job, ENGINES[job["engine"]](), answers, sys.stdin)
    answers.flush()
    os._exit(0)  # some libraries abort in their own clean-up


if __name__ == "__main__":
    main()
