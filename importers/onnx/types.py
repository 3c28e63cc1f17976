"""TensorProto.DataType to the IR's element types."""

from __future__ import annotations

from onnx import TensorProto

from fornaxc.ir.types import DType

_TYPES = {
    TensorProto.BOOL: DType.BOOL,
    TensorProto.INT2: DType.I2,
    TensorProto.INT4: DType.I4,
    TensorProto.INT8: DType.I8,
    TensorProto.INT16: DType.I16,
    TensorProto.INT32: DType.I32,
    TensorProto.INT64: DType.I64,
    TensorProto.UINT2: DType.U2,
    TensorProto.UINT4: DType.U4,
    TensorProto.UINT8: DType.U8,
    TensorProto.UINT16: DType.U16,
    TensorProto.UINT32: DType.U32,
    TensorProto.UINT64: DType.U64,
    TensorProto.FLOAT16: DType.F16,
    TensorProto.BFLOAT16: DType.BF16,
    TensorProto.FLOAT: DType.F32,
    TensorProto.DOUBLE: DType.F64,
    TensorProto.FLOAT8E4M3FN: DType.F8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ: DType.F8E4M3FNUZ,
    TensorProto.FLOAT8E5M2: DType.F8E5M2,
    TensorProto.FLOAT8E5M2FNUZ: DType.F8E5M2FNUZ,
    TensorProto.FLOAT4E2M1: DType.F4E2M1FN,
    TensorProto.FLOAT8E8M0: DType.F8E8M0FNU,
}
_NUMBERS = {dtype: number for number, dtype in _TYPES.items()}


def element_type(number: int) -> DType | None:
    """The IR's element type for a TensorProto.DataType; None for strings, complex numbers and undefined."""
    return _TYPES.get(number)


def element_number(dtype: DType) -> int:
    """The TensorProto.DataType of an element type."""
    return int(_NUMBERS[dtype])
