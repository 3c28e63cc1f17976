"""`fornaxc verify` on inputs of every kind: the whole path, with the numpy interpreter in the place of MAX."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import Cli
from onnx import numpy_helper, parser

from fornaxc import child, runner
from fornaxc.artifact import open_artifact
from fornaxc.ir.graph import Array
from fornaxc.verification import dataset_comparison, edge_comparison, session
from fornaxc.verification.oracle import interpreted

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
f (float[n, 3] x) => (float[n, 3] y) { h = Mul(x, w) y = Relu(h) }
"""


class Interpreted:
    """In the place of `Running`: the program that the artifact carries, evaluated with numpy."""

    def __init__(self, artifact: Path, **options: Any) -> None:
        self.kernels: list[str] = []
        self._graph = session.embedded_graph(open_artifact(artifact))

    def __enter__(self) -> Interpreted:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        with np.errstate(all="ignore"):
            return interpreted(self._graph, inputs)


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was compiled."""
    found: list[str] = []

    def compiled(job: dict[str, Any], folder: Path, **options: Any) -> dict[str, Any]:
        Path(job["mef"]).write_bytes(b"code")
        found.append(job["mef"])
        return {"seconds": {"lower": 0.1, "compile": 0.1}, "host_nodes": []}

    monkeypatch.setattr(child, "compile_in_child", compiled)
    for module in (runner, edge_comparison, dataset_comparison):
        monkeypatch.setattr(module, "Running", Interpreted)
    return found


@pytest.fixture
def model(tmp_path: Path, compiles: list[str]) -> Path:
    built = parser.parse_model(MODEL)
    built.graph.initializer.append(numpy_helper.from_array(np.full(3, 2, np.float32), "w"))
    onnx.save(built, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_edge_cases_are_samples_by_name(cli: Cli, model: Path) -> None:
    document = cli("verify", model, "--edge-cases", "--json").document
    assert document["verdict"] == "pass"
    edges = [f"edge {name} (n=2)" for name in ("zeros", "ones", "denormals", "largest", "infinities", "nan")]
    assert document["samples"] == ["n=2", "n=5", *edges, "edge size 1 (n=1)", "edge empty n (n=0)"]
    assert {o["sample"]: o["verdict"] for o in document["outputs"]}["edge empty n (n=0)"] == "empty"
    told = cli("verify", model, "--edge-cases").out
    assert all(label in told for label in document["samples"])


def test_a_report_says_that_edge_sets_were_not_tried(cli: Cli, model: Path, tmp_path: Path) -> None:
    def told(*options: object) -> list[str]:
        notes = cli("verify", model, *options, "--json").document["notes"]
        return [note for note in notes if note.startswith("edge sets not tried")]

    np.savez(tmp_path / "in.npz", x=np.ones((1, 3), np.float32))
    assert len(told()) == 1
    assert told("--edge-cases") == told("--inputs", tmp_path / "in.npz") == []


def test_samples_in_folders_and_their_golden_outputs(cli: Cli, model: Path, tmp_path: Path) -> None:
    for number in range(2):
        folder = tmp_path / "sets" / f"test_data_set_{number}"
        folder.mkdir(parents=True)
        x = np.full((1, 3), number - 0.5, np.float32)
        (folder / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
        (folder / "output_0.pb").write_bytes(numpy_helper.from_array(np.maximum(2 * x, 0)).SerializeToString())
    document = cli("verify", model, "--inputs", tmp_path / "sets", "--expected", tmp_path / "sets", "--json").document
    assert (document["verdict"], document["oracle"]) == ("pass", "golden")
    assert document["samples"] == ["test_data_set_0", "test_data_set_1"]
    outcome = cli(
        "verify", model, "--inputs", tmp_path / "sets" / "test_data_set_0", "--expected", tmp_path / "sets", "--json"
    )
    assert (outcome.status, outcome.document["code"]) == (2, "FX226")


def test_a_dataset_has_statistics(cli: Cli, model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).standard_normal((30, 3), np.float32))
    document = cli("verify", model, "--dataset", tmp_path / "d.npz", "--json").document
    assert (document["verdict"], document["samples"], document["seed"]) == ("pass", ["d.npz: 30 samples"], None)
    (output,) = document["dataset"]["outputs"]
    assert (output["samples"], output["failed"], output["absolute"]["max"]) == (30, 0, 0.0)
    told = cli("verify", model, "--dataset", tmp_path / "d.npz").out
    assert "over 30 samples, 0 of which differ:" in told and "least cosine" in told


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--dataset", "wrong.npz"), "FX220"),
        (("--inputs", "wrong.npz"), "FX220"),
        (("--dataset", "none.npz"), "FX223"),
        (("--dataset", "folder"), "FX237"),
        (("--tolerances", "t.toml"), "FX235"),
        (("--dataset", "wrong.npz", "--edge-cases"), "FX239"),
        (("--dataset", "wrong.npz", "--inputs", "wrong.npz"), "FX239"),
        (("--dataset", "wrong.npz", "--bisect"), "FX253"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_compiled(
    cli: Cli, model: Path, compiles: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any, code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("wrong.npz", z=np.zeros((4, 3), np.float32))
    Path("folder").mkdir()
    Path("t.toml").write_text('[outputs.z]\nrtol = 1.0\nreason = "none"\n')
    outcome = cli("verify", model, *options, "--json")
    assert (outcome.status, outcome.document["code"]) == (2, code)
    assert compiles == []


def test_tolerances_beside_the_model_are_told(cli: Cli, model: Path, tmp_path: Path) -> None:
    (tmp_path / "m.tolerances.toml").write_text('[outputs.y]\nulp = 4\nreason = "one product"\n')
    outcome = cli("verify", model, "--json")
    assert {o["tolerance"]["source"] for o in outcome.document["outputs"]} == {"m.tolerances.toml: one product"}
    told = cli("verify", model).out
    assert "4 ulp" in told and "m.tolerances.toml: one product" in told
    assert "command line" in cli("verify", model, "--rtol", "0.1").out


def test_golden_outputs_of_a_dataset_are_given_with_inputs(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    told = cli("verify", tmp_path / "m.onnx", "--dataset", tmp_path, "--expected", tmp_path, "--json").document
    assert told["code"] == "FX226" and "--dataset" in told["message"] and "folder" in told["hint"]
