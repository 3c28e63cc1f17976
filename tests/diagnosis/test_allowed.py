"""Bisection judges values as verification judges outputs: by the coarsest float type and the additions behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from fornaxc.diagnosis.allowed import DEFAULT, AllowedErrors, Chosen, stated_before
from fornaxc.diagnosis.bisect import Found, bisect
from fornaxc.diagnosis.deviation import differs
from fornaxc.diagnosis.rounds import drive_with
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.types import DType
from fornaxc.qualify.programs import Outcome, Program
from fornaxc.verification.tolerances import Stated, tolerances_of

MODEL = """
<ir_version: 8, opset_import: ["" : 18]>
f (float[2, 64] x) => (float[2, 64] half, float[2, 1] single) {
    h = Cast<to = 10>(x)
    e = Exp(h)
    c = Cast<to = 1>(e)
    half = Neg(c)
    axes = Constant<value = int64[1] {1}>()
    single = ReduceSum(x, axes)
}
"""
X = np.random.default_rng(1).standard_normal((2, 64)).astype(np.float32)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    return import_onnx(tmp_path / "m.onnx")


def off_by_a_step(program: Graph, arrays: Sequence[Array]) -> list[Array]:
    """What a device gives that rounds to half once less: single-precision results move by a part of a step of half."""
    return [a * np.float32(1 + 2**-9) if a.dtype == np.float32 and a.shape == X.shape else a for a in arrays]


def search(graph: Graph, error: object, chosen: Chosen = DEFAULT) -> Found:
    def device(programs: Sequence[Program]) -> Mapping[str, Outcome]:
        return {
            p.name: Outcome("ok", "run", outputs=[error(p.graph, run(p.graph, i)) for i in p.runs])  # type: ignore[operator]
            for p in programs
        }

    return drive_with({"s": bisect(graph, [X], chosen=chosen)}, device)["s"]


def test_a_step_of_half_precision_blames_no_node(graph: Graph) -> None:
    """The results are single, the numbers behind them half: `verify` allows that, and so does the search."""
    value = graph.outputs[graph.output_names.index("half")]
    last = next(n for n in graph.nodes if value in n.outputs)
    allowed = AllowedErrors(graph, [X])
    assert allowed.so_far(value)(DType.F32) == tolerances_of(graph).at({"x": X})("half", DType.F32)
    assert "f16" in allowed.so_far(value)(DType.F32).source
    assert "f16" not in allowed.alone(last, {})(DType.F32).source  # its own operands are exact
    found = search(graph, lambda program, arrays: arrays)
    assert found.kind == "none"
    outputs = off_by_a_step(graph, run(graph, [X]))
    assert not differs(graph, [X], outputs, run(graph, [X]))
    assert differs(graph, [X], outputs, run(graph, [X]), Chosen(rtol=1e-4, atol=0))


def test_the_same_step_of_single_precision_is_an_error(graph: Graph) -> None:
    def wrong(program: Graph, arrays: Sequence[Array]) -> list[Array]:
        return [a * np.float32(1 + 2**-9) if a.shape == (2, 1) else a for a in arrays]

    found = search(graph, wrong)
    assert found.kind == "node" and found.node is not None and found.node.op.name == "reduce"
    assert search(graph, wrong, Chosen(rtol=1e-2, atol=0)).kind == "none"


def test_a_small_error_that_verify_refuses_is_found(graph: Graph) -> None:
    """5e-4 is more than 64 additions justify, though less than the widest tolerance of f32."""

    def wrong(program: Graph, arrays: Sequence[Array]) -> list[Array]:
        return [a * np.float32(1 + 5e-4) if a.shape == (2, 1) else a for a in arrays]

    wanted = run(graph, [X])
    assert differs(graph, [X], wrong(graph, wanted), wanted)
    assert search(graph, wrong).kind == "node"


BRANCHES = """
<ir_version: 8, opset_import: ["" : 18]>
f (float[2, 64] x) => (float[2, 64] one, float[2, 64] other, int64[64] place) {
    shared = Exp(x)
    alone = Sin(shared)
    one = Neg(alone)
    other = Cos(shared)
    place = ArgMax<axis = 0, keepdims = 0>(shared)
}
"""


@pytest.mark.parametrize(
    ("names", "covered"),
    [
        (("one",), {"sin", "neg"}),
        (("one", "other"), {"sin", "neg", "cos"}),
        (("place",), {"max", "reshape"}),
        (("one", "other", "place"), {"exp", "sin", "neg", "cos", "max", "reshape"}),
    ],
)
def test_what_is_stated_of_outputs_holds_for_what_leads_to_them_alone(
    tmp_path: Path, names: tuple[str, ...], covered: set[str]
) -> None:
    """Of exp, too, only where every output behind it has a statement; never of values of another element type."""
    onnx.save(parser.parse_model(BRANCHES), tmp_path / "m.onnx")
    graph = import_onnx(tmp_path / "m.onnx")
    stated = stated_before(graph, {name: Stated("file", ulp=3) for name in names})
    found = {getattr(n.op, "fn", n.op.name) for n in graph.nodes if n.outputs[0] in stated}
    assert found == covered
    assert not stated_before(graph, {})
