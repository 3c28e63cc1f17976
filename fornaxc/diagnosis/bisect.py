"""Finds the first node of a program whose numbers are wrong on the device.

Every intermediate value is fetched from the device and compared twice: with the numpy interpreter's value (the error so far), and with what numpy makes
of the device's own operands (the error of this node alone, which errors before it cannot hide or cause). The first node that is wrong by
itself is the cause. As fetching values keeps MAX from fusing the nodes around them, a program without taps that ends at that
node confirms it; and where taps make the fault vanish, programs without taps are searched for the first wrong end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fornaxc.diagnosis.allowed import DEFAULT, AllowedErrors, Chosen
from fornaxc.diagnosis.deviation import Deviation, deviation, differs
from fornaxc.diagnosis.rounds import Search
from fornaxc.diagnosis.taps import GROUP_BYTES, Tapped, ancestors, prefix, tapped
from fornaxc.ir.graph import Array, Graph, Node, Value
from fornaxc.ir.interpreter import apply, run, trace
from fornaxc.qualify.programs import Outcome, Program

PROBES = 12  # programs without taps that are compared in one round


@dataclass(frozen=True, slots=True)
class Step:
    """One result of one node: the error so far and the node's own; None where it could not be computed."""

    index: int
    node: Node
    value: Value
    so_far: Deviation
    own: Deviation | None

    def to_json(self) -> dict[str, Any]:
        return {
            "index": self.index,
            **describe(self.node),
            "type": str(self.value.type),
            "so_far": self.so_far.to_json(),
            "own": None if self.own is None else self.own.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Found:
    """What a search for the first wrong node found.

    `kind` is `node` (wrong by itself), `fused` (wrong only when MAX may fuse it with what is around it), `accumulated` (every node is right, their
    errors add up), `failed` (the program with taps did not run) or `none`. `confirmed` says that a program without taps shows it too.
    """

    kind: str
    node: Node | None = None
    confirmed: bool = False
    steps: Sequence[Step] = ()
    notes: Sequence[str] = field(default=())

    @property
    def index(self) -> int | None:
        """The position of the node in the program."""
        return next((s.index for s in self.steps if s.node is self.node), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "node": None if self.node is None else {**describe(self.node), "index": self.index},
            "confirmed": self.confirmed,
            "notes": list(self.notes),
            "steps": [s.to_json() for s in self.steps],
        }


def describe(node: Node) -> dict[str, str]:
    """A node as messages name it: the operation, and where in the source model it came from."""
    return {
        "ir": str(node.op),
        "source_node": node.origin.node,
        "source_op": node.origin.op,
    }


def bisect(
    graph: Graph,
    inputs: Sequence[Array],
    *,
    chosen: Chosen = DEFAULT,
    group_bytes: int = GROUP_BYTES,
) -> Search[Found]:
    """Search `graph`, as it is lowered, for the first node that the device computes wrongly on these inputs."""
    try:
        sizes = {
            v: a.nbytes for node, results, _ in trace(graph, inputs) for v, a in zip(node.outputs, results, strict=True)
        }
    except Exception as error:  # numpy and the operations raise many kinds
        return Found("failed", notes=[f"numpy cannot run the program: {error}"])
    programs = tapped(graph, sizes, group_bytes)
    outcomes = yield [Program(t.name, t.graph, [inputs]) for t in programs]
    notes = [f"{len(sizes)} values in {len(programs)} groups"] if len(programs) > 1 else []
    failures = [f"{o.status} in phase {o.phase}: {o.error}" for o in outcomes.values() if o.status != "ok"]
    if failures:
        return Found("failed", notes=[*notes, *failures])
    steps = _steps(graph, inputs, _fetched(programs, outcomes), chosen)
    guilty = next((s for s in steps if s.own is not None and s.own.failed), None)
    if guilty is None:
        ends = set(graph.outputs)
        if any(s.so_far.failed for s in steps if s.value in ends):
            worst = max((s for s in steps if s.own is not None), key=lambda s: s.own.relative if s.own else 0.0)
            notes.append("no node is wrong by itself: the errors add up; named is the node that adds most")
            return Found("accumulated", worst.node, False, steps, notes)
        return (yield from _without_taps(graph, inputs, steps, notes, chosen))
    confirmed = yield from _confirm(graph, inputs, guilty.node, chosen)
    if not confirmed:
        notes.append("a program without taps that ends at this node is right: the taps change what MAX fuses")
    return Found("node", guilty.node, confirmed, steps, notes)


def _fetched(programs: Sequence[Tapped], outcomes: Mapping[str, Outcome]) -> dict[Value, Array]:
    return {v: a for t in programs for v, a in zip(t.values, outcomes[t.name].outputs[0], strict=True)}


def _steps(
    graph: Graph,
    inputs: Sequence[Array],
    fetched: Mapping[Value, Array],
    chosen: Chosen,
) -> list[Step]:
    """Compare every fetched value. What was not fetched is computed from what was."""
    device: dict[Value, Array] = dict(zip(graph.inputs, inputs, strict=True))
    allowed = AllowedErrors(graph, inputs, chosen)
    steps = []
    for index, (node, references, sizes) in enumerate(trace(graph, inputs)):
        used = [*node.inputs, *(v for r in node.regions for v in r.captures())]
        device.update((v, graph.constants[v].load()) for v in used if v in graph.constants)
        try:
            own = apply(node, [device[v] for v in node.inputs], device, sizes)
        except Exception:  # operands that the device got wrong may not fit
            own = None
        for number, (value, reference) in enumerate(zip(node.outputs, references, strict=True)):
            got = fetched.get(value)
            device[value] = got if got is not None else own[number] if own is not None else reference
            if got is not None:
                so_far = deviation(got, reference, allowed.so_far(value))
                alone = None if own is None else deviation(got, own[number], allowed.alone(node, sizes))
                steps.append(Step(index, node, value, so_far, alone))
        for value in used:
            if value in graph.constants:
                device.pop(value, None)
    return steps


def _confirm(graph: Graph, inputs: Sequence[Array], node: Node, chosen: Chosen) -> Search[bool]:
    """Whether a program without taps that ends at `node` is wrong there."""
    wrong = yield from _wrong_ends(graph, inputs, [node], chosen)
    return wrong[0]


def _wrong_ends(graph: Graph, inputs: Sequence[Array], nodes: Sequence[Node], chosen: Chosen) -> Search[list[bool]]:
    """For each node, whether a program that gives its results and nothing else gives wrong ones."""
    programs = [Program(f"end{i}", prefix(graph, n.outputs), [inputs]) for i, n in enumerate(nodes)]
    outcomes = yield programs
    wrong = []
    for program in programs:
        outcome = outcomes[program.name]
        if outcome.status != "ok":
            wrong.append(True)
            continue
        wrong.append(differs(program.graph, inputs, outcome.outputs[0], run(program.graph, inputs), chosen))
    return wrong


def _without_taps(
    graph: Graph,
    inputs: Sequence[Array],
    steps: Sequence[Step],
    notes: list[str],
    chosen: Chosen,
) -> Search[Found]:
    """With taps all is right: look for the first node at which a program without taps is wrong."""
    makers = {v: node for node in graph.nodes for v in node.outputs}
    ends = list(dict.fromkeys(makers[v] for v in graph.outputs if v in makers))
    wrong = yield from _wrong_ends(graph, inputs, ends, chosen)
    bad = [node for node, is_wrong in zip(ends, wrong, strict=True) if is_wrong]
    if not bad:
        return Found("none", steps=steps, notes=notes)
    path = ancestors(graph, bad[0].outputs[0])
    low, high = -1, len(path) - 1  # the program is right at `low`, wrong at `high`
    while high - low > 1:
        probes = sorted({low + (high - low) * i // (PROBES + 1) for i in range(1, PROBES + 1)} - {low})
        wrong = yield from _wrong_ends(graph, inputs, [path[i] for i in probes], chosen)
        first = next((i for i, is_wrong in zip(probes, wrong, strict=True) if is_wrong), None)
        low = max((i for i in probes if first is None or i < first), default=low)
        high = high if first is None else first
    notes.append("with taps every node is right: the fault needs this node to be fused with those before it")
    return Found("fused", path[high], True, steps, notes)
