"""What a handler sees of the node that it imports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fornaxc.importers.onnx.registry import Item, TensorList
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, DimExpr, static
from fornaxc.ir.graph import Array, Value
from fornaxc.ir.types import DType

if TYPE_CHECKING:
    from fornaxc.importers.onnx.graph import GraphImporter
    from fornaxc.importers.onnx.structure import RawGraph, RawNode
    from fornaxc.importers.onnx.tensors import TensorSource


class Refused(Exception):
    """A node that fornaxc does not support; the text is the reason."""


class Invalid(Exception):
    """A node that breaks the ONNX specification; the text says how."""


# NodeContext.int and NodeContext.float hide the built-in types inside the class
Int = int
Float = float


class NodeContext:
    """One node: its inputs as IR values, its attributes, and the builder to emit into.

    Every attribute must be read by the handler: one that was not is refused, never ignored.
    """

    def __init__(self, importer: GraphImporter, node: RawNode, inputs: tuple[Item | None, ...]) -> None:
        self.importer = importer
        self.node = node
        self.b: GraphBuilder = importer.b
        self.inputs = inputs
        self._read: set[str] = set()

    # --- operands

    def input(self, index: Int) -> Value:
        """A required input."""
        value = self.optional(index)
        if value is None:
            raise Invalid(f"input {index} is missing")
        return value

    def optional(self, index: Int) -> Value | None:
        """An input, None where it is omitted."""
        item = self.item(index)
        if item is not None and not isinstance(item, Value):
            raise Refused(f"input {index} is {item}")
        return item

    def item(self, index: Int) -> Item | None:
        """An input that may be a sequence, None where it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def sequence(self, index: Int) -> tuple[Value, ...]:
        """The tensors of an input that is a sequence."""
        item = self.item(index)
        if not isinstance(item, TensorList):
            raise Invalid(f"input {index} is not a sequence")
        return item.elements

    @property
    def variadic(self) -> list[Value]:
        """All inputs of an operator that takes any number."""
        return [self.input(i) for i in range(len(self.inputs))]

    @property
    def output_count(self) -> Int:
        return len(self.node.outputs)

    def wants_output(self, index: Int) -> bool:
        """Whether the node names its output `index`."""
        return index < len(self.node.outputs) and bool(self.node.outputs[index])

    def constant(self, index: Int, what: str) -> Array:
        """The content of an input that must be known at compile time. It becomes part of the program."""
        value = self.input(index)
        found = self.content(value)
        if found is None or found.dtype == object:
            raise Refused(f"{what} (input {index}) is computed at run time; only a constant is supported")
        return found

    def content(self, value: Value) -> Array | None:
        """The content of a value: a numpy array, an object array of dims, or None where it is not known."""
        found = self.b.known(value)
        return found if found is not None else self.importer.weight_content(value)

    def dims(self, index: Int, what: str) -> tuple[Dim, ...]:
        """The entries of a rank-1 (or rank-0) integer input as dims; `Refused` where only the run time knows them."""
        found = self.dims_or_none(index)
        if found is None:
            raise Refused(f"{what} (input {index}) is computed at run time from data")
        return found

    def dims_or_none(self, index: Int) -> tuple[Dim, ...] | None:
        """As `dims`, None where only the run time knows them."""
        found = self.content(self.input(index))
        return None if found is None else tuple(found.reshape(-1).tolist())

    def ints_or_none(self, index: Int) -> tuple[Int, ...] | None:
        """The entries of a rank-1 (or rank-0) integer input as numbers; None where only the run time or a symbolic size tells one."""
        found = self.dims_or_none(index)
        if found is None or any(isinstance(v, DimExpr) for v in found):
            return None
        return tuple(static(v) for v in found)

    # --- attributes

    def has(self, name: str) -> bool:
        return name in self.node.attributes

    def ignore(self, *names: str) -> None:
        """Declare attributes that carry no meaning for inference."""
        self._read.update(names)

    def attribute(self, name: str) -> Any:
        """The raw attribute, None where it is absent."""
        from onnx import helper

        self._read.add(name)
        proto = self.node.attributes.get(name)
        return None if proto is None else helper.get_attribute_value(proto)

    def int(self, name: str, default: Int | None = None) -> Int:
        return int(self._required(name, default))

    def float(self, name: str, default: Float | None = None) -> Float:
        return float(np.float32(self._required(name, default)))

    def string(self, name: str, default: str | None = None) -> str:
        value = self._required(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def ints(self, name: str, default: Sequence[Int] | None = None) -> tuple[Int, ...]:
        return tuple(int(v) for v in self._required(name, default))

    def floats(self, name: str, default: Sequence[Float] | None = None) -> tuple[Float, ...]:
        return tuple(float(np.float32(v)) for v in self._required(name, default))

    def strings(self, name: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        return tuple(v.decode() if isinstance(v, bytes) else str(v) for v in self._required(name, default))

    def dtype(self, name: str, default: Int | None = None) -> DType:
        """An attribute that holds a TensorProto.DataType."""
        return self.element_type(self.int(name, default))

    def element_type(self, number: Int) -> DType:
        """The IR's element type for a TensorProto.DataType."""
        from onnx import TensorProto

        from fornaxc.importers.onnx.types import element_type

        found = element_type(number)
        if found is None:
            label = TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() else number
            raise Refused(f"the element type {label} is not supported")
        return found

    def tensor(self, name: str) -> TensorSource:
        """A tensor attribute, dense or sparse."""
        self._read.add(name)
        return self.node.tensor(name)

    def graph(self, name: str) -> RawGraph:
        """A subgraph attribute."""
        self._read.add(name)
        return self.importer.subgraph(self.node, name)

    def _required(self, name: str, default: Any) -> Any:
        value = self.attribute(name)
        if value is None:
            if default is None:
                raise Invalid(f"the attribute {name} is missing")
            return default
        return value

    def unread(self) -> list[str]:
        """Attributes that the handler did not look at."""
        return sorted(set(self.node.attributes) - self._read)

    # --- findings

    def warn(self, text: str) -> None:
        """Tell the user something about this node that does not keep it from being compiled."""
        self.importer.findings.warn(f"{self.node.op_type} {self.node.name!r}: {text}")

    # --- checks

    def axis(self, value: Int, rank: Int) -> Int:
        """An axis attribute as a non-negative axis of a tensor of this rank."""
        if not -rank <= value < rank:
            raise Invalid(f"axis {value} is outside a tensor of rank {rank}")
        return value % rank if rank else 0

    def axes(self, values: Sequence[Int], rank: Int) -> tuple[Int, ...]:
        """Sorted non-negative axes."""
        found = sorted(self.axis(int(v), rank) for v in values)
        if len(set(found)) != len(found):
            raise Invalid(f"an axis appears twice in {list(values)}")
        return tuple(found)

    def refuse_unless(self, condition: bool, reason: str) -> None:
        if not condition:
            raise Refused(reason)

    def require(self, condition: bool, problem: str) -> None:
        if not condition:
            raise Invalid(problem)

    def literal(self, array: Array) -> Value:
        return self.b.literal(array)
