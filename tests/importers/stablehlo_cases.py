"""Runs StableHLO self-checking files through the importer, the checker and the numpy interpreter, and counts the outcomes.

python tests/importers/stablehlo_cases.py FOLDER [PATTERN]
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from fornaxc.errors import FornaxError, ModelError
from fornaxc.importers.stablehlo.selfchecks import agrees, read_check, split_checks
from fornaxc.ir.checker import check
from fornaxc.ir.interpreter import run


def outcome(name: str, text: str) -> tuple[str, str]:
    """pass, nothing (the part compares nothing), refused or mismatch, and why."""
    try:
        case = read_check(name, text)
    except ModelError as error:
        return ("nothing", "") if error.code == "FX436" else ("invalid", f"{error.message} {error.details}")
    except FornaxError as error:
        return "refused", "; ".join(f"{d.get('op')}: {d.get('reason')}" for d in error.details) or error.message
    check(case.graph)
    results = run(case.graph, case.inputs)
    for expectation in case.expectations:
        actual = results[expectation.output]
        if not agrees(expectation, actual):
            return "mismatch", f"{expectation.kind} {actual.dtype}{actual.shape}"
    return "pass", ""


def safe_outcome(name: str, text: str) -> tuple[str, str]:
    """As `outcome`; an exception of the tool itself is an outcome too."""
    try:
        return outcome(name, text)
    except Exception as error:
        return "crash", f"{type(error).__name__}: {error}"


def count(folder: Path, pattern: str = "**/*.mlir") -> Counter[str]:
    """Print every case that does not pass, and count the outcomes."""
    counts: Counter[str] = Counter()
    for path in sorted(folder.glob(pattern)):
        for name, text in split_checks(path):
            kind, reason = safe_outcome(name, text)
            counts[kind] += 1
            if kind not in ("pass", "nothing"):
                print(f"{kind:9} {name}: {reason[:300]}", flush=True)
    return counts


def main(folder: Path, pattern: str = "**/*.mlir") -> int:
    """Print the counts; 1 where a case is wrong."""
    counts = count(folder, pattern)
    print(dict(counts))
    return 1 if counts["mismatch"] or counts["crash"] else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
