"""MAX operations that `max.graph.ops` does not offer in the form needed: with run-time shapes and bounds on the host."""

from __future__ import annotations

from max._core.dialects import kgen, mo, rmo
from max.graph import DeviceRef, Graph, TensorType, TensorValue
from max.graph.type import _ChainType
from max.mlir.dialects import rmo as rmo_ops


def slice_to(x: TensorValue, start: TensorValue, stop: TensorValue, step: TensorValue, type: TensorType) -> TensorValue:
    """x[start:stop:step] with numpy's rules, bounds as i64 vectors on the host."""
    return Graph.current._add_op_generated(
        rmo.MoSliceOp,
        result=type,
        input=x,
        start=start,
        stop=stop,
        step=step,
        output_param_decls=kgen.ParamDeclArrayAttr([]),
    )[0].tensor


def reshape_to(x: TensorValue, sizes: TensorValue, type: TensorType) -> TensorValue:
    """x under the shape in an i64 vector on the host."""
    return Graph.current._add_op_generated(rmo.MoReshapeOp, type, x, sizes, kgen.ParamDeclArrayAttr([]))[0].tensor


def pad_to(x: TensorValue, paddings: TensorValue, fill: TensorValue, type: TensorType) -> TensorValue:
    """x extended by [before, after] pairs (an i64 vector on the host) of the rank-0 `fill` (on the host)."""
    return Graph.current._add_op_generated(
        rmo.MoPadConstantOp,
        result=type,
        input=x,
        paddings=paddings,
        constant=fill,
        output_param_decls=kgen.ParamDeclArrayAttr([]),
    )[0].tensor


def range_to(start: TensorValue, stop: TensorValue, step: TensorValue, type: TensorType) -> TensorValue:
    """start, start + step, ... before stop; the operands are rank-0, on the host, of the result's element type."""
    return Graph.current._add_op_generated(rmo.MoRangeOp, type, start, stop, step, kgen.ParamDeclArrayAttr([]))[
        0
    ].tensor


def transfer_to(x: TensorValue, device: DeviceRef) -> TensorValue:
    """`ops.transfer_to`, also inside of nested loops: MAX's own reaches for a value of the outermost block there."""
    if x.device == device:
        return x
    graph = Graph.current
    if graph._current_block == graph._graph_body:
        ready = graph.always_ready_chain  # lets MAX move the transfer of a constant to the start-up
    else:
        ready = graph._add_op_generated(mo.ChainCreateOp, result=mo.ChainType(), inputs=[])[0]
    type = TensorType(x.dtype, x.shape, device)
    return graph._add_op(rmo_ops.mo_transfer, type.to_mlir(), _ChainType().to_mlir(), x, ready)[0].tensor
