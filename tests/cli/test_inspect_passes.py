"""`fornaxc inspect --passes`: each step from the file to the program, from really running it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import Cli
from onnx import numpy_helper, parser

from fornaxc.passes.pipeline import PASSES

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
f (float[n, 3, 8, 8] x) => (float[n, 4, 6, 6] y) {
  unused = Neg(x)
  c = Conv(x, w)
  s = Mul(c, scale)
  y = Relu(s)
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    found = parser.parse_model(MODEL)
    for name, shape in {"w": (4, 3, 3, 3), "scale": (1, 4, 1, 1)}.items():
        array = rng.standard_normal(shape).astype(np.float32)
        found.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(found, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def rows(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["step"]: row for row in document["passes"]}


def test_each_step_tells_what_it_did(cli: Cli, model: Path) -> None:
    document = cli("inspect", model, "--passes", "--json").document
    names = [row["step"] for row in document["passes"]]
    assert names == ["import", *(p.name for p in PASSES), "prepack"]
    assert [row["step"] for row in document["passes"] if row["optional"]] == names[1:-1]
    found = rows(document)
    assert found["import"]["nodes_before"] == 4
    assert found["import"]["operations"]["conv"] == 1
    assert "neg" not in str(document["passes"])  # what no output needs was never a node of the graph
    assert found["fuse-conv"]["operations"]["conv_nhwc"] == 1
    assert found["fuse-conv"]["operations"]["conv"] == -1
    assert found["pack-recurrence"]["changed"] is False
    assert found["fold-affine"]["weights"] == found["import"]["weights"] == 2
    for before, after in pairwise(document["passes"]):
        assert after["nodes_before"] == before["nodes_after"]
        assert after["nodes_after"] - after["nodes_before"] == sum(after["operations"].values())
    last = document["passes"][-1]
    assert last["nodes_after"] == sum(document["operations"].values())
    assert (last["weights"], last["weight_bytes"]) == (document["weights"], document["weight_bytes"])
    assert document["pass_seconds"].keys() == set(names)
    again = cli("inspect", model, "--passes", "--json").document
    del document["pass_seconds"], again["pass_seconds"]
    assert again == document


def test_a_pass_that_is_left_out_or_not_for_the_target_says_so(cli: Cli, model: Path) -> None:
    document = cli("inspect", model, "--passes", "--no-pass", "fuse-conv", "--json").document
    found = rows(document)
    assert found["fuse-conv"]["left_out"] == "left out by --no-pass"
    assert "fuse-conv" not in document["pass_seconds"]
    assert document["operations"]["conv"] == 1
    document = cli("inspect", model, "--passes", "-t", "nvidia", "-O", "2", "--json").document
    assert {name for name, row in rows(document).items() if row["left_out"]} == {
        "chain-kernels",
        "find-local-norm",
        "find-repeat",
        "flatten-volumes",
        "fuse-attention",
        "fuse-conv",
        "fuse-linear",
        "fuse-quantized",
        "pack-recurrence",
        "scale-channels",
        "split-phases",
    }
    assert not rows(cli("inspect", model, "--passes", "-t", "nvidia", "--json").document)["fuse-conv"]["left_out"]


def test_people_get_a_table(cli: Cli, model: Path) -> None:
    told = cli("inspect", model, "--passes", "--no-pass", "tidy").out
    lines = told[told.index("passes:") :].splitlines()
    assert lines[1].split() == ["step", "nodes", "weights", "seconds", "what", "it", "did"]
    assert "conv -1" in told and "conv_nhwc +1" in told
    (simplify,) = (line for line in lines if line.startswith("  simplify "))
    assert simplify.endswith("nothing")
    (tidy,) = (line for line in lines if line.startswith("  tidy "))
    assert tidy.endswith("not run: left out by --no-pass")
    assert "passes:" not in cli("inspect", model).out
    assert "passes" not in cli("inspect", model, "--json").document


def test_what_cannot_be_asked(cli: Cli, model: Path, tmp_path: Path) -> None:
    told = cli("inspect", model, "--passes", "--no-pass", "x", "--json")
    assert (told.status, told.document["code"]) == (2, "FX211")
    assert "fuse-conv" in told.document["hint"]
    artifact = tmp_path / "m.fxa"
    artifact.write_bytes(b"PK\x03\x04")
    for option in (("--passes",), ("--no-pass", "tidy"), ("-O", "1")):
        assert cli("inspect", artifact, *option, "--json").document["code"] == "FX218"


LOOP = """
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %limit = stablehlo.constant dense<3> : tensor<i32>
      %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.add %i, %one : tensor<i32>
      %w = stablehlo.tanh %v : tensor<4xf32>
      stablehlo.return %n, %w : tensor<i32>, tensor<4xf32>
    }
  return %r#1 : tensor<4xf32>
}
"""


def test_a_loop_of_few_trips_is_seen_to_be_unrolled(cli: Cli, tmp_path: Path) -> None:
    """What a StableHLO file holds is not counted before the import."""
    pytest.importorskip("jaxlib")
    (tmp_path / "m.mlir").write_text(LOOP)
    document = cli("inspect", tmp_path / "m.mlir", "--passes", "--json").document
    assert rows(document)["import"]["nodes_before"] is None
    assert rows(document)["simplify-control"]["operations"] == {"unary": 2, "binary": -1, "compare": -1, "while": -1}
    assert document["operations"] == {"unary": 3}
    told = cli("inspect", tmp_path / "m.mlir", "--passes", "--no-pass", "simplify-control").out
    assert "? -> 4" in told
    assert "while -1" not in told
