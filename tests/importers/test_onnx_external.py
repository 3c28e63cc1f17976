"""External data: found beside the model, also through the links of model caches, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from onnx_files import model

from fornaxc.errors import ModelError
from fornaxc.importers.onnx.reader import OnnxModel, open_model
from fornaxc.importers.onnx.structure import raw_graph

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def external(name: str, location: str | None, **entries: object) -> TensorProto:
    """A float tensor of shape (2, 3) whose data lies elsewhere."""
    proto = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    given = entries if location is None else {"location": location, **entries}
    for key, value in given.items():
        proto.external_data.add(key=key, value=str(value))
    return proto


def write(path: Path, *tensors: TensorProto) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model([helper.make_node("Relu", ["x"], ["y"])], initializers=tensors).SerializeToString())
    return path


def loaded(opened: OnnxModel, index: int = 0) -> np.ndarray:
    return opened.tensor(opened.proto.graph.initializer[index]).load()


def test_offset_and_length(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"head" + VALUES.tobytes() + b"tail")
    opened = open_model(write(tmp_path / "m.onnx", external("w", "w.bin", offset=4, length=24)))
    source = opened.tensor(opened.proto.graph.initializer[0])
    assert np.array_equal(source.load(), VALUES)
    assert source.extent == (tmp_path / "w.bin", 4, 24)


def test_offset_and_length_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    assert np.array_equal(loaded(open_model(write(tmp_path / "m.onnx", external("w", "w.bin")))), VALUES)


def test_external_files_are_listed_once_and_sorted(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.bin", "sub/a.bin"):
        (tmp_path / name).write_bytes(VALUES.tobytes())
    tensors = [external("1", "sub/a.bin"), external("2", "./b.bin"), external("3", "b.bin")]
    opened = open_model(write(tmp_path / "m.onnx", *tensors))
    assert opened.external_files() == ["b.bin", "sub/a.bin"]
    assert opened.files() == [tmp_path / "m.onnx", tmp_path / "b.bin", tmp_path / "sub/a.bin"]


def test_external_data_in_subgraphs_and_constants_counts(tmp_path: Path) -> None:
    (tmp_path / "c.bin").write_bytes(VALUES.tobytes())
    constant = helper.make_node("Constant", [], ["c"])
    constant.attribute.add(name="value", type=4, t=external("", "c.bin"))
    branch = helper.make_graph([constant], "b", [], [helper.make_tensor_value_info("c", 1, None)])
    node = helper.make_node("If", ["k"], ["y"], then_branch=branch, else_branch=branch)
    path = tmp_path / "m.onnx"
    condition = numpy_helper.from_array(np.array(True), "k")
    path.write_bytes(model([node], initializers=[condition]).SerializeToString())
    opened = open_model(path)
    assert opened.external_files() == ["c.bin"]
    inner = raw_graph(opened).nodes[0].subgraph("then_branch").nodes[0]
    assert np.array_equal(inner.tensor("value").load(), VALUES)


def test_model_cache_of_links_loads(tmp_path: Path) -> None:
    write(tmp_path / "blobs/abc", external("w", "model.onnx_data"))
    (tmp_path / "blobs/def").write_bytes(VALUES.tobytes())
    snapshot = tmp_path / "snapshots/1"
    snapshot.mkdir(parents=True)
    (snapshot / "model.onnx").symlink_to("../../blobs/abc")
    (snapshot / "model.onnx_data").symlink_to("../../blobs/def")
    assert np.array_equal(loaded(open_model(snapshot / "model.onnx")), VALUES)


def test_folder_that_is_a_link_loads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/w.bin").write_bytes(VALUES.tobytes())
    write(tmp_path / "real/m.onnx", external("w", "w.bin"))
    (tmp_path / "link").symlink_to("real")
    assert np.array_equal(loaded(open_model(tmp_path / "link/m.onnx")), VALUES)


def test_a_relative_path_works_from_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    write(tmp_path / "m.onnx", external("w", "w.bin"))
    monkeypatch.chdir(tmp_path)
    assert np.array_equal(loaded(open_model("m.onnx")), VALUES)


@pytest.mark.parametrize(
    "location", ["../w.bin", "sub/../../w.bin", "{tmp}/w.bin", "C:\\w.bin", "C:w.bin", "..", "\\\\host\\w"]
)
def test_locations_outside_are_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    location = location.replace("{tmp}", str(tmp_path))
    refused(write(tmp_path / "model/m.onnx", external("w", location)), "FX424", location)


def test_links_that_leave_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(VALUES.tobytes())
    path = write(tmp_path / "model/m.onnx", external("w", "w.bin"))
    (tmp_path / "model/w.bin").symlink_to("../secret")
    refused(path, "FX424", "w.bin")


def test_folders_that_are_links_out_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    path = write(tmp_path / "model/m.onnx", external("w", "up/w.bin"))
    (tmp_path / "model/up").symlink_to("..")
    refused(path, "FX424", "up/w.bin")


def test_a_missing_file_and_a_folder_in_its_place(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", external("w", "w.bin"))
    refused(path, "FX425", "w.bin")
    (tmp_path / "w.bin").mkdir()
    refused(path, "FX425", "w.bin")


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ({"offset": 4}, "FX426"),
        ({"length": 20}, "FX426"),
        ({"length": 28}, "FX426"),
        ({"offset": -4}, "FX427"),
        ({"offset": "four"}, "FX427"),
        ({"length": "0x18"}, "FX427"),
    ],
    ids=str,
)
def test_wrong_extents(tmp_path: Path, entries: dict[str, object], code: str) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    refused(write(tmp_path / "m.onnx", external("w", "w.bin", **entries)), code, "")


@pytest.mark.parametrize("location", [None, ""])
def test_no_location(tmp_path: Path, location: str | None) -> None:
    refused(write(tmp_path / "m.onnx", external("w", location)), "FX427", "")


def refused(path: Path, code: str, location: str) -> None:
    """Building the graph fails, and the message names the tensor and the location."""
    with pytest.raises(ModelError) as caught:
        raw_graph(open_model(path))
    assert caught.value.code == code
    assert "'w'" in caught.value.message and repr(location)[1:-1] in caught.value.message
    assert caught.value.details[0]["tensor"] == "w"


def test_a_location_that_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        loaded(open_model(write(tmp_path / "m.onnx", external("w", "z" * 5000))))


def test_more_than_two_gigabytes_of_external_data_cost_no_memory(tmp_path: Path) -> None:
    """The file is zeros, which take no space on disk, but for its last row, which lies behind the first 2 GiB."""
    rows, width = 5 * 2**17, 2**10
    table = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, width], data_location=TensorProto.EXTERNAL)
    table.external_data.add(key="location", value="w.bin")
    last = np.full(width, 7, np.float32).tobytes()
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(rows * width * 4 - len(last))
        file.seek(0, 2)
        file.write(last)
    proto = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (int64[n] i) => (float[n, d] y) { y = Gather(w, i) }'
    )
    proto.graph.initializer.append(table)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    program = """
        import resource, sys
        from fornaxc.importers.onnx.importer import import_model
        from fornaxc.importers.onnx.reader import open_model
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        graph = import_model(open_model(sys.argv[1]), {})
        (weight,) = (c for c in graph.constants.values() if not c.literal)
        assert weight.type.nbytes == 5 * 2**29, weight.type
        assert set(weight.load()[-1]) == {7}
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), tmp_path / "m.onnx"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert int(done.stdout) < 30_000  # KiB
