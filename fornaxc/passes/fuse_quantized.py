"""Turns products of 8-bit integers by constant matrices, and convolutions with constant filters, into one kernel of exact sums.

Two forms are recognised: the integer products that importers write, (x - zero) (w - zero) in i32, and the product in f32 of what
DequantizeLinear gives, (x - zero) * scale and (w - zero) * scale. A convolution is the product of its windows, channels last, by its filters. After either come factors, biases, relu and QuantizeLinear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, product, static
from fornaxc.ir.graph import Graph, Node, Value
from fornaxc.ir.ops import Binary, Cast, Conv, Im2col, MatMul, Op, Pad, QuantizedLinear, Reshape, Transpose, Unary
from fornaxc.ir.ops.elementwise import integer_range
from fornaxc.ir.ops.quantized import packed_shape
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.constness import Constness
from fornaxc.passes.prepack import GROWTH, SMALL_BYTES
from fornaxc.passes.rewrite import holds, rewrite, use_counts

BYTES = (DType.U8, DType.I8)
DEEPEST = (2**31 - 1) // 255**2  # rows of a matrix up to which no sum of products of bytes overflows
DEEPEST_IN_F32 = 2**24 // 255**2  # products of bytes up to which f32 holds their sum exactly


@dataclass(frozen=True, slots=True)
class _Bytes:
    """A tensor of bytes, and where they are there what is subtracted (i32) and multiplied (f32), as broadcast to it."""

    data: Value
    zero: Value | None
    scale: Value | None


@dataclass(frozen=True, slots=True)
class _Fused:
    """A product, its operands, and which axis of what it stands for its columns are."""

    op: QuantizedLinear
    operands: tuple[Value, ...]
    axis: int


def fuse_quantized(graph: Graph) -> Graph:
    """`graph` with products and convolutions of bytes with constant bytes as `QuantizedLinear`, and what follows them inside.

    Zero points and scales become operands: the program is the same whatever they and the weights are.
    """
    if not holds(graph, MatMul, Conv):
        return graph
    return rewrite(graph, _Fuser(graph).visit)


class _Fuser:
    def __init__(self, graph: Graph) -> None:
        self._uses = use_counts(graph)
        self._facts = Constness(graph.constants)
        self._fused: dict[Value, _Fused] = {}  # by what a program has in its place

    def visit(self, node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        if b.parent is not None:
            return None
        self._facts.catch_up(b)
        made = self._product(node, b) or self._convolution(node, b) or self._follow(node, b)
        if made is None:
            return self._in_floats(node, b)
        shape = node.outputs[0].type.shape
        rows = compose.reshape(b, b.emit(made.op, *made.operands), (*_without(shape, made.axis), made.op.columns))
        result = compose.move_axis(b, rows, len(shape) - 1, made.axis)
        self._fused[result] = made
        self._uses[result] = self._uses[node.outputs[0]]
        return [result]

    def _product(self, node: Node, b: GraphBuilder) -> _Fused | None:
        if not isinstance(node.op, MatMul):
            return None
        left, right = node.inputs
        turn = self._operands(right, Transpose((1, 0)))
        x, w = self._bytes(left), self._bytes(right if turn is None else turn[0])
        if x is None or w is None or w.data.type.rank != 2 or not self._facts.is_constant(w.data):
            return None
        inner, columns = (static(d) for d in right.type.shape)

        def rows() -> Value:
            return compose.reshape(b, x.data, (product(left.type.shape[:-1]), inner))

        def matrix() -> Value:
            return w.data if turn is None else compose.transpose(b, w.data, (1, 0))

        return self._sums(node, b, x, w, 1 if turn is None else 0, inner, columns, rows, matrix)

    def _convolution(self, node: Node, b: GraphBuilder) -> _Fused | None:
        """Of one image or line of pixels by filters of all its channels."""
        op = node.op
        if not isinstance(op, Conv) or op.groups != 1 or node.inputs[0].type.rank > 4:
            return None
        x, w = (self._bytes(v) for v in node.inputs)
        if x is None or w is None or not self._facts.is_constant(w.data):
            return None
        columns, channels, *window = (static(d) for d in w.data.type.shape)
        inner = channels * math.prod(window)
        if any((*op.low, *op.high)) and not self._is_byte(b, x):  # the zero point lies around x
            return None

        def rows() -> Value:
            return _windows(b, op, tuple(window), x.data, self._one(b, x.zero))

        def matrix() -> Value:
            return compose.reshape(
                b, compose.transpose(b, w.data, (*range(2, w.data.type.rank), 1, 0)), (inner, columns)
            )

        return self._sums(node, b, x, w, 0, inner, columns, rows, matrix)

    def _in_floats(self, node: Node, b: GraphBuilder) -> Sequence[Value] | None:
        """A convolution of bytes in i32 as one in f32, which is exact where the sums are below 2**24: in groups, over a volume, of filters that are no constant."""
        if not isinstance(node.op, Conv) or node.outputs[0].type.dtype is not DType.I32:
            return None
        inner = product(node.inputs[1].type.shape[1:])
        numbers = [self._bytes(v) for v in node.inputs]
        if not isinstance(inner, int) or inner > DEEPEST_IN_F32:
            return None
        if not all(x is not None and self._is_byte(b, x) for x in numbers):
            return None
        floats = (compose.cast(b, v, DType.F32) for v in node.inputs)
        return [compose.cast(b, b.emit(node.op, *floats), DType.I32)]

    def _sums(
        self,
        node: Node,
        b: GraphBuilder,
        x: _Bytes,
        w: _Bytes,
        axis: int,
        inner: int,
        columns: int,
        rows: Callable[[], Value],
        matrix: Callable[[], Value],
    ) -> _Fused | None:
        """The product of `rows` [M, inner] of x by the `matrix` [inner, columns] of w, whose columns are along its `axis`."""
        dtype = node.outputs[0].type.dtype
        if dtype not in (DType.I32, DType.F32) or not _is_worthwhile(inner, columns):
            return None
        zero, scale = self._one(b, x.zero), self._one(b, x.scale)
        w_zero, w_scale = (None if v is None else self._facts.along(b, v, axis, columns) for v in (w.zero, w.scale))
        if (zero is None) != (x.zero is None) or (w_zero is None) != (w.zero is None):
            return None
        at = node.outputs[0].type.rank - 1 if isinstance(node.op, MatMul) else 1
        if dtype is DType.F32 and (
            scale is None or w_scale is None or inner > DEEPEST or not (self._is_byte(b, x) and self._is_byte(b, w))
        ):
            return None
        integers = self._integers(b, rows(), zero, matrix(), w_zero)
        op = QuantizedLinear(columns, dtype, w_zero=len(integers) == 5)
        if dtype is DType.I32:
            return _Fused(op, integers, at)
        assert scale is not None
        assert w_scale is not None
        return _Fused(op, (*integers, compose.binary(b, "mul", scale, w_scale), _fill(b, 0, columns)), at)

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

    def _follow(self, node: Node, b: GraphBuilder) -> _Fused | None:
        """What comes after a fused product that nothing else uses: the step to f32, a factor, a bias, relu, a quantisation."""
        if isinstance(node.op, Cast):
            return self._floats(node, b) if node.op.dtype is DType.F32 else self._quantized(node, b)
        for value, other in zip(node.inputs, node.inputs[::-1], strict=True):
            made = self._sole(value)
            if made is None or made.op.dtype is not DType.F32 or made.op.relu:
                continue
            if node.op == Unary("relu"):
                return replace(made, op=replace(made.op, relu=True))
            if node.op not in (Binary("add"), Binary("mul")):
                continue
            each = self._facts.along(b, other, made.axis, made.op.columns)
            if each is None:
                continue
            *integers, scale, bias = made.operands
            if node.op == Binary("add"):
                bias = each if _number(b, bias) == 0 else compose.binary(b, "add", bias, each)
                return replace(made, operands=(*integers, scale, bias))
            if _number(b, scale) == 1:  # the step of sums of whole numbers
                bias = bias if _number(b, bias) == 0 else compose.binary(b, "mul", bias, each)
                return replace(made, operands=(*integers, each, bias))
            if _number(b, bias) == 0:
                return replace(made, operands=(*integers, compose.binary(b, "mul", scale, each), bias))
        return None

    def _floats(self, node: Node, b: GraphBuilder) -> _Fused | None:
        """The step to f32 of a product in i32, or of one and a bias in i32."""
        (value,) = node.inputs
        for summed, other in self._pairs(value, "add") if self._uses[value] <= 1 else ():
            made = self._sole(summed)
            each = None if made is None else self._facts.along(b, other, made.axis, made.op.columns)
            if made is not None and made.op.dtype is DType.I32 and each is not None:
                return self._as_floats(b, made, compose.cast(b, each, DType.F32))
        made = self._sole(value)
        if made is None or made.op.dtype is not DType.I32:
            return None
        return self._as_floats(b, made, _fill(b, 0, made.op.columns))

    def _as_floats(self, b: GraphBuilder, made: _Fused, bias: Value) -> _Fused:
        operands = (*made.operands, _fill(b, 1, made.op.columns), bias)
        return replace(made, op=replace(made.op, dtype=DType.F32), operands=operands)

    def _quantized(self, node: Node, b: GraphBuilder) -> _Fused | None:
        """QuantizeLinear by one scale and one zero point: max(min(round(y / scale) + zero, ...), ...) as bytes."""
        value = node.inputs[0]
        assert isinstance(node.op, Cast)
        if node.op.dtype not in BYTES:
            return None
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
        if made is None or made.op.dtype is not DType.F32:
            return None
        scale = self._one(b, quotient[1]) if quotient else _fill(b, 1, 1)
        zero = self._one(b, shifted[1]) if shifted else _fill(b, 0, 1)
        if scale is None or zero is None:
            return None
        return replace(made, op=replace(made.op, dtype=node.op.dtype), operands=(*made.operands, scale, zero))

    def _sole(self, value: Value) -> _Fused | None:
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


def _is_worthwhile(inner: int, columns: int) -> bool:
    """Whether the packed weights become a constant: padded, they may not be much larger than they were."""
    size = inner * columns
    return size > 0 and math.prod(packed_shape(inner, columns)) <= max(SMALL_BYTES, GROWTH * size)


def _without(shape: Sequence[Dim], axis: int) -> tuple[Dim, ...]:
    return tuple(d for i, d in enumerate(shape) if i != axis)


def _windows(b: GraphBuilder, op: Conv, window: tuple[int, ...], x: Value, zero: Value | None) -> Value:
    """The windows of bytes [N, C, ...] as rows, channels last; a line of pixels is an image of one row."""
    n, channels, *pixels = x.type.shape
    image = compose.move_axis(b, x, 1, x.type.rank - 1)
    if all(f == 1 for f in (*window, *op.strides)) and not any((*op.low, *op.high)):
        return compose.reshape(b, image, (product((n, *pixels)), channels))
    lines: tuple[Dim, ...] = (1,) * (2 - len(pixels))
    fill = compose.scalar(b, 0, x.type.dtype) if zero is None else compose.cast(b, zero, x.type.dtype)
    return b.emit(
        Im2col(
            *(
                _of_image(*field)
                for field in ((window, 1), (op.strides, 1), (op.low, 0), (op.high, 0), (op.dilations, 1))
            )
        ),
        compose.reshape(b, image, (n, *lines, *pixels, channels)),
        compose.reshape(b, fill, ()),
    )


def _of_image(field: tuple[int, ...], of_line: int) -> tuple[int, int]:
    """The sizes for both axes of an image: those of a line, which is one row, and `of_line` for the other."""
    down, across = (of_line, *field)[-2:]
    return down, across


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
