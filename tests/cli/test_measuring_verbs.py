"""`fornaxc bench` and `compare`: what they pass to the API, and their exit statuses."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import Cli

from fornaxc import api


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
    told = cli("compare", "a.fxa", "b.fxa", *f"--max-slowdown 1.5 --rtol 0.1 --no-speed {given}".split(), "--json")
    assert told.status == 1
    assert seen.items() >= {**both, "max_slowdown": 1.5, "rtol": 0.1, "speed": False}.items()


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
