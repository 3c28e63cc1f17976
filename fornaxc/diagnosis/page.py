"""The growth of the error along a program, as one HTML file that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from fornaxc.diagnosis.bisect import Step
from fornaxc.diagnosis.deviation import Deviation
from fornaxc.diagnosis.session import Bisection
from fornaxc.diagnosis.writing import write_file

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 1000, 360, 60, 40, 20
FLOOR = 1e-9  # relative errors below this are drawn at the bottom

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:68rem;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.3rem}p.cause{font-size:1.05rem;border-left:4px solid #c0362c;padding:.3rem .8rem}p.cause.none{border-color:#2b7a4b}
table{border-collapse:collapse;width:100%;font-size:.85rem}th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid #e1e4e8}
td.n{text-align:right;font-variant-numeric:tabular-nums}tr.bad td{background:#fde8e6}tr.guilty td{background:#f6b8b1;font-weight:600}
svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:#57606a}.scroll{overflow-x:auto}code{font-size:.85em}
@media(prefers-color-scheme:dark){body{background:#14171a;color:#d9dee3}th,td{border-color:#30363d}
tr.bad td{background:#4a2320}tr.guilty td{background:#7a2c25}svg text{fill:#9aa4ae}}
"""


def write_page(bisection: Bisection, model: str, path: Path) -> None:
    """Write the page of a bisection. UsageError where the file cannot be written."""
    write_file(path, page(bisection, model).encode())


def page(bisection: Bisection, model: str) -> str:
    """The page as text: the cause, a plot of the errors node by node, and the table of all."""
    steps = bisection.found.steps if bisection.found is not None else ()
    notes = [*bisection.notes, *(bisection.found.notes if bisection.found is not None else ())]
    fine = " none" if bisection.stage == "none" else ""
    facts = f"inputs: {bisection.sample}; executed on {bisection.executed_on}; {len(steps)} values compared"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Growth of the error: {escape(model)}</title><style>{_STYLE}</style>"
        f"<h1>Growth of the error: {escape(model)}</h1>"
        f'<p class="cause{fine}">{escape(_sentence(bisection))}</p><p>{escape(facts)}</p>'
        + "".join(f"<p>{escape(note)}</p>" for note in notes)
        + (plot(steps, _guilty(bisection)) + _table(steps, _guilty(bisection)) if steps else "")
        + "</html>\n"
    )


def _sentence(bisection: Bisection) -> str:
    text = bisection.sentence
    return text[:1].upper() + text[1:] + "."


def _guilty(bisection: Bisection) -> Step | None:
    found = bisection.found
    return None if found is None else next((s for s in found.steps if s.node is found.node), None)


def plot(steps: Sequence[Step], guilty: Step | None) -> str:
    """An SVG: relative error (log scale) by position in the program, the error so far as a line, each node's own as dots."""
    levels = [_level(d) for s in steps for d in (s.so_far, s.own) if d is not None]
    top = math.ceil(max([math.log10(level) for level in levels] + [-5.0]) + 0.2)
    low = math.log10(FLOOR)

    def x(i: int) -> float:
        return LEFT + (WIDTH - LEFT - 20) * i / max(1, len(steps) - 1)

    def y(d: Deviation) -> float:
        share = (math.log10(_level(d)) - low) / (top - low)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="relative error by node">']
    for exponent in range(int(low), top + 1, 1 if top - low < 12 else 2):
        height = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (exponent - low) / (top - low)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{height:.1f}" y2="{height:.1f}" stroke="#8884"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">1e{exponent}</text>')
    line = " ".join(f"{x(i):.1f},{y(s.so_far):.1f}" for i, s in enumerate(steps))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#2f6fb3" stroke-width="2"/>')
    for i, s in enumerate(steps):
        if s.own is not None:
            colour = "#c0362c" if s.own.failed else "#8a939c"
            title = escape(f"{s.index}: {s.node.origin} {s.node.op}, own error {s.own.relative:.2g}")
            parts.append(
                f'<circle cx="{x(i):.1f}" cy="{y(s.own):.1f}" r="3" fill="{colour}"><title>{title}</title></circle>'
            )
    if guilty is not None:
        at = x(list(steps).index(guilty))
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#c0362c" stroke-dasharray="4 3"/>'
        )
        anchor = "end" if at > WIDTH / 2 else "start"
        shift = -6 if at > WIDTH / 2 else 6
        parts.append(
            f'<text x="{at + shift:.1f}" y="{TOP + 12}" text-anchor="{anchor}">{escape(str(guilty.node.origin))}</text>'
        )
    parts.append(
        f'<text x="{LEFT}" y="{HEIGHT - 8}">nodes in the order of the program; line: error so far, dots: error of the node alone</text></svg>'
    )
    return "".join(parts)


def _level(deviation: Deviation) -> float:
    return min(max(deviation.relative, FLOOR), 1e9)


def _table(steps: Sequence[Step], guilty: Step | None) -> str:
    columns: list[tuple[str, Callable[[Step], str], str]] = [
        ("node", lambda s: str(s.index), "n"),
        ("source", lambda s: str(s.node.origin), ""),
        ("operation", lambda s: str(s.node.op), ""),
        ("type", lambda s: str(s.value.type), ""),
        ("error so far", lambda s: number(s.so_far), "n"),
        ("its own", lambda s: "" if s.own is None else number(s.own), "n"),
        ("", lambda s: s.own.reason if s.own is not None and s.own.failed else "", ""),
    ]
    head = "".join(f"<th>{escape(name)}</th>" for name, _, _ in columns)
    rows = []
    for s in steps:
        kind = "guilty" if s is guilty else "bad" if s.so_far.failed else ""
        cells = "".join(f'<td class="{style}">{escape(text(s))}</td>' for _, text, style in columns)
        rows.append(f'<tr class="{kind}">{cells}</tr>')
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def number(deviation: Deviation) -> str:
    """A relative error for people."""
    return "not comparable" if math.isinf(deviation.relative) else f"{deviation.relative:.2g}"
