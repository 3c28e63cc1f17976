"""Every way in which a TensorProto stores its elements, in memory and left in the file."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_files import model

from fornaxc.errors import ModelError
from fornaxc.importers.onnx.reader import OnnxModel, model_from_proto, open_model

NODE = helper.make_node("Relu", ["x"], ["y"])
NUMBERS = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
    TensorProto.INT8: np.int8,
    TensorProto.UINT8: np.uint8,
    TensorProto.INT16: np.int16,
    TensorProto.UINT16: np.uint16,
    TensorProto.INT32: np.int32,
    TensorProto.UINT32: np.uint32,
    TensorProto.INT64: np.int64,
    TensorProto.UINT64: np.uint64,
    TensorProto.BOOL: np.bool_,
    TensorProto.COMPLEX64: np.complex64,
    TensorProto.COMPLEX128: np.complex128,
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    TensorProto.FLOAT8E8M0: ml_dtypes.float8_e8m0fnu,
    TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
    TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
    TensorProto.INT2: ml_dtypes.int2,
    TensorProto.UINT2: ml_dtypes.uint2,
    TensorProto.FLOAT6E2M3: ml_dtypes.float6_e2m3fn,
    TensorProto.FLOAT6E3M2: ml_dtypes.float6_e3m2fn,
}


def saved(path: Path, *tensors: TensorProto) -> OnnxModel:
    file = path / "m.onnx"
    file.write_bytes(model([NODE], initializers=tensors).SerializeToString())
    return open_model(file)


def random_values(dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    """Values that every bit of the type takes part in."""
    rng = np.random.default_rng(7)
    if dtype is np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    values = rng.normal(0, 2, shape)
    return (
        (values + 1j * rng.normal(0, 2, shape)).astype(dtype) if np.dtype(dtype).kind == "c" else values.astype(dtype)
    )


@pytest.mark.parametrize("shape", [(3, 5), (61, 59), (), (0, 4)], ids=str)
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "values"])
@pytest.mark.parametrize("number", NUMBERS, ids=TensorProto.DataType.Name)
def test_content_is_what_onnx_reads(tmp_path: Path, number: int, raw: bool, shape: tuple[int, ...]) -> None:
    values = random_values(NUMBERS[number], shape)
    proto = numpy_helper.from_array(values, "w")
    if not raw:
        entries = values.reshape(-1)
        plain = entries.tolist() if entries.dtype.kind in "iufcb" else entries.astype(np.float32).tolist()
        proto = helper.make_tensor("w", number, shape, plain)
    assert proto.HasField("raw_data") == raw
    opened = saved(tmp_path, proto)
    source = opened.tensor(opened.proto.graph.initializer[0])
    expected = numpy_helper.to_array(proto)
    assert (source.dtype, source.shape, source.size) == (np.dtype(NUMBERS[number]), shape, expected.size)
    loaded = source.load()
    assert loaded.dtype == expected.dtype and loaded.shape == shape
    assert loaded.tobytes() == expected.tobytes()
    assert loaded.flags.writeable and loaded.flags.c_contiguous and loaded.nbytes == source.nbytes


def test_large_payloads_are_not_in_the_skeleton(tmp_path: Path) -> None:
    weights = [
        numpy_helper.from_array(np.arange(100_000, dtype=np.float32), "raw"),
        helper.make_tensor("packed", TensorProto.INT64, (50_000,), list(range(50_000))),
    ]
    opened = saved(tmp_path, *weights)
    assert opened.proto.ByteSize() < 2000
    raw, packed = (opened.tensor(t) for t in opened.proto.graph.initializer)
    assert np.array_equal(raw.load(), np.arange(100_000))
    assert np.array_equal(packed.load(), np.arange(50_000))


def test_extent_holds_the_array_itself(tmp_path: Path) -> None:
    values = random_values(np.float16, (40, 40))
    source = (opened := saved(tmp_path, numpy_helper.from_array(values, "w"))).tensor(opened.proto.graph.initializer[0])
    assert source.extent is not None
    path, offset, length = source.extent
    assert path.read_bytes()[offset : offset + length] == values.tobytes()


@pytest.mark.parametrize(("number", "values"), [(TensorProto.INT4, [1, -1, -8]), (TensorProto.UINT4, [1, 15, 8])])
def test_four_bits_start_with_the_low_nibble(number: int, values: list[int]) -> None:
    raw = TensorProto(name="w", data_type=number, dims=[3], raw_data=bytes([0xF1, 0x08]))
    typed = TensorProto(name="w", data_type=number, dims=[3], int32_data=[0xF1, 0x08])
    for proto in (raw, typed):
        assert memory_model().tensor(proto).load().astype(int).tolist() == values


def test_bit_patterns_in_int32_data() -> None:
    half = TensorProto(name="w", data_type=TensorProto.FLOAT16, dims=[2], int32_data=[0x3C00, 0xC000])
    brain = TensorProto(name="w", data_type=TensorProto.BFLOAT16, dims=[2], int32_data=[0x3F80, 0xC000])
    for proto in (half, brain):
        assert memory_model().tensor(proto).load().astype(float).tolist() == [1.0, -2.0]


def test_raw_bool_that_is_neither_0_nor_1() -> None:
    proto = TensorProto(name="w", data_type=TensorProto.BOOL, dims=[3], raw_data=bytes([0, 2, 1]))
    assert memory_model().tensor(proto).load().view(np.uint8).tolist() == [0, 1, 1]


def test_strings() -> None:
    loaded = memory_model().tensor(helper.make_tensor("s", TensorProto.STRING, (2,), ["a", "é"])).load()
    assert loaded.dtype == object and loaded.tolist() == [b"a", "é".encode()]


@pytest.mark.parametrize("coordinates", [[1, 5], [[0, 1], [1, 2]]], ids=["linear", "per axis"])
def test_sparse(coordinates: list[object]) -> None:
    values = numpy_helper.from_array(np.array([3, 4], np.float32), "w")
    indices = numpy_helper.from_array(np.array(coordinates, np.int64), "i")
    source = memory_model().sparse_tensor(helper.make_sparse_tensor(values, indices, [2, 3]))
    assert source.name == "w" and source.load().tolist() == [[0, 3, 0], [0, 0, 4]]


def test_sparse_index_outside() -> None:
    values = numpy_helper.from_array(np.array([3], np.float32), "w")
    indices = numpy_helper.from_array(np.array([6], np.int64), "i")
    with pytest.raises(ModelError, match="'w' has an index outside"):
        memory_model().sparse_tensor(helper.make_sparse_tensor(values, indices, [2, 3])).load()


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"data_type": 1, "dims": [3], "raw_data": b"12345678"}, "FX422", "needs 12 bytes and has 8"),
        ({"data_type": 1, "dims": [3], "float_data": [1, 2]}, "FX422", "needs 3 values and has 2"),
        ({"data_type": 1, "dims": [3]}, "FX422", "needs 12 bytes and has 0"),
        ({"data_type": 22, "dims": [3], "raw_data": b"1"}, "FX422", "needs 2 bytes and has 1"),
        ({"data_type": 14, "dims": [1], "float_data": [1]}, "FX422", "needs 2 values and has 1"),
        ({"data_type": 0, "dims": [1], "raw_data": b"1"}, "FX423", "element type 0"),
        ({"data_type": 99, "dims": [1], "raw_data": b"1"}, "FX423", "element type 99"),
        ({"data_type": 1, "dims": [-1], "raw_data": b"1"}, "FX423", "negative dim"),
        ({"data_type": 1, "dims": [1], "raw_data": b"1234", "float_data": [1]}, "FX423", "twice"),
        ({"data_type": 10, "dims": [1], "float_data": [1]}, "FX423", "FLOAT16 belongs in int32_data"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_tensor_is_named(fields: dict[str, object], code: str, text: str) -> None:
    with pytest.raises(ModelError, match=text) as caught:
        memory_model().tensor(TensorProto(name="bad", **fields))
    assert caught.value.code == code and "'bad'" in caught.value.message
    assert caught.value.details == [{"tensor": "bad"}]


def test_length_of_a_payload_in_the_file_is_checked(tmp_path: Path) -> None:
    proto = TensorProto(name="bad", data_type=1, dims=[1000], raw_data=bytes(4004))
    opened = saved(tmp_path, proto)
    with pytest.raises(ModelError, match=r"'bad'.*needs 4000 bytes and has 4004"):
        opened.tensor(opened.proto.graph.initializer[0])


def test_file_that_shrinks_after_it_was_opened(tmp_path: Path) -> None:
    opened = saved(tmp_path, numpy_helper.from_array(np.zeros(1000, np.float32), "w"))
    source = opened.tensor(opened.proto.graph.initializer[0])
    with opened.path.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(ModelError, match="became shorter"):
        source.load()


def memory_model() -> OnnxModel:
    return model_from_proto(model([NODE]))
