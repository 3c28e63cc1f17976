"""The steps of a chain as rows of numbers, which kernels/chain.mojo carries out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fornaxc.ir.chains import ARITHMETIC, MOST_LOOPS, Chain, loops, mask_of, swapped
from fornaxc.ir.dims import Dim, product, static, summands
from fornaxc.ir.graph import Array, Node, Value
from fornaxc.ir.ops import (
    Attention,
    Binary,
    BroadcastTo,
    Concat,
    ConvNhwc,
    FromPool,
    LayerNorm,
    LocalResponseNorm,
    Pad,
    Pool,
    Reduce,
    Repeat,
    Reshape,
    RmsNorm,
    Slice,
    Softmax,
    Transpose,
    Unary,
)
from fornaxc.ir.ops.attention import LAYOUTS
from fornaxc.ir.ops.packed import ACTIVATIONS
from fornaxc.ir.types import DType
from fornaxc.lowering.copies import copy_loops
from fornaxc.lowering.placement import Place, place
from fornaxc.lowering.registry import rule_for

COLUMNS = 44
NUMBERS = 3  # of each step
# the kinds of steps
_WINDOW, _POOL, _COPY, _SWAP, _ARITHMETIC, _SUMS, _LOCAL_NORM, _NORM, _SOFTMAX, _ATTENTION = range(10)
_KERNELS = {"fx_conv2d": _WINDOW, "fx_pool2d": _POOL}
_SIZES, _GEOMETRY, _FACTORS, _WORK = 16, 23, 34, 43  # the columns where they begin
_CODES = {name: i for i, name in enumerate((*ACTIVATIONS, "tanh", "gelu", "gelu_tanh"))}  # of `activate` in conv.mojo


@dataclass(frozen=True, slots=True)
class Table:
    """What the kernel does: rows of numbers and `NUMBERS` floats a row, over a workspace, then the results, then `operands`.

    Numbers that sizes decide are sums: for each of `patches` (which number, which of `terms`, a factor), the term times the factor is added.
    """

    rows: Array
    patches: Array
    terms: Sequence[Dim]
    floats: Array
    operands: Sequence[Value]
    workspace: Dim


def table_of(chain: Chain, results: Sequence[Value], makers: Mapping[Value, Node]) -> Table:
    """The steps of a chain whose `results` are used outside of it; `makers` has the nodes that take constants from pools."""
    made = {v for node in chain for v in node.outputs}
    pools = {v: n for node in chain for v in node.inputs if isinstance((n := makers.get(v, node)).op, FromPool)}
    read = (pools[v].inputs[0] if v in pools else v for node in chain for v in node.inputs if v not in made)
    operands = list(dict.fromkeys(read))
    factors = _factors_after(chain, set(results))
    become = {v: f.result for node, f in factors.items() for v in (*node.outputs, *f.between)}
    placement = place(chain, results, operands, pools, become)
    writer = _Writer(placement.places, placement.repeated, frozenset(results), factors)
    done = {node for f in factors.values() for node in f.nodes}
    steps = [step for node in chain if node not in done for step in writer.steps(node)]
    rows, patches, terms = _numbers([number for step in steps for number in step.row()])
    floats = np.concatenate([step.numbers() for step in steps])
    return Table(rows, patches, terms, floats, operands, placement.workspace)


def _numbers(dims: Sequence[Dim]) -> tuple[Array, Array, list[Dim]]:
    """Numbers as the rows, patches and terms of a `Table`."""
    rows = np.zeros(len(dims), np.int64)
    terms: dict[Dim, int] = {}
    patches = []
    for i, dim in enumerate(dims):
        for term, factor in summands(dim):
            if term == 1:
                rows[i] = factor
            else:
                patches.append((i, terms.setdefault(term, len(terms)), factor))
    return rows, np.array(patches, np.int64).reshape(-1, 3), list(terms)


@dataclass(frozen=True, slots=True)
class _Step:
    """One row of the table."""

    kind: int
    places: Sequence[Place]
    sizes: Sequence[Dim]
    geometry: Sequence[Dim] = ()
    floats: Sequence[float] = ()
    factors: Sequence[Place | None] = ()

    def row(self) -> list[Dim]:
        row: list[Dim] = [0] * COLUMNS
        row[0] = self.kind
        for i, at in enumerate(self.places):
            row[1 + 3 * i : 4 + 3 * i] = at.buffer, at.offset, at.stride
        row[_SIZES : _SIZES + len(self.sizes)] = self.sizes
        row[_GEOMETRY : _GEOMETRY + len(self.geometry)] = self.geometry
        for i, factor in enumerate(self.factors):
            if factor is not None:
                row[_FACTORS + 3 * i : _FACTORS + 3 * i + 3] = 1, factor.buffer, factor.offset
        row[_WORK] = self.work()
        return row

    def work(self) -> Dim:
        """About as many multiply-adds as it takes."""
        if self.kind == _ATTENTION:
            b, h, m, c, _, s, n = self.sizes
            return b * h * m * s * (c + n)
        if self.kind not in (_WINDOW, _POOL):
            return product([d for d in self.sizes if d != 0])
        n, _, _, channels, ho, wo, k = self.sizes
        window = product(self.geometry[:2])
        return n * ho * wo * k * window * (channels // self.geometry[8] if self.kind == _WINDOW else 1)

    def numbers(self) -> Array:
        found = np.zeros(NUMBERS, np.float32)
        found[: len(self.floats)] = self.floats
        return found


@dataclass(frozen=True, slots=True)
class _Factors:
    """What a convolution's kernel does after its activation: a scale and an offset of one number each. They take the place of `nodes`, of which the last
    gives `result`."""

    scale: Value | None
    offset: Value | None
    nodes: tuple[Node, ...]

    @property
    def result(self) -> Value:
        return self.nodes[-1].outputs[0]

    @property
    def between(self) -> tuple[Value, ...]:
        return tuple(node.outputs[0] for node in self.nodes[:-1])


def _factors_after(chain: Chain, results: set[Value]) -> dict[Node, _Factors]:
    """The products and sums with one number from outside that the kernels of convolutions take in: each is all that reads what is before it."""
    made = {v for node in chain for v in node.outputs}
    users: dict[Value, list[Node]] = {}
    for node in chain:
        for value in node.inputs:
            users.setdefault(value, []).append(node)
    operand_of = {node.outputs[0]: node.inputs[0] for node in chain if isinstance(node.op, BroadcastTo)}
    found = {}
    for node in chain:
        if not isinstance(node.op, ConvNhwc):
            continue
        value, numbers, nodes = node.outputs[0], {}, []
        for fn in ("mul", "add"):
            user = users.get(value, [])
            if value in results or len(user) != 1 or user[0].op != Binary(fn):
                continue
            other = user[0].inputs[1 if user[0].inputs[0] is value else 0]
            number = operand_of.get(other)
            if number is not None and number not in made and number.type.elements == 1 and other not in results:
                numbers[fn], value = number, user[0].outputs[0]
                nodes.append(user[0])
        if nodes:
            found[node] = _Factors(numbers.get("mul"), numbers.get("add"), tuple(nodes))
    return found


@dataclass(frozen=True, slots=True)
class _Laid:
    """An array: where its first element is, its shape, and how far the elements of each axis are apart."""

    at: Place
    shape: tuple[Dim, ...]
    steps: tuple[Dim, ...]

    @property
    def first(self) -> tuple[int, Dim]:
        return self.at.buffer, self.at.offset

    def moved(self, starts: Sequence[Dim]) -> _Laid:
        """What begins at another element."""
        offset = self.at.offset + sum(start * step for start, step in zip(starts, self.steps, strict=True))
        return replace(self, at=replace(self.at, offset=offset))

    def stretched(self, steps: Sequence[int], shape: Sequence[Dim]) -> _Laid:
        """Every so many elements of each axis, an array of `shape`."""
        apart = tuple([a * b for a, b in zip(self.steps, steps, strict=True)])
        return replace(self, shape=tuple(shape), steps=apart)

    def permuted(self, perm: Sequence[int]) -> _Laid:
        return replace(self, shape=tuple([self.shape[i] for i in perm]), steps=tuple([self.steps[i] for i in perm]))


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes steps for nodes whose values lie where `places` says; `repeated` as in `Placement`."""

    places: Mapping[Value, Place]
    repeated: Mapping[Value, Value]
    results: frozenset[Value]
    factors: Mapping[Node, _Factors]

    def steps(self, node: Node) -> list[_Step]:
        """What a node does: nothing where its operands lie where its result is."""
        match node.op:
            case ConvNhwc() | Pool():
                return [self._window(node)]
            case Reduce(fn=fn):
                n, h, w, channels = node.inputs[0].type.shape
                return [_Step(_SUMS, self._at(node), [n, h * w, 0, channels], (int(fn == "mean"),))]
            case Binary(fn=fn):
                return [self._arithmetic(node, 1 + ARITHMETIC.index(fn), 0)]
            case Unary(fn=fn):
                return [self._arithmetic(node, 0, _CODES[fn])]
            case BroadcastTo():
                return [] if node.outputs[0] in self.repeated else [self._arithmetic(node, 0, 0)]
            case Transpose(perm=perm):
                if sizes := swapped(node):
                    return [_Step(_SWAP, self._at(node), sizes, (0, 2, 1))]
                y, x = self._laid_of(node)
                return self._copy(y, x.permuted(perm))
            case Reshape():
                return self._reshaped(node) if node.outputs[0] in self.results else []
            case LocalResponseNorm(before=before, after=after):
                n, h, w, channels = node.outputs[0].type.shape
                floats = (node.op.alpha, node.op.beta, node.op.bias)
                return [_Step(_LOCAL_NORM, self._at(node), [n, h * w, 0, channels], (before, after), floats)]
            case LayerNorm(axis=axis, epsilon=epsilon) | RmsNorm(axis=axis, epsilon=epsilon):
                at = [self.places[v] for v in (node.outputs[0], *node.inputs[:2], node.inputs[-1])]
                return [_Step(_NORM, at, self._rows(node, axis), (int(isinstance(node.op, LayerNorm)),), (epsilon,))]
            case Softmax(axis=axis, log=logarithm):
                return [_Step(_SOFTMAX, self._at(node), self._rows(node, axis), (int(logarithm),))]
            case Attention():
                return [self._attention(node, node.op)]
            case Repeat(times=times):
                return self._copy(*self._repeated(node, times))
            case Slice(starts=starts, steps=steps):
                y, x = self._laid_of(node)
                return self._copy(y, x.moved([static(d) for d in starts]).stretched(steps, y.shape))
            case Pad():
                return self._padded(node, node.op)
            case Concat(axis=axis):
                return self._joined(node, axis)
        raise AssertionError(f"{node.op} is no link")

    def _at(self, node: Node) -> list[Place]:
        return [self.places[v] for v in (*node.outputs, *node.inputs)]

    def _rows(self, node: Node, axis: int) -> list[Dim]:
        """How many rows there are, which the axes from `axis` on make, and their length."""
        shape = node.outputs[0].type.shape
        return [product(shape[:axis]), product(shape[axis:])]

    def _attention(self, node: Node, op: Attention) -> _Step:
        q, k, v, scale, *rest = node.inputs
        mask = mask_of(node)
        chosen = mask is not None and mask.type.dtype is DType.BOOL
        (b, h, m, c), (_, g, s, _), (_, _, _, n) = (
            [x.type.shape[i] for i in LAYOUTS[name]] for x, name in ((q, op.q), (k, op.k), (v, op.v))
        )
        names = list(LAYOUTS)
        layouts = [names.index(name) for name in (op.q, op.k, op.v, op.result)]
        kind = 0 if mask is None else 1 + chosen
        flags = [*layouts, kind, int(op.spare), *(self._mask_steps(mask) if mask else ())]
        at = [self.places[x] for x in (node.outputs[0], q, k, v, mask or q)]
        numbers = (scale, rest[1] if chosen else None, rest[-1] if op.spare else None)
        places = [None if x is None else self.places[x] for x in numbers]
        return _Step(_ATTENTION, at, [b, h, m, c, g, s, n], flags, (), places)

    def _mask_steps(self, mask: Value) -> list[Dim]:
        """How far the entries of each axis are apart, 0 where it is repeated."""
        shape = mask.type.shape
        return [product(shape[i + 1 :]) * (size != 1) for i, size in enumerate(shape)]

    def _window(self, node: Node) -> _Step:
        """A convolution or a pool, by its own rule."""
        recorder = _Recorder(node)
        rule, _ = rule_for(type(node.op), "cpu")
        rule(recorder, node.op, *node.inputs)
        values = [v for v in recorder.operands if isinstance(v, Value)]
        numbers = [v for v in recorder.operands if not isinstance(v, Value)]
        bounds = numbers[1].tolist() if len(numbers) > 1 else (0.0, 0.0)
        at = [self.places[v] for v in (*node.outputs, *values)]
        after = self.factors.get(node)
        factors = [None if v is None else self.places[v] for v in (after.scale, after.offset)] if after else []
        return _Step(_KERNELS[recorder.kernel], at, self._window_sizes(node), numbers[0].tolist(), bounds, factors)

    def _window_sizes(self, node: Node) -> list[Dim]:
        return [*node.inputs[0].type.shape, *node.outputs[0].type.shape[1:]]

    def _arithmetic(self, node: Node, operation: int, activation: int) -> _Step:
        y = node.outputs[0]
        operands = [self.repeated.get(v, v) for v in (node.inputs[0], node.inputs[-1])]
        axes = loops(y.type.shape, [v.type.shape for v in operands])
        axes = [range(0)] * (MOST_LOOPS - len(axes)) + axes
        sizes = [product([y.type.shape[i] for i in group]) for group in axes]
        apart = [d for v in operands for d in self._apart(v, y, axes)]
        at = [self.places[v] for v in (y, *operands)]
        return _Step(_ARITHMETIC, at, [*sizes, y.type.shape[-1]], (operation, activation, *apart))

    def _apart(self, value: Value, wide: Value, axes: Sequence[range]) -> list[Dim]:
        """How far a value's numbers are apart in each loop that goes over `wide`, and on the last axis; 0 where they are repeated."""
        shape, wanted = value.type.shape, wide.type.shape
        stride = self.places[value].stride
        steps: list[Dim] = []
        for group in axes:
            has = all(shape[i] == wanted[i] for i in group)
            steps.append(stride * product(shape[group.stop : -1]) if group and has else 0)
        return [*steps, int(shape[-1] == wanted[-1])]

    def _laid_of(self, node: Node) -> tuple[_Laid, _Laid]:
        """The result and the first operand of a node."""
        return self._laid(node.outputs[0]), self._laid(node.inputs[0])

    def _laid(self, value: Value) -> _Laid:
        at, shape = self.places[value], value.type.shape
        return _Laid(at, shape, tuple([at.stride * product(shape[i + 1 : -1]) for i in range(len(shape) - 1)] + [1]))

    def _copy(self, y: _Laid, x: _Laid) -> list[_Step]:
        """What copies x to y, of one shape; nothing where it lies there already."""
        if (y.first, y.steps) == (x.first, x.steps):
            return []
        found = copy_loops(y.shape, y.steps, x.steps)
        n, a, b, c, d = found.sizes
        return [_Step(_COPY, [y.at, x.at], [n, a, b, found.width, c, d], (*found.y, *found.x))]

    def _joined(self, node: Node, axis: int) -> list[_Step]:
        """The operands of a concatenation that do not lie in its result already."""
        y, steps = self._laid(node.outputs[0]), list[_Step]()
        first: Dim = 0
        for operand in node.inputs:
            x = self._laid(operand)
            steps += self._copy(replace(y.moved([first * (i == axis) for i in range(len(y.shape))]), shape=x.shape), x)
            first += x.shape[axis]
        return steps

    def _repeated(self, node: Node, times: Sequence[int]) -> tuple[_Laid, _Laid]:
        """Result and operand with an axis of the repetitions behind each of their axes."""
        y, x = self._laid_of(node)
        shape = tuple([d for pair in zip(x.shape, times, strict=True) for d in pair])
        to = tuple([d for step, count in zip(y.steps, times, strict=True) for d in (step * count, step)])
        return replace(y, shape=shape, steps=to), replace(
            x, shape=shape, steps=tuple([d for s in x.steps for d in (s, 0)])
        )

    def _padded(self, node: Node, op: Pad) -> list[_Step]:
        """The fill everywhere, then the operand where it belongs."""
        y, x = self._laid_of(node)
        *pixels, channels = y.shape
        fill = self.places[node.inputs[1]]
        filled = _Step(_ARITHMETIC, [y.at, fill, fill], [1, 1, product(pixels), channels], (0,) * 10)
        between = op.interior or (0,) * len(op.low)
        target = y.moved([static(d) for d in op.low]).stretched([1 + d for d in between], x.shape)
        return [filled, *self._copy(target, x)]

    def _reshaped(self, node: Node) -> list[_Step]:
        y, x = self._laid_of(node)
        size = node.outputs[0].type.elements
        return self._copy(*(replace(v, shape=(1, size), steps=(size, 1)) for v in (y, x)))


class _Recorder:
    """What the rules of convolutions and pools see here in place of a context: it keeps the kernel that they call, and its numbers."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.kernel = ""
        self.operands: list[Any] = []

    def literal(self, array: Array) -> Array:
        return array

    def out_type(self, index: int = 0) -> None:
        return None

    def custom(self, name: str, operands: Sequence[Any], types: Sequence[Any]) -> list[Value]:
        self.kernel, self.operands = name, list(operands)
        return [self.node.outputs[0]]
