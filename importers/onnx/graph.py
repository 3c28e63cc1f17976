"""Imports one ONNX graph (the model's, or the body of control flow) node by node into a builder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fornaxc.importers.onnx.context import Invalid, NodeContext, Refused
from fornaxc.importers.onnx.registry import Handler, Item, handled_versions, handler_for
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import SymbolicDimError
from fornaxc.ir.graph import Array, Origin, Value
from fornaxc.ir.ops import IrError
from fornaxc.ir.types import DType, TensorType

if TYPE_CHECKING:
    from fornaxc.importers.onnx.structure import RawGraph, RawNode
    from fornaxc.importers.onnx.tensors import TensorSource

BROKEN_BODY = "its body holds a node that is not supported"
LITERAL_ELEMENTS = 64  # integer and bool constants up to this size are part of the program


class Findings:
    """What was refused and what was invalid, over the whole model."""

    def __init__(self) -> None:
        self.refused: list[dict[str, Any]] = []
        self.invalid: list[dict[str, Any]] = []
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def marks(self) -> tuple[int, int]:
        """How many there are now, for `invalid_since` and `forget_since`."""
        return len(self.refused), len(self.invalid)

    def invalid_since(self, marks: tuple[int, int]) -> dict[str, Any] | None:
        """The first violation since then, where there is nothing but violations and bodies that hold one; else None."""
        only = all(entry["reason"] == BROKEN_BODY for entry in self.refused[marks[0] :])
        return next(iter(self.invalid[marks[1] :]), None) if only else None

    def forget_since(self, marks: tuple[int, int]) -> None:
        del self.refused[marks[0] :], self.invalid[marks[1] :]

    def add(self, kind: str, node: RawNode, reason: str) -> None:
        entry = {
            "node": node.name,
            "op": node.op_type,
            "domain": node.domain or "ai.onnx",
            "opset": node.opset,
            "reason": reason,
        }
        (self.refused if kind == "refused" else self.invalid).append(entry)


class GraphImporter:
    """Turns the nodes of one `RawGraph` into IR; bodies of control flow have an importer of their own."""

    def __init__(
        self, builder: GraphBuilder, raw: RawGraph, findings: Findings, parent: GraphImporter | None = None
    ) -> None:
        self.b = builder
        self.raw = raw
        self.findings = findings
        self.parent = parent
        self.values: dict[str, Item] = {}
        self.broken: set[str] = set()  # results of nodes that were refused
        self._weights: dict[Value, TensorSource] = {}

    # --- names

    def lookup(self, name: str) -> Item | None:
        """The value of a name in this graph or around it; None where the node that makes it was refused."""
        if name in self.values:
            return self.values[name]
        if name in self.broken:
            return None
        if name in self.raw.initializers:
            self.values[name] = self.constant(name, self.raw.initializers[name])
            return self.values[name]
        return self.parent.lookup(name) if self.parent is not None else None

    def weight_content(self, value: Value) -> Array | None:
        """The bytes of a weight, None where the value is not one."""
        source = self.weight_source(value)
        return None if source is None else source.load()

    def weight_source(self, value: Value) -> TensorSource | None:
        """What loads a weight, None where the value is not one."""
        if value in self._weights:
            return self._weights[value]
        return self.parent.weight_source(value) if self.parent is not None else None

    def constant(self, name: str, source: TensorSource) -> Value:
        """A tensor of the model: part of the program where it is a short list of integers, else a weight."""
        dtype = source.dtype
        if dtype.kind in "iub" and dtype.itemsize >= 4 and source.size <= LITERAL_ELEMENTS:
            return self.b.literal(source.load(), name)
        if dtype == np.bool_ and source.size <= LITERAL_ELEMENTS:
            return self.b.literal(source.load(), name)
        return self.weight(name, source)

    def weight(self, name: str, source: TensorSource) -> Value:
        """A constant that stays outside the program."""
        from fornaxc.ir.types import dtype_of

        try:
            dtype = dtype_of(source.dtype)
        except KeyError:
            raise Refused(f"the constant {name!r} holds {source.dtype}, which is not a supported type") from None
        value = self.b.weight(TensorType(dtype, tuple(source.shape)), source.load, name)
        self._weights[value] = source
        return value

    # --- nodes

    def run(self) -> None:
        """Import every node; refusals and violations are collected, and what depends on them is left out."""
        for node in self.raw.nodes:
            if any(self._is_broken(name) for name in node.inputs if name):
                self._find_unknown(node)
                self.broken.update(name for name in node.outputs if name)
                continue
            try:
                self._node(node)
            except Refused as refusal:
                self._fail("refused", node, str(refusal))
            except SymbolicDimError as unknown:
                self._fail("refused", node, f"{unknown}, where a number is needed")
            except (Invalid, IrError) as problem:
                self._fail("invalid", node, str(problem))

    def _is_broken(self, name: str) -> bool:
        if name in self.values or name in self.raw.initializers:
            return False
        return name in self.broken or (self.parent is not None and self.parent._is_broken(name))

    def _fail(self, kind: str, node: RawNode, reason: str) -> None:
        self.findings.add(kind, node, reason)
        self.broken.update(name for name in node.outputs if name)

    def _find_unknown(self, node: RawNode) -> None:
        """Report operators that nothing handles in a node whose inputs are unknown, and in its bodies."""
        if self._handler(node) is None:
            self.findings.add("refused", node, self._no_handler(node))
        for body in node.bodies():
            for inner in body.nodes:
                self._find_unknown(inner)

    def _handler(self, node: RawNode) -> Handler | None:
        since = node.since_version
        if since is None and node.opset > 0:  # onnxruntime's own operators, which have a first version only
            since = 1
        return None if since is None else handler_for(node.domain, node.op_type, since)

    def _node(self, node: RawNode) -> None:
        handler = self._handler(node)
        if handler is None:
            raise Refused(self._no_handler(node))
        self.b.origin = Origin(node.name, node.op_type, node.opset)
        context = NodeContext(self, node, tuple(self.lookup(name) if name else None for name in node.inputs))
        result = handler(context)
        results = (result,) if isinstance(result, Item) else tuple(result)
        unread = context.unread()
        if unread:
            raise Refused(f"the attribute {', '.join(unread)} is not supported")
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                self.values[name] = value
        missing = [name for name in node.outputs[len(results) :] if name]
        if missing:
            raise Refused(f"the output {', '.join(missing)} is not supported")

    def _no_handler(self, node: RawNode) -> str:
        if node.since_version is None:
            return "no such operator is known in this domain and opset"
        versions = handled_versions(node.domain, node.op_type)
        if versions:
            known = f"version {node.since_version} is not supported (only {', '.join(map(str, versions))})"
            old = node.domain == "" and node.since_version < min(versions)
            return f"{known}; onnx.version_converter.convert_version(model, 13) makes a newer one" if old else known
        return "the operator is not supported"

    # --- bodies

    def tensors(self, items: Sequence[Item]) -> list[Value]:
        """The same items; `Refused` where one is a sequence."""
        for item in items:
            if not isinstance(item, Value):
                raise Refused(f"{item} in a place where only tensors are supported")
        return [item for item in items if isinstance(item, Value)]

    def subgraph(self, node: RawNode, attribute: str) -> RawGraph:
        return node.subgraph(attribute)

    def inline(self, raw: RawGraph, inputs: Sequence[Item], builder: GraphBuilder | None = None) -> list[Item]:
        """The outputs of a control-flow body with these inputs; its nodes go to `builder` (by default, the graph's own).

        The body may use names of the graphs around it. `Refused` where one of its nodes is.
        """
        body = GraphImporter(builder or self.b, raw, self.findings, self)
        origin = self.b.origin
        body.b.origin = origin
        if len(raw.inputs) != len(inputs):
            raise Invalid(f"its body takes {len(raw.inputs)} inputs, not {len(inputs)}")
        body.values.update(zip((info.name for info in raw.inputs), inputs, strict=True))
        body.run()
        found = [body.lookup(info.name) for info in raw.outputs]
        self.b.origin = origin
        if any(v is None for v in found):
            raise Refused(BROKEN_BODY)
        return [v for v in found if v is not None]


def input_type(dtype: DType, dims: Sequence[Any], pins: Mapping[str, int]) -> TensorType:
    """A tensor type with the dims that `pins` names replaced."""
    from fornaxc.ir.dims import substitute

    return TensorType(dtype, tuple(substitute(d, pins) for d in dims))
