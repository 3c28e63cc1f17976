"""The page and the JUnit file of a verification. Nothing is compiled: arrays are compared as they are."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import ml_dtypes
import numpy as np
import pytest

from fornaxc import api
from fornaxc.cache.files import write_whole
from fornaxc.errors import CacheError, ModelError, UsageError
from fornaxc.verification.compare import DECADES, Row, Tolerance, compare_outputs
from fornaxc.verification.execution import Execution, Kernel
from fornaxc.verification.files import ReportFiles
from fornaxc.verification.junit import verify_junit
from fornaxc.verification.page import verify_page
from fornaxc.verification.report import Report

REFERENCE = {
    "y<1>": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "n": np.arange(3),
    "none": np.zeros((0, 2), np.float32),
}


def report(verdict: str = "pass", *, wrong: bool = False, rows: list[Row] | None = None) -> Report:
    """One whose outputs agree, or have an element that is wrong and a NaN."""
    outputs = {name: array.copy() for name, array in REFERENCE.items()}
    outputs["y<1>"][1, 2] += 3 if wrong else 1e-6
    if wrong:
        outputs["none"] = np.zeros((1, 2), np.float32)
    found = compare_outputs(outputs, REFERENCE, sample="n=3") if rows is None else rows
    return Report(
        verdict,
        "amd:gfx942",
        "cpu",
        "onnxruntime",
        found,
        "ab" * 32,
        ["n=3"],
        ["a <note>"],
        seed=0,
        phases={"verify": 1.5},
    )


def cases(text: str) -> dict[str, xml.Element]:
    """The test cases of a JUnit file by name."""
    return {str(case.get("name")): case for case in xml.fromstring(text).iter("testcase")}


def test_errors_are_counted_by_decade_of_what_is_allowed() -> None:
    within = Tolerance(0.0, 1.0, "test", scaled=False)
    reference = np.zeros(6, np.float32)
    value = np.array([0, 1e-9, 0.5, 1.0, 5.0, 1e9], np.float32)
    (row,) = compare_outputs({"y": value}, {"y": reference}, lambda name, dtype: within)
    assert row.distribution is not None
    assert len(row.distribution) == len(DECADES) + 1
    assert dict(zip([*DECADES, "more"], row.distribution, strict=True)) == {
        **dict.fromkeys(DECADES, 0), -6: 2, 0: 2, 1: 1, "more": 1,
    }  # fmt: skip
    assert (row.verdict, row.reason[:6]) == ("fail", "2 of 6")
    half = np.array([1.0, np.nan, np.inf], ml_dtypes.bfloat16)
    (row,) = compare_outputs({"y": half}, {"y": half})
    assert row.distribution is not None and sum(row.distribution) == row.distribution[0] == 3
    (row,) = compare_outputs({"y": reference}, {"y": reference}, lambda name, dtype: Tolerance(0.0, 0.0, "exact"))
    assert row.distribution is not None and row.distribution[0] == 6
    for pair in ((np.arange(3), np.arange(3)), (half, half[::-1]), (reference, reference[:2])):
        (row,) = compare_outputs({"y": pair[0]}, {"y": pair[1]})
        assert row.distribution is None


def test_the_page_stands_alone_and_says_what_failed() -> None:
    document = report("fail", wrong=True).to_json()
    page = verify_page(document, "m<2>.onnx")
    assert "y&lt;1&gt;" in page and "m&lt;2&gt;.onnx" in page and "a &lt;note&gt;" in page
    assert "y<1>" not in page and "<note>" not in page and "m<2>" not in page
    for needed in (
        "cpu in place of amd:gfx942",
        "1 of 12 elements differ",
        "at [1, 2]",
        "prefers-color-scheme:dark",
        "<svg",
    ):
        assert needed in page
    assert not re.search(r"https?:|src=|@import|url\(|<link", page)
    assert page.count('<rect class="bad"') == 1, "the bar of the one element beyond the tolerance"
    fine = verify_page(report().to_json(), "m.onnx")
    assert '<rect class="bad"' not in fine and "none failed" in fine


def test_the_page_tells_how_accurate_each_side_is_and_of_a_dataset() -> None:
    document = report().to_json()
    assert "<h2>Dataset</h2>" not in verify_page(document, "m.onnx")
    assert "How accurate" not in verify_page(document, "m.onnx") and "Dataset" not in verify_page(document, "m.onnx")
    errors = {"max_abs": 0.125, "rms": 0.1, "tolerances": 0.5}
    double = {"by": "onnxruntime in double", "ours": errors, "oracle": None, "why_not": ""}
    document["outputs"][0] |= {"noise": {"threads": 0.0625}, "float64": double}
    spread = {"max": 0.5, "mean": 0.25, "p50": 0.25, "p99": 0.375}
    output = {
        "name": "y<1>",
        "oracle": "onnxruntime",
        "failed": 3,
        "elements": 480,
        "absolute": spread,
        "relative": None,
        "cosine": {"min": 0.75},
        "top1": 0.875,
        "top5": None,
    }
    document["dataset"] = {"samples": 40, "failed": 3, "outputs": [output]}
    page = verify_page(document, "m.onnx")
    for needed in (
        "0.125",
        "threads 0.0625",
        "onnxruntime in double",
        "40 samples were compared, 3 of which differ",
        "0.375",
        "0.75",
        "87.5 %",
    ):
        assert needed in page
    assert page.count("<h2>Dataset</h2>") == 1
    assert page.index("<h2>Dataset</h2>") < page.index("The outputs below are") < page.index("<h2>Outputs</h2>")


def test_the_page_names_the_rules_and_colours_every_verdict() -> None:
    rows = compare_outputs(
        {"y": np.ones(2, np.float32), "i": np.arange(2)}, {"y": np.ones(2, np.float32), "i": np.arange(2)}
    )
    unjudged = replace(rows[0], name="z", verdict="unjudged", rule="contested", reason="the oracles differ there too")
    page = verify_page(report(rows=[*rows, unjudged]).to_json(), "m.onnx")
    assert "<th>rule</th>" in page
    for rule in ("tolerance", "exact", "contested"):
        assert f"<td>{rule}</td>" in page
    style = page[: page.index("</style>")]
    for verdict in ("pass", "fail", "unproven", "empty", "unjudged"):
        assert re.search(rf"\.{verdict}[,{{]", style), verdict


def test_the_page_tells_what_ran_where() -> None:
    kernels = (Kernel(("conv2d", "relu<1>"), 3, ("layer<0>", "layer<1>")), Kernel(("matmul",), 1, ()))
    plain = verify_page(report().to_json(), "m.onnx")
    assert "What ran where" not in plain and "On the host" not in plain
    host = [{"node": "NonZero<4>", "reason": "MAX has no kernel"}, {"node": "Unique_5", "transfers": 2}]
    told = replace(report(), execution=Execution("nvidia", 12, 2, ("Transpose_3",), kernels), host_nodes=host)
    page = verify_page(told.to_json(), "m.onnx")
    for needed in (
        "<h2>What ran where</h2>",
        "<dt>nodes</dt><dd>12</dd>",
        "<dt>folded</dt><dd>Transpose_3</dd>",
        "<dt>kernels</dt><dd>4</dd>",
        '<td class="n">3</td><td class="w">conv2d, relu&lt;1&gt;</td><td class="w">layer&lt;0&gt;, layer&lt;1&gt;</td>',
        "<h2>On the host, with transfers</h2>",
        "<th>node</th><th>reason</th><th>transfers</th>",
        "NonZero&lt;4&gt;",
    ):
        assert needed in page, needed
    silent = replace(told, execution=Execution("cpu", 1, 0, (), None), host_nodes=[])
    page = verify_page(silent.to_json(), "m.onnx")
    assert "What ran where" in page and "what each fuses" not in page


def test_a_page_of_nothing_is_a_page() -> None:
    page = verify_page(report("fail", rows=[]).to_json(), "m.onnx")
    assert "0 comparisons" in page and "<svg" not in page


def test_junit_tells_each_output() -> None:
    found = cases(verify_junit(report("fail", wrong=True).to_json(), "m.onnx"))
    failed = found["y<1> n=3 (onnxruntime)"].find("failure")
    assert failed is not None and failed.get("type") == "tolerance" and "1 of 12" in str(failed.get("message"))
    assert "worst_index: [1, 2]" in str(failed.text)
    assert list(found["n n=3 (onnxruntime)"]) == []
    shape = found["none n=3 (onnxruntime)"].find("failure")
    assert shape is not None and shape.get("type") == "shape"
    assert found["target amd:gfx942"].get("time") == "1.500"


def test_junit_counts_and_skips() -> None:
    root = xml.fromstring(verify_junit(report("unproven").to_json(), "m.onnx"))
    (suite,) = root
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "0", "errors": "0", "skipped": "2",
    }  # fmt: skip
    found = cases(verify_junit(report("unproven").to_json(), "m.onnx"))
    skipped = found["target amd:gfx942"].find("skipped")
    assert skipped is not None and "a <note>" in str(skipped.get("message"))
    assert found["none n=3 (onnxruntime)"].find("skipped") is not None, "it has no elements"
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert (properties["verdict"], properties["executed_on"], properties["key"]) == ("unproven", "cpu", "ab" * 32)


def test_a_failure_without_a_failed_output_is_one_case() -> None:
    found = cases(verify_junit(report("fail", rows=[]).to_json(), "m.onnx"))
    failure = found["target amd:gfx942"].find("failure")
    assert failure is not None and failure.get("message") == "no output was compared"


def test_names_that_xml_cannot_hold() -> None:
    rows = compare_outputs({"a\x00\x1b\ud800]]>": np.zeros(1)}, {})
    verify_page(report("fail", rows=rows).to_json(), "m\ud800.onnx").encode()
    assert [name[:1] for name in cases(verify_junit(report("fail", rows=rows).to_json(), "m\x07.onnx"))] == ["a", "t"]


def test_the_document_has_a_version_and_is_json() -> None:
    document = report("fail", wrong=True).to_json()
    assert document["schema"] == 1
    assert document["environment"]["versions"].keys() >= {"fornaxc", "max", "onnxruntime", "python"}
    json.dumps(document, allow_nan=False)


def test_the_files_are_judged_before_the_work_and_tell_of_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORNAXC_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(UsageError) as caught:
        api.verify(tmp_path / "no.onnx", html=tmp_path / "no" / "r.html")
    assert caught.value.code == "FX228"
    with pytest.raises(ModelError):
        api.verify(tmp_path / "no.onnx", html=tmp_path / "r.html", junit=tmp_path / "r.xml")
    error = cases((tmp_path / "r.xml").read_text())["verify"].find("error")
    assert error is not None and (error.get("type"), "does not exist" in str(error.get("message"))) == ("FX401", True)
    assert not (tmp_path / "r.html").exists()
    ReportFiles("m.onnx", tmp_path / "r.html", tmp_path / "r.xml").write(report())
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert len(cases((tmp_path / "r.xml").read_text())) == 4


def test_a_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fornaxc.cache.files.write_all", full)
    with pytest.raises(CacheError) as caught:
        write_whole(tmp_path / "r.html", b"x")
    assert caught.value.code == "FX601"
    assert list(tmp_path.iterdir()) == []
