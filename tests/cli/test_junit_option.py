"""What `--junit` and `--html` leave, however a verification ends: never what an earlier one left."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import onnx
import pytest
from command_line import Change, Cli
from onnx import parser

from fornaxc import api
from fornaxc.errors import UsageError

MODEL = '<ir_version: 8, opset_import: ["" : 17]> f (float[n] x) => (float[n] y) { y = Exp(x) }'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def written(tmp_path: Path) -> tuple[Any, ...]:
    """Options for files that an earlier verification wrote."""
    (tmp_path / "r.xml").write_text("<testsuites/>")
    (tmp_path / "r.html").write_text("<!doctype html>")
    return "--junit", tmp_path / "r.xml", "--html", tmp_path / "r.html"


def told(folder: Path) -> tuple[str | None, str | None]:
    """The type and the message of the error in the JUnit file."""
    error = next(xml.parse(folder / "r.xml").getroot().iter("error"))
    return error.get("type"), error.get("message")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--bisect", "--dataset", "d.npz"), "FX253"),
        (("--growth", "no/g.html"), "FX228"),
        (("--dim", "n=0", "--inputs", "none.npz"), "FX223"),
        (("--no-such-option",), "FX201"),
        (("--seed", "x"), "FX201"),
        (("--oracle", "tvm"), "FX201"),
    ],
)
def test_an_error_takes_the_place_of_the_last_report(
    cli: Cli, model: Path, tmp_path: Path, written: tuple[Any, ...], options: tuple[str, ...], code: str
) -> None:
    outcome = cli("verify", model, *written, *options, "--json")
    assert (outcome.status, outcome.document["code"]) == (2, code)
    assert told(tmp_path)[0] == code
    assert not (tmp_path / "r.html").exists()


def test_a_page_that_cannot_be_is_told_too(cli: Cli, model: Path, tmp_path: Path, written: tuple[Any, ...]) -> None:
    assert cli("verify", model, *written, "--html", tmp_path / "no" / "r.html").status == 2
    assert told(tmp_path)[0] == "FX228"
    with pytest.raises(UsageError):
        api.verify(model, html=tmp_path / "no" / "r.html", junit=tmp_path / "api.xml")
    assert "FX228" in (tmp_path / "api.xml").read_text()


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (RuntimeError("no good"), 5, "internal error: RuntimeError: no good"),
        (KeyboardInterrupt(), 130, "the verification was interrupted"),
        (MemoryError(), 5, "internal error: MemoryError: "),
    ],
)
def test_whatever_ends_a_verification_is_told(
    cli: Cli, model: Path, tmp_path: Path, written: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch,
    error: BaseException, status: int, message: str,
) -> None:  # fmt: skip
    def ends(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("fornaxc.verification.session.verify_model", ends)
    assert cli("verify", model, *written).status == status
    assert told(tmp_path) == (type(error).__name__, message)
    assert not (tmp_path / "r.html").exists()


def test_a_search_that_breaks_is_told_though_the_verification_was_well(
    cli: Cli, device: list[Change], model: Path, tmp_path: Path, written: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def breaks(*arguments: object, **options: object) -> None:
        raise RuntimeError("no good")

    monkeypatch.setattr(api, "bisect", breaks)
    assert cli("verify", model, *written, "--bisect").status == 5
    assert told(tmp_path)[0] == "RuntimeError"


def test_a_report_takes_the_place_of_the_last_one(
    cli: Cli, device: list[Change], model: Path, tmp_path: Path, written: tuple[Any, ...]
) -> None:
    assert cli("verify", model, *written).status == 0
    assert xml.parse(tmp_path / "r.xml").getroot().find("testsuite") is not None
    assert "Verification of m.onnx" in (tmp_path / "r.html").read_text()


def test_a_model_in_the_place_of_a_report_stays(cli: Cli, model: Path, tmp_path: Path) -> None:
    """As where the option lacks its value."""
    before = model.read_bytes()
    assert cli("verify", "--junit", model).status == 2
    assert cli("verify", tmp_path / "none.onnx", "--html", tmp_path / "r.html", "--junit", model).status == 4
    assert model.read_bytes() == before
