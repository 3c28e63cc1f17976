"""The passes in their order, each told of; what a step did, in numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fornaxc.errors import UsageError
from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import symbol
from fornaxc.ir.graph import Graph
from fornaxc.ir.ops import If
from fornaxc.ir.printer import print_graph
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.effects import effect
from fornaxc.passes.pipeline import PASSES, optimize, steps

ROW = TensorType(DType.F32, (symbol("n"), 3))


def graph() -> Graph:
    """Two reshapes that are one, in a branch and outside."""
    b = GraphBuilder()
    c, x = b.input(TensorType(DType.BOOL, ()), "c"), b.input(ROW, "x")
    branches = []
    for fn in ("relu", "abs"):
        inner = GraphBuilder(b)
        y = compose.unary(inner, fn, compose.reshape(inner, x, (symbol("n"), 3, 1)))
        branches.append(inner.finish([compose.reshape(inner, y, ROW.shape)]))
    y = b.emit(If((ROW,)), c, regions=tuple(branches))
    y = compose.reshape(b, compose.reshape(b, y, (3, symbol("n"))), (symbol("n") * 3,))
    return b.finish([y], ["y"])


def test_every_pass_is_told_of_in_order_and_its_result_is_the_next_ones_operand() -> None:
    given = graph()
    done = list(steps(given, "cpu"))
    assert [d.step for d in done] == list(PASSES)
    assert done[0].before is given
    assert all(d.before is before.after for before, d in pairwise(done))
    assert print_graph(done[-1].after) == print_graph(optimize(given, "cpu"))
    assert all(d.seconds >= 0 for d in done)


@pytest.mark.parametrize(
    ("kind", "level", "disabled", "left_out"),
    [
        ("cpu", 1, (), {}),
        ("cpu", 3, ("tidy", "simplify"), {"tidy": "--no-pass", "simplify": "--no-pass"}),
        (
            "gpu",
            1,
            (),
            dict.fromkeys(
                (
                    "chain-kernels",
                    "find-local-norm",
                    "find-repeat",
                    "fuse-attention",
                    "fuse-quantized",
                    "pack-recurrence",
                    "scale-channels",
                    "split-phases",
                ),
                "for a CPU only",
            ),
        ),
        (
            "gpu",
            2,
            ("tidy",),
            {
                "chain-kernels": "CPU",
                "find-local-norm": "CPU",
                "find-repeat": "CPU",
                "flatten-volumes": "-O1",
                "fuse-attention": "CPU",
                "fuse-conv": "-O1",
                "fuse-linear": "-O1",
                "fuse-quantized": "CPU",
                "pack-recurrence": "CPU",
                "scale-channels": "CPU",
                "split-phases": "CPU",
                "tidy": "--no-pass",
            },
        ),
    ],
)
def test_a_pass_that_does_not_run_says_why(
    kind: str, level: int, disabled: tuple[str, ...], left_out: dict[str, str]
) -> None:
    found = {d.step.name: d for d in steps(graph(), kind, disabled, level) if d.left_out}
    assert found.keys() == left_out.keys()
    for name, words in left_out.items():
        assert words in found[name].left_out
        assert found[name].after is found[name].before


def test_a_name_that_is_no_pass_is_refused_before_any_runs() -> None:
    for run in (lambda: next(steps(graph(), "cpu", ("x",))), lambda: optimize(graph(), "cpu", ("x",))):
        with pytest.raises(UsageError, match="no pass is named 'x'") as caught:
            run()
        assert caught.value.code == "FX211"


def test_effects_are_counted_with_those_in_regions() -> None:
    done = {d.step.name: effect(d.before, d.after) for d in steps(graph(), "cpu")}
    first = done["simplify"]
    assert (first.nodes_before, first.nodes_after, first.operations, first.changed) == (9, 8, {"reshape": -1}, True)
    for name in ("share-common", "tidy"):  # tidy makes a graph anew
        assert (done[name].operations, done[name].changed) == ({}, False)
    made = effect(None, graph())
    assert (made.nodes_before, made.nodes_after, made.changed) == (None, 9, True)
    assert list(made.operations.items()) == [("reshape", 6), ("unary", 2), ("if", 1)]
