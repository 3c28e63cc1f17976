"""Convolutions that follow one another as one kernel: which nodes, where their values lie, and the numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from chain_nets import carried_out, random_net
from token_nets import random_tokens

from fornaxc.ir.chains import MOST_RESULTS, batch_of, chain_results, find_chains
from fornaxc.ir.checker import check
from fornaxc.ir.dims import static, substitute
from fornaxc.ir.graph import Array, Graph, Node, Value
from fornaxc.ir.interpreter import apply, run
from fornaxc.ir.ops import FromPool, PackConv
from fornaxc.lowering import packed, placement  # noqa: F401 packed registers the rules of convolutions and pools
from fornaxc.lowering.chain_steps import table_of
from fornaxc.lowering.chains import lowering_steps
from fornaxc.passes.chain_kernels import chain_kernels
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack
from fornaxc.qualify.programs import Options, Program, run_programs


def chained(seed: int, *, symbolic: bool = False) -> tuple[Graph, Array, list[Array]]:
    graph, x = random_net(seed, symbolic=symbolic)
    program = prepack(optimize(graph, "cpu"))
    check(program)
    assert not any(isinstance(node.op, PackConv) for node in program.nodes)
    return program, x, run(graph, [x])


def by_tables(program: Graph, *inputs: Array) -> tuple[list[Array], int]:
    """The outputs, chains by their tables over buffers of NaN, and how many chains there were."""
    values: dict[Value, Array] = dict(zip(program.inputs, inputs, strict=True))
    batch, images, sizes = batch_of(program), 1, {}
    if not program.inputs[0].type.is_static:
        images = len(inputs[0])
        sizes = {"n": images}
    values.update((v, constant.load()) for v, constant in program.constants.items())
    makers = {v: node for node in program.nodes for v in node.outputs}
    chains = 0
    for step in lowering_steps(program):
        if isinstance(step, Node):
            results = apply(step, [values[v] for v in step.inputs], values, dict(sizes))
            values.update(zip(step.outputs, results, strict=True))
            continue
        chains += 1
        wanted = chain_results(program, step)
        assert batch is not None
        table = table_of(step, wanted, makers, batch)
        shapes = [tuple(static(substitute(d, sizes)) for d in v.type.shape) for v in wanted]
        made = [np.full(math.prod(shape), np.nan, np.float32) for shape in shapes]
        given = [np.ascontiguousarray(values[v], np.float32).reshape(-1) for v in table.operands]
        before = [a.copy() for a in given]
        workspace = np.full(table.workspace * images, np.nan, np.float32)
        carried_out(table.rows, table.floats, [workspace, *made, *given], images)
        assert all(np.array_equal(a, b) for a, b in zip(before, given, strict=True))
        values.update((v, a.reshape(shape)) for v, a, shape in zip(wanted, made, shapes, strict=True))
    return [values[v] for v in program.outputs], chains


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("seed", range(100))
def test_a_table_gives_what_its_nodes_give(seed: int, symbolic: bool) -> None:
    program, x, wanted = chained(seed, symbolic=symbolic)
    found, _ = by_tables(program, x)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(100))
def test_a_table_of_attention_and_linear_layers_gives_what_its_nodes_give(seed: int) -> None:
    graph, inputs = random_tokens(seed)
    program = prepack(optimize(graph, "cpu"))
    check(program)
    found, chains = by_tables(program, *inputs)
    assert chains == 1
    assert sum(isinstance(step, Node) for step in lowering_steps(program)) <= max(3, len(graph.outputs))  # reshapes of results
    for a, b in zip(found, run(graph, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("symbolic", [False, True])
def test_most_random_nets_have_chains(symbolic: bool) -> None:
    assert sum(bool(find_chains(chained(seed, symbolic=symbolic)[0])) for seed in range(100)) > 80


def test_max_gives_what_the_nodes_give() -> None:
    """All in one module; a net of the table above is right, so what is tried here is the kernel."""
    nets = {}
    for seed in range(12):
        program, x, wanted = chained(seed, symbolic=seed % 2 == 1)
        nets[f"net{seed}"] = program, [x], wanted
        graph, inputs = random_tokens(seed)
        nets[f"tokens{seed}"] = prepack(optimize(graph, "cpu")), inputs, run(graph, inputs)
    for seed in range(2):  # so large that threads share the steps
        graph, x = random_net(seed, size=70)
        nets[f"large net{seed}"] = prepack(optimize(graph, "cpu")), [x], run(graph, [x])
        graph, inputs = random_tokens(seed, size=(2, 300, 96))
        nets[f"large tokens{seed}"] = prepack(optimize(graph, "cpu")), inputs, run(graph, inputs)
    asked = [Program(name, program, [given] * 5) for name, (program, given, _) in nets.items()]
    outcomes = run_programs(asked, Options())
    assert {name: o.error for name, o in outcomes.items() if o.status != "ok"} == {}
    for name, (_, _, wanted) in nets.items():
        for outputs in outcomes[name].outputs:
            for a, b in zip(outputs, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=name)


def test_a_chain_with_many_results_is_left_in_pieces() -> None:
    programs = (prepack(optimize(random_net(seed, blocks=16)[0], "cpu")) for seed in range(20))
    program, chain = next((p, c) for p in programs for c in find_chains(p) if len(c) > MOST_RESULTS)
    tapped = replace(program, outputs=tuple(v for node in chain for v in node.outputs), output_names=())
    assert chain in lowering_steps(program)
    assert not any(isinstance(step, tuple) and chain[0] in step for step in lowering_steps(tapped))


def test_the_constants_of_a_chain_that_is_left_in_pieces_stay_apart() -> None:
    """Taken from a pool by kernels of their own, they would be copied at every run."""
    graph, _ = random_tokens(3, blocks=6)
    wide = optimize(graph, "cpu", disabled=("chain-kernels",))
    tapped = replace(wide, outputs=tuple(v for node in wide.nodes for v in node.outputs), output_names=())
    for program, pooled in ((wide, True), (tapped, False)):
        assert any(isinstance(node.op, FromPool) for node in chain_kernels(program).nodes) is pooled


def test_values_that_live_at_once_must_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above sees a workspace whose places overlap."""
    monkeypatch.setattr(placement, "_packed", lambda lives: ({v.root: 0 for v in lives}, max(v.size for v in lives)))
    wrong = 0
    for seed in range(10):
        program, x, wanted = chained(seed)
        found, _ = by_tables(program, x)
        wrong += not all(np.allclose(a, b, 1e-4, 1e-4) for a, b in zip(found, wanted, strict=True))
    assert wrong > 5
