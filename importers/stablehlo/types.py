"""MLIR element and tensor types to the IR's, and the shapes that values of the importer take."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fornaxc.ir.graph import Value
from fornaxc.ir.types import DType


@dataclass(frozen=True, slots=True, eq=False)
class Complex:
    """A tensor of complex numbers: its real and imaginary parts, of one type."""

    re: Value
    im: Value


@dataclass(frozen=True, slots=True)
class Token:
    """A token, which orders side effects; programs here have none."""


Operand = Value | Complex | Token | tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Quant:
    """A uniform quantization: real = scale * (stored - zero point), for all elements or along `axis`."""

    storage: DType
    expressed: DType
    low: int
    high: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor type: `shape` has None where a size is dynamic; `dtype` is the parts' type of complex tensors."""

    dtype: DType
    shape: tuple[int | None, ...]
    complex: bool = False
    quant: Quant | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)


class UnknownType(Exception):
    """A type that the IR cannot hold; the text names it."""


ELEMENTS: dict[str, DType] = {
    "i1": DType.BOOL,
    **{f"i{n}": DType(f"i{n}") for n in (2, 4, 8, 16, 32, 64)},
    **{f"ui{n}": DType(f"u{n}") for n in (2, 4, 8, 16, 32, 64)},
    "f16": DType.F16,
    "bf16": DType.BF16,
    "f32": DType.F32,
    "f64": DType.F64,
    "f8E4M3FN": DType.F8E4M3FN,
    "f8E4M3FNUZ": DType.F8E4M3FNUZ,
    "f8E5M2": DType.F8E5M2,
    "f8E5M2FNUZ": DType.F8E5M2FNUZ,
    "f4E2M1FN": DType.F4E2M1FN,
    "f8E8M0FNU": DType.F8E8M0FNU,
    "f8E4M3": DType.F8E4M3,
    "f8E3M4": DType.F8E3M4,
    "f8E4M3B11FNUZ": DType.F8E4M3B11FNUZ,
    "f6E2M3FN": DType.F6E2M3FN,
    "f6E3M2FN": DType.F6E3M2FN,
    "index": DType.I64,
}


def tensor_info(type: Any) -> TensorInfo:
    """What an MLIR ranked tensor type says. `UnknownType` for other types and for elements without an IR type."""
    from jaxlib.mlir import ir

    if not isinstance(type, ir.RankedTensorType):
        raise UnknownType(f"the type {type}")
    shape = tuple(None if type.is_dynamic_dim(i) else int(type.get_dim_size(i)) for i in range(type.rank))
    element = str(type.element_type)
    if element.startswith("complex<"):
        return TensorInfo(_element(element[8:-1]), shape, complex=True)
    if element.startswith("!quant.uniform<"):
        quant = parse_quant(element)
        return TensorInfo(quant.storage, shape, quant=quant)
    return TensorInfo(_element(element), shape)


def _element(name: str) -> DType:
    found = ELEMENTS.get(name)
    if found is None:
        raise UnknownType(f"the element type {name}")
    return found


_QUANT = re.compile(r"!quant\.uniform<([iu]\d+)(?:<(-?\d+):(-?\d+)>)?:(\w+)(?::(\d+))?, (.*)>")


def parse_quant(text: str) -> Quant:
    """The printed form of a uniform quantized type. `UnknownType` for sub-channel ones."""
    match = _QUANT.fullmatch(text)
    if match is None or "," in text.split("<", 1)[1].split(", ", maxsplit=1)[0]:
        raise UnknownType(f"the quantized type {text}")
    stored, low, high, expressed, axis, rest = match.groups()
    storage = _element(stored if stored.startswith("i") else f"ui{stored[1:]}")
    bits = storage.bits
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if storage.is_signed else (0, (1 << bits) - 1)
    if "{" in rest and rest.count("{") > 1:
        raise UnknownType(f"the quantized type {text}")
    entries = [entry.split(":") for entry in rest.strip("{}").split(",")]
    return Quant(
        storage,
        _element(expressed),
        int(low) if low is not None else least,
        int(high) if high is not None else most,
        tuple(float(entry[0]) for entry in entries),
        tuple(int(entry[1]) if len(entry) > 1 else 0 for entry in entries),
        int(axis) if axis is not None else None,
        text,
    )


def parts(operand: Operand) -> list[Value]:
    """The IR values that hold an operand, in order."""
    if isinstance(operand, Value):
        return [operand]
    if isinstance(operand, Complex):
        return [operand.re, operand.im]
    if isinstance(operand, Token):
        return []
    return [value for item in operand for value in parts(item)]


def rebuild(like: Operand, values: Sequence[Value]) -> Operand:
    """An operand of the structure of `like` from the values of its parts."""
    rest = iter(values)
    return _rebuild(like, lambda: next(rest))


def _rebuild(like: Operand, take: Callable[[], Value]) -> Operand:
    if isinstance(like, Value):
        return take()
    if isinstance(like, Complex):
        real = take()
        return Complex(real, take())
    if isinstance(like, Token):
        return like
    return tuple(_rebuild(item, take) for item in like)
