"""A qualification as one HTML file that needs nothing else."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from fornaxc.pages.page import cell, page, paragraphs, table

_STYLE = "input{font:inherit;padding:.3rem .5rem;width:24rem;max-width:100%;margin:1rem 0}"
_SCRIPT = """
const box=document.getElementById('f'),rows=[...document.querySelectorAll('#cases tbody tr')];
box.addEventListener('input',()=>{const w=box.value.toLowerCase().split(/\\s+/);
for(const r of rows)r.hidden=!w.every(x=>r.textContent.toLowerCase().includes(x))});
"""


def qualification_page(document: dict[str, Any]) -> str:
    """The page of a qualification's JSON document: totals, operators, and cases with a filter."""
    totals = document["totals"]
    ran = document["executed_on"]
    how = f"run on {ran}" if ran else "compiled only: nothing ran on the target"
    posed = "inputs as shipped" if document["inputs"] == "run-time" else "shape-carrying inputs as initializers"
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    return page(
        f"{document['suite']} for {document['target']}",
        [
            paragraphs([f"{sum(totals.values())} cases, {posed}, {how}. {versions}."]),
            '<div class="totals">'
            + "".join(f'<div class="{v}"><b>{n}</b>{v}</div>' for v, n in totals.items())
            + "</div>",
            "<h2>Operators</h2>" + table(["operator", *totals], _by_operator(document)),
            '<h2>Cases</h2><input id="f" placeholder="filter: words of a row, such as resize refused" aria-label="filter">',
            _cases(document["cases"]),
        ],
        style=_STYLE,
        script=_SCRIPT,
    )


def _by_operator(document: dict[str, Any]) -> list[list[str]]:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(document["totals"], 0))
    for case in document["cases"]:
        counts[case["operator"] or "(several)"][case["verdict"]] += 1
    return [
        [cell(name), *(cell(n or None, f"n {v}" if n else "n") for v, n in row.items())]
        for name, row in sorted(counts.items())
    ]


def _cases(cases: list[dict[str, Any]]) -> str:
    columns = ["case", "operator", "opset", "rank", "dtypes", "verdict", "phase", "largest error", "seconds", "reason"]
    rows = [
        [
            cell(c["id"]),
            cell(c["operator"] or ", ".join(c["operators"][:4])),
            cell(c["opset"], "n"),
            cell(c["rank"], "n"),
            cell(", ".join(c["dtypes"])),
            cell(c["verdict"], c["verdict"]),
            cell(c["phase"]),
            cell(c["max_abs"] if isinstance(c["max_abs"], str | None) else f"{c['max_abs']:.2g}", "n"),
            cell(f"{c['seconds']:.2f}", "n"),
            cell(c["reason"]),
        ]
        for c in cases
    ]
    return table(columns, rows, name="cases")
