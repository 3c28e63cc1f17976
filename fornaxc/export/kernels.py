"""Which element types onnxruntime's CPU kernels take, and which wider types carry the others through them."""

from __future__ import annotations

from dataclasses import dataclass

from fornaxc.ir.types import DType

_INTS = "i8 i16 i32 i64 u8 u16 u32 u64"
_MOVED = f"bool {_INTS} f16 f32 f64"
_MOVED_BF16 = f"{_MOVED} bf16"
_F8 = "f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz"
_WIDE = "f32 f64 i32 i64"


@dataclass(frozen=True, slots=True)
class Kernel:
    """`dtypes` that an operator takes for its operands number `operands` (None: all); its result is of that type where `follows`.

    `ordered`: the result depends on the order of the values, so that u64 cannot be carried by the bits of i64.
    """

    dtypes: frozenset[DType]
    operands: tuple[int, ...] | None = None
    follows: bool = True
    ordered: bool = False


def _kernel(
    dtypes: str, operands: tuple[int, ...] | None = None, *, follows: bool = True, ordered: bool = False
) -> Kernel:
    return Kernel(frozenset(DType(name) for name in dtypes.split()), operands, follows, ordered)


KERNELS: dict[str, Kernel] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Abs", "Sign"), _kernel(f"f32 f64 {_INTS}")),
    **dict.fromkeys(("Exp", "Log", "Sqrt", "Sin", "Cos", "Tanh", "Ceil", "Floor", "Round"), _kernel("f32 f64")),
    **dict.fromkeys(("Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization"), _kernel("f32 f64")),
    **dict.fromkeys(("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"), _kernel("f32")),
    **dict.fromkeys(("Erf", "Sigmoid", "Conv"), _kernel("f32")),
    **dict.fromkeys(("And", "Or", "Xor", "Not"), _kernel("bool")),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"), _kernel(_INTS)),
    **dict.fromkeys(("IsNaN", "IsInf"), _kernel("f32 f64", follows=False)),
    "Equal": _kernel(f"bool f32 f64 {_INTS}", follows=False),
    **dict.fromkeys(
        ("Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
        _kernel(f"f32 f64 {_INTS}", follows=False, ordered=True),
    ),
    **dict.fromkeys(("Max", "Min"), _kernel("f32 f64 i8 i32 i64 u8 u32 u64", ordered=True)),
    "Neg": _kernel("f32 f64 i8 i16 i32 i64"),
    "Mod": _kernel(f"f32 f64 {_INTS}", ordered=True),
    "Pow": _kernel("f32 f64"),
    "BitShift": _kernel("u8 u16 u32 u64"),
    "Where": _kernel("f32 f64 i32 i64 i8 u32 u8", (1, 2)),
    "Identity": _kernel(f"{_MOVED_BF16} {_F8}"),
    "Reshape": _kernel(f"{_MOVED_BF16} {_F8}", (0,)),
    "Shape": _kernel(f"{_MOVED_BF16} {_F8}", follows=False),
    "Transpose": _kernel(_MOVED_BF16),
    "Unsqueeze": _kernel(_MOVED_BF16, (0,)),
    "Expand": _kernel(_MOVED, (0,)),
    "Concat": _kernel(_MOVED_BF16),
    "Slice": _kernel(_MOVED_BF16, (0,)),
    "Gather": _kernel(_MOVED_BF16, (0,)),
    "GatherElements": _kernel(_MOVED_BF16, (0,)),
    "GatherND": _kernel(_MOVED_BF16, (0,)),
    "ScatterElements": _kernel("f32 f64 " + _INTS + " bool", (0, 2)),
    "ScatterND": _kernel("f32 f64 " + _INTS + " bool", (0, 2)),
    "ReverseSequence": _kernel(_MOVED, (0,)),
    "Pad": _kernel("bool f32 f64 i8 i32 i64 u8 u32 u64", (0, 2)),
    "NonZero": _kernel("bool", follows=False),
    "Range": _kernel("f32 f64 i32 i64"),
    "ReduceSum": _kernel(_WIDE, (0,)),
    "ReduceProd": _kernel(_WIDE, (0,)),
    "ReduceMean": _kernel("f32 f64", (0,)),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _kernel("bool f32 f64 i8 i32 i64 u8", (0,), ordered=True)),
    **dict.fromkeys(("ArgMax", "ArgMin"), _kernel("f32 f64 i8 i32 i64 u8", (0,), follows=False, ordered=True)),
    "CumSum": _kernel(_WIDE, (0,)),
    "CumProd": _kernel(f"{_WIDE} u32 u64", (0,)),
    "MatMul": _kernel(f"{_WIDE} u32 u64"),
}

_WIDER: dict[DType, tuple[DType, ...]] = {
    DType.BOOL: (DType.U8, DType.I32),
    DType.I2: (DType.I8, DType.I32),
    DType.I4: (DType.I8, DType.I32),
    DType.U2: (DType.U8, DType.I32),
    DType.U4: (DType.U8, DType.I32),
    DType.I8: (DType.I32,),
    DType.U8: (DType.U32, DType.I32),
    DType.I16: (DType.I32,),
    DType.U16: (DType.U32, DType.I32),
    DType.U32: (DType.I64,),
    DType.U64: (DType.I64,),
    DType.F32: (DType.F64,),
}
RUNTIME_TYPES = frozenset(DType(name) for name in f"bool i2 i4 u2 u4 {_INTS} f16 bf16 f32 f64 {_F8} f8e8m0fnu".split())
"""The element types of tensors in onnxruntime."""


def carrier(op_type: str, dtype: DType) -> DType:
    """The type in which an operator computes on elements of `dtype`. KeyError where there is none."""
    supported = KERNELS[op_type].dtypes
    if dtype in supported:
        return dtype
    wider = _WIDER.get(dtype, (DType.F32, DType.F64) if dtype.is_float and dtype is not DType.F64 else ())
    return next((w for w in wider if w in supported), None) or _none(op_type, dtype)


def _none(op_type: str, dtype: DType) -> DType:
    raise KeyError(f"{op_type} of {dtype}")
