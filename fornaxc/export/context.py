"""What an export rule sees: the node, and how to add ONNX nodes, constants and sizes to the model."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from fornaxc.errors import UnsupportedError
from fornaxc.export.kernels import KERNELS, RUNTIME_TYPES, carrier
from fornaxc.importers.onnx.types import element_number
from fornaxc.ir.dims import Call, Dim, Symbol, product, single_symbol, symbols
from fornaxc.ir.graph import Array, Constant, Graph, Node, Value
from fornaxc.ir.ops import BroadcastTo, Reshape
from fornaxc.ir.types import DType, TensorType, dtype_of

SIGN_BIT = 1 << 63


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named tensor of the ONNX model."""

    name: str
    dtype: DType


class ExportContext:
    """The state of one export. Rules read `node` and use the helpers; they keep nothing of it.

    `constants` are the initializers by name, in order; they load when the model is written. All stand at the top level,
    where the bodies of control flow see them. Where it is not `exact`, rules use the operator that means the operation, though onnxruntime's
    kernel may treat NaN otherwise.
    """

    def __init__(self, reserved: Sequence[str] = (), exact: bool = True) -> None:
        self.exact = exact
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Constant] = {}
        self.node: Node | None = None
        self.producers: dict[Value, Node] = {}
        self._known: dict[Value, Constant] = {}
        self._initializers: dict[Value, Tensor] = {}
        self._literals: dict[tuple[DType, tuple[int, ...], bytes], Tensor] = {}
        self._taken = set(reserved)
        self._count = 0
        self._tensors: ChainMap[Value, Tensor] = ChainMap()
        self._bringers: ChainMap[str, tuple[Tensor, int]] = ChainMap()
        self._sizes: ChainMap[Dim, Tensor] = ChainMap()

    # -- values

    def fresh(self, hint: str) -> str:
        """A name that nothing has yet."""
        while True:
            name = f"{hint}_{self._count}"
            self._count += 1
            if name not in self._taken:
                self._taken.add(name)
                return name

    def bind(self, value: Value, tensor: Tensor) -> None:
        """`tensor` is what `value` became; it brings the sizes that stand alone in its type."""
        self._tensors[value] = tensor
        for axis, dim in enumerate(value.type.shape):
            name = single_symbol(dim)
            if name is not None and name not in self._bringers:
                self._bringers[name] = (tensor, axis)

    def declare(self, value: Value, constant: Constant) -> None:
        """A constant of the graph becomes an initializer."""
        if value not in self._known:
            self._known[value] = constant
            self._initializers[value] = self._initializer(constant, "literal" if constant.literal else "weight")
        self.bind(value, self._initializers[value])

    def _initializer(self, constant: Constant, hint: str) -> Tensor:
        self.check(constant.type.dtype)
        name = self.fresh(hint)
        self.constants[name] = constant
        return Tensor(name, constant.type.dtype)

    def read(self, value: Value) -> Tensor:
        return self._tensors[value]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is bound inside is forgotten at the end."""
        saved = self._tensors, self._bringers, self._sizes
        self._tensors, self._bringers = self._tensors.new_child(), self._bringers.new_child()
        self._sizes = self._sizes.new_child()
        try:
            yield
        finally:
            self._tensors, self._bringers, self._sizes = saved

    # -- nodes

    def emit(self, op_type: str, *operands: Tensor | None, dtype: DType | None = None, **attributes: Any) -> Tensor:
        """Add a node with one result, of `dtype` or else of its operands' type.

        Where onnxruntime has no kernel for the element type, the operands are cast to one that carries it.
        """
        kernel = KERNELS[op_type]
        chosen = range(len(operands)) if kernel.operands is None else kernel.operands
        first = next(operands[i] for i in chosen)
        assert first is not None
        try:
            wide = carrier(op_type, first.dtype)
        except KeyError:
            self.refuse(f"onnxruntime has no {op_type} of {first.dtype}")
        cast = [
            self._carried(t, wide, kernel.ordered) if t is not None and i in chosen else t
            for i, t in enumerate(operands)
        ]
        result = self.raw(op_type, cast, (wide if kernel.follows else dtype or DType.BOOL,), **attributes)[0]
        return self._carried(result, dtype or first.dtype, kernel.ordered) if kernel.follows else result

    def raw(
        self, op_type: str, operands: Sequence[Tensor | None], dtypes: Sequence[DType], **attributes: Any
    ) -> tuple[Tensor, ...]:
        """Add a node as it is, its results of these types."""
        results = tuple(Tensor(self.fresh(op_type.lower()), d) for d in dtypes)
        inputs = ["" if t is None else t.name for t in operands]
        node = helper.make_node(op_type, inputs, [r.name for r in results], name=results[0].name, **attributes)
        if self.node is not None and self.node.origin.op:
            node.doc_string = str(self.node.origin)
        self.nodes.append(node)
        return results

    def _carried(self, x: Tensor, dtype: DType, ordered: bool) -> Tensor:
        if x.dtype is dtype:
            return x
        if ordered and DType.U64 in (x.dtype, dtype) and DType.I64 in (x.dtype, dtype):
            top = self.literal(np.array(SIGN_BIT, np.uint64))
            if x.dtype is DType.U64:
                flipped = self.emit("BitwiseXor", x, top)
                return self.raw("Cast", [flipped], (DType.I64,), to=element_number(DType.I64))[0]
            bits = self.raw("Cast", [x], (DType.U64,), to=element_number(DType.U64))[0]
            return self.emit("BitwiseXor", bits, top)
        return self.cast(x, dtype)

    def cast(self, x: Tensor, dtype: DType) -> Tensor:
        """A conversion that loses nothing, or of integers, which wrap, or of floats to narrower floats, without saturation."""
        self.check(dtype)
        if x.dtype is dtype:
            return x
        if dtype.is_float and dtype.bits <= 8:
            return self.small_float(self.cast(x, DType.F32), dtype, saturate=False)
        if dtype.is_integer and dtype.bits < 8 and not x.dtype.is_float and x.dtype.bits >= 8:
            x = self._wrapped(x, dtype)
        return self.raw("Cast", [x], (dtype,), to=element_number(dtype))[0]

    def small_float(self, x: Tensor, dtype: DType, saturate: bool) -> Tensor:
        """f32 as a float of 8 bits; f8e8m0fnu, which has neither 0 nor a sign, is NaN there."""
        self.check(dtype)
        number = element_number(dtype)
        if dtype is not DType.F8E8M0FNU:
            return self.raw("Cast", [x], (dtype,), to=number, saturate=int(saturate))[0]
        positive = self.emit("Greater", x, self.scalar(0, DType.F32))
        x = self.select(positive, x, self.scalar(np.nan, DType.F32))
        return self.raw("Cast", [x], (dtype,), to=number, saturate=int(saturate), round_mode="nearest")[0]

    def _wrapped(self, x: Tensor, dtype: DType) -> Tensor:
        """`x` modulo the range of a type below a byte, as i32."""
        wide = self.cast(x, DType.I32)
        low = self.emit("BitwiseAnd", wide, self.scalar((1 << dtype.bits) - 1, DType.I32))
        if not dtype.is_signed:
            return low
        half = self.scalar(1 << (dtype.bits - 1), DType.I32)
        return self.emit("Sub", self.emit("BitwiseXor", low, half), half)

    def check(self, dtype: DType) -> None:
        """Refuse an element type that no tensor of onnxruntime has."""
        if dtype not in RUNTIME_TYPES:
            self.refuse(f"onnxruntime has no tensors of {dtype}")

    # -- constants

    def literal(self, array: Array) -> Tensor:
        """A small array as an initializer; equal ones are one."""
        array = np.asarray(array)
        key = (dtype_of(array.dtype), array.shape, array.tobytes())
        if key not in self._literals:
            type = TensorType(key[0], array.shape)
            self._literals[key] = self._initializer(Constant(type, lambda: array, True), "const")
        return self._literals[key]

    def scalar(self, value: float, dtype: DType) -> Tensor:
        """A rank-0 constant."""
        return self.literal(np.array(value).astype(dtype.numpy))

    def derived(self, value: Value, type: TensorType, function: Callable[[Array], Array]) -> Tensor | None:
        """A weight computed from a constant of the graph when the model is written; None where `value` is no constant."""
        constant = self._known.get(value)
        if constant is None:
            return None
        return self._initializer(Constant(type, lambda: function(constant.load()), False, constant.name), "weight")

    def constant_array(self, value: Value) -> Array | None:
        """The elements of a literal, looking through reshapes and broadcasts of one element (which is then all there is)."""
        while value in self.producers:
            node = self.producers[value]
            if not isinstance(node.op, Reshape | BroadcastTo) or node.inputs[0].type.elements != 1:
                return None
            value = node.inputs[0]
        constant = self._known.get(value)
        return constant.load() if constant is not None and constant.literal else None

    # -- sizes

    def shape(self, dims: Sequence[Dim]) -> Tensor:
        """The i64 vector of these dims."""
        if all(isinstance(d, int) for d in dims):
            return self.literal(np.array(dims, np.int64).reshape(len(dims)))
        parts = [self.size(d) for d in dims]
        return parts[0] if len(parts) == 1 else self.emit("Concat", *parts, axis=0)

    def size(self, dim: Dim) -> Tensor:
        """One dim as an i64 [1]."""
        if isinstance(dim, int):
            return self.literal(np.array([dim], np.int64))
        if dim not in self._sizes:
            self._sizes[dim] = self._compute(dim)
        return self._sizes[dim]

    def _compute(self, dim: Dim) -> Tensor:
        assert not isinstance(dim, int)
        name = single_symbol(dim)
        if name is not None:
            return self._symbol(name)
        total: Tensor | None = None
        for monomial, factor in dim.terms:
            term: Tensor | None = None if factor == 1 and monomial else self.size(factor)
            for atom in monomial:
                size = self._atom(atom)
                term = size if term is None else self.emit("Mul", term, size)
            assert term is not None
            total = term if total is None else self.emit("Add", total, term)
        assert total is not None
        return total

    def _atom(self, atom: Symbol | Call) -> Tensor:
        if isinstance(atom, Symbol):
            return self._symbol(atom.name)
        left, right = self.size(atom.left), self.size(atom.right)
        if atom.fn == "floordiv":
            return self.emit("Div", self.emit("Sub", left, self.emit("Mod", left, right)), right)
        return self.emit("Min" if atom.fn == "min" else "Max", left, right)

    def _symbol(self, name: str) -> Tensor:
        if name not in self._bringers:
            self.refuse(f"no tensor brings the size {name}")
        tensor, axis = self._bringers[name]
        return self.emit("Shape", tensor, dtype=DType.I64, start=axis, end=axis + 1)

    def is_brought(self, dim: Dim) -> bool:
        """True where every symbol of `dim` can be computed here."""
        return all(name in self._bringers for name in symbols(dim))

    # -- small compositions

    def reshape(self, x: Tensor, dims: Sequence[Dim]) -> Tensor:
        return self.emit("Reshape", x, self.shape(dims), allowzero=1)

    def expand(self, x: Tensor, dims: Sequence[Dim]) -> Tensor:
        return self.emit("Expand", x, self.shape(dims))

    def select(self, condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
        return self.emit("Where", condition, yes, no)

    def slice(
        self, x: Tensor, starts: Tensor, ends: Tensor, axes: Sequence[int], steps: Sequence[int] | None = None
    ) -> Tensor:
        where = self.literal(np.array(axes, np.int64))
        stride = self.literal(np.array(steps or [1] * len(axes), np.int64))
        return self.emit("Slice", x, starts, ends, where, stride)

    def elements(self, dims: Sequence[Dim]) -> Tensor:
        """The product of dims as an i64 [1]."""
        return self.size(product(dims))

    # -- bodies of control flow

    def subgraph(
        self, name: str, inputs: Sequence[Tensor], build: Callable[[], Sequence[Tensor]], scalars: int = 0
    ) -> onnx.GraphProto:
        """The graph of a body whose inputs are these tensors (the first `scalars` of rank 0) and whose nodes `build` makes."""
        outer, self.nodes = self.nodes, []
        with self.scope():
            outputs = [self.raw("Identity", [self.passable(t)], (passing(t.dtype),))[0] for t in build()]
            kept = live(self.nodes, [t.name for t in outputs])
        self.nodes = outer
        return helper.make_graph(kept, self.fresh(name), _infos(inputs, scalars), _infos(outputs))

    def loop(
        self,
        trips: Tensor | None,
        condition: Tensor | None,
        carried: Sequence[Tensor],
        build: Callable[..., tuple[Tensor | None, Sequence[Tensor], Sequence[Tensor]]],
    ) -> tuple[list[Tensor], list[Tensor]]:
        """ONNX Loop. `build(index, *carried)` gives the next condition (None: go on), what is carried on, and what is stacked.

        Returns the last carried values and the stacked ones.
        """
        index, going = Tensor(self.fresh("index"), DType.I64), Tensor(self.fresh("going"), DType.BOOL)
        inner = [Tensor(self.fresh("carried"), passing(t.dtype)) for t in carried]
        stacked: list[DType] = []

        def run() -> Sequence[Tensor]:
            again, following, stack = build(
                index, *(self.cast(t, o.dtype) for t, o in zip(inner, carried, strict=True))
            )
            stacked.extend(t.dtype for t in stack)
            return [going if again is None else again, *following, *stack]

        graph = self.subgraph("loop", [index, going, *inner], run, scalars=2)
        dtypes = [*(t.dtype for t in carried), *stacked]
        given = [self.passable(t) for t in carried]
        found = self.raw("Loop", [trips, condition, *given], [passing(d) for d in dtypes], body=graph)
        results = [self.cast(t, d) for t, d in zip(found, dtypes, strict=True)]
        return results[: len(carried)], results[len(carried) :]

    def passable(self, x: Tensor) -> Tensor:
        """`x` in a type that goes in and out of the bodies of control flow."""
        return self.cast(x, passing(x.dtype))

    def region(self, graph: Graph, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of a region on these inputs, its nodes made here."""
        from fornaxc.export.onnx import export_body

        for value, tensor in zip(graph.inputs, inputs, strict=True):
            self.bind(value, tensor)
        return export_body(self, graph)

    def refuse(self, reason: str) -> None:
        """Stop: the node cannot be exported."""
        origin = str(self.node.origin) if self.node else ""
        raise UnsupportedError(
            f"{origin or 'the graph'} cannot be exported to ONNX: {reason}",
            code="FX330",
            details=[{"node": origin, "ir": str(self.node.op) if self.node else "", "reason": reason}],
        )


def passing(dtype: DType) -> DType:
    """The type in which values of `dtype` go in and out of the bodies of control flow."""
    return carrier("Identity", dtype)


def _infos(tensors: Sequence[Tensor], scalars: int = 0) -> list[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info(t.name, element_number(t.dtype), [] if i < scalars else None)
        for i, t in enumerate(tensors)
    ]


def live(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> list[onnx.NodeProto]:
    """The nodes that the outputs depend on."""
    used, kept = set(outputs), []
    for node in reversed(nodes):
        if used.intersection(node.output):
            used.update(uses(node))
            kept.append(node)
    return kept[::-1]


def uses(node: onnx.NodeProto) -> set[str]:
    """The names that a node reads, those of its bodies included."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            for inner in attribute.g.node:
                names |= uses(inner)
            names.update(o.name for o in attribute.g.output)
    return names
