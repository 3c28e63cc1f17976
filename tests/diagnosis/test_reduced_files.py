"""What `reduce` reads and writes: no file of the user is overwritten, every sample and stated tolerance counts, the report has the right command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy_device import Crash, NumpyDevice, stand_in
from onnx import parser

from fornaxc import api
from fornaxc.diagnosis.checks import WRONG
from fornaxc.errors import UsageError
from fornaxc.ir.graph import Array, Graph, Node
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Op, Unary
from fornaxc.qualify.programs import Outcome, Program
from fornaxc.verification.tolerances import read_tolerances

MODEL = """
<ir_version: 8, opset_import: ["" : 18]>
f (float[4] x) => (float[4] y, float[4] z) {
    a = Abs(x)
    y = Add(a, x)
    z = Tanh(x)
}
"""


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(parser.parse_model(MODEL), path)
    return path


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> NumpyDevice:
    """Numpy whose abs is a negation, which is right for negative numbers."""
    made = NumpyDevice(negated)
    stand_in(monkeypatch, made)
    return made


def negated(graph: Graph, node: Node) -> Op | None:
    return Unary("neg") if node.op == Unary("abs") else None


def inputs(path: Path, x: Sequence[float]) -> Path:
    path.parent.mkdir(exist_ok=True)
    np.savez(path, x=np.array(x, np.float32))
    return path


# -- what is written


def contents(folder: Path) -> dict[Path, bytes]:
    return {f: f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file() and "cache" not in f.parts}


@pytest.mark.parametrize("name", ["m.onnx", "small.onnx", "one.onnx", "stated.onnx", "link.onnx", "data.onnx"])
def test_no_file_that_is_read_is_overwritten(name: str, model: Path, device: NumpyDevice, tmp_path: Path) -> None:
    given = inputs(tmp_path / "small.npz", [1, 2, 3, 4])
    folder = inputs(tmp_path / "one.npz", [1, 2, 3, 4]).parent if name == "one.onnx" else None
    if folder is not None:
        given.unlink()
    stated = tmp_path / "stated.tolerances.toml"
    stated.write_text('[outputs.y]\nrtol = 0.1\nreason = "r"\n')
    (tmp_path / "link.md").symlink_to(model)
    if name == "data.onnx":
        large = parser.parse_model(MODEL.replace("Abs(x)", "Abs(w)"))
        large.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "w"))
        onnx.save(large, model, save_as_external_data=True, location="data.npz", size_threshold=0)
    before = contents(tmp_path)
    with pytest.raises(UsageError) as raised:
        api.reduce(model, tmp_path / name, inputs=folder or given, tolerances=stated)
    assert raised.value.code == "FX252"
    assert contents(tmp_path) == before
    assert device.rounds == 0


@pytest.mark.parametrize("name", ["small.npz", "small.md", "small.mlir", "small"])
def test_only_onnx_is_written(name: str, model: Path, device: NumpyDevice, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="StableHLO") as raised:
        api.reduce(model, tmp_path / name)
    assert raised.value.code == "FX254"
    assert device.rounds == 0


def test_a_page_of_growth_overwrites_nothing_that_is_read(model: Path, device: NumpyDevice, tmp_path: Path) -> None:
    given = inputs(tmp_path / "in.npz", [1, 2, 3, 4])
    before = contents(tmp_path)
    for growth in (model, given):
        with pytest.raises(UsageError) as raised:
            api.bisect(model, inputs=given, growth=growth)
        assert raised.value.code == "FX252"
    assert contents(tmp_path) == before
    assert device.rounds == 0


def test_a_stablehlo_model_is_reduced_to_onnx(device: NumpyDevice, tmp_path: Path) -> None:
    pytest.importorskip("jaxlib")
    model = tmp_path / "m.mlir"
    model.write_text(
        "func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %a = stablehlo.sine %x : tensor<4xf32>\n  %b = stablehlo.abs %a : tensor<4xf32>\n"
        "  %c = stablehlo.tanh %b : tensor<4xf32>\n  return %c : tensor<4xf32>\n}\n"
    )
    found = api.reduce(model, tmp_path / "small.onnx")
    assert (found.reduced.nodes, found.reduced.signature, found.reproduced) == (1, WRONG, True)
    assert onnx.load(tmp_path / "small.onnx").graph.node[0].op_type == "Abs"
    document = found.to_json()
    assert (document["schema"], document["sample"]) == (1, "static")


def test_a_reduction_that_is_stopped_at_its_end_leaves_no_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = NumpyDevice(negated)
    alone = False

    def stops_at_what_is_read_back(graph: Graph, node: Node) -> Op | None:
        nonlocal alone
        alone = len(graph.nodes) == 1 and any(tmp_path.glob(".small-*/small.onnx"))
        if alone:
            raise KeyboardInterrupt
        return negated(graph, node)

    stand_in(monkeypatch, NumpyDevice(stops_at_what_is_read_back))
    before = contents(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        api.reduce(model, tmp_path / "small.onnx")
    assert alone and contents(tmp_path) == before
    stand_in(monkeypatch, made)
    api.reduce(model, tmp_path / "small.onnx")
    assert {"small.onnx", "small.npz", "small.md"} <= {f.name for f in contents(tmp_path)}


# -- the report's command


def test_the_report_has_the_options_with_which_it_fails(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(graph: Graph, node: Node) -> Op | None:
        if node.op == Unary("abs"):
            raise Crash("no kernel")
        return None

    stand_in(monkeypatch, NumpyDevice(crash))
    api.reduce(model, tmp_path / "c.onnx", check="compile", target="amd", optimization=2, rtol=0.1)
    lines = (tmp_path / "c.md").read_text().splitlines()
    assert "    fornaxc compile c.onnx --target amd:gfx942 -O 2" in lines
    stand_in(monkeypatch, NumpyDevice(negated))
    api.reduce(model, tmp_path / "v.onnx", rtol=0.25, atol=0)
    lines = (tmp_path / "v.md").read_text().splitlines()
    assert "    fornaxc verify v.onnx --inputs v.npz --rtol 0.25 --atol 0" in lines
    api.reduce(model, tmp_path / "own.onnx", check="false")
    text = (tmp_path / "own.md").read_text()
    assert "    COMMAND own.onnx\n" in text and "fornaxc verify" not in text


def test_the_report_has_the_time_out(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(programs: Sequence[Program]) -> Mapping[str, Outcome]:
        return {p.name: Outcome("timeout", "compile", "it took too long") for p in programs}

    def line(name: str) -> str:
        lines = (tmp_path / name).read_text().splitlines()
        return next(text for text in lines if text.startswith("    ")).strip()

    stand_in(monkeypatch, late)
    for timeout, told in ((None, "1800"), (2.5, "2.5"), (1234567, "1234567")):
        api.reduce(model, tmp_path / "c.onnx", check="compile", timeout=timeout)
        assert line("c.md") == f"fornaxc compile c.onnx --timeout {told}"
    stand_in(monkeypatch, NumpyDevice(negated))
    api.reduce(model, tmp_path / "v.onnx", timeout=60)
    assert line("v.md") == "fornaxc verify v.onnx --inputs v.npz --timeout 60"
    api.reduce(model, tmp_path / "v.onnx")
    assert line("v.md") == "fornaxc verify v.onnx --inputs v.npz"
    api.reduce(model, tmp_path / "own.onnx", check="sh -c 'exec sleep 5'", timeout=0.05)
    assert "a command of the reporter's own, stopped after 0.05 s." in (tmp_path / "own.md").read_text()


# -- tolerances


def test_stated_tolerances_are_those_of_reduction(model: Path, device: NumpyDevice, tmp_path: Path) -> None:
    given = inputs(tmp_path / "in.npz", [-1, -2, -3, 0.001])
    options = {"inputs": given, "output": tmp_path / "small.onnx"}
    beside = tmp_path / "m.tolerances.toml"
    beside.write_text('[outputs.y]\natol = 0.1\nreason = "coarse"\n')
    with pytest.raises(UsageError, match="nothing to reduce"):
        api.reduce(model, **options)
    stated = tmp_path / "tight.toml"
    stated.write_text('[outputs.y]\nulp = 4\nreason = "secret_project"\n')
    found = api.reduce(model, **options, tolerances=stated)
    assert (found.reduced.nodes, found.reduced.signature, found.reproduced) == (1, WRONG, True)
    written = tmp_path / "small.tolerances.toml"
    assert written in found.files and "secret_project" not in written.read_text()
    assert read_tolerances(written, ["out0"])["out0"].ulp == 4
    beside.write_text('[outputs.missing]\natol = 0.1\nreason = "coarse"\n')
    with pytest.raises(UsageError) as raised:
        api.reduce(model, **options)
    assert raised.value.code == "FX235"


def test_what_is_stated_of_one_output_does_not_excuse_another(model: Path, device: NumpyDevice, tmp_path: Path) -> None:
    stated = tmp_path / "z.toml"
    stated.write_text('[outputs.z]\natol = 100.0\nreason = "coarse"\n')
    found = api.reduce(model, tmp_path / "small.onnx", tolerances=stated)
    assert [n.op for n in found.reduced.case.graph.nodes] == [Unary("abs")]
    assert not (tmp_path / "small.tolerances.toml").exists()


def test_stated_tolerances_are_those_of_bisection(model: Path, device: NumpyDevice, tmp_path: Path) -> None:
    given = inputs(tmp_path / "in.npz", [-1, -2, -3, 0.01])
    assert api.bisect(model, inputs=given).stage == "device"
    stated = tmp_path / "m.tolerances.toml"
    stated.write_text('[outputs.z]\natol = 0.1\nreason = "coarse"\n')
    assert api.bisect(model, inputs=given).stage == "device"
    stated.write_text('[outputs.y]\natol = 0.1\nreason = "coarse"\n')
    assert api.bisect(model, inputs=given).stage == "none"
    tight = tmp_path / "tight.toml"
    tight.write_text('[outputs.y]\nulp = 2\nreason = "exact"\n')
    assert api.bisect(model, inputs=given, tolerances=tight).stage == "device"


# -- samples


def test_each_sample_of_a_folder_is_tried(model: Path, device: NumpyDevice, tmp_path: Path) -> None:
    folder = inputs(tmp_path / "given" / "s1.npz", [-1, -2, -3, -4]).parent
    inputs(folder / "s2.npz", [-1, 2, -3, 4])
    found = api.reduce(model, tmp_path / "small.onnx", inputs=folder)
    assert (found.sample, found.reduced.nodes) == ("s2.npz", 1)
    bisection = api.bisect(model, inputs=folder, failing=["s2.npz"])
    assert (bisection.stage, bisection.sample) == ("device", "s2.npz")
    assert api.bisect(model, inputs=folder).sample == "s1.npz"


def wrong_for_the_largest(programs: Sequence[Program]) -> Mapping[str, Outcome]:
    """Numpy whose tanh is wrong for numbers near the end of float32."""

    def outputs(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
        largest = max((float(np.max(np.abs(a))) for a in arrays), default=0.0)
        off = any(n.op == Unary("tanh") for n in graph.nodes) and largest > 1e30
        return [a + np.float32(off) for a in run(graph, arrays)]

    return {p.name: Outcome("ok", "run", outputs=[outputs(p.graph, r) for r in p.runs]) for p in programs}


def test_a_failing_edge_set_is_reduced_and_searched(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, wrong_for_the_largest)
    with pytest.raises(UsageError, match="nothing to reduce"):
        api.reduce(model, tmp_path / "small.onnx")
    found = api.reduce(model, tmp_path / "small.onnx", edge_cases=True)
    assert (found.sample, found.reduced.nodes, found.reduced.own_inputs) == ("edge largest", 1, True)
    with np.load(tmp_path / "small.npz") as arrays:
        assert np.max(np.abs(arrays["in0"])) > 1e30
    searched = api.bisect(model, failing=["edge largest"])
    assert (searched.stage, searched.sample) == ("device", "edge largest")
    with pytest.raises(UsageError) as raised:
        api.reduce(model, tmp_path / "small.onnx", edge_cases=True, inputs=tmp_path / "small.npz")
    assert raised.value.code == "FX239"


def test_an_edge_set_on_which_references_differ_is_not_judged(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where onnxruntime itself gives something else than numpy, a device that differs from numpy is not wrong."""
    from fornaxc.verification import ort_runs

    stand_in(monkeypatch, wrong_for_the_largest)
    runs = ort_runs.OrtRuns.__call__

    def other(self: ort_runs.OrtRuns, inputs: Mapping[str, Array], **options: bool) -> dict[str, Array]:
        found = runs(self, inputs, **options)
        off = np.max(np.abs(inputs["x"])) > 1e30
        return {name: a + np.float32(off) for name, a in found.items()}

    monkeypatch.setattr(ort_runs.OrtRuns, "__call__", other)
    with pytest.raises(UsageError, match="nothing to reduce"):
        api.reduce(model, tmp_path / "small.onnx", edge_cases=True)
