"""`fornaxc bench` and `compare`: what they pass to the API, and their exit statuses."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import Change, Cli
from onnx import parser

from fornaxc import api, child
from fornaxc.comparison import session
from fornaxc.verification import verify


def recorder(seen: dict[str, Any], status: int = 0) -> Callable[..., Any]:
    """Stands in for a verb of the API."""

    def record(*paths: Path, **options: Any) -> Any:
        seen.update(options, paths=paths)
        return SimpleNamespace(to_json=lambda: {"verdict": "made up"}, exit=status)

    return record


@pytest.mark.parametrize(("verb", "paths"), [("bench", ["m.fxa"]), ("compare", ["a.fxa", "b.fxa"])])
def test_defaults_are_those_of_the_api(cli: Cli, monkeypatch: pytest.MonkeyPatch, verb: str, paths: list[str]) -> None:
    seen: dict[str, Any] = {}
    parameters = inspect.signature(getattr(api, verb)).parameters
    defaults = {n: p.default for n, p in parameters.items() if p.default is not inspect.Parameter.empty}
    monkeypatch.setattr(api, verb, recorder(seen))
    assert cli(verb, *paths, "--json").status == 0
    assert seen.pop("paths") == tuple(map(Path, paths))
    empty = {name: seen[name] or None for name in ("dims", "sizes") if name in seen}
    assert {**seen, **empty, "progress": defaults["progress"]} == defaults


def test_options_are_passed_on(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(api, "bench", recorder(seen, status=1))
    monkeypatch.setattr(api, "compare", recorder(seen, status=1))
    given = "--size n=3 --iterations 7 --warmup 0 --threads 2 --timeout 5 --seed 4"
    told = cli("bench", "m.fxa", *f"--against ort --model m.onnx --html b.html {given}".split(), "--json")
    assert (told.status, told.document) == (1, {"verdict": "made up"})
    both = {"sizes": {"n": 3}, "iterations": 7, "warmup": 0, "threads": 2, "timeout": 5.0, "seed": 4}
    assert seen.items() >= {**both, "against": "ort", "model": Path("m.onnx"), "html": Path("b.html")}.items()
    seen.clear()
    told = cli(
        "compare",
        "a.fxa",
        "b.fxa",
        *f"--max-slowdown 1.5 --rtol 0.1 --tolerances t.toml --no-speed {given}".split(),
        "--json",
    )
    assert told.status == 1
    assert (
        seen.items() >= {**both, "max_slowdown": 1.5, "rtol": 0.1, "tolerances": Path("t.toml"), "speed": False}.items()
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "m.fxa", "--against", "tvm"),
        ("bench", "m.fxa", "--iterations", "0"),
        ("bench", "m.fxa", "--size", "n"),
        ("compare", "a.fxa"),
        ("compare", "a.fxa", "b.fxa", "--max-slowdown", "inf"),
    ],
)
def test_wrong_command_lines(cli: Cli, arguments: tuple[str, ...]) -> None:
    told = cli(*arguments, "--json")
    assert (told.status, told.document["code"]) == (2, "FX201")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--inputs", "none.npz"), "FX223"),
        (("--inputs", "wrong.npz"), "FX220"),
        (("--inputs", "in.npz", "--size", "n=2"), "FX260"),
        (("--size", "m=2"), "FX215"),
        (("--size", "n=2", "--dim", "n=2"), "FX215"),
        (("--size", "n=0"), "FX214"),
        (("--tolerances", "none.toml"), "FX223"),
        (("--tolerances", "t.toml"), "FX235"),
    ],
)
def test_bench_judges_what_is_given_before_it_compiles(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: str
) -> None:
    def compiles(*arguments: object, **options: object) -> None:
        raise AssertionError("it was compiled")

    monkeypatch.setattr(child, "compile_in_child", compiles)
    monkeypatch.chdir(tmp_path)
    text = '<ir_version: 8, opset_import: ["" : 17]> f (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }'
    onnx.save(parser.parse_model(text), "m.onnx")
    np.savez("in.npz", x=np.zeros((2, 3), np.float32))
    np.savez("wrong.npz", z=np.zeros((2, 3), np.float32))
    Path("t.toml").write_text('[outputs.z]\nrtol = 1.0\nreason = "none"\n')
    told = cli("bench", "m.onnx", *options, "--json")
    assert (told.status, told.document["code"]) == (2, code)
    Path("t.toml").rename("m.tolerances.toml")
    assert cli("bench", "m.onnx", "--json").document["code"] == "FX235", "the file beside the model is read"


def test_compare_reads_tolerances_as_verify_does(
    cli: Cli, device: list[Change], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "run_in_child", verify.run_in_child)
    for name, added in (("a", 0.0), ("b", 0.25)):
        text = f'<ir_version: 8, opset_import: ["" : 17]> f (float[n] x) => (float[n] y) <float c = {{{added}}}> {{ y = Add(x, c) }}'
        onnx.save(parser.parse_model(text), tmp_path / f"{name}.onnx")
        assert cli("compile", tmp_path / f"{name}.onnx", "-o", tmp_path / f"{name}.fxa").status == 0
    both = (tmp_path / "a.fxa", tmp_path / "b.fxa", "--no-speed", "--json")
    assert cli("compare", *both).status == 1
    stated = '[outputs.y]\natol = 1.0\nreason = "trained again"\n'
    (tmp_path / "net.toml").write_text(stated)
    assert cli("compare", *both, "--tolerances", tmp_path / "net.toml").status == 0
    (tmp_path / "b.tolerances.toml").write_text(stated)
    told = cli("compare", *both).document
    assert {row["tolerance"]["source"] for row in told["outputs"]} == {"b.tolerances.toml: trained again"}
    assert (told["verdict"], cli("compare", *both, "--atol", "0.1").status) == ("pass", 1)


def test_what_cannot_be_is_refused_before_any_work(cli: Cli, tmp_path: Path) -> None:
    for name in ("a.fxa", "b.fxa"):
        (tmp_path / name).write_bytes(b"PK\x03\x04")
    told = cli("compare", tmp_path / "a.fxa", tmp_path / "b.fxa", "--no-speed", "--max-slowdown", "2", "--json")
    assert (told.status, told.document["code"]) == (2, "FX263")
    told = cli("compare", tmp_path / "a.fxa", tmp_path / "b.fxa", "--json")
    assert (told.status, told.document["code"]) == (4, "FX452")
    told = cli("bench", tmp_path / "a.fxa", "--html", tmp_path / "no" / "b.html", "--json")
    assert (told.status, told.document["code"]) == (2, "FX228")
    told = cli("bench", tmp_path / "a.fxa", "--dim", "n=2", "--json")
    assert (told.status, told.document["code"]) == (2, "FX218")
