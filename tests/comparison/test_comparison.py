"""What is said to differ between two artifacts. MAX is not asked: programs are run by numpy, and times are made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

from fornaxc.bench.plan import Plan, Run
from fornaxc.bench.report import Measured
from fornaxc.bench.session import ratio_of
from fornaxc.cli.compare import _differences, _text
from fornaxc.comparison.differences import manifest_differences, operation_differences, signature_differences
from fornaxc.comparison.report import Comparison, Side, Speed
from fornaxc.comparison.samples import shared_samples
from fornaxc.comparison.session import Wanted, compare_runs, stated_for
from fornaxc.errors import UsageError
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import open_model
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.interpreter import run
from fornaxc.verification.compare import Row
from fornaxc.verification.double_graph import widened

SYMBOLIC = '<ir_version: 8, opset_import: ["" : 17]> m (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }'
PINNED = SYMBOLIC.replace("[n, 3]", "[7, 3]")
OTHER = '<ir_version: 8, opset_import: ["" : 17]> m (float[n, 3] x) => (float[n, 3] y) { a = Relu(x) y = Exp(a) }'
RENAMED = SYMBOLIC.replace(" x)", " z)").replace("Relu(x)", "Relu(z)")


def graph(tmp_path: Path, text: str) -> Graph:
    """The graph of a model in ONNX's text form."""
    (tmp_path / "m.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    return import_model(open_model(tmp_path / "m.onnx"), {})


def config(shape: list[Any], *, name: str = "x", dtype: str = "f32", level: int = 1) -> dict[str, Any]:
    """What of a config is compared."""
    tensor = {"name": name, "dtype": dtype, "shape": shape}
    return {
        "inputs": [tensor], "outputs": [{"name": "y", "dtype": "f32", "shape": [3]}], "constraints": [["n", "==", "m", "add"]],
        "source": {"digest": "d"}, "key_parts": {"options": {"optimization": level}}, "host_nodes": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("other", "breaks"),
    [
        (config(["n", 3]), []),
        (config([8, 3]), [False]),
        (config(["n", 4]), [True]),
        (config(["n"]), [True]),
        (config(["n", 3], dtype="f16"), [True]),
        (config(["n", 3], name="z"), [True, True]),
    ],
)
def test_what_of_a_signature_breaks(other: dict[str, Any], breaks: list[bool]) -> None:
    assert [d["breaks"] for d in signature_differences(config(["n", 3]), other)] == breaks


def test_conditions_options_and_operations_that_differ(tmp_path: Path) -> None:
    freed = {**config(["n", 3]), "constraints": []}
    assert signature_differences(config(["n", 3]), freed) == [
        {"what": "condition", "a": "n == m", "b": None, "breaks": False}
    ]
    found = manifest_differences(config(["n"]), config(["n"], level=2))
    assert found == [{"part": "options.optimization", "a": 1, "b": 2}]
    assert operation_differences(graph(tmp_path, SYMBOLIC), graph(tmp_path, OTHER)) != []
    assert operation_differences(graph(tmp_path, SYMBOLIC), graph(tmp_path, SYMBOLIC)) == []


def test_samples_suit_both(tmp_path: Path) -> None:
    symbolic, pinned, renamed = (graph(tmp_path, text) for text in (SYMBOLIC, PINNED, RENAMED))
    assert [s["x"].shape for _, s in shared_samples(symbolic, symbolic, None, {}, 0)] == [(2, 3), (5, 3)]
    assert [s["x"].shape for _, s in shared_samples(symbolic, pinned, None, {}, 0)] == [(7, 3)]
    assert [s["x"].shape for _, s in shared_samples(pinned, symbolic, None, {}, 0)] == [(7, 3)]
    assert [s["x"].shape for _, s in shared_samples(symbolic, symbolic, None, {"n": 4}, 0)] == [(4, 3)]
    assert shared_samples(symbolic, renamed, None, {}, 0) == []
    np.savez(tmp_path / "in.npz", x=np.zeros((9, 3), np.float32))
    assert shared_samples(symbolic, pinned, tmp_path / "in.npz", {}, 0) == []
    with pytest.raises(UsageError):
        shared_samples(pinned, symbolic, tmp_path / "in.npz", {}, 0)


def outputs(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What numpy gives for a graph."""
    return dict(zip(graph.output_names, run(graph, [inputs[n] for n in graph.input_names]), strict=True))


@pytest.mark.parametrize(("text", "verdicts"), [(SYMBOLIC, ["pass", "pass"]), (OTHER, ["fail", "fail"])])
def test_numbers_that_differ_are_found(tmp_path: Path, text: str, verdicts: list[str]) -> None:
    graphs = graph(tmp_path, SYMBOLIC), graph(tmp_path, text)
    samples = shared_samples(*graphs, None, {}, 0)
    found = [[outputs(each, inputs) for _, inputs in samples] for each in graphs]
    assert [row.verdict for row in compare_runs(graphs, samples, found[1], found[0], Wanted())] == verdicts
    missing = compare_runs(graphs, samples, [{}, {}], found[0], Wanted())
    assert [row.verdict for row in missing] == ["fail", "fail"]
    assert [row.verdict for row in compare_runs(graphs, samples, found[1], found[0], Wanted(atol=1e9))] == ["pass"] * 2


CANCELLING = """
<ir_version: 8, opset_import: ["" : 17]>
m (float[4, 64] x, float[64] s, float[64] b) => (float[4, 64] y) { y = LayerNormalization<epsilon = 1e-12>(x, s, b) }
"""
"""Of numbers around 300 whose spread is 0.01: what is left of them after the mean has few digits."""


def test_where_only_the_tolerance_fails_both_are_judged_in_double_precision(tmp_path: Path) -> None:
    """As `verify` judges an artifact beside onnxruntime: what is as close to the exact result as the first one takes its place."""
    same = graph(tmp_path, CANCELLING)
    x = (300 + 0.01 * np.random.default_rng(5).standard_normal((4, 64))).astype(np.float32)
    inputs = {"x": x, "s": np.ones(64, np.float32), "b": np.zeros(64, np.float32)}
    exact = outputs(widened(same), {name: array.astype(np.float64) for name, array in inputs.items()})["y"]

    def row(error: float, **wanted: Any) -> Row:
        signs = np.where(np.arange(exact.size) % 2, 1, -1).reshape(exact.shape)
        first, second = ({"y": (exact + e * signs).astype(np.float32)} for e in (5e-5, error))
        [found] = compare_runs((same, same), [("static", inputs)], [second], [first], Wanted(**wanted))
        return found

    passes = row(0.0)
    assert (passes.verdict, passes.rule) == ("pass", "float64") and "the first artifact's" in passes.reason
    worse = row(4e-4)
    assert worse.verdict == "fail" and worse.float64 is not None
    assert "larger than the first artifact's" in worse.float64["why_not"]
    chosen = row(0.0, atol=1e-6)
    assert chosen.verdict == "fail" and chosen.float64 is not None
    assert chosen.float64["why_not"] == "the tolerance was chosen"


def test_a_file_of_tolerances_decides(tmp_path: Path) -> None:
    both = graph(tmp_path, SYMBOLIC), graph(tmp_path, SYMBOLIC)
    samples = shared_samples(*both, None, {"n": 2}, 0)
    first = [outputs(both[0], inputs) for _, inputs in samples]
    second = [{"y": found["y"] + np.float32(0.5)} for found in first]
    file = tmp_path / "t.toml"
    file.write_text('[outputs.y]\natol = 1.0\nreason = "weights of four bits"\n')
    stated = stated_for(both, file)
    [row] = compare_runs(both, samples, second, first, Wanted(), stated)
    assert (row.verdict, row.tolerance and row.tolerance.source) == ("pass", "t.toml: weights of four bits")
    assert compare_runs(both, samples, second, first, Wanted())[0].verdict == "fail"
    assert compare_runs(both, samples, second, first, Wanted(atol=0.1), stated)[0].verdict == "fail"
    file.write_text('[outputs.z]\natol = 1.0\nreason = "another"\n')
    with pytest.raises(UsageError) as caught:
        stated_for(both, file)
    assert caught.value.code == "FX235"


def side(name: str, reason: str = "") -> Side:
    """An artifact of this name."""
    return Side(name, "ab" * 32, "cpu", "26.7.0", {"code": 5, "total": 5}, reason)


def speed(seconds: tuple[float, ...], limit: float | None) -> Speed:
    """B's blocks take these seconds, A's one each."""
    a, b = (
        Measured("fornaxc", "MAX", 0, 0, 0, None, None, [[Run(0, s, 0, 0)] for s in times])
        for times in ((1.0,) * len(seconds), seconds)
    )
    return Speed(Plan((1,) * len(seconds), 1), 1, a, b, ratio_of(b, a), limit)


def comparison(**given: Any) -> Comparison:
    """One in which nothing differs, nothing was compared, but for what is given."""
    parts: dict[str, Any] = {
        "a": side("a.fxa"), "b": side("b.fxa"), "signature": [], "manifest": [], "operations": [], "kernels": None, "rows": [],
        "samples": [], "not_compared": "no MAX here", "speed": None, "seed": 0, "environment": {},
    }  # fmt: skip
    return Comparison(**{**parts, **given})


def test_the_verdict(tmp_path: Path) -> None:
    same = graph(tmp_path, SYMBOLIC)
    samples = shared_samples(same, same, None, {}, 0)
    rows = compare_runs((same, same), samples, *[[outputs(same, i) for _, i in samples]] * 2, Wanted())
    difference = {"what": "input x", "a": "f32 [3]", "b": None}
    assert (comparison().verdict, comparison().exit) == ("unproven", 0)
    assert (comparison(rows=rows).verdict, comparison(rows=rows).exit) == ("pass", 0)
    assert comparison(rows=rows, signature=[{**difference, "breaks": False}]).verdict == "pass"
    assert comparison(rows=rows, signature=[{**difference, "breaks": True}]).exit == 1
    assert comparison(rows=rows, speed=speed((1.5, 1.2), 1.3)).verdict == "pass", "one block within the limit"
    assert comparison(rows=rows, speed=speed((1.5, 1.4), 1.3)).verdict == "fail"
    assert comparison(rows=rows, speed=speed((9.0, 9.0), None)).verdict == "pass"


def test_the_document_and_the_text() -> None:
    found = comparison(
        b=side("b.fxa", "it needs another MAX"),
        manifest=[{"part": "graph", "a": "0" * 64, "b": None}],
        signature=[{"what": "input x", "a": "f32 [3]", "b": None, "breaks": True}],
        speed=speed((2.0,), 1.5),
    )
    document = found.to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (document["schema"], document["b"]["cannot_run"], document["a"]["cannot_run"]) == (
        1,
        "it needs another MAX",
        None,
    )
    text = _text(document)
    for wanted in (
        "B cannot take A's place",
        "000000000000...",
        "no MAX here",
        "2.00 (blocks",
        "slower than allowed",
        "fail",
    ):
        assert wanted in text


def test_every_sample_of_a_folder_is_compared(tmp_path: Path) -> None:
    symbolic, pinned = graph(tmp_path, SYMBOLIC), graph(tmp_path, PINNED)
    folder = tmp_path / "samples"
    folder.mkdir()
    for size in (7, 4):
        np.savez(folder / f"s{size}.npz", x=np.zeros((size, 3), np.float32))
    found = shared_samples(symbolic, symbolic, folder, {}, 0)
    assert [(label, arrays["x"].shape[0]) for label, arrays in found] == [("s4.npz", 4), ("s7.npz", 7)]
    assert shared_samples(symbolic, pinned, folder, {}, 0) == []  # not a part of them, as if that were all


def test_the_text_has_verbs_in_the_right_number() -> None:
    rows = [{"operation": "pool", "a": 1, "b": 0}]
    assert [_differences(what, rows, "")[0] for what in ("manifest", "operations")] == [
        "manifest differs:",
        "operations differ:",
    ]
