"""Faults planted in lowering rules, one in the middle of each model of 160 to 900 nodes: `verify` must see each, bisection must name the node, reduction must end with a few nodes. Run it with `make test-mutations`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mutation_verdict import X, read_back, verdict_on
from mutations import LARGE, MUTATIONS, model_with

from fornaxc.diagnosis.bisect import Found, bisect
from fornaxc.diagnosis.checks import WRONG, verify_check
from fornaxc.diagnosis.edits import Case
from fornaxc.diagnosis.reduce import Reduced, reduce
from fornaxc.diagnosis.rounds import drive
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.graph import Graph
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack
from fornaxc.qualify import programs
from fornaxc.qualify.programs import Options, Program, run_programs

pytestmark = pytest.mark.slow
ONLY = os.environ.get("FORNAXC_MUTATIONS", "").split()
NAMES = [n for n in MUTATIONS if not ONLY or n in ONLY]


@pytest.fixture(scope="module")
def options() -> Options:
    return Options(environment={"PYTHONPATH": str(Path(__file__).parent)}, timeout=3000, workers=2)


@pytest.fixture(scope="module", autouse=True)
def faulty_child() -> object:
    patch = pytest.MonkeyPatch()
    patch.setattr(programs, "CHILD", "mutant_module")
    yield patch
    patch.undo()


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Graph]]:
    """The models by fault, and one without."""
    folder = tmp_path_factory.mktemp("models")
    found = {}
    for name in [*NAMES, "no_fault"]:
        path = folder / f"{name}.onnx"
        path.write_bytes(model_with(name).SerializeToString())
        found[name] = (path, import_onnx(path))
        assert (850 if name in LARGE else 100) <= len(found[name][1].nodes) <= 1000
    return found


def test_there_are_enough_kinds() -> None:
    assert len(MUTATIONS) >= 20


def test_verify_catches_each(graphs: dict[str, tuple[Path, Graph]], options: Options) -> None:
    asked = [Program(name, prepack(optimize(graph, "cpu")), [[X]]) for name, (_, graph) in graphs.items()]
    outcomes = run_programs(asked, options)
    assert {n: o.error for n, o in outcomes.items() if o.status != "ok"} == {}
    verdicts = {name: verdict_on(path, graph, outcomes[name].outputs[0]) for name, (path, graph) in graphs.items()}
    assert verdicts == {**dict.fromkeys(NAMES, "fail"), "no_fault": "pass"}


def test_bisection_names_the_node(graphs: dict[str, tuple[Path, Graph]], options: Options) -> None:
    searches = {name: bisect(prepack(optimize(graph, "cpu")), [X]) for name, (_, graph) in graphs.items()}
    found: dict[str, Found] = drive(searches, options)
    named = {
        name: (
            f.kind,
            f.confirmed,
            f.node.origin.node.split("/")[0] if f.node else "",
            type(f.node.op) if f.node else None,
        )
        for name, f in found.items()
    }
    wanted = {name: ("node", True, name, MUTATIONS[name].op) for name in NAMES}
    assert named == {**wanted, "no_fault": ("none", False, "", None)}


def test_reduction_ends_with_a_few_nodes(
    graphs: dict[str, tuple[Path, Graph]], options: Options, tmp_path: Path
) -> None:
    check = verify_check()
    searches = {name: reduce([Case(graphs[name][1], (X,))], check) for name in NAMES}
    found: dict[str, Reduced] = drive(searches, options)
    for name, r in found.items():
        print(name, r.nodes_before, "->", r.nodes, r.own_weights, r.own_inputs, list(r.trail))
    assert {n: r.nodes for n, r in found.items() if r.nodes >= 5} == {}
    assert {n: r.signature for n, r in found.items() if r.signature != WRONG} == {}
    again = {name: check([read_back(name, r.case, tmp_path)]) for name, r in found.items()}
    assert {n: s for n, (s,) in drive(again, options).items() if s != WRONG} == {}
