"""No verb writes over a file that it reads, and no two of its files go to one place."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from fornaxc import api
from fornaxc.errors import UsageError
from fornaxc.places import check_places

MODEL = '<ir_version: 8, opset_import: ["" : 17]> f (float[n] x) => (float[n] y) { y = Add(x, w) }'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model whose weight lies in a file of its own, and inputs in a folder."""
    made = parser.parse_model(MODEL)
    made.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "w"))
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="m.weights", size_threshold=0)
    (tmp_path / "in").mkdir()
    np.savez(tmp_path / "in" / "one.npz", x=np.zeros(2, np.float32))
    np.savez(tmp_path / "out.npz", y=np.ones(2, np.float32))
    (tmp_path / "t.toml").write_text('[outputs.y]\nrtol = 0.1\nreason = "r"\n')
    (tmp_path / "link").symlink_to("m.onnx")
    os.link(tmp_path / "m.weights", tmp_path / "hard")
    return tmp_path / "m.onnx"


READ = ("m.onnx", "m.weights", "in/one.npz", "out.npz", "t.toml", "link", "hard")


def contents(folder: Path) -> dict[Path, bytes]:
    return {f: f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file() and "cache" not in f.parts}


def code_of(what: object) -> str:
    with pytest.raises(UsageError) as raised:
        what()  # type: ignore[operator]
    return raised.value.code


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("kind", ["html", "junit"])
def test_a_report_of_verify_replaces_nothing_that_is_read(model: Path, tmp_path: Path, name: str, kind: str) -> None:
    before = contents(tmp_path)
    given = {"inputs": tmp_path / "in", "expected": tmp_path / "out.npz", "tolerances": tmp_path / "t.toml"}
    assert code_of(lambda: api.verify(model, **given, **{kind: tmp_path / name})) == "FX252"  # type: ignore[arg-type]
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["m.onnx", "m.weights", "in/one.npz", "t.toml"])
def test_nor_does_the_page_of_bench(model: Path, tmp_path: Path, name: str) -> None:
    before = contents(tmp_path)
    given = {"inputs": tmp_path / "in" / "one.npz", "tolerances": tmp_path / "t.toml"}
    assert code_of(lambda: api.bench(model, **given, html=tmp_path / name)) == "FX252"  # type: ignore[arg-type]
    assert contents(tmp_path) == before


def test_nor_do_outputs_of_run(tmp_path: Path) -> None:
    (tmp_path / "m.fxa").write_bytes(b"PK\x03\x04")
    np.savez(tmp_path / "in.npz", x=np.zeros(2, np.float32))
    before = contents(tmp_path)
    given = tmp_path / "in.npz"
    for name in ("in.npz", "m.fxa"):
        assert code_of(lambda n=name: api.run(tmp_path / "m.fxa", inputs=given, output=tmp_path / n)) == "FX252"
    assert contents(tmp_path) == before


def test_nor_does_the_page_of_qualify_go_where_its_document_goes(tmp_path: Path) -> None:
    both = tmp_path / "report"
    assert code_of(lambda: api.qualify("onnx:node", json=both, html=both)) == "FX252"


def test_two_reports_need_two_places(model: Path, tmp_path: Path) -> None:
    both = tmp_path / "report"
    assert code_of(lambda: api.verify(model, html=both, junit=both)) == "FX252"


def test_what_is_not_read_may_be_replaced(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in" / "report.html").write_text("<!doctype html>")
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"none")
    check_places([tmp_path / "in" / "report.html", None], [model, damaged, None], [tmp_path / "in", None])
