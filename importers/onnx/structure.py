"""The structure of a model as plain lists of nodes: sorted, local functions inlined, names resolved.

Scoping follows the ONNX specification (IR.md, "Graphs" and "Functions"): a subgraph sees the names around it, and its
own names hide them; a function sees only its inputs. Subgraphs are parsed when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, ValueInfoProto

from fornaxc.errors import ModelError
from fornaxc.importers.onnx.codes import Code, model_error, require_text
from fornaxc.importers.onnx.order import captured_names, execution_order, node_label, subgraphs
from fornaxc.importers.onnx.reader import OnnxModel, opset_versions, plain_domain
from fornaxc.importers.onnx.tensors import TensorSource

_MAX_CALL_DEPTH = 100  # functions that call functions
_MAX_INLINED = 500_000  # nodes that come from functions

FunctionKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """A name with its declared type.

    `kind` is tensor, sparse_tensor, sequence, optional, map, opaque, or none where no type is given. `elem_type` is a
    TensorProto.DataType (0 where unset), None unless a tensor. `dims` has an int, a name or None (unknown) per axis;
    it is None where the rank is not given.
    """

    name: str
    kind: str
    elem_type: int | None
    dims: tuple[int | str | None, ...] | None


@dataclass(slots=True, eq=False)
class RawNode:
    """A node whose names are resolved.

    `inputs` has None for an omitted optional input, `outputs` "" for an unused output. `domain` is "" for ai.onnx.
    `opset` is 0 for a domain that the model does not import; `since_version` is that of the operator's schema in that
    opset, None where the onnx package has none. `captures` are the names around the node that its subgraphs use.
    References to attributes of functions are replaced in `attributes`; use `subgraph` and `tensor` for their content.
    """

    op_type: str
    domain: str
    name: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, AttributeProto]
    opset: int
    since_version: int | None
    captures: tuple[str, ...]
    _context: _Context
    _bound: dict[str, _Bound]
    _subgraphs: dict[str, RawGraph] = field(default_factory=dict)

    def subgraph(self, attribute: str) -> RawGraph:
        """The graph that an attribute holds, parsed once. `ModelError` where it holds none."""
        if attribute not in self._subgraphs:
            proto = self._attribute(attribute)
            if not proto.HasField("g"):
                raise self._wrong_kind(attribute, "graph")
            prefix = f"{self.name}/{attribute}/"
            self._subgraphs[attribute] = self._context.graph(proto.g, self._bound[attribute].scope.inner(prefix))
        return self._subgraphs[attribute]

    def bodies(self) -> list[RawGraph]:
        """The graphs that its attributes hold."""
        return [self.subgraph(name) for name, attribute in self.attributes.items() if attribute.HasField("g")]

    def tensor(self, attribute: str) -> TensorSource:
        """The tensor, dense or sparse, that an attribute holds. `ModelError` where it holds none."""
        proto = self._attribute(attribute)
        what = f"{self.name}.{attribute}"
        if proto.HasField("t"):
            return self._context.model.tensor(proto.t, what)
        if proto.HasField("sparse_tensor"):
            return self._context.model.sparse_tensor(proto.sparse_tensor, what)
        raise self._wrong_kind(attribute, "tensor")

    def _attribute(self, name: str) -> AttributeProto:
        if name not in self.attributes:
            message = f"the {self.op_type} node {self.name!r} has no attribute {name!r}"
            raise model_error(Code.INVALID_ATTRIBUTE, message, node=self.name, attribute=name)
        return self.attributes[name]

    def _wrong_kind(self, attribute: str, wanted: str) -> ModelError:
        message = f"the attribute {attribute!r} of the {self.op_type} node {self.name!r} is not a {wanted}"
        return model_error(Code.INVALID_ATTRIBUTE, message, node=self.name, attribute=attribute)


@dataclass(slots=True, eq=False)
class RawGraph:
    """A graph whose nodes are in an order in which they can run, without calls of local functions.

    `inputs` are those that a caller must give: an input that has an initializer is a constant, and is listed in
    `overridable` where the format (IR version 4 and newer) lets a caller replace it. `warnings` belongs to the whole
    model and grows while subgraphs are parsed.
    """

    name: str
    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    initializers: dict[str, TensorSource]
    nodes: list[RawNode]
    value_info: dict[str, ValueInfo]
    overridable: tuple[str, ...]
    warnings: list[str]


def raw_graph(model: OnnxModel) -> RawGraph:
    """The model's graph. `ModelError` (`codes.Code`) where names, nodes, functions or tensors are invalid."""
    context = _Context(model)
    graph = context.graph(model.proto.graph, _Scope(model.opsets))
    if not graph.outputs:
        raise model_error(Code.UNDEFINED_OUTPUT, f"{model.path} has a graph without outputs")
    return graph


