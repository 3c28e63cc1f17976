"""Convolutions that follow one another as one kernel: which nodes, where their values lie, and the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from chain_nets import COLUMNS, Net, carried_out, random_net
from token_nets import random_tokens

from fornaxc.ir import compose
from fornaxc.ir.chains import MOST_RESULTS, chain_results, find_chains, lowering_steps, own_outputs
from fornaxc.ir.checker import check
from fornaxc.ir.dims import Dim, static, substitute, symbol
from fornaxc.ir.graph import Array, Graph, Node, Value
from fornaxc.ir.interpreter import apply, run
from fornaxc.ir.ops import ConvNhwc, FromPool, MatMul, PackConv, Pool, Reduce, Reshape, Slice
from fornaxc.ir.types import DType, TensorType
from fornaxc.lowering import packed, placement  # noqa: F401 packed registers the rules of convolutions and pools
from fornaxc.lowering.chain_steps import table_of
from fornaxc.passes.chain_kernels import chain_kernels
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack
from fornaxc.qualify.programs import Options, Program, run_programs

PLACE_OF_Y, PLACE_OF_RESIDUAL, RESIDUAL_FLAG = slice(1, 3), slice(13, 15), 33  # columns of a convolution's row


def chained(seed: int, *, symbolic: bool = False) -> tuple[Graph, Array, list[Array]]:
    graph, x = random_net(seed, symbolic=symbolic)
    program = prepack(optimize(graph, "cpu"))
    check(program)
    assert not any(isinstance(node.op, PackConv) for node in program.nodes)
    return program, x, run(graph, [x])


def by_tables(program: Graph, *inputs: Array) -> tuple[list[Array], int]:
    """The outputs, chains by their tables over buffers of NaN, and how many chains there were."""
    values: dict[Value, Array] = dict(zip(program.inputs, inputs, strict=True))
    sizes: dict[str, int] = {}
    for value, array in values.items():
        sizes.update((str(d), n) for d, n in zip(value.type.shape, array.shape, strict=True) if not isinstance(d, int))
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
        table = table_of(step, wanted, makers)
        shapes = [tuple(static(substitute(d, sizes)) for d in v.type.shape) for v in wanted]
        made = [np.full(math.prod(shape), np.nan, np.float32) for shape in shapes]
        given = [np.ascontiguousarray(values[v], np.float32).reshape(-1) for v in table.operands]
        before = [a.copy() for a in given]
        workspace = np.full(static(substitute(table.workspace, sizes)), np.nan, np.float32)
        carried_out(table, [workspace, *made, *given], sizes)
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


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("seed", range(100))
def test_a_table_of_attention_and_linear_layers_gives_what_its_nodes_give(seed: int, symbolic: bool) -> None:
    graph, inputs = random_tokens(seed, symbolic=symbolic)
    program = prepack(optimize(graph, "cpu"))
    check(program)
    found, chains = by_tables(program, *inputs)
    assert chains == 1
    assert sum(isinstance(step, Node) for step in lowering_steps(program)) <= max(
        3, len(graph.outputs)
    )  # reshapes of results
    for a, b in zip(found, run(graph, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_a_sum_lies_where_its_residual_does_if_nothing_reads_that_again() -> None:
    """Read later, or by the same convolution, it stays apart: other numbers of it would be read when they are sums already."""
    net = Net(0)
    x = net.b.input(TensorType(DType.F32, (1, 3, 9, 9)), "x")
    skip = net.relu(net.conv(x, 8, 1))
    y = net.relu(compose.binary(net.b, "add", net.conv(net.relu(net.conv(skip, 8, 3)), 8, 3), skip))
    y = compose.binary(net.b, "add", net.conv(net.relu(net.conv(y, 8, 3)), 8, 3), skip)
    y = compose.binary(net.b, "add", net.conv(y, 8, 3), y)
    graph = net.b.finish([net.relu(net.conv(y, 8, 1))], ["y"])
    program = prepack(optimize(graph, "cpu"))
    (chain,) = find_chains(program)
    rows = table_of(chain, chain_results(program, chain), {}).rows.reshape(-1, COLUMNS)
    sums = [row for row in rows if row[RESIDUAL_FLAG]]
    assert [bool((row[PLACE_OF_Y] == row[PLACE_OF_RESIDUAL]).all()) for row in sums] == [False, True, False]
    array = np.random.default_rng(0).standard_normal((1, 3, 9, 9)).astype(np.float32)
    for a, b in zip(by_tables(program, array)[0], run(graph, [array]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def any_size() -> Graph:
    """Convolutions, pools and gates of images of symbolic height and width, with what comes of halving odd ones."""
    net = Net(0)
    x = net.b.input(TensorType(DType.F32, (symbol("n"), 3, symbol("h"), symbol("w"))), "x")
    y = net.relu(net.conv(x, 8, 3, stride=2))
    skip = net.conv(y, 8, 1)
    y = net.relu(net.conv(y, 8, 3, groups=8))
    y = compose.binary(net.b, "add", net.conv(y, 8, 1), skip)
    kept = y
    y = net.b.emit(Pool("max", (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)), y)
    gate = net.b.emit(Reduce("mean", (2, 3)), y)
    gate = compose.unary(net.b, "sigmoid", net.conv(gate, 8, 1))
    y = compose.binary(net.b, "mul", y, compose.expand(net.b, gate, y.type.shape))
    y = net.relu(net.conv(compose.concat(net.b, [y, net.conv(y, 5, 3)], 1), 12, 3))
    return net.b.finish([y, kept], ["y", "kept"])


@pytest.mark.parametrize("size", [(1, 16, 20), (2, 9, 7), (3, 1, 2)])
def test_a_table_of_images_of_any_size_gives_what_its_nodes_give(size: tuple[int, int, int]) -> None:
    graph = any_size()
    program = prepack(optimize(graph, "cpu"))
    check(program)
    x = np.random.default_rng(0).standard_normal((size[0], 3, *size[1:])).astype(np.float32)
    found, chains = by_tables(program, x)
    assert chains == 1
    for a, b in zip(found, run(graph, [x]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("height", [symbol("h"), 16], ids=str)
def test_a_window_that_may_be_wider_than_its_image_is_no_link(height: Dim) -> None:
    """A size that comes out negative would move the places of others."""
    net = Net(0)
    y = net.b.input(TensorType(DType.F32, (1, 3, height, 16)), "x")
    for _ in range(6):
        y = net.conv(net.relu(y), 8, 1)
    y = net.b.emit(Pool("max", (2, 2), (1, 1), (0, 0), (0, 0), (1, 1)), y)
    y = net.conv(net.relu(net.conv(y, 8, 1)), 8, 1)
    (chain,) = find_chains(prepack(optimize(net.b.finish([y], ["y"]), "cpu")))
    windows = sum(isinstance(node.op, ConvNhwc | Pool) for node in chain)
    assert windows == (9 if height == 16 else 6)


@pytest.mark.parametrize("symbolic", [False, True])
def test_most_random_nets_have_chains(symbolic: bool) -> None:
    assert sum(bool(find_chains(chained(seed, symbolic=symbolic)[0])) for seed in range(100)) > 80


def sums_of_many_passes() -> tuple[Graph, list[Array]]:
    """Residuals of convolutions whose weights are so many that their products are added up in passes, by tiles and by single pixels."""
    net = Net(0)
    x = net.b.input(TensorType(DType.F32, (1, 3, 7, 7)), "x")
    y = net.relu(net.conv(x, 260, 1))
    for size in (3, 1):
        y = compose.binary(net.b, "add", net.conv(net.conv(y, 260, 3), 260, size), y)
    y = net.b.emit(Pool("max", (7, 7), (1, 1), (0, 0), (0, 0), (1, 1)), y)
    y = compose.binary(net.b, "add", net.conv(net.conv(y, 260, 3), 260, 3), y)
    graph = net.b.finish([net.relu(net.conv(y, 8, 1))], ["y"])
    return graph, [np.random.default_rng(0).standard_normal((1, 3, 7, 7)).astype(np.float32)]


def without(program: Graph, inputs: Sequence[Array], name: str) -> list[Array]:
    """The inputs where the symbol `name` is 0; as they are where there is none."""
    cuts = [[slice(0 if str(d) == name else None) for d in v.type.shape] for v in program.inputs]
    return [np.ascontiguousarray(a[tuple(cut)]) for a, cut in zip(inputs, cuts, strict=True)]


def test_max_gives_what_the_nodes_give() -> None:
    """All in one module; a net of the tables above is right, so what is tried here is the kernel."""
    nets = {
        "images of any size": (
            any_size(),
            [np.random.default_rng(0).standard_normal((2, 3, 37, 52)).astype(np.float32)],
        )
    }
    for seed in range(12):
        graph, x = random_net(seed, symbolic=seed % 2 == 1)
        nets[f"net{seed}"] = graph, [x]
        nets[f"tokens{seed}"] = random_tokens(seed, symbolic=seed % 2 == 1)
    for seed in range(2):  # so large that threads share the steps
        graph, x = random_net(seed, size=70)
        nets[f"large net{seed}"] = graph, [x]
        nets[f"large tokens{seed}"] = random_tokens(seed, size=(2, 300, 96), symbolic=seed == 1)
    nets["sums of many passes"] = sums_of_many_passes()
    programs = {name: prepack(optimize(graph, "cpu")) for name, (graph, _) in nets.items()}
    given = {name: [x] * 5 for name, (_, x) in nets.items()}
    for name, (graph, x) in nets.items():
        has_first = any(isinstance(node.op, Slice) and node.op.sizes[1] == 1 for node in graph.nodes)
        given[name] += [without(graph, x, size) for size in ("n" if has_first else "nl")]
    outcomes = run_programs([Program(name, program, given[name]) for name, program in programs.items()], Options())
    assert {name: o.error for name, o in outcomes.items() if o.status != "ok"} == {}
    for name, (graph, _) in nets.items():
        wanted = [run(graph, x) for x in given[name][4:]]
        for i, outputs in enumerate(outcomes[name].outputs):
            for a, b in zip(outputs, wanted[max(0, i - 4)], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=name)


def test_only_results_of_chains_have_memory_of_their_own() -> None:
    program = prepack(optimize(any_size(), "cpu"))
    y, kept = program.outputs
    assert own_outputs(program) == [True, True]
    shared = replace(program, outputs=(y, program.inputs[0], y, kept, next(iter(program.constants))), output_names=())
    assert own_outputs(shared) == [False, False, False, True, False]
    flat = Value(TensorType(DType.F32, (y.type.elements,)))
    reshaped = replace(program, nodes=(*program.nodes, Node(Reshape(flat.type.shape), (y,), (flat,))), output_names=())
    assert own_outputs(replace(reshaped, outputs=(flat, kept))) == [True, True]
    assert own_outputs(replace(reshaped, outputs=(flat, y))) == [False, False]


def test_what_constants_decide_has_no_memory_of_its_own() -> None:
    """It may be made once, for all runs."""
    net = Net(0)
    x = net.b.input(TensorType(DType.F32, (9, 64)), "x")
    made = compose.expand(net.b, net.weight(1, 64), (8192, 64))  # too large to be folded
    outputs = []
    for start in (x, made):
        y = start
        for _ in range(5):
            y = net.b.emit(MatMul(), y, net.weight(64, 64))
        outputs.append(y)
    program = prepack(optimize(net.b.finish(outputs, ["varying", "constant"]), "cpu"))
    assert sum(isinstance(node.op, ConvNhwc) for chain in find_chains(program) for node in chain) == 10
    assert own_outputs(program) == [True, False]


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
