"""Turns products of 8-bit integers by constant matrices into one kernel of exact sums.

Two forms are recognised: the integer products that importers write, (x - zero) (w - zero) in i32, and the product in f32 of what
DequantizeLinear gives, (x - zero) * scale and (w - zero) * scale. After either come factors, biases, relu and QuantizeLinear.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import product, static
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Binary, Cast, MatMul, Op, Pad, QuantizedLinear, Reshape, Transpose, Unary
from fornaxc.ir.ops.elementwise import integer_range
from fornaxc.ir.ops.quantized import packed_shape
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.constness import Constness
from fornaxc.passes.prepack import GROWTH, SMALL_BYTES
from fornaxc.passes.rewrite import holds, rewrite, use_counts

BYTES = (DType.U8, DType.I8)
DEEPEST = (2**31 - 1) // 255**2  # rows of a matrix up to which no sum of products of bytes overflows
Fused = tuple[QuantizedLinear, tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class _Bytes:
    """A tensor of bytes, and where they are there what is subtracted (i32) and multiplied (f32), as broadcast to it."""

    data: Value
    zero: Value | None
    scale: Value | None


def fuse_quantized(graph: Graph) -> Graph:
    """`graph` with products of bytes by constant matrices of bytes as `QuantizedLinear`, and what follows them inside.

    Zero points and scales become operands: the program is the same whatever they and the weights are.
    """
    if not holds(graph, MatMul):
        return graph
    return rewrite(graph, _Fuser(graph).visit)


class _Fuser:
    def __init__(self, graph: Graph) -> None:
        self._uses = use_counts(graph)
        self._facts = Constness(graph.constants)
        self._fused: dict[Value, Fused] = {}  # by what a program has in its place

    def visit(self, node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        if b.parent is not None:
            return None
        self._facts.catch_up(b)
        made = self._product(node, b) or self._follow(node, b)
        if made is None:
            return None
        result = compose.reshape(b, b.emit(made[0], *made[1]), node.outputs[0].type.shape)
        self._fused[result] = made
        self._uses[result] = self._uses[node.outputs[0]]
        return [result]

    def _product(self, node: Node, b: GraphBuilder) -> Fused | None:
        if not isinstance(node.op, MatMul) or node.inputs[0].type.dtype not in (DType.I32, DType.F32):
            return None
        (left, right), shape = node.inputs, node.inputs[0].type.shape
        turn = self._operands(right, Transpose((1, 0)))
        x, w = self._bytes(left), self._bytes(right if turn is None else turn[0])
        if x is None or w is None or w.data.type.rank != 2 or not self._facts.is_constant(w.data):
            return None
        inner, columns = (static(d) for d in right.type.shape)
        zero, scale = self._one(b, x.zero), self._one(b, x.scale)
        axis = 1 if turn is None else 0
        w_zero, w_scale = (self._each(b, v, axis, columns) for v in (w.zero, w.scale))
        if (
            (zero is None) != (x.zero is None)
            or (w_zero is None) != (w.zero is None)
            or not _is_worthwhile(inner, columns)
        ):
            return None
        matrix = w.data if turn is None else compose.transpose(b, w.data, (1, 0))
        rows = compose.reshape(b, x.data, (product(shape[:-1]), inner))
        integers = self._integers(b, rows, zero, matrix, w_zero)
        op = QuantizedLinear(columns, DType.I32, w_zero=len(integers) == 5)
        if node.inputs[0].type.dtype is DType.I32:
            return op, integers
        if scale is None or w_scale is None or inner > DEEPEST or not (self._is_byte(b, x) and self._is_byte(b, w)):
            return None
        unit = compose.binary(b, "mul", scale, w_scale)
        return replace(op, dtype=DType.F32), (*integers, unit, _fill(b, 0, columns))

    def _integers(
        self, b: GraphBuilder, rows: Value, zero: Value | None, matrix: Value, w_zero: Value | None
    ) -> tuple[Value, ...]:
        """The operands up to the zero points. Unsigned weights become signed ones, 128 less, and so do their zero points."""
        columns = static(matrix.type.shape[1])
        wide = compose.cast(b, matrix, DType.I32)
        if matrix.type.dtype is DType.U8:
            wide = compose.with_scalar(b, "sub", wide, 128)
            none = compose.full(b, 0, TensorType(DType.I32, (columns,)))
            w_zero = compose.with_scalar(b, "sub", none if w_zero is None else w_zero, 128)
        centred = wide if w_zero is None else compose.binary(b, "sub", wide, w_zero)
        sums = compose.reshape(b, compose.reduce(b, "sum", centred, (0,)), (columns,))
        zero = compose.full(b, 0, TensorType(DType.I32, (1,))) if zero is None else zero
        operands = rows, _packed(b, compose.cast(b, wide, DType.I8)), zero, sums
        return operands if w_zero is None else (*operands, w_zero)

    def _bytes(self, value: Value) -> _Bytes | None:
        """The bytes of which `value` is (bytes - zero) in i32, or that times a scale in f32."""
        if value.type.dtype is DType.I32:
            return self._whole(value)
        for number, scale in self._pairs(value, "mul"):
            cast = self._operands(number, Cast)
            if cast is None:
                continue
            found = _Bytes(cast[0], None, None) if cast[0].type.dtype in BYTES else self._whole(cast[0])
            if found is not None:
                return replace(found, scale=scale)
        return None

    def _whole(self, value: Value) -> _Bytes | None:
        difference = self._operands(value, Binary("sub"))
        wide, zero = (difference[0], difference[1]) if difference is not None else (value, None)
        cast = self._operands(wide, Cast)
        if value.type.dtype is not DType.I32 or cast is None or cast[0].type.dtype not in BYTES:
            return None
        return _Bytes(cast[0], zero, None)

    def _is_byte(self, b: GraphBuilder, x: _Bytes) -> bool:
        """Whether the zero points of `x` are surely numbers of the type of its data."""
        if x.zero is None:
            return True
        inner, dtype = self._facts.unbroadcast(x.zero), x.data.type.dtype
        while (reshaped := self._operands(inner, Reshape)) is not None:
            (inner,) = reshaped
        known, cast = b.known(inner), self._operands(inner, Cast)
        if known is not None and known.dtype != object:
            low, high = integer_range(dtype)
            return bool(np.all((low <= known) & (known <= high)))
        return cast is not None and cast[0].type.dtype is dtype

    def _follow(self, node: Node, b: GraphBuilder) -> Fused | None:
        """What comes after a fused product that nothing else uses: the step to f32, a factor, a bias, relu, a quantisation."""
        if isinstance(node.op, Cast) and node.op.dtype in BYTES:
            return self._quantized(node, b)
        for value, other in zip(node.inputs, node.inputs[::-1], strict=True):
            made = self._sole(value)
            if made is None or made[0].dtype not in (DType.I32, DType.F32):
                continue
            op, operands = made
            columns = op.columns
            if isinstance(node.op, Cast) and op.dtype is DType.I32 and node.op.dtype is DType.F32:
                return replace(op, dtype=DType.F32), (*operands, _fill(b, 1, columns), _fill(b, 0, columns))
            if op.dtype is DType.I32 or op.relu:
                continue
            if node.op == Unary("relu"):
                return replace(op, relu=True), operands
            if node.op not in (Binary("add"), Binary("mul")):
                continue
            each = self._each(b, other, other.type.rank - 1, columns)
            if each is None:
                continue
            *integers, scale, bias = operands
            if node.op == Binary("add"):
                bias = each if _number(b, bias) == 0 else compose.binary(b, "add", bias, each)
                return op, (*integers, scale, bias)
            if _number(b, bias) == 0:
                scale = each if _number(b, scale) == 1 else compose.binary(b, "mul", scale, each)
                return op, (*integers, scale, bias)
        return None

    def _quantized(self, node: Node, b: GraphBuilder) -> Fused | None:
        """QuantizeLinear by one scale and one zero point: max(min(round(y / scale) + zero, ...), ...) as bytes."""
        value = node.inputs[0]
        assert isinstance(node.op, Cast)
        low, high = integer_range(node.op.dtype)
        for fn, bound in (("min", high), ("max", low)):
            pair = self._used_once(value, Binary(fn))
            if pair is None or _number(b, self._facts.unbroadcast(pair[1])) != bound:
                return None
            value = pair[0]
        shifted = self._used_once(value, Binary("add"))
        rounded = self._used_once(shifted[0] if shifted else value, Unary("round"))
        if rounded is None:
            return None
        quotient = self._used_once(rounded[0], Binary("div"))
        made = self._sole(quotient[0] if quotient else rounded[0])
        if made is None or made[0].dtype is not DType.F32:
            return None
        scale = self._one(b, quotient[1]) if quotient else _fill(b, 1, 1)
        zero = self._one(b, shifted[1]) if shifted else _fill(b, 0, 1)
        return (
            None if scale is None or zero is None else (replace(made[0], dtype=node.op.dtype), (*made[1], scale, zero))
        )

    def _sole(self, value: Value) -> Fused | None:
        return self._fused.get(value) if self._uses[value] <= 1 else None

    def _used_once(self, value: Value, op: Op) -> tuple[Value, ...] | None:
        return self._operands(value, op) if self._uses[value] <= 1 else None

    def _operands(self, value: Value, op: Op | type[Op]) -> tuple[Value, ...] | None:
        """The operands, where this operation, or one of this kind, made `value`."""
        node = self._facts.producer(value)
        if node is None or not (isinstance(node.op, op) if isinstance(op, type) else node.op == op):
            return None
        return node.inputs

    def _pairs(self, value: Value, fn: str) -> Sequence[tuple[Value, ...]]:
        """The operands of a commutative function in both orders."""
        found = self._operands(value, Binary(fn))
        return () if found is None else (found, found[::-1])

    def _one(self, b: GraphBuilder, value: Value | None) -> Value | None:
        """The one number that `value` repeats, as a vector; None where there is no such."""
        inner = None if value is None else self._facts.unbroadcast(value)
        return None if inner is None or inner.type.elements != 1 else compose.reshape(b, inner, (1,))

    def _each(self, b: GraphBuilder, value: Value | None, axis: int, size: int) -> Value | None:
        """The vector [size] that `value` repeats along all axes but one; None where it does not."""
        if value is None:
            return None
        inner = self._facts.unbroadcast(value)
        one = all(d == 1 for i, d in enumerate(inner.type.shape) if i != axis) and inner.type.shape[axis] in (1, size)
        return compose.expand(b, compose.reshape(b, inner, (inner.type.shape[axis],)), (size,)) if one else None


def _is_worthwhile(inner: int, columns: int) -> bool:
    """Whether the packed weights become a constant: padded, they may not be much larger than they were."""
    size = inner * columns
    return size > 0 and math.prod(packed_shape(inner, columns)) <= max(SMALL_BYTES, GROWTH * size)


def _packed(b: GraphBuilder, matrix: Value) -> Value:
    """Bytes [K, N] in the order of `packed_shape`."""
    inner, columns = (static(d) for d in matrix.type.shape)
    panels, quads, width, depth = packed_shape(inner, columns)
    fill = (quads * depth - inner, panels * width - columns)
    whole = b.emit(Pad((0, 0), fill), matrix, compose.scalar(b, 0, DType.I8)) if any(fill) else matrix
    return compose.transpose(b, compose.reshape(b, whole, (quads, depth, panels, width)), (2, 0, 3, 1))


def _fill(b: GraphBuilder, number: int, size: int) -> Value:
    return b.literal(np.full(size, number, np.float32))


def _number(b: GraphBuilder, value: Value) -> float | None:
    """The number that a literal holds everywhere."""
    content = b.known(value)
    if content is None or content.size == 0 or content.dtype == object or not np.all(content == content.flat[0]):
        return None
    return float(content.flat[0])
