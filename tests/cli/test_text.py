"""Plain text for people."""

from __future__ import annotations

import pytest

from fornaxc.cli.text import facts, printable, size, table


def test_tables_align_and_wrap_the_last_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    rows = [{"name": "a", "why": "one two three four five six seven"}, {"name": "longer", "why": ""}]
    assert table(rows).splitlines() == [
        "name    why",
        "a       one two three four five six",
        "        seven",
        "longer",
    ]


def test_tables_leave_out_empty_columns_and_keep_the_order() -> None:
    assert table([{"b": 1, "a": None}, {"b": [1, 2], "c": True}]).splitlines() == ["b     c", "1", "1, 2  yes"]
    assert table([]) == ""
    assert table([{"a": None}]) == ""


def test_facts_leave_out_what_is_empty() -> None:
    assert facts({"one": 1, "longer": {"x": 0.5}, "none": None, "empty": []}) == "one     1\nlonger  x 0.5"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2.5e9, "2.5 GB"), (3e15, "3000.0 TB")]
)
def test_sizes(count: float, text: str) -> None:
    assert size(count) == text


def test_names_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31mb\x07\u202e\n\tç日") == "a\\x1b[31mb\\x07\\u202e\n\tç日"
