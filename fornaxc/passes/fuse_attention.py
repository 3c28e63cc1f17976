"""Turns products, a softmax and a product, as models compose attention of them, into one kernel of our own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import (
    Attention,
    Binary,
    BroadcastTo,
    Cast,
    MatMul,
    Rebind,
    Reshape,
    Select,
    Softmax,
    Transpose,
    Unary,
)
from fornaxc.ir.ops.attention import LAYOUTS
from fornaxc.ir.types import DType
from fornaxc.passes.constness import Constness
from fornaxc.passes.forms import Forms
from fornaxc.passes.rewrite import holds, rewrite, use_counts

HEADS_INSIDE = (0, 2, 1, 3)
TURNED = (0, 1, 3, 2)
TURNED_HEADS_INSIDE = (0, 2, 3, 1)
FLOATS = (DType.F32, DType.F16, DType.BF16)
LIGHT = 2.0**-24, 1.0  # factors of the keys that may be factors of the queries instead


def fuse_attention(graph: Graph) -> Graph:
    """`graph` with softmax(scale * q k^T + mask) v as `Attention`, the transposes around it inside.

    The mask may be added, or choose between the scores and a number. In f32; in f16 and bf16 too, computed in f32 between casts, so that scores
    above the largest f16 no longer overflow. A factor of the queries or keys alone stays before their products, which could overflow without it:
    it may move from the keys to the queries, of which there are fewer beside a cache. Scores and weights that something else reads stay composed.
    """
    if not holds(graph, Softmax):
        return graph
    uses = use_counts(graph)
    facts, forms = Constness(graph.constants), Forms(graph)

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        forms.see(node)
        if b.parent is not None:
            return None
        facts.catch_up(b)
        search = _Search(b, facts, forms, uses)
        if isinstance(node.op, MatMul):
            return search.attention(node)
        if isinstance(node.op, Transpose) and node.op.perm == HEADS_INSIDE:
            turned = search.turned_result(node.inputs[0])
            return None if turned is None else [turned]
        return None

    return rewrite(graph, visit)


@dataclass(frozen=True, slots=True)
class _Search:
    """Goes back from the last product."""

    b: GraphBuilder
    facts: Constness
    forms: Forms
    uses: Counter[Value]

    def turned_result(self, x: Value) -> Value | None:
        """The transpose of an attention's result, as another layout of it: where it is cast, or zeros take its place for some queries, the transpose of that."""
        b, maker = self.b, self.facts.producer(x)
        if maker is None or self.uses[x] > 1:
            return None
        if isinstance(maker.op, Attention) and maker.op.result == "bhlc":
            return b.emit(replace(maker.op, result="blhc"), *maker.inputs)
        if isinstance(maker.op, Cast):
            turned = self.turned_result(maker.inputs[0])
            return None if turned is None else compose.cast(b, turned, x.type.dtype)
        if isinstance(maker.op, Select):
            asked, kept, other = maker.inputs
            number, turned = self._number(other), self.turned_result(kept)
            if number is None or turned is None:
                return None
            asked = compose.transpose(b, self.facts.unbroadcast(asked), HEADS_INSIDE)
            return compose.select(b, asked, turned, number)
        return None

    def attention(self, node: Node) -> Sequence[Value] | None:
        weights, values = node.inputs
        softmax, spare = self._softmax(weights)
        if softmax is None or not isinstance(softmax.op, Softmax) or weights.type.dtype not in FLOATS:
            return None
        rank = weights.type.rank
        if softmax.op.log or softmax.op.axis != rank - 1 or rank not in (3, 4) or values.type.rank != rank:
            return None
        scores, *mask = self._unmasked(softmax.inputs[0])
        product, scales = self._unscaled(scores)
        maker = self._only(product)
        if maker is None or not isinstance(maker.op, MatMul) or maker.inputs[1].type.rank != rank:
            return None
        if product.type.dtype not in FLOATS:
            return None
        y = self._emit(maker.inputs, values, weights.type.shape, scales, mask, [] if spare is None else [spare])
        result = compose.cast(self.b, y, weights.type.dtype)
        self.uses[y] = 1
        self.uses[result] = self.uses[node.outputs[0]]
        return [result]

    def _softmax(self, weights: Value) -> tuple[Node | None, Value | None]:
        """The node that made the weights, perhaps before a number took the place of NaN; and that number."""
        node = self._only(weights)
        if node is None or not isinstance(node.op, Select):
            return node, None
        asked, other, kept = node.inputs
        question, number = self._only(asked), self._number(other)
        if question is None or question.op != Unary("is_nan") or question.inputs[0] is not kept or number is None:
            return None, None
        return (self._behind(kept), number) if self.uses[kept] == 2 else (None, None)

    def _only(self, value: Value) -> Node | None:
        """The node that made a value which nothing else reads, before it was cast from float to float or its sizes were asserted."""
        return self._behind(value) if self.uses[value] == 1 else None

    def _behind(self, value: Value) -> Node | None:
        node = self.facts.producer(value)
        if node is not None and (
            isinstance(node.op, Rebind)
            or (isinstance(node.op, Cast) and {value.type.dtype, node.inputs[0].type.dtype} <= set(FLOATS))
        ):
            return self._only(node.inputs[0])
        return node

    def _unmasked(self, scores: Value) -> list[Value]:
        """The scores before a mask, the mask, and where it chooses, what it puts in; or the scores alone."""
        node = self._only(scores)
        if node is not None and isinstance(node.op, Select):
            chosen, kept, fill = node.inputs
            number = self._number(fill)
            if number is not None and self._is_scores(kept):
                return [kept, self.facts.unbroadcast(chosen), number]
        if node is not None and isinstance(node.op, Binary) and node.op.fn == "add":
            for kept, added in (node.inputs, node.inputs[::-1]):
                if self._is_scores(kept):
                    return [kept, self.facts.unbroadcast(added)]
        return [scores]

    def _is_scores(self, value: Value) -> bool:
        node = self._only(self._unscaled(value)[0])
        return node is not None and isinstance(node.op, MatMul) and node.inputs[1].type.rank == value.type.rank

    def _unscaled(self, value: Value) -> tuple[Value, list[tuple[str, Value]]]:
        """A value before it was multiplied or divided by numbers, and those, each as ("mul" or "div", a rank-0 value)."""
        found: list[tuple[str, Value]] = []
        while (node := self._only(value)) is not None and isinstance(node.op, Binary) and node.op.fn in ("mul", "div"):
            operands = [node.inputs] + ([node.inputs[::-1]] if node.op.fn == "mul" else [])
            split = next(((x, n) for x, y in operands if (n := self._number(y)) is not None), None)
            if split is None:
                break
            value = split[0]
            found.append((node.op.fn, split[1]))
        return value, found

    def _number(self, value: Value) -> Value | None:
        """The rank-0 value that a tensor repeats everywhere."""
        known = self.b.known(value)
        if known is not None and known.size and (known == known.flat[0]).all():
            return compose.scalar(self.b, known.flat[0], value.type.dtype)
        inner = self.facts.unbroadcast(value)
        return compose.reshape(self.b, inner, ()) if inner.type.elements == 1 and inner is not value else None

    def _emit(
        self,
        factors: Sequence[Value],
        v: Value,
        shape: Sequence[Dim],
        scales: list[tuple[str, Value]],
        mask: list[Value],
        spare: list[Value],
    ) -> Value:
        b = self.b
        q, turned_k = factors
        lifted = q.type.rank == 3  # one batch of heads
        scale = compose.scalar(b, 1, DType.F32)
        for fn, number in scales:
            scale = compose.binary(b, fn, scale, self._wide(number))
        if lifted:
            shape = (1, *shape)
            q, turned_k, v = (compose.unsqueeze(b, x, (0,)) for x in (q, turned_k, v))
            mask = [compose.unsqueeze(b, m, (0,)) if m.type.rank == 3 else m for m in mask]
        q, turned_k = (compose.rebind(b, x, (*shape[:2], *x.type.shape[2:])) for x in (q, turned_k))
        k, k_layout = self._keys(turned_k)
        k, light = self._without_factor(k)
        if k_layout == "bhlc":
            fewer_k, fewer_v = self._shared(k), self._shared(v)
            if fewer_k is not None and fewer_v is not None and fewer_k.type.shape[1] == fewer_v.type.shape[1]:
                k, v = fewer_k, fewer_v
            k, k_layout = self._outside(k)
        q, q_layout = self._outside(q)
        v, v_layout = self._outside(v)
        q, k, v = self._sized(q, q_layout, shape[2]), self._sized(k, k_layout, shape[3]), self._wide(v)
        for number in light:
            q = compose.binary(b, "mul", q, self._wide(number))
        if mask:
            fits = [m if m == 1 else d for m, d in zip(mask[0].type.shape, shape, strict=True)]
            mask = [self._wide(compose.rebind(b, mask[0], fits)), *(self._wide(n) for n in mask[1:])]
        spare = [self._wide(n) for n in spare]
        y = b.emit(Attention(q_layout, k_layout, v_layout, spare=bool(spare)), q, k, v, scale, *mask, *spare)
        return compose.reshape(b, y, y.type.shape[1:]) if lifted else y

    def _wide(self, x: Value) -> Value:
        return compose.cast(self.b, x, DType.F32) if x.type.dtype in FLOATS else x

    def _sized(self, x: Value, layout: str, length: Dim) -> Value:
        """`x` in f32, its length asserted to be another dim where it is."""
        sizes = list(x.type.shape)
        sizes[LAYOUTS[layout].index(2)] = length
        return self._wide(compose.rebind(self.b, x, sizes))

    def _without_factor(self, k: Value) -> tuple[Value, list[Value]]:
        """The keys before they were multiplied by a number that takes nothing from the queries' range, and that number; or the keys alone."""
        node, (least, most) = self.facts.producer(k), LIGHT
        if node is not None and isinstance(node.op, Binary) and node.op.fn == "mul":
            for x, factor in (node.inputs, node.inputs[::-1]):
                known, number = self.forms.number(factor), self._number(factor)
                if known is not None and number is not None and least <= known <= most:
                    return x, [number]
        return k, []

    def _outside(self, x: Value) -> tuple[Value, str]:
        """What a tensor [b, h, l, c] is a transpose of, if of [b, l, h, c]."""
        x = self._same(x)
        maker = self.facts.producer(x)
        if maker is not None and isinstance(maker.op, Transpose) and maker.op.perm == HEADS_INSIDE:
            return maker.inputs[0], "blhc"
        return x, "bhlc"

    def _shared(self, x: Value) -> Value | None:
        """The fewer heads that neighbouring heads of [b, h, l, c] are copies of, perhaps multiplied by a number."""
        b, node = self.b, self.facts.producer(x)
        if node is not None and isinstance(node.op, Binary) and node.op.fn in ("mul", "div"):
            number, fewer = self._number(node.inputs[1]), self._shared(node.inputs[0])
            return None if number is None or fewer is None else compose.binary(b, node.op.fn, fewer, number)
        spread = self.facts.producer(self._flat(x))
        if spread is None or not isinstance(spread.op, BroadcastTo):
            return None
        source, (batch, heads, length, size) = spread.inputs[0], x.type.shape
        if source.type.rank != 5 or source.type.shape[2] != 1 or not isinstance(source.type.shape[1], int):
            return None
        each = spread.op.shape[2]
        if not isinstance(each, int) or spread.op.shape[1] * each != heads:
            return None
        if spread.op.shape != (batch, source.type.shape[1], each, length, size):
            return None
        if source.type.shape != (batch, spread.op.shape[1], 1, length, size):
            return None
        return self._same(compose.reshape(b, source, (batch, spread.op.shape[1], length, size)))

    def _flat(self, x: Value) -> Value:
        """What `x` is a reshape of."""
        self.facts.catch_up(self.b)
        while (node := self.facts.producer(x)) is not None and isinstance(node.op, Reshape):
            x = node.inputs[0]
        return x

    def _same(self, x: Value) -> Value:
        """The value that reshapes brought back to the shape that it had."""
        flat = self._flat(x)
        return flat if flat.type.shape == x.type.shape else x

    def _keys(self, x: Value) -> tuple[Value, str]:
        """What [b, h, c, l] is a transpose of."""
        maker = self.facts.producer(x)
        if maker is not None and isinstance(maker.op, Transpose):
            if maker.op.perm == TURNED:
                return maker.inputs[0], "bhlc"
            if maker.op.perm == TURNED_HEADS_INSIDE:
                return maker.inputs[0], "blhc"
        return x, "bhcl"
