"""The codes of errors: all documented, each with the exit status that it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fornaxc import errors

ROOT = Path(__file__).parent.parent
SOURCES = [p for room in ("fornaxc", "importers", "targets", "cache") for p in sorted((ROOT / room).rglob("*.py"))]


def documented() -> list[str]:
    return re.findall(r"^\| (FX\d{3}) \|", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE)


def test_the_documented_codes_are_those_of_the_source() -> None:
    used = {code for path in SOURCES for code in re.findall(r'"(FX\d{3})"', path.read_text())}
    assert used == set(documented())
    assert len(documented()) == len(set(documented()))


def test_codes_stand_under_their_exit_status() -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    for section in text.split("\n## ")[1:]:
        assert {code[2] for code in re.findall(r"^\| (FX\d{3})", section, re.MULTILINE)} == {section[0]}


@pytest.mark.parametrize("cls", [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)])
def test_error_classes_agree_with_their_codes(cls: type[errors.FornaxError]) -> None:
    error = cls("what", details=[{"a": 1}], hint="do this")
    document = error.to_json()
    assert document["code"][2] == str(document["exit"])
    assert document == {
        "status": "error",
        "code": cls.code,
        "exit": cls.exit,
        "message": "what",
        "details": [{"a": 1}],
        "hint": "do this",
    }


def test_codes_given_at_raise_sites_fit_the_class() -> None:
    """A code of another exit status than its class's would break the promise of the codes."""
    classes = {c.__name__: c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)}
    names = "|".join(classes)
    call = re.compile(rf'\b({names})\((?:[^()]|\([^()]*\))*?code="(FX\d{{3}})"')
    found = [(path, *match) for path in SOURCES for match in call.findall(path.read_text())]
    assert len(found) > 20
    wrong = [f"{path.name}: {name} {code}" for path, name, code in found if code[2] != str(classes[name].exit)]
    assert wrong == []
