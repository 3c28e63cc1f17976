"""A qualification as one HTML file that needs nothing else."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from typing import Any

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.4rem}table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #e3e6ea;vertical-align:top}
th{position:sticky;top:0;background:#fff}td.n{text-align:right;font-variant-numeric:tabular-nums}
.pass{color:#14713d}.compiled{color:#14517a}.refused{color:#7a5a00}.mismatch,.failed{color:#a3161f;font-weight:600}
.totals{display:flex;gap:2rem;flex-wrap:wrap}.totals b{font-size:1.6rem;display:block}
input{font:inherit;padding:.3rem .5rem;width:24rem;max-width:100%;margin:1rem 0}
@media (prefers-color-scheme:dark){body,th{background:#14171a;color:#e3e6ea}th,td{border-color:#2c3238}.pass{color:#5fd28f}.compiled{color:#74b9e8}.refused{color:#e0b54a}.mismatch,.failed{color:#ff7a80}}
"""
_SCRIPT = """
const box=document.getElementById('f'),rows=[...document.querySelectorAll('#cases tbody tr')];
box.addEventListener('input',()=>{const w=box.value.toLowerCase().split(/\\s+/);
for(const r of rows)r.hidden=!w.every(x=>r.textContent.toLowerCase().includes(x))});
"""


def page(document: dict[str, Any]) -> str:
    """The page of a qualification's JSON document: totals, operators, and cases with a filter."""
    totals = document["totals"]
    count = sum(totals.values())
    head = f"{document['suite']} for {document['target']}"
    ran = document["executed_on"]
    how = f"run on {ran}" if ran else "compiled only: nothing ran on the target"
    posed = "inputs as shipped" if document["inputs"] == "run-time" else "shape-carrying inputs as initializers"
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>{escape(head)}</title>",
        f"<style>{_STYLE}</style><h1>{escape(head)}</h1><p>{count} cases, {posed}, {escape(how)}. {escape(versions)}.</p>",
        "<div class=totals>" + "".join(f"<div class={v}><b>{n}</b>{v}</div>" for v, n in totals.items()) + "</div>",
        "<h2>Operators</h2>" + _table(["operator", *totals], _by_operator(document)),
        "<h2>Cases</h2><input id=f placeholder='filter: words of a row, such as resize refused' aria-label=filter>",
        _cases(document["cases"]),
        f"<script>{_SCRIPT}</script></html>",
    ]
    return "\n".join(parts)


def _by_operator(document: dict[str, Any]) -> list[list[str]]:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(document["totals"], 0))
    for case in document["cases"]:
        counts[case["operator"] or "(several)"][case["verdict"]] += 1
    return [[f"<td>{escape(name)}", *(_count(v, n) for v, n in row.items())] for name, row in sorted(counts.items())]


def _count(verdict: str, number: int) -> str:
    return f"<td class='n {verdict}'>{number}" if number else "<td class=n>"


def _cases(cases: list[dict[str, Any]]) -> str:
    columns = ["case", "operator", "opset", "rank", "dtypes", "verdict", "phase", "largest error", "seconds", "reason"]
    rows = [
        [
            f"<td>{escape(c['id'])}",
            f"<td>{escape(c['operator'] or ', '.join(c['operators'][:4]))}",
            f"<td class=n>{c['opset']}",
            f"<td class=n>{c['rank']}",
            f"<td>{escape(', '.join(c['dtypes']))}",
            f"<td class={c['verdict']}>{c['verdict']}",
            f"<td>{c['phase']}",
            f"<td class=n>{'' if c['max_abs'] is None else c['max_abs'] if isinstance(c['max_abs'], str) else format(c['max_abs'], '.2g')}",
            f"<td class=n>{c['seconds']:.2f}",
            f"<td>{escape(c['reason'])}",
        ]
        for c in cases
    ]
    return _table(columns, rows, "cases")


def _table(columns: list[str], rows: list[list[str]], name: str = "") -> str:
    head = "".join(f"<th>{escape(c)}" for c in columns)
    body = "\n".join("<tr>" + "".join(row) for row in rows)
    return f"<table{f' id={name}' if name else ''}><thead><tr>{head}</thead><tbody>\n{body}\n</tbody></table>"
