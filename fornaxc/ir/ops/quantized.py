"""Products and convolutions of 8-bit integers by packed constant matrices: the CPU's own kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fornaxc.ir.dims import Dim, product, static
from fornaxc.ir.ops.base import Array, Op, concrete, concrete_dims, want
from fornaxc.ir.ops.elementwise import cast_array
from fornaxc.ir.ops.linear import at_tap, window_size
from fornaxc.ir.types import DType, TensorType, dtype_of

COLUMNS = 16  # of a panel of packed weights
DEPTH = 4  # rows that lie together in a panel
RESULTS = (DType.I32, DType.F32, DType.U8, DType.I8)


def packed_shape(inner: int, columns: int) -> tuple[int, int, int, int]:
    """The shape of a packed matrix [inner, columns]: panels, quads of rows, columns of a panel, rows of a quad; zeros fill it."""
    return -(-columns // COLUMNS), -(-inner // DEPTH), COLUMNS, DEPTH


def unpack(w: Array, inner: int, columns: int) -> Array:
    """The matrix [inner, columns] of packed weights."""
    panels, quads, width, depth = w.shape
    return w.transpose(1, 3, 0, 2).reshape(quads * depth, panels * width)[:inner, :columns]


@dataclass(frozen=True, slots=True)
class QuantizedLinear(Op):
    """x [M, K] of u8 or i8 times packed i8 weights (`packed_shape`), with exact sums: [M, `columns`] of `dtype`.

    Operands: x, w, x_zero i32[1], sums i32[N]; w_zero i32[N] where `w_zero`; unless `dtype` is i32: scale f32[N], bias f32[N]; where
    it is u8 or i8: y_scale f32[1], y_zero f32[1]. `sums` must be the columns' sums of (w - w_zero): a kernel that reads x with an offset relies on
    it. The total x w - x_zero * sums - (the sum of the row of x) * w_zero in i32, which wraps around, is then
    (x - x_zero) (w - w_zero). A float result is total * scale + bias, no less than 0 where
    `relu`; 8 bits are round(that / y_scale) + y_zero, halves to even, saturated, NaN as 0: QuantizeLinear of ONNX.
    """

    columns: int
    dtype: DType
    w_zero: bool = False
    relu: bool = False

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        want(len(types) == self.operands, lambda: f"quantized_linear takes {self.operands} operands, not {len(types)}")
        x, w, *rest = types
        want(x.rank == 2 and x.dtype in (DType.U8, DType.I8), lambda: f"quantized_linear wants bytes [M, K], not {x}")
        want(isinstance(x.shape[1], int), lambda: f"quantized_linear wants a static K, not {x}")
        want(self.dtype in RESULTS, lambda: f"quantized_linear gives no {self.dtype}")
        packed = TensorType(DType.I8, packed_shape(static(x.shape[1]), self.columns))
        want(w == packed, lambda: f"the packed weights must be {packed}, not {w}")
        for found, wanted in zip(rest, self._vectors(), strict=True):
            want(found == wanted, f"quantized_linear wants {wanted}, not {found}")
        return (TensorType(self.dtype, (x.shape[0], self.columns)),)

    @property
    def operands(self) -> int:
        return 2 + len(self._vectors())

    def _vectors(self) -> list[TensorType]:
        """The types of the operands after x and w."""
        one, each = (1,), (self.columns,)
        shapes = [(DType.I32, one), (DType.I32, each)]
        if self.w_zero:
            shapes.append((DType.I32, each))
        if self.dtype is not DType.I32:
            shapes += [(DType.F32, each)] * 2
        if self.dtype in (DType.U8, DType.I8):
            shapes += [(DType.F32, one)] * 2
        return [TensorType(dtype, shape) for dtype, shape in shapes]

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        x, w, x_zero, sums, *rest = arrays
        wide = x.astype(np.float64) @ unpack(w, x.shape[1], self.columns).astype(np.float64)  # exact below 2**53
        total = wide.astype(np.int64) - x_zero.astype(np.int64) * sums
        if self.w_zero:
            total -= x.astype(np.int64).sum(1, keepdims=True) * rest.pop(0)
        exact = total.astype(np.int32)
        if self.dtype is DType.I32:
            return (exact,)
        scale, bias, *result = rest
        with np.errstate(all="ignore"):
            y = exact.astype(scale.dtype) * scale + bias
            y = np.where(y < 0, np.zeros((), y.dtype), y) if self.relu else y
            if not result:
                return (y,)
            return (cast_array(np.round(y / result[0]) + result[1], self.dtype),)


@dataclass(frozen=True, slots=True)
class Im2col(Op):
    """The windows of x [N, H, W, C] of u8 or i8 as rows [N * Ho * Wo, R * S * C]; the second operand, a number [], lies around x.

    `window` is (R, S); Ho and Wo are those of a convolution of such a window, `strides`, padding `low` and `high`, and `dilations`.
    """

    window: tuple[int, int]
    strides: tuple[int, int]
    low: tuple[int, int]
    high: tuple[int, int]
    dilations: tuple[int, int]

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        x, fill = types
        want(x.rank == 4 and x.dtype in (DType.U8, DType.I8), lambda: f"im2col wants bytes [N, H, W, C], not {x}")
        want(fill == TensorType(x.dtype, ()), lambda: f"the fill must be {x.dtype}[], not {fill}")
        rows = self.windows(x)
        return (x.with_shape((product((x.shape[0], *rows)), product((*self.window, x.shape[3])))),)

    def windows(self, x: TensorType) -> tuple[Dim, Dim]:
        """Ho and Wo."""
        image = zip(x.shape[1:3], self.low, self.high, self.window, self.strides, self.dilations, strict=True)
        down, across = (window_size(*along) for along in image)
        return down, across

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        x, fill = arrays
        out = concrete_dims(self.windows(TensorType(dtype_of(x.dtype), x.shape)))
        padded = np.pad(x, [(0, 0), *zip(self.low, self.high, strict=True), (0, 0)], constant_values=fill.item())
        planes = np.moveaxis(padded, 3, 1)
        taps = [at_tap(planes, tap, out, self.strides, self.dilations) for tap in np.ndindex(*self.window)]
        windows = np.stack(taps).transpose(1, 3, 4, 0, 2)  # [N, Ho, Wo, taps, C]
        return (windows.reshape(math.prod(windows.shape[:3]), math.prod(windows.shape[3:])),)
