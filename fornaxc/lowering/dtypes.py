"""Element types: the IR's and MAX's."""

from __future__ import annotations

from max.dtype import DType as MaxDType

from fornaxc.ir.types import DType

TO_MAX = {
    DType.BOOL: MaxDType.bool,
    DType.I8: MaxDType.int8,
    DType.I16: MaxDType.int16,
    DType.I32: MaxDType.int32,
    DType.I64: MaxDType.int64,
    DType.U8: MaxDType.uint8,
    DType.U16: MaxDType.uint16,
    DType.U32: MaxDType.uint32,
    DType.U64: MaxDType.uint64,
    DType.F16: MaxDType.float16,
    DType.BF16: MaxDType.bfloat16,
    DType.F32: MaxDType.float32,
    DType.F64: MaxDType.float64,
}
FROM_MAX = {theirs: ours for ours, theirs in TO_MAX.items()}
TO_MAX |= {  # one element a byte: the bits of a float, the value of an integer
    small: MaxDType.int8 if small.is_integer and small.is_signed else MaxDType.uint8
    for small in DType
    if small.is_small
}
NARROW_FLOATS = (MaxDType.float16, MaxDType.bfloat16)  # computed in float32
