"""The support data say the same whatever order the suites were run in."""

from __future__ import annotations

from dataclasses import replace

from fornaxc.qualify.cases import Facts, Result
from fornaxc.qualify.report import Qualification
from fornaxc.qualify.support import merged

FACTS = Facts("Relu", ("Relu",), 14, 14, 3, ("float",), False, (("Relu", 14), ("Abs", 13)))
FROZEN = Qualification("onnx:node", "cpu", "frozen", "cpu", [Result("test_relu", FACTS, "pass", "pass")], {}, 1.0)


def test_the_order_of_runs_leaves_no_trace() -> None:
    runs = [FROZEN, replace(FROZEN, inputs="run-time"), replace(FROZEN, suite="cases")]
    documents = []
    for order in (runs, runs[::-1]):
        document = {}
        for run in order:
            document = merged(document, run)
        documents.append(document)
    assert repr(documents[0]) == repr(documents[1])
