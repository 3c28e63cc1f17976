"""Plain text for people: aligned tables, sizes, times. Needs no terminal and no library."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

_NARROWEST_LAST_COLUMN = 24


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = (), indent: int = 0) -> str:
    """Rows as aligned columns under their names; the last column wraps at the width of the terminal.

    `columns` chooses and orders them; by default all names in order of appearance, without those that are empty everywhere.
    """
    names = list(columns) or [
        n for n in dict.fromkeys(n for row in rows for n in row) if any(_cell(r.get(n)) for r in rows)
    ]
    if not names:
        return ""
    cells = [[_title(name) for name in names], *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names) - 1)]
    margin = " " * (indent + sum(widths) + 2 * len(widths))
    room = max(_NARROWEST_LAST_COLUMN, shutil.get_terminal_size((120, 24)).columns - len(margin))
    lines = []
    for line in cells:
        first = " " * indent + "".join(cell.ljust(width) + "  " for cell, width in zip(line, widths, strict=False))
        wrapped = textwrap.wrap(line[-1], room, break_long_words=False, break_on_hyphens=False) or [""]
        lines += [(first + wrapped[0]).rstrip(), *(margin + rest for rest in wrapped[1:])]
    return "\n".join(lines)


def facts(pairs: Mapping[str, Any], indent: int = 0) -> str:
    """One `name  value` a line, values aligned; empty values are left out."""
    shown = {name: _cell(value) for name, value in pairs.items()}
    shown = {name: value for name, value in shown.items() if value}
    width = max((len(name) for name in shown), default=0)
    return "\n".join(" " * indent + f"{name.ljust(width)}  {value}" for name, value in shown.items())


def printable(text: str) -> str:
    """`text` with every control character but line ends and tabs escaped: names in models may hold any, and a terminal obeys them."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def _title(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_cell(inner) for inner in value)
    return str(value)


def shape(dims: Sequence[Any]) -> str:
    """`[batch, 3, 224]`."""
    return f"[{', '.join(str(d) for d in dims)}]"


def size(count: float) -> str:
    """Bytes in a readable unit: `1.4 MB` (decimal units)."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def moment(seconds: float) -> str:
    """A time of day, local: `2026-01-31 14:05`."""
    from datetime import datetime

    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
