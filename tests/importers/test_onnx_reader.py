"""What `open_model` accepts, and what it says about every other file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_files import floats, model, tensor

from fornaxc.errors import ModelError
from fornaxc.importers.onnx.codes import DESCRIPTIONS, Code
from fornaxc.importers.onnx.reader import model_from_proto, open_model
from fornaxc.importers.onnx.structure import raw_graph
from fornaxc.importers.onnx.wire import length_delimited, skeleton, varint

RELU = helper.make_node("Relu", ["x"], ["y"])


def fails(path: Path, code: str, text: str) -> ModelError:
    with pytest.raises(ModelError, match=text) as caught:
        open_model(path)
    assert caught.value.code == code and caught.value.exit == 4
    assert path.name in caught.value.message
    return caught.value


def file_of(path: Path, content: bytes | str | ModelProto) -> Path:
    file = path / "m.onnx"
    if isinstance(content, ModelProto):
        content = content.SerializeToString()
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def test_every_code_is_described_and_distinct() -> None:
    assert set(DESCRIPTIONS) == set(Code)
    assert all(re.fullmatch(r"FX4\d\d", code.value) for code in Code)


def test_a_model_is_read_as_it_is(tmp_path: Path) -> None:
    original = model([RELU], initializers=[tensor("w", range(100))])
    opened = open_model(file_of(tmp_path, original))
    assert opened.proto == original
    assert opened.opsets == {"": 18} and opened.ir_version == 10


def test_missing_file(tmp_path: Path) -> None:
    fails(tmp_path / "none.onnx", "FX401", "does not exist")
    (tmp_path / "link.onnx").symlink_to("gone")
    fails(tmp_path / "link.onnx", "FX401", "link to a file that does not exist")
    fails(file_of(tmp_path, model([RELU])) / "x.onnx", "FX401", "does not exist")


def test_a_folder_hints_at_the_models_in_it(tmp_path: Path) -> None:
    file_of(tmp_path, model([RELU]))
    assert "m.onnx" in fails(tmp_path, "FX402", "is a folder").hint


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    fails(tmp_path / "pipe", "FX402", "not a regular file")


def test_empty_file(tmp_path: Path) -> None:
    fails(file_of(tmp_path, b""), "FX403", "is empty")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("hello: world\n", "a text file that starts with 'hello: world'"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        ('<\n  ir_version: 8,\n  opset_import: ["" : 18]\n>\n', "ONNX's text syntax"),
        ("ir_version: 8\ngraph {\n}\n", "protobuf's text format"),
        ("<!DOCTYPE html>\n<html>", "an HTML page"),
        ('{"format": "graph-model"}', "a JSON document"),
        ("module.exports = {\n  a: 1,\n}", "a text file that starts with 'module.exports"),
        (b"PK\x03\x04" + bytes(100), "zip archive"),
        (b"\x80\x02}q\x00", "Python pickle"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(100), "TensorFlow Lite"),
        (b"GGUF\x03" + bytes(100), "GGUF"),
        (b"\x40\x00\x00\x00\x00\x00\x00\x00" + b'{"w":{"dtype":"F32"}}', "safetensors"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "bytes",
)
def test_other_formats_are_recognised(tmp_path: Path, content: bytes | str, text: str) -> None:
    fails(file_of(tmp_path, content), "FX405", re.escape(text))


@pytest.mark.parametrize(
    "content",
    [
        "module @jit_f {\n  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {\n",
        "// a comment\nfunc.func @main(%a: tensor<f32>) {\n  %0 = stablehlo.add %a, %a : tensor<f32>\n",
        b"ML\xefR\x01StableHLO_v1.0.0\x00",
    ],
    ids=["module", "function", "portable artifact"],
)
def test_stablehlo_is_recognised(tmp_path: Path, content: bytes | str) -> None:
    assert "StableHLO" in fails(file_of(tmp_path, content), "FX406", "holds StableHLO, not ONNX").hint


def test_a_file_cut_anywhere_is_an_error(tmp_path: Path) -> None:
    whole = model([RELU] * 3, initializers=[tensor("w", range(400))]).SerializeToString()
    for length in [*range(1, 60), *range(60, len(whole), 37), len(whole) - 1]:
        with pytest.raises(ModelError) as caught:
            open_model(file_of(tmp_path, whole[:length]))
        assert caught.value.code in {"FX405", "FX407", "FX408", "FX409", "FX413"}


def test_a_cut_graph_is_called_cut(tmp_path: Path) -> None:
    whole = model([RELU], initializers=[tensor("w", range(4000))]).SerializeToString()
    fails(file_of(tmp_path, whole[:5000]), "FX407", r"cut short: the field at byte \d+ ends \d+ bytes behind the end")


def test_damage_anywhere_never_escapes_as_another_exception(tmp_path: Path) -> None:
    whole = bytearray(model([RELU], initializers=[tensor("w", range(300))]).SerializeToString())
    rng = np.random.default_rng(0)
    for _ in range(400):
        damaged = bytearray(whole)
        for position in rng.integers(0, len(whole), 3):
            damaged[position] = rng.integers(0, 256)
        try:
            raw = raw_graph(open_model(file_of(tmp_path, bytes(damaged))))
            for source in raw.initializers.values():
                source.load()
        except ModelError:
            pass


def test_nested_too_deep_is_damage(tmp_path: Path) -> None:
    body = bytes(2000)
    for _ in range(400):  # a graph in an attribute in a node in a graph
        body = length_delimited(1, length_delimited(5, length_delimited(6, body)))
    fails(file_of(tmp_path, length_delimited(7, body)), "FX408", "nested")


def test_no_graph(tmp_path: Path) -> None:
    empty = ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 18)])
    fails(file_of(tmp_path, empty), "FX409", "holds no graph")
    empty.graph.name = "g"
    fails(file_of(tmp_path, empty), "FX409", "graph is empty")


def test_training_only(tmp_path: Path) -> None:
    proto = ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 18)])
    proto.training_info.add().algorithm.CopyFrom(model([RELU]).graph)
    fails(file_of(tmp_path, proto), "FX414", "training graphs only")
    proto.graph.CopyFrom(model([RELU]).graph)
    assert not open_model(file_of(tmp_path, proto)).proto.training_info


def test_newer_ir_version_names_both(tmp_path: Path) -> None:
    proto = model([RELU])
    proto.ir_version = 99
    fails(file_of(tmp_path, proto), "FX410", f"IR version 99; onnx {onnx.__version__} knows .* {onnx.IR_VERSION}$")


def test_no_ir_version(tmp_path: Path) -> None:
    proto = model([RELU])
    proto.ClearField("ir_version")
    fails(file_of(tmp_path, proto), "FX429", "no IR version")


@pytest.mark.parametrize(
    ("domain", "newest"), [("", onnx.defs.onnx_opset_version()), ("ai.onnx.ml", onnx.defs.onnx_ml_opset_version())]
)
def test_newer_opset_names_both_and_the_domain(tmp_path: Path, domain: str, newest: int) -> None:
    proto = model([RELU])
    proto.opset_import.add(domain=domain, version=newest)
    if domain:
        open_model(file_of(tmp_path, proto))
    del proto.opset_import[:]
    proto.opset_import.add(domain=domain, version=newest + 1)
    error = fails(file_of(tmp_path, proto), "FX411", f"opset {newest + 1} of {domain or 'ai.onnx'};.* up to {newest}$")
    assert error.details == [{"domain": domain or "ai.onnx", "opset": newest + 1, "newest": newest}]


def test_opsets_begin_at_one(tmp_path: Path) -> None:
    assert open_model(file_of(tmp_path, model([RELU], opset=1))).opsets == {"": 1}
    fails(file_of(tmp_path, model([RELU], opset=0)), "FX413", "uses opset 0 of ai.onnx; opsets begin at 1")


def test_a_file_older_than_opsets(tmp_path: Path) -> None:
    proto = model([RELU], ir_version=2)
    del proto.opset_import[:]
    assert open_model(file_of(tmp_path, proto)).opsets == {"": 1}
    proto.ir_version = 3
    fails(file_of(tmp_path, proto), "FX413", "names no opset")


def test_opsets_that_are_missing_or_contradict(tmp_path: Path) -> None:
    proto = model([RELU])
    proto.opset_import.add(domain="ai.onnx", version=17)
    fails(file_of(tmp_path, proto), "FX413", "two opsets of ai.onnx: 18 and 17")
    del proto.opset_import[:]
    fails(file_of(tmp_path, proto), "FX413", "names no opset")


def test_graph_written_in_two_parts(tmp_path: Path) -> None:
    """Protobuf merges a message field that occurs twice."""
    first = model([RELU], initializers=[tensor("a", range(400))])
    second = ModelProto()
    second.graph.initializer.append(tensor("b", range(500)))
    opened = open_model(file_of(tmp_path, first.SerializeToString() + second.SerializeToString()))
    assert [opened.tensor(t).load().size for t in opened.proto.graph.initializer] == [400, 500]


def test_a_file_cannot_forge_where_a_payload_lies() -> None:
    """The marker of stripped payloads is part of the caller's secret, metadata of the file stays metadata."""
    proto = model([RELU], initializers=[tensor("w", range(4))])
    proto.graph.initializer[0].metadata_props.add(key="payload", value="0")
    assert model_from_proto(proto).tensor(proto.graph.initializer[0]).load().tolist() == [0, 1, 2, 3]


