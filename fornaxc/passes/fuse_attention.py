"""Turns products, a softmax and a product, as models compose attention of them, into one kernel of our own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Attention, Binary, BroadcastTo, MatMul, Reshape, Select, Softmax, Transpose, Unary
from fornaxc.ir.types import DType
from fornaxc.passes.constness import Constness
from fornaxc.passes.rewrite import holds, rewrite, use_counts

HEADS_INSIDE = (0, 2, 1, 3)
TURNED = (0, 1, 3, 2)
TURNED_HEADS_INSIDE = (0, 2, 3, 1)


def fuse_attention(graph: Graph) -> Graph:
    """`graph` with softmax(scale * q k^T + mask) v in f32 as `Attention`, the transposes around it inside.

    The mask may be added, or choose between the scores and a number. A scale of the queries or keys alone stays where it is, since their products
    could overflow without it; scores and weights that something else reads stay composed.
    """
    if not holds(graph, Softmax):
        return graph
    uses = use_counts(graph)
    facts = Constness(graph.constants)

    def visit(node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        if b.parent is not None:
            return None
        facts.catch_up(b)
        if isinstance(node.op, MatMul):
            return _Search(b, facts, uses).attention(node)
        if isinstance(node.op, Transpose) and node.op.perm == HEADS_INSIDE:
            return _turned_result(node, b, facts, uses)
        return None

    return rewrite(graph, visit)


def _turned_result(node: Node, b: GraphBuilder, facts: Constness, uses: Counter[Value]) -> Sequence[Value] | None:
    """The transpose of an attention's result, as another layout of it."""
    (x,) = node.inputs
    maker = facts.producer(x)
    if maker is None or not isinstance(maker.op, Attention) or maker.op.result != "bhlc" or uses[x] > 1:
        return None
    return [b.emit(replace(maker.op, result="blhc"), *maker.inputs)]


@dataclass(frozen=True, slots=True)
class _Search:
    """Goes back from the last product."""

    b: GraphBuilder
    facts: Constness
    uses: Counter[Value]

    def attention(self, node: Node) -> Sequence[Value] | None:
        weights, values = node.inputs
        softmax, spare = self._softmax(weights)
        if softmax is None or not isinstance(softmax.op, Softmax) or weights.type.dtype is not DType.F32:
            return None
        rank = weights.type.rank
        if softmax.op.log or softmax.op.axis != rank - 1 or rank not in (3, 4) or values.type.rank != rank:
            return None
        scores, *mask = self._unmasked(softmax.inputs[0])
        product, scales = self._unscaled(scores)
        maker = self._only(product)
        if maker is None or not isinstance(maker.op, MatMul) or maker.inputs[1].type.rank != rank:
            return None
        return [self._emit(maker.inputs[0], maker.inputs[1], values, scales, mask, [] if spare is None else [spare])]

    def _softmax(self, weights: Value) -> tuple[Node | None, Value | None]:
        """The node that made the weights, perhaps before a number took the place of NaN; and that number."""
        node = self._only(weights)
        if node is None or not isinstance(node.op, Select):
            return node, None
        asked, other, kept = node.inputs
        question, number = self._only(asked), self._number(other)
        if question is None or question.op != Unary("is_nan") or question.inputs[0] is not kept or number is None:
            return None, None
        return (self.facts.producer(kept), number) if self.uses[kept] == 2 else (None, None)

    def _only(self, value: Value) -> Node | None:
        """The node that made a value which nothing else reads."""
        return self.facts.producer(value) if self.uses[value] == 1 else None

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
        q: Value,
        turned_k: Value,
        v: Value,
        scales: list[tuple[str, Value]],
        mask: list[Value],
        spare: list[Value],
    ) -> Value:
        b = self.b
        lifted = q.type.rank == 3  # one batch of heads
        scale = compose.scalar(b, 1, DType.F32)
        for fn, number in scales:
            scale = compose.binary(b, fn, scale, number)
        if lifted:
            q, turned_k, v = (compose.unsqueeze(b, x, (0,)) for x in (q, turned_k, v))
            mask = [compose.unsqueeze(b, m, (0,)) if m.type.rank == 3 else m for m in mask]
        q, q_layout = self._outside(q)
        k, k_layout = self._keys(turned_k)
        v, v_layout = self._outside(v)
        if k_layout == v_layout == "bhlc":
            fewer = [self._shared(x) for x in (k, v)]
            k, v = (x if None in fewer else y or x for x, y in zip((k, v), fewer, strict=True))
        y = b.emit(Attention(q_layout, k_layout, v_layout, spare=bool(spare)), q, k, v, scale, *mask, *spare)
        return compose.reshape(b, y, y.type.shape[1:]) if lifted else y

    def _outside(self, x: Value) -> tuple[Value, str]:
        """What a tensor [b, h, l, c] is a transpose of, if of [b, l, h, c]."""
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
        spread = self.facts.producer(node.inputs[0]) if node is not None and isinstance(node.op, Reshape) else None
        if spread is None or not isinstance(spread.op, BroadcastTo):
            return None
        source, (batch, heads, length, size) = spread.inputs[0], x.type.shape
        if source.type.rank != 5 or source.type.shape[2] != 1 or not isinstance(source.type.shape[1], int):
            return None
        each = spread.op.shape[2]
        if spread.op.shape != (batch, source.type.shape[1], each, length, size) or spread.op.shape[1] * each != heads:
            return None
        if source.type.shape != (batch, spread.op.shape[1], 1, length, size):
            return None
        return compose.reshape(b, source, (batch, spread.op.shape[1], length, size))

    def _keys(self, x: Value) -> tuple[Value, str]:
        """What [b, h, c, l] is a transpose of."""
        maker = self.facts.producer(x)
        if maker is not None and isinstance(maker.op, Transpose):
            if maker.op.perm == TURNED:
                return maker.inputs[0], "bhlc"
            if maker.op.perm == TURNED_HEADS_INSIDE:
                return maker.inputs[0], "blhc"
        return x, "bhcl"
