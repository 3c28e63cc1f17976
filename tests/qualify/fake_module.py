"""Stands in for the child that compiles a module: the numpy interpreter runs the programs, and some operations break it.

neg cannot be compiled, abs ends the process while it compiles, exp while the program runs, log takes for ever.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from fornaxc.ir.interpreter import run
from fornaxc.ir.serialize import graph_from_json
from fornaxc.qualify.arrays import read_arrays, write_arrays
from fornaxc.qualify.processes import end_with_parent
from fornaxc.qualify.programs import graph_name, job_of, write_outcome


def main() -> None:
    end_with_parent()
    job = job_of(sys.argv[1])
    report, folders = Path(job["report"]), [Path(f) for f in job["folders"]]
    programs = {f: json.loads((f / "graph.json").read_text()) for f in folders}
    report.write_text(json.dumps({"phase": "compile"}))
    for folder, document in programs.items():
        if holds(document, "abs"):
            os.abort()
        if holds(document, "log"):
            time.sleep(60)
        if holds(document, "neg"):
            named = graph_name(folder) if len(folders) % 2 else "it"  # MAX does not always say which graph
            report.write_text(json.dumps({"phase": "compile", "error": f"{named} cannot be compiled"}))
            return
    for folder, document in programs.items():
        report.write_text(json.dumps({"running": str(folder)}))
        if holds(document, "exp"):
            os.abort()
        weights = read_arrays(folder / "weights")
        graph = graph_from_json(document, lambda number, _, held=weights: held[number])
        write_arrays(folder / "outputs0", run(graph, read_arrays(folder / "inputs0")))
        write_outcome(folder, "ok", "run", seconds=0.1, runs=1)
    report.write_text("{}")


def holds(document: dict[str, Any], fn: str) -> bool:
    return f'"{fn}"' in json.dumps(document["nodes"])


if __name__ == "__main__":
    main()
