"""Inputs and outputs in files of every format, one sample or many; what does not fit is said before anything is compiled."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, parser

from fornaxc.errors import UsageError
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.graph import Array, Graph
from fornaxc.verification.given import load_expected, load_inputs, tensor_sets
from fornaxc.verification.tensor_files import load_arrays

MODEL = """
<ir_version: 8, opset_import: ["" : 18]>
f (float[n, 2] x, bfloat16[2] b, int64[n] i) => (float[n, 2] y, bfloat16[2] c, int64[n] j) {
    y = Neg(x) c = Identity(b) j = Neg(i)
}
"""
X = np.array([[1, 2], [3, 4]], np.float32)
B = np.array([0.5, -2], ml_dtypes.bfloat16)
I = np.array([7, 8], np.int64)  # noqa: E741
ARRAYS: dict[str, Array] = {"x": X, "b": B, "i": I}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    return import_onnx(tmp_path / "m.onnx")


def write_pb(path: Path, array: Array, name: str = "") -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def write_safetensors(path: Path, arrays: dict[str, Array]) -> None:
    names = {"float32": "F32", "bfloat16": "BF16", "int64": "I64"}
    header, data = {"__metadata__": {"format": "np"}}, b""
    for name, array in arrays.items():
        offsets = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": names[array.dtype.name], "shape": list(array.shape), "data_offsets": offsets}  # type: ignore[dict-item]
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def same(found: dict[str, Array], wanted: dict[str, Array] = ARRAYS) -> bool:
    return list(found) == list(wanted) and all(
        found[n].dtype == wanted[n].dtype and found[n].tolist() == wanted[n].tolist() for n in wanted
    )


def only(graph: Graph, path: Path) -> dict[str, Array]:
    (files,) = tensor_sets(path)
    return load_inputs(graph, files)[0]


def test_one_file_holds_a_sample(graph: Graph, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **ARRAYS)  # type: ignore[arg-type]
    write_safetensors(tmp_path / "a.safetensors", ARRAYS)
    for name in ("a.npz", "a.safetensors"):
        assert same(only(graph, tmp_path / name))


def test_a_folder_of_tensors_is_one_sample_by_name_or_by_place(graph: Graph, tmp_path: Path) -> None:
    for number, (name, array) in enumerate(ARRAYS.items()):
        write_pb(tmp_path / "placed" / f"input_{number}.pb", array)
        write_pb(tmp_path / "placed" / f"output_{number}.pb", array)
        write_pb(tmp_path / "named" / f"input_{2 - number}.pb", array, name)
        write_pb(tmp_path / "files" / f"{name}.pb", array)
        write_pb(tmp_path / "inside" / f"tensor{number}.pb", array, name)
    for folder in ("placed", "named", "files", "inside"):
        assert same(only(graph, tmp_path / folder)), folder
    (outputs,) = tensor_sets(tmp_path / "placed", "output")
    assert same(load_expected(graph, outputs, {"n": 2}), {"y": X, "c": B, "j": I})


def test_one_tensor_is_the_one_input(tmp_path: Path) -> None:
    onnx.save(
        parser.parse_model(MODEL.split("f (", maxsplit=1)[0] + "f (float[2] x) => (float[2] y) { y = Neg(x) }"),
        tmp_path / "m.onnx",
    )
    graph = import_onnx(tmp_path / "m.onnx")
    for name in ("", "x"):
        write_pb(tmp_path / "t.pb", X[0], name)
        assert only(graph, tmp_path / "t.pb")["x"].tolist() == [1, 2]
    write_pb(tmp_path / "t.pb", X[0], "z")
    with pytest.raises(UsageError, match="no input is named 'z'") as caught:
        only(graph, tmp_path / "t.pb")
    assert caught.value.code == "FX220"


def test_folders_of_many_samples_in_the_order_of_their_numbers(graph: Graph, tmp_path: Path) -> None:
    for number in (10, 9, 0):
        folder = tmp_path / "sets" / f"test_data_set_{number}"
        folder.mkdir(parents=True)
        for place, array in enumerate(ARRAYS.values()):
            write_pb(folder / f"input_{place}.pb", array + number)
        (tmp_path / "many").mkdir(exist_ok=True)
        np.savez(tmp_path / "many" / f"s{number}.npz", x=X + number, b=B, i=I)
    (tmp_path / "sets" / "notes").mkdir()
    (tmp_path / "many" / "notes.txt").write_text("none")
    assert [s.label for s in tensor_sets(tmp_path / "sets")] == [f"test_data_set_{n}" for n in (0, 9, 10)]
    found = tensor_sets(tmp_path / "many")
    assert [s.label for s in found] == ["s0.npz", "s9.npz", "s10.npz"]
    assert [load_inputs(graph, s)[0]["x"][0, 0] for s in found] == [1, 10, 11]
    np.savez(tmp_path / "many" / "s9.npz", x=X, i=I)
    with pytest.raises(UsageError, match=r"^s9\.npz: the input 'b' is missing"):
        load_inputs(graph, found[1])


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"z": X}, "FX220", "no input is named 'z'"),
        ({"x": X.astype(np.float64)}, "FX221", "float32"),
        ({"x": X[:, :1]}, "FX222", "axis 1"),
        ({"i": I[:1]}, "FX222", "n is 2"),
    ],
)
def test_what_does_not_fit(graph: Graph, tmp_path: Path, change: dict[str, Array], code: str, says: str) -> None:
    for name, array in {**ARRAYS, **change}.items():
        write_pb(tmp_path / "s" / f"{name}.pb", array, name)
    with pytest.raises(UsageError, match=says) as caught:
        only(graph, tmp_path / "s")
    assert caught.value.code == code


def test_two_files_for_one_input(graph: Graph, tmp_path: Path) -> None:
    for number in range(3):
        write_pb(tmp_path / "s" / f"t{number}.pb", X, "x")
    with pytest.raises(UsageError, match="two files of s hold 'x'"):
        only(graph, tmp_path / "s")


@pytest.mark.parametrize("layout", ["nothing", "mixed"])
def test_folders_that_are_no_samples(tmp_path: Path, layout: str) -> None:
    if layout == "mixed":
        write_pb(tmp_path / "input_0.pb", X)
        np.savez(tmp_path / "a.npz", x=X)
    with pytest.raises(UsageError) as caught:
        tensor_sets(tmp_path)
    assert caught.value.code == "FX237"


def test_files_that_are_not_what_their_name_says(tmp_path: Path) -> None:
    strings = TensorProto(data_type=TensorProto.STRING, dims=[1], string_data=[b"a"])
    outside = TensorProto(data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    short = TensorProto(data_type=TensorProto.FLOAT, dims=[3], raw_data=b"1234")
    header = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}).encode()
    contents = {
        "strings.pb": strings.SerializeToString(),
        "outside.pb": outside.SerializeToString(),
        "short.pb": short.SerializeToString(),
        "empty.pb": b"",
        "text.pb": b"not protobuf",
        "empty.safetensors": b"",
        "long.safetensors": (1 << 40).to_bytes(8, "little") + b"{}",
        "text.safetensors": (4).to_bytes(8, "little") + b"text",
        "list.safetensors": (2).to_bytes(8, "little") + b"[]",
        "short.safetensors": len(header).to_bytes(8, "little") + header + b"1234",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError) as caught:
            load_arrays(tmp_path / name, "inputs")
        assert (caught.value.code, str(tmp_path / name) in caught.value.message) == ("FX224", True), name
    for ending in ("npz", "pb", "safetensors"):
        with pytest.raises(UsageError) as caught:
            load_arrays(tmp_path / f"none.{ending}", "inputs")
        assert caught.value.code == "FX223"
