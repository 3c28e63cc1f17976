"""Element types and tensor types."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import ml_dtypes
import numpy as np

from fornaxc.ir.dims import Dim, product


class DType(Enum):
    """An element type, named as in printed IR. Sub-byte types hold one element a byte in numpy arrays."""

    BOOL = "bool"
    I2 = "i2"
    I4 = "i4"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U2 = "u2"
    U4 = "u4"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    F8E4M3FN = "f8e4m3fn"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E5M2 = "f8e5m2"
    F8E5M2FNUZ = "f8e5m2fnuz"
    F4E2M1FN = "f4e2m1fn"
    F8E8M0FNU = "f8e8m0fnu"
    F8E4M3 = "f8e4m3"
    F8E3M4 = "f8e3m4"
    F8E4M3B11FNUZ = "f8e4m3b11fnuz"
    F6E2M3FN = "f6e2m3fn"
    F6E3M2FN = "f6e3m2fn"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy (or ml_dtypes) dtype that holds elements of this type."""
        return _NUMPY[self]

    @property
    def is_float(self) -> bool:
        return self.value.startswith(("f", "bf"))

    @property
    def is_signed(self) -> bool:
        return self.value.startswith("i") or self.is_float

    @property
    def is_integer(self) -> bool:
        return self.value[0] in "iu"

    @property
    def is_small(self) -> bool:
        """Whether only conversions know the type: a float of 8 bits or fewer, an integer below a byte."""
        return self.bits <= 8 if self.is_float else self.bits < 8

    @property
    def bits(self) -> int:
        """The bits of one element: 8 for bool."""
        digits = self.value.split("e")[0].lstrip("bfiu")
        return int(digits) if digits.isdigit() else 8

    def __str__(self) -> str:
        return self.value


_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.BOOL: np.dtype(np.bool_),
    DType.I2: np.dtype(ml_dtypes.int2),
    DType.I4: np.dtype(ml_dtypes.int4),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U2: np.dtype(ml_dtypes.uint2),
    DType.U4: np.dtype(ml_dtypes.uint4),
    DType.U8: np.dtype(np.uint8),
    DType.U16: np.dtype(np.uint16),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.F8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.F8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    DType.F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DType.F8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    DType.F4E2M1FN: np.dtype(ml_dtypes.float4_e2m1fn),
    DType.F8E8M0FNU: np.dtype(ml_dtypes.float8_e8m0fnu),
    DType.F8E4M3: np.dtype(ml_dtypes.float8_e4m3),
    DType.F8E3M4: np.dtype(ml_dtypes.float8_e3m4),
    DType.F8E4M3B11FNUZ: np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    DType.F6E2M3FN: np.dtype(ml_dtypes.float6_e2m3fn),
    DType.F6E3M2FN: np.dtype(ml_dtypes.float6_e3m2fn),
}
_FROM_NUMPY = {dtype: name for name, dtype in _NUMPY.items()}


def dtype_of(dtype: np.dtype[Any] | type) -> DType:
    """The element type of a numpy dtype. KeyError where there is none (strings, complex)."""
    return _FROM_NUMPY[np.dtype(dtype)]


@dataclass(frozen=True, slots=True)
class TensorType:
    """An element type and a shape of ints and symbolic dims."""

    dtype: DType
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> Dim:
        """The element count."""
        return product(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of a static tensor, as numpy holds it: at least one an element."""
        return int(str(self.elements)) * self.dtype.numpy.itemsize

    @property
    def is_static(self) -> bool:
        for d in self.shape:  # noqa: SIM110 (asked for every value, and a generator takes three times as long)
            if not isinstance(d, int):
                return False
        return True

    def with_shape(self, shape: tuple[Dim, ...]) -> TensorType:
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(str(d) for d in self.shape)}]"