def test_skeleton_keeps_small_and_drops_large_payloads() -> None:
    proto = model([RELU], initializers=[tensor("small", range(200)), tensor("large", range(300))])
    whole = proto.SerializeToString()
    found = skeleton(whole, "mark")
    (payload,) = found.payloads
    assert whole[payload.offset : payload.offset + payload.length] == np.arange(300, dtype=np.float32).tobytes()
    small, large = ModelProto.FromString(found.message).graph.initializer
    assert small == proto.graph.initializer[0]
    assert large.name == "large" and list(large.dims) == [300] and not large.HasField("raw_data")
    assert [(e.key, e.value) for e in large.metadata_props] == [("mark", "0")]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31, 2**35])
def test_varint(value: int) -> None:
    assert int.from_bytes(varint(value)[:1]) & 0x7F == value & 0x7F
    assert TensorProto.FromString(b"\x08" + varint(value)).dims == [value]


def huge_model(path: Path, big: int) -> Path:
    """A file with a tensor of `big` zero bytes, which take no space on disk, before a small one of three ones."""
    after = tensor("after", [1, 1, 1])
    dims = b"".join(b"\x08" + varint(d) for d in (big // 4,))
    head = dims + b"\x10\x01" + length_delimited(8, b"big") + varint(9 << 3 | 2) + varint(big)
    graph = helper.make_graph([RELU], "g", [floats("x")], [floats("y")], [after]).SerializeToString()
    outer = ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 18)]).SerializeToString()
    tensor_header = varint(5 << 3 | 2) + varint(len(head) + big)
    graph_header = varint(7 << 3 | 2) + varint(len(tensor_header) + len(head) + big + len(graph))
    file = path / "huge.onnx"
    with file.open("wb") as out:
        out.write(outer + graph_header + tensor_header + head)
        out.seek(big, os.SEEK_CUR)
        out.write(graph)
    return file