def value_info(proto: ValueInfoProto, name: str | None = None) -> ValueInfo:
    """A ValueInfoProto in short, under another name if one is given."""
    name = proto.name if name is None else name
    kind = proto.type.WhichOneof("value")
    if kind != "tensor_type":
        return ValueInfo(name, "none" if kind is None else kind.removesuffix("_type"), None, None)
    tensor = proto.type.tensor_type
    dims = tuple(_dim(d) for d in tensor.shape.dim) if tensor.HasField("shape") else None
    return ValueInfo(name, "tensor", int(tensor.elem_type), dims)


def _dim(proto: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if proto.HasField("dim_value"):
        return int(proto.dim_value)
    require_text(proto.dim_param)
    return proto.dim_param or None


@dataclass(frozen=True, slots=True)
class _Bound:
    """The value of a function's attribute, and the scope in which a graph in it was written."""

    proto: AttributeProto
    scope: _Scope


@dataclass(slots=True, eq=False)
class _Scope:
    """The names that nodes can see: name in the file -> name in the result; None for an omitted function input.

    Inside of functions (`attributes` is not None) every name gets a new, unique one.
    """

    opsets: dict[str, int]
    parent: _Scope | None = None
    attributes: dict[str, _Bound] | None = None
    calls: tuple[FunctionKey, ...] = ()
    prefix: str = ""
    names: dict[str, str | None] = field(default_factory=dict)

    def inner(self, prefix: str) -> _Scope:
        """The scope of a subgraph."""
        return _Scope(self.opsets, self, self.attributes, self.calls, prefix)

    def sees(self, name: str) -> bool:
        return name in self.names or (self.parent is not None and self.parent.sees(name))

    def resolve(self, name: str) -> str | None:
        """The name in the result of a name that this scope sees."""
        if name in self.names:
            return self.names[name]
        assert self.parent is not None
        return self.parent.resolve(name)


class _Context:
    """What all graphs of a model share."""

    def __init__(self, model: OnnxModel) -> None:
        self.model = model
        self.warnings: list[str] = []
        self.inlined = 0
        self.functions: dict[FunctionKey, FunctionProto] = {}
        self._schema_versions: dict[FunctionKey | tuple[str, str, int], int | None] = {}
        self._taken: set[str] = set()
        for function in model.proto.functions:
            require_text(function.domain, function.name, function.overload, *function.input, *function.output)
            key = (plain_domain(function.domain), function.name, function.overload)
            if key in self.functions:
                raise _function_error(function, "is defined twice")
            self.functions[key] = function
        if self.functions:
            self._collect_names(model.proto.graph)
            for function in model.proto.functions:
                self._taken.update(function.input)
                self._collect_node_names(function.node)

    def _collect_names(self, graph: GraphProto) -> None:
        self._taken.update(info.name for info in graph.input)
        self._taken.update(tensor.name for tensor in graph.initializer)
        self._taken.update(sparse.values.name for sparse in graph.sparse_initializer)
        self._collect_node_names(graph.node)

    def _collect_node_names(self, nodes: Iterable[NodeProto]) -> None:
        for node in nodes:
            self._taken.update(node.output)
            for _, graph in subgraphs(node):
                self._collect_names(graph)

    # --- graphs

    def graph(self, proto: GraphProto, scope: _Scope) -> RawGraph:
        """A graph, whose names are added to the empty `scope`."""
        require_text(proto.name, *(info.name for info in proto.output))
        initializers = self._initializers(proto, scope)
        inputs = []
        both = []
        for info in proto.input:
            if info.name in initializers:
                both.append(info.name)
                continue
            self._define(info.name, scope, "a graph input")
            inputs.append(value_info(info, scope.names[info.name]))
        overridable = self._overridable(both, scope)
        nodes = self._nodes(proto.node, scope)
        for info in proto.output:
            if not info.name or not scope.sees(info.name) or scope.resolve(info.name) is None:
                message = f"nothing defines the output {info.name!r} of the graph {proto.name!r}"
                raise model_error(Code.UNDEFINED_OUTPUT, message, output=info.name, graph=proto.name)
        return RawGraph(
            name=proto.name,
            inputs=inputs,
            outputs=[value_info(info, scope.resolve(info.name)) for info in proto.output],
            initializers={scope.names[name] or "": source for name, source in initializers.items()},
            nodes=nodes,
            value_info=self._value_info(proto, scope),
            overridable=overridable,
            warnings=self.warnings,
        )

    def _initializers(self, proto: GraphProto, scope: _Scope) -> dict[str, TensorSource]:
        found: dict[str, TensorSource] = {}
        dense = ((tensor.name, tensor) for tensor in proto.initializer)
        sparse = ((tensor.values.name, tensor) for tensor in proto.sparse_initializer)
        for name, tensor in (*dense, *sparse):
            if name in found:
                message = f"two initializers of the graph {proto.name!r} are named {name!r}"
                raise model_error(Code.DUPLICATE_INITIALIZER, message, initializer=name, graph=proto.name)
            is_dense = isinstance(tensor, onnx.TensorProto)
            found[name] = self.model.tensor(tensor) if is_dense else self.model.sparse_tensor(tensor)
            self._define(name, scope, "an initializer")
        return found

    def _overridable(self, names: list[str], scope: _Scope) -> tuple[str, ...]:
        """Graph inputs with an initializer that a caller may replace (since IR version 4)."""
        if not names or self.model.ir_version < 4:
            return ()
        if scope.parent is not None:
            message = f"the subgraph {scope.prefix.rstrip('/')!r} has {names[0]!r} as an input and as an initializer"
            raise model_error(Code.DUPLICATE_VALUE, message, value=names[0])
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        self._warn(f"inputs with a default value are compiled as constants: {shown}")
        return tuple(names)

    def _value_info(self, proto: GraphProto, scope: _Scope) -> dict[str, ValueInfo]:
        known = ((scope.names.get(info.name), info) for info in proto.value_info)
        return {name: value_info(info, name) for name, info in known if name is not None}

    def _define(self, name: str, scope: _Scope, what: str, target: str | None = None) -> None:
        require_text(name)
        if name in scope.names:
            message = f"{what} is named {name!r}, as is another value of the same graph"
            raise model_error(Code.DUPLICATE_VALUE, message, value=name)
        inside_function = scope.attributes is not None
        scope.names[name] = target or (self._fresh(scope.prefix + name) if inside_function else name)

    def _fresh(self, base: str) -> str:
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    # --- nodes

    def _nodes(
        self, protos: Sequence[NodeProto], scope: _Scope, targets: dict[str, str] | None = None
    ) -> list[RawNode]:
        """Nodes in order, calls replaced; `targets` has names in the result for some of the names that they define."""
        labels = _labels(protos, scope)
        for proto, label in zip(protos, labels, strict=True):
            for name in proto.output:
                if name:
                    target = targets.get(name) if targets else None
                    self._define(name, scope, f"an output of the {proto.op_type} node {label!r}", target)
        captures = [
            {name: user for _, graph in subgraphs(proto) for name, user in captured_names(graph).items()}
            if proto.attribute
            else {}
            for proto in protos
        ]
        order = execution_order(protos, [tuple(names) for names in captures])
        if order != list(range(len(protos))):
            where = f" of {scope.prefix.rstrip('/')!r}" if scope.prefix else ""
            self._warn(f"the nodes{where} are not in topological order; they were sorted")
        found: list[RawNode] = []
        for index in order:
            proto, label = protos[index], labels[index]
            _check_defined(proto, label, captures[index], scope)
            key = (plain_domain(proto.domain), proto.op_type, proto.overload)
            if key in self.functions:
                found.extend(self._inline(proto, label, key, scope))
            else:
                found.append(self._node(proto, label, captures[index], scope))
        return found

    def _node(self, proto: NodeProto, label: str, captures: Iterable[str], scope: _Scope) -> RawNode:
        domain = plain_domain(proto.domain)
        bound = _attributes(proto, label, scope)
        names = {scope.resolve(name): None for name in captures}
        for attribute in bound.values() if scope.attributes else ():
            if attribute.scope is not scope and attribute.proto.HasField("g"):
                names.update(dict.fromkeys(attribute.scope.resolve(n) for n in captured_names(attribute.proto.g)))
        opset = self._opset(proto, label, domain, scope)
        return RawNode(
            op_type=proto.op_type,
            domain=domain,
            name=label,
            inputs=tuple(scope.resolve(name) if name else None for name in proto.input),
            outputs=tuple(scope.resolve(name) or "" if name else "" for name in proto.output),
            attributes={name: attribute.proto for name, attribute in bound.items()},
            opset=opset,
            since_version=self._since(domain, proto.op_type, opset),
            captures=tuple(name for name in names if name is not None),
            _context=self,
            _bound=bound,
        )

    def _opset(self, proto: NodeProto, label: str, domain: str, scope: _Scope) -> int:
        found = scope.opsets.get(domain, 0)
        if found == 0 and domain == "":
            message = f"the model imports no opset of ai.onnx, which the {proto.op_type} node {label!r} needs"
            raise model_error(Code.OPSET_UNCLEAR, message, node=label)
        return found

    def _since(self, domain: str, op_type: str, opset: int) -> int | None:
        key = (domain, op_type, opset)
        if key not in self._schema_versions:
            self._schema_versions[key] = schema_version(domain, op_type, opset)
        return self._schema_versions[key]

    # --- functions

    def _inline(self, call: NodeProto, label: str, key: FunctionKey, scope: _Scope) -> list[RawNode]:
        """The nodes of a function's body in place of a call."""
        function = self.functions[key]
        _check_call(function, call, label, key, scope)
        opsets = {**self.model.opsets, **opset_versions(function.opset_import, f"the function {function.name!r}")}
        body = _Scope(opsets, attributes={}, calls=(*scope.calls, key), prefix=f"{label}/")
        body.attributes = {proto.name: _Bound(proto, body) for proto in function.attribute_proto}
        body.attributes |= _attributes(call, label, scope)
        actual = [scope.resolve(name) if name else None for name in call.input]
        actual += [None] * (len(function.input) - len(actual))
        for formal, name in zip(function.input, actual, strict=True):
            if formal in body.names:
                raise _function_error(function, f"has two inputs named {formal!r}")
            body.names[formal] = name
        wanted = [
            (inner, scope.resolve(name)) for inner, name in zip(function.output, call.output, strict=False) if name
        ]
        targets: dict[str, str] = {}
        copies: list[tuple[str, str]] = []
        for inner, name in wanted:
            if name is None:
                continue
            if inner in body.names or inner in targets:
                copies.append((inner, name))
            else:
                targets[inner] = name
        nodes = self._nodes(function.node, body, targets)
        self.inlined += len(nodes)
        if self.inlined > _MAX_INLINED:
            raise _function_error(function, f"and others expand to more than {_MAX_INLINED:,} nodes")
        for inner, _ in wanted:
            if inner not in body.names or body.names[inner] is None:
                raise _function_error(
                    function, f"has the output {inner!r}, which nothing defines in the call {label!r}"
                )
        nodes.extend(self._identity(f"{label}/Identity_{i}", body, *pair) for i, pair in enumerate(copies))
        return nodes

    def _identity(self, label: str, body: _Scope, inner: str, output: str) -> RawNode:
        """A function's output that is its input, or another output, under a second name."""
        opset = body.opsets.get("", onnx.defs.onnx_opset_version())
        since = self._since("", "Identity", opset)
        return RawNode("Identity", "", label, (body.names[inner],), (output,), {}, opset, since, (), self, {})


def _labels(protos: Sequence[NodeProto], scope: _Scope) -> list[str]:
    """A name for each node; in functions, and where the file gives none, it starts with the scope's prefix."""
    given = {proto.name for proto in protos}
    labels = []
    for index, proto in enumerate(protos):
        require_text(proto.name, proto.op_type, proto.domain, proto.overload)
        label = node_label(proto, index)
        while not proto.name and label in given:
            label += "_"
        labels.append(scope.prefix + label if scope.attributes is not None or not proto.name else label)
    return labels


def _check_defined(proto: NodeProto, label: str, captures: dict[str, str], scope: _Scope) -> None:
    for name in proto.input:
        if name and not scope.sees(name):
            require_text(name)
            message = f"the {proto.op_type} node {label!r} uses {name!r}, which nothing defines"
            raise model_error(Code.UNDEFINED_INPUT, message, node=label, input=name)
    for name, user in captures.items():
        if not scope.sees(name):
            require_text(name)
            who = f"the node {user!r}" if user else "an output"
            message = f"{who} in a subgraph of the {proto.op_type} node {label!r} uses {name!r}, which nothing defines"
            raise model_error(Code.UNDEFINED_INPUT, message, node=user or label, input=name)


def _attributes(proto: NodeProto, label: str, scope: _Scope) -> dict[str, _Bound]:
    """A node's attributes; references to attributes of the function around are replaced, or left out where unset."""
    found: dict[str, _Bound] = {}
    seen: set[str] = set()
    for attribute in proto.attribute:
        name, referred = attribute.name, attribute.ref_attr_name
        require_text(name, referred)
        if name in seen:
            message = f"the {proto.op_type} node {label!r} has two attributes named {name!r}"
            raise model_error(Code.INVALID_ATTRIBUTE, message, node=label, attribute=name)
        seen.add(name)
        if not referred:
            found[name] = _Bound(attribute, scope)
            continue
        if scope.attributes is None:
            message = f"the attribute {name!r} of the {proto.op_type} node {label!r} refers to a function's attribute, outside of one"
            raise model_error(Code.INVALID_ATTRIBUTE, message, node=label, attribute=name)
        value = scope.attributes.get(referred)
        if value is None:
            continue
        if AttributeProto.UNDEFINED not in (attribute.type, value.proto.type) and attribute.type != value.proto.type:
            wanted, given = (AttributeProto.AttributeType.Name(p.type) for p in (attribute, value.proto))
            message = (
                f"the attribute {name!r} of the {proto.op_type} node {label!r} is {wanted}, but the call gives {given}"
            )
            raise model_error(Code.INVALID_ATTRIBUTE, message, node=label, attribute=name)
        copy = AttributeProto()
        copy.CopyFrom(value.proto)
        copy.name = name
        found[name] = _Bound(copy, value.scope)
    return found


def _check_call(function: FunctionProto, call: NodeProto, label: str, key: FunctionKey, scope: _Scope) -> None:
    if key in scope.calls:
        raise _function_error(function, "calls itself")
    if len(scope.calls) >= _MAX_CALL_DEPTH:
        raise _function_error(function, f"is called more than {_MAX_CALL_DEPTH} levels deep")
    for given, declared, what in (
        (call.input, function.input, "inputs"),
        (call.output, function.output, "outputs"),
    ):
        if len(given) > len(declared):
            raise _function_error(function, f"has {len(declared)} {what}, but the node {label!r} has {len(given)}")
    known = {*function.attribute, *(proto.name for proto in function.attribute_proto)}
    for attribute in call.attribute:
        if attribute.name not in known:
            raise _function_error(function, f"has no attribute {attribute.name!r}, which the node {label!r} gives")


def _function_error(function: FunctionProto, problem: str) -> ModelError:
    domain = function.domain or "ai.onnx"
    message = f"the local function {function.name!r} (domain {domain!r}) {problem}"
    return model_error(Code.INVALID_FUNCTION, message, function=function.name, domain=domain)


def schema_version(domain: str, op_type: str, opset: int) -> int | None:
    """The version since which an operator is as in this opset of its domain; None where onnx does not define it."""
    try:
        return int(onnx.defs.get_schema(op_type, opset, domain).since_version)
    except onnx.defs.SchemaError:
        return None
