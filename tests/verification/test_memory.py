"""How much memory a verification holds at once, beside what MAX needs in its own process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

SIDE, DEPTH = 4096, 8
WEIGHTS = DEPTH * SIDE * SIDE * 4  # bytes: 512 MiB
MOST = 1.5  # times the weights

VERIFY = f"""
import sys
from pathlib import Path

import numpy as np

from fornaxc import api, child
from fornaxc.bench.memory import peak_bytes
from fornaxc.verification import verify


def compiles(job, folder, **options):
    Path(job["mef"]).write_bytes(b"code")
    return {{"seconds": {{}}, "host_nodes": []}}


def runs(path, samples, **options):
    return [{{"y": np.roll(sample["x"], {DEPTH}, axis=1)}} for sample in samples]


child.compile_in_child, verify.run_in_child = compiles, runs
report = api.verify(sys.argv[1], cache_dir=Path(sys.argv[2]))
assert report.verdict == "pass" and report.oracle == "onnxruntime", report
print(peak_bytes())
"""


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Products with matrices that each move every element of a row on by one: what comes out is known."""
    moves = np.roll(np.eye(SIDE, dtype=np.float32), 1, axis=1)
    names = ["x", *(f"h{i}" for i in range(1, DEPTH)), "y"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(DEPTH)],
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", SIDE])],
        [numpy_helper.from_array(moves, f"w{i}") for i in range(DEPTH)],
    )
    path = tmp_path / "chain.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.slow
def test_half_a_gigabyte_of_weights_is_held_about_once(chain: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", VERIFY, str(chain), str(tmp_path / "cache")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= MOST * WEIGHTS, f"{int(done.stdout) / WEIGHTS:.2f} times the weights"