def test_more_than_two_gigabytes_in_one_file_cost_no_memory(tmp_path: Path) -> None:
    file = huge_model(tmp_path, 5 * 2**29)
    program = """
        import resource, sys
        from fornaxc.importers.onnx.reader import open_model
        from fornaxc.importers.onnx.structure import raw_graph
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        weights = raw_graph(open_model(sys.argv[1])).initializers
        assert weights["big"].nbytes == 5 * 2**29, weights
        assert weights["big"].extent[2] == 5 * 2**29
        assert weights["after"].load().tolist() == [1, 1, 1]
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), file]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert int(done.stdout) < 30_000  # KiB


def test_loaded_tensors_are_released(tmp_path: Path) -> None:
    count, elements = 5, 2**23
    weights = [numpy_helper.from_array(np.ones(elements, np.float32), f"w{i}") for i in range(count)]
    program = """
        import resource, sys
        from fornaxc.importers.onnx.reader import open_model
        from fornaxc.importers.onnx.structure import raw_graph
        weights = raw_graph(open_model(sys.argv[1])).initializers
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for source in weights.values():
            assert source.load()[-1] == 1
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    file = file_of(tmp_path, model([RELU], initializers=weights))
    command = [sys.executable, "-c", textwrap.dedent(program), file]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert int(done.stdout) * 1024 < 1.5 * elements * 4


def test_names_that_are_not_text_are_damage(tmp_path: Path) -> None:
    whole = model([node_named("good"), RELU]).SerializeToString()
    with pytest.raises(ModelError, match="not UTF-8") as caught:
        raw_graph(open_model(file_of(tmp_path, whole.replace(b"good", b"g\xff\xfed"))))
    assert caught.value.code == "FX408"


def node_named(name: str) -> onnx.NodeProto:
    return helper.make_node("Abs", ["x"], ["z"], name=name)


def test_model_in_memory_equals_model_in_a_file(tmp_path: Path) -> None:
    proto = model([RELU], initializers=[numpy_helper.from_array(np.arange(999.0), "w")])
    for opened in (model_from_proto(proto), open_model(file_of(tmp_path, proto))):
        assert raw_graph(opened).initializers["w"].load().tolist() == list(range(999))
