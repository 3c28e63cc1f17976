"""A suite through the whole path, with an interpreter in MAX's place, and once with MAX."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fornaxc import api
from fornaxc.cli.main import run
from fornaxc.qualify import programs
from fornaxc.qualify.gaps import read_gaps

VERDICTS = {
    "nan": ("mismatch", "mismatch"),
    "refused": ("import", "refused"),
    "right": ("pass", "pass"),
    "steered": ("pass", "pass"),
    "wrong": ("mismatch", "mismatch"),
}


@pytest.mark.usefixtures("without_max")
def test_every_case_gets_its_verdict(suite: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    found = api.qualify(suite, jobs=1, json=tmp_path / "out.json", progress=lambda *event: told.append(event))
    assert {r.id: (r.phase, r.verdict) for r in found.results} == VERDICTS
    assert found.totals == {"pass": 2, "mismatch": 2, "refused": 1, "failed": 0}
    assert found.exit == 1
    assert told[-1] == ("run", 3, 3)  # right and wrong are one program
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["totals"] == found.totals
    cases = {c["id"]: c for c in document["cases"]}
    assert cases["wrong"]["max_abs"] == 0.5
    assert "1 of 6 elements differ by more than the tolerance; at [1, 2]" in cases["wrong"]["reason"]
    assert cases["refused"]["reason"] == "RandomUniformLike: its result is random"
    assert cases["refused"]["tolerance"] is None
    assert cases["right"]["tolerance"] == {"rtol": 1e-3, "atol": 1e-5}
    assert cases["right"]["rule"] == "tolerance"
    assert cases["right"]["seconds"] > 0


@pytest.mark.usefixtures("without_max")
def test_frozen_inputs_are_another_figure(suite: Path) -> None:
    found = api.qualify(suite, filters=["steered"], freeze_shape_inputs=True, jobs=1)
    assert (found.inputs, found.totals["pass"]) == ("frozen", 1)


@pytest.mark.usefixtures("without_max")
def test_a_second_run_runs_nothing_again(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = api.qualify(suite, filters=["right"], jobs=1)
    monkeypatch.setattr(programs, "CHILD", "no_such_module")
    second = api.qualify(suite, filters=["right"], jobs=1)
    assert second.totals == first.totals == {"pass": 1, "mismatch": 0, "refused": 0, "failed": 0}


@pytest.mark.usefixtures("without_max")
def test_gaps_are_strict(suite: Path, tmp_path: Path) -> None:
    gaps = tmp_path / "gaps.toml"
    api.qualify(suite, jobs=1, update_gaps=gaps)
    listed = read_gaps(gaps)[f"{suite} run-time"]
    assert set(listed) == {"nan", "refused", "wrong"}
    assert listed["refused"] == {"phase": "import", "reason": "RandomUniformLike: its result is random"}
    assert api.qualify(suite, jobs=1, gaps=gaps).exit == 0
    text = gaps.read_text()
    gaps.write_text(text.replace('"wrong" =', '"right" =').replace("result is random", "result is anything"))
    checked = api.qualify(suite, jobs=1, gaps=gaps)
    assert checked.exit == 1
    assert [line.split(":")[0] for line in checked.gaps] == ["refused", "right", "wrong"]
    gaps.write_text(text.replace('"wrong" =', '"gone" =').replace('"nan" =', '"nan" ='))
    assert any("no such case" in line for line in api.qualify(suite, jobs=1, gaps=gaps).gaps)


@pytest.mark.usefixtures("without_max")
def test_support_data(suite: Path, tmp_path: Path) -> None:
    api.qualify(suite, jobs=1, support=tmp_path / "support")
    api.qualify(suite, jobs=1, freeze_shape_inputs=True, support=tmp_path / "support")
    from fornaxc.support.table import load_support, rows_of

    rows = {row.operator: row for row in rows_of(load_support("cpu", tmp_path / "support"))}
    assert (rows["Reshape"].good, rows["Reshape"].cases, rows["Reshape"].since) == (2, 2, 14)
    assert rows["Reshape"].figures == {"run-time": (1, 1), "frozen": (1, 1)}
    assert rows["Reshape"].dtypes == ("float", "int64")
    assert rows["Add"].wrong == ("wrong",)
    assert rows["RandomUniformLike"].refused == {"RandomUniformLike: its result is random": 1}
    page = (tmp_path / "support" / "cpu.md").read_text()
    assert "| Reshape | 14 | 1 of 1 | 1 of 1 |" in page
    assert "| rtol 0.001, atol 1e-05 |" in page
    assert "**wrong value in wrong**" in page


@pytest.mark.usefixtures("without_max")
def test_what_was_qualified_here_is_shown(suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine"
    api.qualify(suite, jobs=1, support=mine)
    (mine / "amd-gfx942.json").write_text((mine / "cpu.json").read_text())
    capsys.readouterr()
    assert run(["ops", "--target", "amd", "--support", str(mine)]) == 0
    assert "Reshape            14     1/1" in capsys.readouterr().out
    assert run(["ops", "--target", "nvidia", "--support", str(mine), "--json"]) == 2
    assert "targets with data: amd:gfx942, cpu;" in json.loads(capsys.readouterr().out)["hint"]
    for content in ("{", "[]", '{"operators": 1}'):
        (mine / "cpu.json").write_text(content)
        assert run(["ops", "--support", str(mine), "--json"]) == 2
        assert json.loads(capsys.readouterr().out)["code"] == "FX243"


@pytest.mark.usefixtures("without_max")
def test_what_is_known_is_shown(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api.qualify(suite, jobs=1, support=tmp_path)
    monkeypatch.setattr("fornaxc.support.table.FOLDER", tmp_path)
    capsys.readouterr()
    assert run(["ops"]) == 0
    assert "Reshape            14     1/1" in capsys.readouterr().out
    assert run(["ops", "randomuniformlike"]) == 0
    assert "RandomUniformLike: its result is random" in capsys.readouterr().out
    assert run(["ops", "Reshap"]) == 2
    assert "near: Reshape" in capsys.readouterr().err
    assert run(["ops", "--target", "amd", "--json"]) == 2
    hint = json.loads(capsys.readouterr().out)["hint"]
    assert "qualify onnx:node --target amd:gfx942 --support DIR" in hint
    assert "ops --target amd:gfx942 --support DIR" in hint
    document = api.inspect(suite / "right" / "model.onnx")
    assert document["evidence"] == {"ai.onnx::Add": {"since": 14, "cases": 2, "good": 1, "wrong": ["wrong"]}}
    assert run(["inspect", str(suite / "steered" / "model.onnx")]) == 0
    assert "1 of 1, since opset 14" in capsys.readouterr().out


@pytest.mark.usefixtures("without_max")
def test_the_command(suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html = tmp_path / "out.html"
    assert run(["qualify", str(suite), "-j", "1", "--html", str(html)]) == 1
    shown = capsys.readouterr()
    assert "mismatch  mismatch  wrong" in shown.out
    assert "pass 2, mismatch 2, refused 1, failed 0" in shown.out
    assert "compile and run: 3 of 3" in shown.err
    assert "RandomUniformLike" in html.read_text()
    assert run(["qualify", str(suite), "-j", "1", "--filter", "right", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["pass"] == 1
    assert run(["qualify", "onnx:nodes"]) == 2
    assert "onnx:pytorch-operator" in capsys.readouterr().err


@pytest.mark.slow
def test_with_max(suite: Path, tmp_path: Path) -> None:
    found = api.qualify(suite, jobs=1, resume=tmp_path / "state")
    assert {r.id: (r.phase, r.verdict) for r in found.results} == VERDICTS
