"""Packed weights: the bytes that are written, and the memory that writing them takes."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from fornaxc import mapping, weights
from fornaxc.errors import ModelError
from fornaxc.ir.graph import Constant
from fornaxc.ir.ops import PackConv
from fornaxc.ir.types import DType, TensorType
from fornaxc.kernels import packing
from fornaxc.mapping import contiguous, map_bytes, release_pages


def written(*constants: Constant) -> bytes:
    file = io.BytesIO()
    weights.write_weights(file, constants)
    return file.getvalue()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_large_weights_are_written_by_parts(monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]) -> None:
    content = np.arange(7 * 5 * 9, dtype=np.float32).reshape(7, 5, 9).transpose(order)
    constant = Constant(TensorType(DType.F32, content.shape), lambda: content, False, "w")
    whole = written(constant)
    assert content.tobytes() in whole
    for size in (4, 40, 100, 400):
        monkeypatch.setattr(weights, "PART_BYTES", size)
        assert written(constant) == whole


@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((300, 3, 2, 2), 1),
        ((150, 5, 1, 1), 2),
        ((64, 2, 1, 3), 1),
        ((6, 1, 3, 3), 6),
        ((4, 0, 3, 3), 1),
        ((0, 4, 1, 1), 1),
    ],
)
def test_panels_do_not_depend_on_how_many_are_packed_together(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], groups: int
) -> None:
    w = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    whole = packing.pack_conv_weight(w, groups)
    assert np.array_equal(packing.unpack_conv_weight(whole, shape, groups), w)
    for size in (1, 2000, 10_000):
        monkeypatch.setattr(packing, "PART_BYTES", size)
        assert np.array_equal(np.concatenate(list(PackConv(groups).parts(w))), whole)


def test_parts_that_are_not_the_whole_weight_are_refused() -> None:
    four = np.zeros(4, np.float32)
    constant = Constant(TensorType(DType.F32, (8,)), lambda: four, False, "w", lambda: iter([four]))
    with pytest.raises(ModelError, match="'w' holds 4 elements"):
        written(constant)


def test_a_mapped_view_is_copied_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = np.arange(6 * 700, dtype=np.float32).reshape(6, 700)
    path = tmp_path / "data"
    path.write_bytes(b"odd" + content.tobytes())
    mapped = map_bytes(path, 3, content.nbytes).view(np.float32).reshape(content.shape)
    release_pages(mapped)
    assert np.array_equal(mapped, content)
    monkeypatch.setattr(mapping, "SPAN", 4096)
    assert np.array_equal(contiguous(mapped.T), content.T)
    assert np.array_equal(contiguous(mapped[:1].T), content[:1].T)
    with pytest.raises(ValueError):
        map_bytes(path, 3, content.nbytes + 1)


def test_one_element_seen_as_many_is_made_contiguous() -> None:
    many = np.broadcast_to(np.float32(3), (2, 5))
    assert contiguous(many).flags.c_contiguous and np.array_equal(contiguous(many), many)


MEASURE = """
import resource, sys
from pathlib import Path
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack
from fornaxc.weights import weight_constants, write_weights
graph = prepack(optimize(import_onnx(Path(sys.argv[1])), "cpu", ()))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open("/dev/null", "wb") as file:
    write_weights(file, weight_constants(graph))
print(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux")
def test_one_weight_of_a_gigabyte_is_packed_in_less_than_half_of_that(tmp_path: Path) -> None:
    rows, columns = 8192, 32768
    w = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, columns], data_location=TensorProto.EXTERNAL)
    w.external_data.add(key="location", value="w.bin")
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(rows * columns * 4)  # zeros that take no space on the disk
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", rows])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", columns])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "head", [x], [y], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path / "m.onnx")], capture_output=True, text=True, check=True
    )
    before, after = map(int, run.stdout.split())
    assert (after - before) * 1024 < rows * columns * 4 / 2
