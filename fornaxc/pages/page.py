"""The frame of a page, and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_STYLE = """
:root{color-scheme:light dark;--text:#1b1f24;--soft:#57606a;--ground:#fff;--line:#e1e4e8;--good:#14713d;--bad:#a3161f;--warn:#7a5a00;--note:#14517a;
--mark:#2f6fb3;--mark2:#b3622f;--bad-ground:#fde8e6;--guilty-ground:#f6b8b1}
@media (prefers-color-scheme:dark){:root{--text:#e3e6ea;--soft:#9aa4ae;--ground:#14171a;--line:#2c3238;--good:#5fd28f;--bad:#ff7a80;--warn:#e0b54a;
--note:#74b9e8;--mark:#6aa8e8;--mark2:#e8a06a;--bad-ground:#4a2320;--guilty-ground:#7a2c25}}
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:var(--text);background:var(--ground)}
h1{font-size:1.4rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
th{position:sticky;top:0;background:var(--ground)}th.n,td.n{text-align:right}td.n{font-variant-numeric:tabular-nums;white-space:nowrap}
td.w{overflow-wrap:anywhere;min-width:6.5rem}.scroll{overflow-x:auto}.soft{color:var(--soft)}
.pass,.ok{color:var(--good)}.compiled{color:var(--note)}.refused,.unproven,.unjudged,.empty{color:var(--warn)}.mismatch,.failed,.fail{color:var(--bad);font-weight:600}
.totals{display:flex;gap:2rem;flex-wrap:wrap}.totals b{font-size:1.6rem;display:block}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.2rem}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--soft)}svg .grid{stroke:var(--line)}svg .one{fill:var(--mark)}svg .two{fill:var(--mark2)}
svg .bad{fill:var(--bad)}svg .limit{stroke:var(--bad);stroke-dasharray:4 3}
"""


def page(title: str, parts: Sequence[str], *, style: str = "", script: str = "") -> str:
    """A whole page: its title as text, its `parts` as HTML below that; `style` is CSS of its own. What UTF-8 cannot hold is a question mark."""
    head = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style><h1>{escape(title)}</h1>"
    )
    end = f"<script>{script}</script></html>\n" if script else "</html>\n"
    return "\n".join([head, *(part for part in parts if part), end]).encode(errors="replace").decode()


def cell(value: object, kind: str = "") -> str:
    """A cell of a table; `kind` is a class: n for numbers, w for long words, or a verdict. None is an empty cell."""
    text = "" if value is None else escape(str(value))
    return f'<td class="{escape(kind)}">{text}</td>' if kind else f"<td>{text}</td>"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, name: str = "", kinds: Sequence[str] = ()) -> str:
    """A table whose rows are cells; `name` is its id, `kinds` are classes of the rows."""
    numbers = [part.startswith('<td class="n') for part in rows[0]] if rows else [False] * len(columns)
    head = "".join(
        f"<th{' class=n' if right else ''}>{escape(c)}</th>" for c, right in zip(columns, numbers, strict=True)
    )
    classes = [f' class="{escape(kind)}"' if kind else "" for kind in kinds] or [""] * len(rows)
    body = "\n".join(f"<tr{kind}>{''.join(row)}</tr>" for kind, row in zip(classes, rows, strict=True))
    identity = f' id="{escape(name)}"' if name else ""
    return f'<div class="scroll"><table{identity}><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def paragraphs(texts: Sequence[str]) -> str:
    """A paragraph a text."""
    return "".join(f"<p>{escape(text)}</p>" for text in texts)


def facts(pairs: Mapping[str, Any]) -> str:
    """Names and what they are; what is empty is left out, lists and mappings are joined."""
    shown = {name: _text(value) for name, value in pairs.items()}
    return "<dl>" + "".join(f"<dt>{escape(n)}</dt><dd>{escape(v)}</dd>" for n, v in shown.items() if v) + "</dl>"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "" if value is None else str(value)
