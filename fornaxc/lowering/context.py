"""What a lowering rule sees: the device it lowers for, the node, and how IR dims and types become MAX's."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from max._core.dialects import kgen
from max.dtype import DType as MaxDType
from max.graph import AlgebraicDim, DeviceRef, TensorType, TensorValue, ops
from max.graph import Dim as MaxDim

from fornaxc.errors import UnsupportedError
from fornaxc.ir import types as ir
from fornaxc.ir.dims import Call, Dim, Symbol, dim_max, is_nonnegative, symbols
from fornaxc.ir.graph import Array, Constant, Node, Value
from fornaxc.ir.ops import BroadcastTo, Reshape
from fornaxc.ir.small import stored
from fornaxc.lowering import raw
from fornaxc.lowering.dtypes import TO_MAX

_POC = {"floordiv": kgen.POC.div, "min": kgen.POC.min, "max": kgen.POC.max}


class LoweringContext:
    """The state of one lowering. Rules read `device`, `kind` and `node`, and use the helpers; they keep nothing of it.

    `device` is where the current node runs: the compute device, or the host for arithmetic on shapes. `host` is the CPU.
    `optimization` is the level that was asked for; `rules` is the device kind whose rules are applied, where it is not `kind`.
    """

    def __init__(self, kind: str, optimization: int = 1, rules: str = "") -> None:
        self.kind = kind
        self.optimization = optimization
        self.rules = rules
        self.trace: list[Node] | None = None  # the nodes lowered so far, where MAX's errors must tell them
        self.host = DeviceRef.CPU()
        self.compute = DeviceRef.CPU() if kind == "cpu" else DeviceRef.GPU()
        self.device = self.compute
        self.node: Node | None = None
        self.body: frozenset[Node | None] = frozenset()  # the nodes of the graph or region being lowered
        self.host_nodes: list[dict[str, Any]] = []
        self.uses_kernels = False
        self.declared: set[str] = set()
        self.constants: dict[Value, Constant] = {}
        self.producers: dict[Value, Node] = {}
        self._placed: ChainMap[tuple[Value, bool], TensorValue] = ChainMap()
        self._scalars: ChainMap[tuple[Any, ...], TensorValue] = ChainMap()
        self._depth = 0  # of the region being lowered

    # -- values

    def bind(self, value: Value, tensor: TensorValue) -> None:
        """`tensor` is what `value` became; the symbols of its type are known from here on."""
        self._placed[value, tensor.device.is_cpu()] = tensor
        for dim in value.type.shape:
            self.declared |= symbols(dim)

    def is_on_host(self, value: Value) -> bool:
        """True where `value` was computed on the host."""
        return (value, True) in self._placed

    def is_literal(self, value: Value) -> bool:
        constant = self.constants.get(value)
        return constant is not None and constant.literal

    def read(self, value: Value, device: DeviceRef) -> TensorValue:
        """`value` on a device: transferred, or made there where it is a literal."""
        key = (value, device.is_cpu())
        if key not in self._placed:
            if self.is_literal(value):
                self._placed[key] = self.literal(self.constants[value].load(), device)
            else:
                other = self._placed[value, not device.is_cpu()]
                self._placed[key] = raw.transfer_to(other, device)
        return self._placed[key]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values made inside are forgotten at the end: a region's block ends, and what it defines with it.

        A region in a region makes constants of its own: MAX checks it before it knows where the block around it is.
        """
        placed, scalars = self._placed, self._scalars
        nested, self._depth = self._depth > 0, self._depth + 1
        outer = {key: t for key, t in placed.items() if not self.is_literal(key[0])} if nested else placed
        self._placed, self._scalars = ChainMap({}, outer), ChainMap() if nested else scalars.new_child()
        try:
            yield
        finally:
            self._placed, self._scalars, self._depth = placed, scalars, self._depth - 1

    def is_near(self, value: Value) -> bool:
        """Whether a region of the current node may use `value`: it was made in the block that the node is in, or in the program's own."""
        made = self._placed.maps[0]
        return self._depth == 0 or self.is_literal(value) or (value, True) in made or (value, False) in made

    # -- dims and types

    def dim(self, dim: Dim) -> MaxDim:
        """An IR dim in MAX's algebra."""
        if isinstance(dim, int):
            return MaxDim(dim)
        unknown = symbols(dim) - self.declared
        if unknown:
            self.refuse(f"the size {dim} needs {', '.join(sorted(unknown))}, which no tensor has brought yet")
        total: MaxDim | None = None
        for monomial, factor in dim.terms:
            term = MaxDim(factor)
            for atom in monomial:
                term = term * self._atom(atom)
            total = term if total is None else total + term
        assert total is not None
        return total

    def _atom(self, atom: Symbol | Call) -> MaxDim:
        if isinstance(atom, Symbol):
            return MaxDim(atom.name)
        if atom.fn == "floordiv" and not is_nonnegative(atom.left):
            return self._rounded_down(atom.left, atom.right)
        return AlgebraicDim.apply(_POC[atom.fn], self.dim(atom.left), self.dim(atom.right))

    def _rounded_down(self, top: Dim, bottom: Dim) -> MaxDim:
        """A quotient that may be negative: MAX's division of dims rounds toward zero."""
        above, below = dim_max(top, 0), dim_max(-top, 0) + bottom - 1
        return self.dim(above) // self.dim(bottom) - self.dim(below) // self.dim(bottom)

    def shape(self, dims: Sequence[Dim]) -> list[MaxDim]:
        return [self.dim(d) for d in dims]

    def dtype(self, dtype: ir.DType) -> MaxDType:
        return TO_MAX[dtype]

    def type(self, type: ir.TensorType, device: DeviceRef | None = None) -> TensorType:
        """An IR type as MAX's, on the node's device unless said otherwise."""
        return TensorType(TO_MAX[type.dtype], self.shape(type.shape), device or self.device)

    def out_type(self, index: int = 0) -> TensorType:
        """MAX's type of one result of the node; symbols that appear alone become known."""
        assert self.node is not None
        type = self.node.outputs[index].type
        self.declare(type.shape)
        return self.type(type)

    def declare(self, dims: Sequence[Dim]) -> None:
        """The node's result brings these sizes: those that are a symbol alone are known from here on."""
        from fornaxc.ir.dims import single_symbol

        self.declared |= {name for d in dims if (name := single_symbol(d)) is not None}

    def conform(self, tensor: TensorValue, type: ir.TensorType) -> TensorValue:
        """`tensor` under exactly the dims that the IR gives it."""
        if tensor.dtype != TO_MAX[type.dtype] or tensor.rank != type.rank:
            op = self.node.op if self.node else "input"
            raise AssertionError(f"{op} was lowered to {tensor.type}, not {type}")
        wanted = self.shape(type.shape)
        return tensor if list(tensor.shape) == wanted else ops.rebind(tensor, wanted)

    # -- constants

    def scalar(self, value: complex | bool, dtype: MaxDType, device: DeviceRef | None = None) -> TensorValue:
        """A rank-0 constant."""
        device = device or self.device
        key = (str(value), type(value), dtype, device.is_cpu())
        if key not in self._scalars:
            self._scalars[key] = ops.constant(value, dtype, device)
        return self._scalars[key]

    def literal(self, array: Array, device: DeviceRef | None = None) -> TensorValue:
        """An array as a constant of the program."""
        device = device or self.device
        shape = array.shape  # before the next line, which makes a vector of a scalar
        array = np.ascontiguousarray(array)
        kind = ir.dtype_of(array.dtype)
        dtype, array = TO_MAX[kind], stored(array, kind)
        if dtype == MaxDType.bfloat16:
            wide = ops.constant(array.astype(np.float32).reshape(-1), MaxDType.float32, device)
            return ops.reshape(ops.cast(wide, dtype), shape)
        return ops.reshape(ops.constant(array.reshape(-1), dtype, device), shape)

    def dims_tensor(self, dims: Sequence[Dim]) -> TensorValue:
        """The i64 vector of these dims, on the host."""
        if not dims:
            return ops.constant(np.zeros(0, np.int64), MaxDType.int64, self.host)
        if all(isinstance(d, int) for d in dims):
            return ops.constant(np.array(dims, np.int64), MaxDType.int64, self.host)
        return ops.shape_to_tensor(self.shape(dims))

    def dim_scalar(self, dim: Dim, dtype: MaxDType, device: DeviceRef | None = None) -> TensorValue:
        """One dim as a rank-0 tensor."""
        device = device or self.device
        if isinstance(dim, int):
            return self.scalar(dim, dtype, device)
        return raw.transfer_to(ops.cast(ops.reshape(self.dims_tensor([dim]), []), dtype), device)

    def constant_array(self, value: Value) -> Array | None:
        """The content of a literal, looking through reshapes and broadcasts of a single element (as that element)."""
        while value in self.producers:
            node = self.producers[value]
            if not isinstance(node.op, Reshape | BroadcastTo) or node.inputs[0].type.elements != 1:
                return None
            value = node.inputs[0]
        return self.constants[value].load() if self.is_literal(value) else None

    def constant_number(self, value: Value) -> float | None:
        """The number that a literal holds everywhere, if it holds one."""
        array = self.constant_array(value)
        if array is None or array.size == 0:
            return None
        first = array.reshape(-1)[0]
        return float(first) if np.all(array == first) else None

    # -- kernels, host fall-back, refusal

    def custom(
        self, name: str, inputs: Sequence[TensorValue], out_types: Sequence[TensorType], **parameters: Any
    ) -> list[TensorValue]:
        """Call one of fornaxc's own Mojo kernels."""
        self.uses_kernels = True
        results = ops.custom(name, self.device, list(inputs), list(out_types), parameters=parameters or None)
        return [r.tensor for r in results]

    def write(self, tensor: TensorValue) -> TensorValue:
        """`tensor` in memory, so that nothing is fused across it."""
        flat = ops.reshape(tensor, [1]) if tensor.rank == 0 else tensor
        written = self.custom("fx_copy", [flat], [flat.type])[0]
        return ops.reshape(written, []) if tensor.rank == 0 else written

    def fall_back(self, reason: str) -> None:
        """Record that the current node of a GPU program runs on the host, with what it transfers."""
        assert self.node is not None
        moved = [str(v.type) for v in (*self.node.inputs, *self.node.outputs)]
        self.host_nodes.append(
            {
                "node": self.node.origin.node,
                "op": self.node.origin.op or self.node.op.name,
                "reason": reason,
                "transfers": moved,
            }
        )

    def refuse(self, reason: str) -> None:
        """Stop: the node cannot be lowered."""
        origin = self.node.origin if self.node else None
        raise UnsupportedError(
            f"{origin} cannot be compiled: {reason}" if origin else reason,
            details=[
                {
                    "node": origin.node if origin else "",
                    "op": origin.op if origin else "",
                    "ir": str(self.node.op) if self.node else "",
                    "reason": reason,
                }
            ],
        )
