"""Small element types on every device: a byte each, converted by kernels; see `fornaxc.ir.small` for how they are stored."""

from __future__ import annotations

from functools import reduce
from operator import mul

from max.dtype import DType as MaxDType
from max.graph import Dim, TensorType, TensorValue, ops

from fornaxc.ir.types import DType
from fornaxc.lowering.context import LoweringContext

_IEEE, _FN, _FNUZ, _FINITE, _EXPONENT = range(5)
_FORMATS = {  # the width of the fraction, the bias of the exponent, the flavour
    DType.F8E5M2: (2, 15, _IEEE),
    DType.F8E4M3: (3, 7, _IEEE),
    DType.F8E3M4: (4, 3, _IEEE),
    DType.F8E4M3FN: (3, 7, _FN),
    DType.F8E4M3FNUZ: (3, 8, _FNUZ),
    DType.F8E5M2FNUZ: (2, 16, _FNUZ),
    DType.F8E4M3B11FNUZ: (3, 11, _FNUZ),
    DType.F6E2M3FN: (3, 1, _FINITE),
    DType.F6E3M2FN: (2, 3, _FINITE),
    DType.F4E2M1FN: (1, 1, _FINITE),
    DType.F8E8M0FNU: (0, 127, _EXPONENT),
}


def to_f32(c: LoweringContext, x: TensorValue, dtype: DType) -> TensorValue:
    """The values of a stored small float; exact."""
    return _elementwise(c, "fx_small_to_f32", x, MaxDType.float32, **_format(dtype))


def from_f32(c: LoweringContext, x: TensorValue, dtype: DType, saturate: bool) -> TensorValue:
    """float32 as a stored small float by the rules of `Cast`."""
    return _elementwise(c, "fx_f32_to_small", x, MaxDType.uint8, **_format(dtype), saturate=int(saturate))


def wrapped(c: LoweringContext, x: TensorValue, dtype: DType) -> TensorValue:
    """Integers in bytes modulo the range of one below a byte."""
    return _elementwise(c, "fx_wrap", x, x.dtype, bits=dtype.bits)


def _format(dtype: DType) -> dict[str, int]:
    mantissa, bias, flavour = _FORMATS[dtype]
    return {"bits": dtype.bits, "mantissa": mantissa, "bias": bias, "flavour": flavour}


def _elementwise(c: LoweringContext, kernel: str, x: TensorValue, dtype: MaxDType, **parameters: int) -> TensorValue:
    """A kernel over the elements in a row, so that it is compiled once for all ranks."""
    count = reduce(mul, x.shape, Dim(1))
    flat = ops.reshape(x, [count])
    found = c.custom(kernel, [flat], [TensorType(dtype, [count], c.device)], **parameters)[0]
    return ops.reshape(found, x.shape)
