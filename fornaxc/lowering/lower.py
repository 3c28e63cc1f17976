"""Turns a checked graph into a MAX graph for one kind of device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from max.graph import DeviceRef, Graph, Module, TensorType, TensorValue, Weight
from max.graph.graph import DevicePlacementPolicy

from fornaxc.errors import UnsupportedError
from fornaxc.ir import graph as ir
from fornaxc.ir.chains import chain_results, lowering_steps
from fornaxc.ir.dims import single_symbol
from fornaxc.ir.ops import Dims
from fornaxc.ir.types import DType
from fornaxc.lowering import (
    attention,
    control,
    elementwise,
    gpu,
    indexing,
    linear,
    nn,
    packed,
    quantized,
    reduction,
    rows,
    shape,
)
from fornaxc.lowering.barriers import operands_to_write
from fornaxc.lowering.binders import joined
from fornaxc.lowering.chains import lower_chain
from fornaxc.lowering.context import LoweringContext
from fornaxc.lowering.dtypes import TO_MAX
from fornaxc.lowering.kernel_package import KERNELS, kernel_library
from fornaxc.lowering.registry import rule_for
from fornaxc.lowering.support import unread_sizes, unsupported
from fornaxc.lowering.tracing import traced

# importing them registers the rules
_FAMILIES = (attention, control, elementwise, gpu, indexing, linear, nn, packed, quantized, reduction, rows, shape)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A MAX graph, the names under which its weights are bound (in order), and what the manifest tells of it.

    `custom_extensions` are the Mojo packages that the session needs.
    """

    max_graph: Graph
    weight_names: list[str]
    host_nodes: list[dict[str, Any]] = field(default_factory=list)
    custom_extensions: list[Path] = field(default_factory=list)


def lower_graph(
    graph: ir.Graph,
    *,
    device_kind: str,
    name: str,
    module: Module | None = None,
    weight_prefix: str = "w",
    optimization: int = 1,
    rules: str = "",
    trace: list[ir.Node] | None = None,
) -> Lowered:
    """Lower `graph` for "cpu" or "gpu", as one more graph of `module` where that is given.

    `optimization` is the level, 0 to 3. `rules` names a device kind whose rules are applied instead of the device's own: so the kernels for
    GPUs can be run on a CPU. Inputs and outputs are on the compute device, in the graph's order. Weights are named by `weight_prefix` and their number in the order
    of the program. `trace`, which gets every node lowered, makes MAX's errors tell the nodes (see `traced`). Raises `UnsupportedError` that lists every node that cannot be lowered.
    """
    refused = unsupported(graph, device_kind)
    if refused:
        names = ", ".join(f"{r['op']} {r['node']!r}" for r in refused[:3])
        more = f" and {len(refused) - 3} more" if len(refused) > 3 else ""
        raise UnsupportedError(f"{names}{more} cannot be compiled for a {device_kind}", details=refused)
    c = LoweringContext(device_kind, optimization, rules)
    c.trace = trace
    types = [_input_type(c, v, index) for index, v in enumerate(graph.inputs)]
    max_graph = Graph(
        name,
        input_types=types,
        kernel_library=kernel_library(),
        strict_device_placement=DevicePlacementPolicy.Error,  # what runs on the host is decided here
        **({"module": module} if module is not None else {}),
    )
    with max_graph:
        weights = _bind_weights(c, graph, weight_prefix)
        _bind_inputs(c, graph, [v.tensor for v in max_graph.inputs])
        max_graph.output(*lower_body(c, graph))
    return Lowered(max_graph, weights, c.host_nodes, [KERNELS] if c.uses_kernels else [])


def _input_type(c: LoweringContext, value: ir.Value, index: int) -> TensorType:
    """Sizes that are a symbol keep its name; an expression becomes a symbol of its own."""
    dims: list[int | str] = []
    for axis, dim in enumerate(value.type.shape):
        plain = dim if isinstance(dim, int) else single_symbol(dim)
        dims.append(f"fx_in{index}_{axis}" if plain is None else plain)
    return TensorType(TO_MAX[value.type.dtype], dims, c.compute)


def _bind_inputs(c: LoweringContext, graph: ir.Graph, tensors: Sequence[TensorValue]) -> None:
    for value in graph.inputs:
        c.declare(value.type.shape)
    for value, tensor in zip(graph.inputs, tensors, strict=True):
        c.bind(value, c.conform(tensor, value.type))


def _bind_weights(c: LoweringContext, graph: ir.Graph, prefix: str) -> list[str]:
    """Declare every weight up front, numbered in the order of the program."""
    names: list[str] = []

    def visit(body: ir.Graph) -> None:
        for value, constant in body.constants.items():
            c.constants[value] = constant
            if not constant.literal:
                names.append(f"{prefix}{len(names)}")
                dims = [int(str(d)) for d in constant.type.shape]
                weight = Weight(names[-1], TO_MAX[constant.type.dtype], dims, c.compute)
                c.bind(value, Graph.current.add_weight(weight))
        for node in body.nodes:
            c.producers.update((v, node) for v in node.outputs)
            for region in node.regions:
                visit(region)

    visit(graph)
    return names


def lower_body(c: LoweringContext, graph: ir.Graph) -> list[TensorValue]:
    """Lower the nodes of a graph or region whose inputs are bound; returns its outputs on the compute device."""
    outer, c.body = c.body, frozenset(graph.nodes)
    for step in lowering_steps(graph):
        if isinstance(step, ir.Node):
            _lower_node(c, step)
        else:
            lower_chain(c, step, chain_results(graph, step))
    c.body = outer
    results = [c.read(v, c.compute) for v in graph.outputs]
    for value in unread_sizes(graph):
        if value.type.shape[0] == 0 and results:
            results[0] = joined(c, results[0], value)
    return results


def _lower_node(c: LoweringContext, node: ir.Node) -> None:
    outer = c.node, c.device
    c.node, c.device = node, _device_of(c, node)
    rule, on_host = rule_for(type(node.op), c.rules or ("cpu" if c.device.is_cpu() else "gpu"))
    operands = [c.read(v, c.host if i in on_host else c.device) for i, v in enumerate(node.inputs)]
    for i in operands_to_write(node, c.producers, c.is_literal):
        operands[i] = c.write(operands[i])
    try:
        results = (
            rule(c, node.op, *operands)
            if c.trace is None
            else traced(c.trace, node, lambda: rule(c, node.op, *operands))
        )
    except UnsupportedError:
        raise
    except Exception as error:
        raise RuntimeError(
            f"{node.origin}: lowering {node.op} of {[str(v.type) for v in node.inputs]}: {error}"
        ) from error
    if isinstance(results, TensorValue):
        results = [results]
    for value, tensor in zip(node.outputs, results, strict=True):
        c.bind(value, c.conform(tensor, value.type))
    c.node, c.device = outer


def _device_of(c: LoweringContext, node: ir.Node) -> DeviceRef:
    """Arithmetic on sizes stays on the host, where shapes live; everything else runs on the compute device."""
    if c.kind == "cpu" or isinstance(node.op, Dims):
        return c.host
    computed = [v for v in node.inputs if not c.is_literal(v)]
    sizes = all(c.is_on_host(v) and v.type.dtype in (DType.I64, DType.I32, DType.BOOL) for v in computed)
    return c.host if computed and sizes and not node.regions else c.compute
