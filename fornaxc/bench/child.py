"""The process of a side: loads once, then runs a block for each line on stdin, and answers each with a JSON line.

Run as `python -m fornaxc.bench.child JOB.json`. What libraries print goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from fornaxc.bench.engines import ENGINES, Engine
from fornaxc.bench.memory import peak_bytes
from fornaxc.errors import FornaxError
from fornaxc.runner import load_tensors, save_tensors


def serve(job: dict[str, Any], engine: Engine, answers: Any, questions: Any) -> None:
    """Load, run once, tell the times; then answer questions until there are no more."""
    folder = Path(job["folder"])
    inputs = load_tensors(folder / "in")

    def tell(document: dict[str, Any]) -> None:
        answers.write(json.dumps(document) + "\n")
        answers.flush()

    try:
        begun = perf_counter()
        engine.begin()
        imported = perf_counter()
        engine.load(job["path"], job["threads"])
        loaded = perf_counter()
        memory = peak_bytes()
        outputs, first = engine.run(inputs)
        save_tensors(folder / "out", outputs)
        tell(
            {
                "version": engine.version,
                "import_seconds": imported - begun,
                "load_seconds": loaded - imported,
                "first_run_seconds": first.whole,
                "memory_after_loading": memory,
                "kernels": engine.kernels(),
            }
        )
        for line in questions:
            asked = json.loads(line)
            for _ in range(asked["warmup"]):
                engine.run(inputs)
            runs = [engine.run(inputs)[1] for _ in range(asked["runs"])]
            tell({"runs": runs, "peak_memory": peak_bytes()})
    except FornaxError as error:
        tell({"kind": type(error).__name__, "error": error.to_json()})
    except Exception as error:  # of onnxruntime, which raises many kinds
        lines = [line for line in str(error).splitlines() if line.strip()]
        tell({"refused": (lines or [type(error).__name__])[0][:300]})


def main(engines: Mapping[str, Callable[[], Engine]] = ENGINES) -> None:
    """Do the job in the file that the command line names, with one of these engines."""
    job = json.loads(Path(sys.argv[1]).read_text())
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(job, engines[job["engine"]](), answers, sys.stdin)
    answers.flush()
    os._exit(0)  # MAX, and other libraries, may abort in their own clean-up


if __name__ == "__main__":
    main()
