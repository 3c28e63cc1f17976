"""A key changes when a part does, and only then."""

from __future__ import annotations

import copy
import enum
from typing import Any

import pytest

from fornaxc.cache.keys import ABSENT, Difference, canonical_json, explain, key_of

PARTS: dict[str, Any] = {
    "schema": 1,
    "graph": "sha256:" + "a" * 64,
    "target": {"api": "hip", "arch": "gfx942"},
    "options": {"opt_level": 3, "fallback": True, "dims": {"batch": 8}, "extensions": ["a", "b"]},
    "note": None,
}


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    parts = copy.deepcopy(PARTS)
    inner: Any = parts
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return parts


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        (["schema"], 2, "schema"),
        (["schema"], "1", "schema"),
        (["schema"], True, "schema"),
        (["graph"], "sha256:" + "b" * 64, "graph"),
        (["target", "arch"], "gfx950", "target.arch"),
        (["options", "fallback"], False, "options.fallback"),
        (["options", "fallback"], 1, "options.fallback"),
        (["options", "dims", "batch"], 16, "options.dims.batch"),
        (["options", "dims"], {}, "options.dims.batch"),
        (["options", "dims"], [], "options.dims"),
        (["options", "extensions"], ["b", "a"], "options.extensions[0]"),
        (["options", "extensions"], ["a", "b", "c"], "options.extensions[2]"),
        (["options", "extensions"], ["a"], "options.extensions[1]"),
        (["options", "new"], None, "options.new"),
        (["note"], "", "note"),
        (["note"], "None", "note"),
    ],
)
def test_every_change_of_a_part_changes_the_key_and_is_explained(path: list[Any], value: Any, name: str) -> None:
    other = changed(path, value)
    assert key_of(other) != key_of(PARTS)
    assert name in [difference.path for difference in explain(PARTS, other)]
    assert name in [difference.path for difference in explain(other, PARTS)]


def test_order_and_kind_of_container_do_not_change_the_key() -> None:
    class Level(enum.IntEnum):
        HIGH = 3

    class Api(enum.StrEnum):
        HIP = "hip"

    other = dict(reversed(PARTS.items()))
    other["target"] = {"arch": "gfx942", "api": Api.HIP}
    other["options"] = {**PARTS["options"], "extensions": ("a", "b"), "opt_level": Level.HIGH}
    assert key_of(other) == key_of(PARTS)
    assert explain(PARTS, other) == []


def test_the_key_is_the_same_in_every_release() -> None:
    assert canonical_json({"b": [1, None, True], "a": "é"}) == b'{"a":"\\u00e9","b":[1,null,true]}'
    assert key_of({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize("value", [1.0, float("nan"), b"x", {1: 2}, {"a", "b"}, object()])
def test_what_has_no_canonical_spelling_is_refused_with_its_place(value: Any) -> None:
    with pytest.raises(TypeError, match=r"parts\.options\.x"):
        key_of({"options": {"x": value}})


def test_explain_gives_old_and_new() -> None:
    assert explain({"a": 1, "gone": 2}, {"a": 3, "new": [4]}) == [
        Difference("a", 1, 3),
        Difference("gone", 2, ABSENT),
        Difference("new", ABSENT, [4]),
    ]
