"""Elements of a case whose value the operator's specification leaves undefined: the shipped ones are what the tool that wrote the case happened to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fornaxc.ir.graph import Array
from fornaxc.ir.ops.elementwise import integer_range
from fornaxc.ir.types import DType, dtype_of
from fornaxc.qualify.cases import Case, tensors_of, walk


def without_undefined(case: Case) -> Case:
    """The case with 0 for the floats that do not fit the integer type they are cast to, and for what becomes of them.

    Cast says of floating point to fixed point "undefined if OOR" (ONNX operators, Cast; CastLike refers to it).
    """
    if not {n.op_type for n in walk(case.model.graph)} <= {"Cast", "CastLike"}:
        return case
    return replace(case, data=[_in_range(inputs, outputs) for inputs, outputs in case.data])


def _in_range(inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    given, shipped = tensors_of(inputs), tensors_of(outputs)
    if not given or not shipped or len(shipped) != 1 or given[0].shape != shipped[0].shape:
        return inputs, outputs
    source, target = dtype_of(given[0].dtype), dtype_of(shipped[0].dtype)
    if not (source.is_float and target.is_integer):
        return inputs, outputs
    out = _outside(given[0], target)
    if not out.any():
        return inputs, outputs
    return [_zeroed(given[0], out), *inputs[1:]], [_zeroed(shipped[0], out)]


def _outside(x: Array, target: DType) -> Array:
    low, high = integer_range(target)
    whole = np.trunc(x.astype(np.float64))
    return ~((whole >= low) & (whole < high + 1))


def _zeroed(x: Array, where: Array) -> Array:
    return np.where(where, np.zeros((), x.dtype), x)
