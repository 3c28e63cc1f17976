"""What a measurement says: its document, its text, its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

from fornaxc.bench import session
from fornaxc.bench.page import bench_page
from fornaxc.bench.plan import Plan, Run
from fornaxc.bench.report import Bench, Measured
from fornaxc.bench.sample import sample
from fornaxc.bench.session import conditions, ratio_of
from fornaxc.cli.bench import _text
from fornaxc.errors import UsageError
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import open_model
from fornaxc.ir.graph import Graph
from fornaxc.verification.execution import Kernel


def measured(name: str, seconds: float) -> Measured:
    """A side of two blocks, whose runs take this long."""
    blocks = [[Run(0.0, seconds, 0.0, 0.0)] * 2, [Run(0.0, seconds, 0.0, 0.0)]]
    return Measured(name, f"{name} 1", 0.5, 0.25, 0.125, 1000, None, blocks)


def bench(*, verdict: str = "pass") -> Bench:
    """A measurement against another side, whose outputs agree or not."""
    ours, theirs = measured("fornaxc", 0.002), measured("onnxruntime", 0.001)
    rows = [{"name": "<y>", "verdict": verdict, "reason": "" if verdict == "pass" else "it is wrong", "max_abs": 0.0}]
    return Bench(
        "m<1>.fxa", "cpu", "n=2", [{"name": "x", "dtype": "float32", "shape": [2]}], 0, 1, Plan((2, 1), 3),
        ours, theirs, ratio_of(ours, theirs), rows, [Kernel(("add",), 2, ("<n>",))], [], {"system": "Linux"}, ["a note"],
    )  # fmt: skip


def test_the_document_the_text_and_the_page() -> None:
    document = bench().to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (document["status"], document["schema"], document["ratio"]["median"]) == ("ok", 1, 2.0)
    assert document["plan"]["order"] == "ABAB"
    assert document["ours"]["runs_per_second"] == pytest.approx(500)
    text = _text(document)
    assert "2.00 (blocks 2.00 to 2.00)" in text
    assert "not available" in text and "note: a note" in text and "<n>" in text
    assert (document["kernels"]["calls"], document["kernels"]["seconds"]) == (2, None)
    page = bench_page(document)
    assert "m&lt;1&gt;.fxa" in page and "&lt;y&gt;" in page and "m<1>" not in page
    assert page.count("<circle") == 2 * 3 + 2
    assert "http" not in page and "src=" not in page and "@import" not in page


def test_outputs_that_differ_are_the_exit_status() -> None:
    found = bench(verdict="fail")
    assert (found.exit, found.to_json()["status"]) == (1, "mismatch")
    assert "differ: <y>: it is wrong" in _text(found.to_json())


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[n, 3] x, float[n, 3] z) => (float[n, 3] y) { y = Add(x, z) }'
    )
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    return import_model(open_model(tmp_path / "m.onnx"), {})


def test_inputs_have_the_sizes_that_are_asked_for(graph: Graph, tmp_path: Path) -> None:
    label, arrays = sample(graph, None, {"n": 7}, 0)
    assert (label, arrays["x"].shape, arrays["z"].shape) == ("n=7", (7, 3), (7, 3))
    again = sample(graph, None, {"n": 7}, 0)[1]
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)
    np.savez(tmp_path / "in.npz", x=np.ones((4, 3), np.float32), z=np.ones((4, 3), np.float32))
    label, arrays = sample(graph, tmp_path / "in.npz", {}, 0)
    assert (label, arrays["x"].shape) == ("in.npz", (4, 3))
    (tmp_path / "samples").mkdir()
    for size in (2, 1):
        np.savez(tmp_path / "samples" / f"s{size}.npz", **{n: np.zeros((size, 3), np.float32) for n in "xz"})
    label, arrays = sample(graph, tmp_path / "samples", {}, 0)
    assert (label, arrays["x"].shape) == ("s1.npz (the first of 2)", (1, 3))


@pytest.mark.parametrize(
    ("sizes", "given", "code"), [({"q": 1}, False, "FX215"), ({"n": 0}, False, "FX214"), ({"n": 2}, True, "FX260")]
)
def test_sizes_that_cannot_be(graph: Graph, tmp_path: Path, sizes: dict[str, int], given: bool, code: str) -> None:
    inputs: Any = tmp_path / "in.npz" if given else None
    with pytest.raises(UsageError) as caught:
        sample(graph, inputs, sizes, 0)
    assert caught.value.code == code


def test_fewer_threads_than_were_asked_for_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "busy", lambda: ["busy"])
    monkeypatch.setattr(session, "processors", lambda: 2)
    for threads in (None, 1, 2):
        assert conditions(threads) == ["busy"]
    first, second = conditions(99)
    assert first.startswith("99 threads were asked for, and only 2 used") and second == "busy"
