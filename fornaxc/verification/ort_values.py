"""Arrays of any element type as onnxruntime's values, and back."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from fornaxc.ir.graph import Array
from fornaxc.ir.types import DType, dtype_of

_PLAIN = {d.numpy for d in DType if d.numpy.isbuiltin == 1}


def to_ort(array: Array) -> Any:
    """An onnxruntime value on the CPU; of the types that numpy itself has, it shares the array's memory."""
    import onnxruntime as ort

    if array.dtype in _PLAIN:
        return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    from fornaxc.importers.onnx.types import element_number

    dtype = dtype_of(array.dtype)
    bits = np.ascontiguousarray(array).reshape(array.shape).view(np.uint16 if dtype.bits == 16 else np.uint8)
    if dtype.bits < 8:  # packed into the first bytes of a buffer that is as long as if it were not
        from onnx import numpy_helper

        packed = np.frombuffer(numpy_helper.from_array(array).raw_data, np.uint8)
        bits = np.pad(packed, (0, array.size - packed.size)).reshape(array.shape)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, element_number(dtype))


def from_ort(value: Any) -> Array:
    """The array of an onnxruntime value, also of types that numpy does not have."""
    from fornaxc.importers.onnx.types import element_type

    dtype = element_type(value.element_type())
    if dtype is None or dtype.numpy.isbuiltin == 1:
        return np.asarray(value.numpy())
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()) if all(value.shape()) else b""
    if dtype.bits < 8:
        from onnx import TensorProto, numpy_helper

        proto = TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=raw)
        return np.asarray(numpy_helper.to_array(proto)).astype(dtype.numpy)
    return np.frombuffer(raw, dtype.numpy).reshape(value.shape())
