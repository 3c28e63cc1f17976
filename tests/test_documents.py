"""docs/json.md and docs/ci.md, beside the code that they are about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).parent.parent
ROOMS = {
    "verification": ["verify", "inspect"],
    "diagnosis": ["verify", "reduce"],
    "bench": ["bench", "verify"],
    "comparison": ["compare", "bench", "verify"],
    "qualify": ["qualify"],
    "support": ["ops"],
}
"""The sections that tell of the documents which a room makes."""


def keys(room: str) -> Iterator[tuple[str, str]]:
    """Every key of a JSON document that a room spells, with the module that does."""
    for path in sorted((ROOT / "fornaxc" / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name in ("to_json", "record"):
                spelled = [key for inner in ast.walk(node) if isinstance(inner, ast.Dict) for key in inner.keys]
                yield from ((k.value, path.name) for k in spelled if isinstance(k, ast.Constant))


def sections(names: list[str]) -> str:
    text = (ROOT / "docs" / "json.md").read_text()
    found = {part.split("\n", 1)[0]: part for part in text.split("\n## ")}
    return "\n".join(found[name] for name in names)


@pytest.mark.parametrize("room", ROOMS)
def test_every_key_of_a_document_is_documented(room: str) -> None:
    text = sections(ROOMS[room])
    spelled = list(keys(room))
    assert spelled
    assert [found for found in spelled if f'"{found[0]}"' not in text and f"`{found[0]}`" not in text] == []


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each verb in the shell commands of a page's code, with the options that follow it."""
    blocks = re.findall(r"^```.*?^ *```", text, re.DOTALL | re.MULTILINE)
    for block in blocks:
        text = text.replace(block, "")
    code = "\n".join([*blocks, *re.findall(r"`[^`\n]+`|^    fornaxc .*$", text, re.MULTILINE)])
    for verb, more, rest in re.findall(r"fornaxc ([a-z]+)(?: (\w+))?([^\n`|#]*)", code):
        yield (f"{verb} {more}" if verb == "cache" else verb), re.findall(r"(?<=\s)(--?[a-zA-Z][\w-]*)", rest)


def command(name: str) -> click.Command:
    verb, _, inner = name.partition(" ")
    found: click.Command = import_module(f"fornaxc.cli.{verb}").command
    return found.commands[inner] if isinstance(found, click.Group) and inner else found


@pytest.mark.parametrize(
    "page", ["docs/ci.md", "docs/bench.md", "docs/oracles.md", "docs/cli.md", "docs/diagnosis.md", "README.md"]
)
def test_options_on_pages_are_those_of_the_verbs(page: str) -> None:
    found = list(commands((ROOT / page).read_text()))
    assert page != "docs/ci.md" or {verb for verb, _ in found} >= {"verify", "compile", "compare", "cache gc"}
    wrong = []
    for verb, options in found:
        known = {option for p in command(verb).params for option in (*p.opts, *p.secondary_opts)} | {"--help", "-h"}
        wrong += [f"{verb} {option}" for option in options if option not in known]
    assert wrong == []
