"""The growth of the error along a program, as one HTML file that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from fornaxc.cache.files import write_whole
from fornaxc.diagnosis.bisect import Step
from fornaxc.diagnosis.deviation import Deviation
from fornaxc.diagnosis.session import Bisection
from fornaxc.pages.page import cell, page, paragraphs, table
from fornaxc.pages.plot import LogScale, dot, line, svg, text
from fornaxc.verification.page import outputs_table

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 1000, 360, 60, 40, 20
FLOOR, CEILING = -9, 9  # exponents: smaller and larger relative errors are drawn at the bottom and at the top

_STYLE = """
p.cause{font-size:1.05rem;border-left:4px solid var(--bad);padding:.3rem .8rem}p.cause.none{border-color:var(--good)}
tr.bad td{background:var(--bad-ground)}tr.guilty td{background:var(--guilty-ground);font-weight:600}
polyline{fill:none;stroke:var(--mark);stroke-width:2}svg .own{fill:var(--soft)}
"""


def write_page(bisection: Bisection, model: str, path: Path) -> None:
    """Write the page of a bisection. UsageError or CacheError where the file cannot be written."""
    write_whole(path, bisection_page(bisection, model).encode())


def bisection_page(bisection: Bisection, model: str) -> str:
    """The page as text: the cause, a plot of the errors node by node, and the table of all."""
    steps = bisection.found.steps if bisection.found is not None else ()
    notes = [*bisection.notes, *(bisection.found.notes if bisection.found is not None else ())]
    fine = " none" if bisection.stage == "none" else ""
    counted = f"{len(bisection.compared)} outputs compared" if bisection.compared else f"{len(steps)} values compared"
    facts = f"inputs: {bisection.sample}; executed on {bisection.executed_on}; {counted}"
    return page(
        f"Growth of the error: {model}",
        [
            f'<p class="cause{fine}">{escape(_sentence(bisection))}</p>',
            paragraphs([facts, *notes]),
            plot(steps, _guilty(bisection)) + _table(steps, _guilty(bisection)) if steps else "",
            _outputs(bisection),
        ],
        style=_STYLE,
    )


def _outputs(bisection: Bisection) -> str:
    """The outputs of the import or of the pass that is the cause; "" where it is neither."""
    if not bisection.compared:
        return ""
    what = "the imported graph" if bisection.stage == "import" else f"the graph after the pass {bisection.pass_name}"
    words = f"The outputs of {what}, as numpy computes them, compared with those of {bisection.compared[0].oracle}."
    return "<h2>Outputs</h2>" + paragraphs([words]) + outputs_table([row.to_json() for row in bisection.compared])


def _sentence(bisection: Bisection) -> str:
    text = bisection.sentence
    return text[:1].upper() + text[1:] + "."


def _guilty(bisection: Bisection) -> Step | None:
    found = bisection.found
    return None if found is None else next((s for s in found.steps if s.node is found.node), None)


def plot(steps: Sequence[Step], guilty: Step | None) -> str:
    """An SVG: relative error (log scale) by position in the program, the error so far as a line, each node's own as dots."""
    largest = max(
        (min(d.relative, 10.0**CEILING) for s in steps for d in (s.so_far, s.own) if d is not None), default=0.0
    )
    top = max(-5, math.ceil(math.log10(largest) + 0.2) if largest > 0 else -5)
    scale = LogScale(FLOOR, top, HEIGHT - BOTTOM, TOP)

    def x(i: int) -> float:
        return LEFT + (WIDTH - LEFT - 20) * i / max(1, len(steps) - 1)

    parts = []
    for exponent in scale.ticks():
        height = scale.at(10.0**exponent)
        parts += [line(LEFT, height, WIDTH - 20, height), text(LEFT - 8, height + 4, f"1e{exponent}", "end")]
    so_far = " ".join(f"{x(i):.1f},{scale.at(s.so_far.relative):.1f}" for i, s in enumerate(steps))
    parts.append(f'<polyline points="{so_far}"/>')
    for i, s in enumerate(steps):
        if s.own is not None:
            title = f"{s.index}: {s.node.origin} {s.node.op}, own error {s.own.relative:.2g}"
            parts.append(dot(x(i), scale.at(s.own.relative), "bad" if s.own.failed else "own", title))
    if guilty is not None:
        at = x(list(steps).index(guilty))
        shift, anchor = (-6, "end") if at > WIDTH / 2 else (6, "start")
        parts += [
            line(at, TOP, at, HEIGHT - BOTTOM, "limit"),
            text(at + shift, TOP + 12, str(guilty.node.origin), anchor),
        ]
    told = "nodes in the order of the program; line: error so far, dots: error of the node alone"
    return svg(WIDTH, HEIGHT, "relative error by node", [*parts, text(LEFT, HEIGHT - 8, told)])


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
    rows = [[cell(of(s), style) for _, of, style in columns] for s in steps]
    kinds = ["guilty" if s is guilty else "bad" if s.so_far.failed else "" for s in steps]
    return table([name for name, _, _ in columns], rows, kinds=kinds)


def number(deviation: Deviation) -> str:
    """A relative error for people."""
    return "not comparable" if math.isinf(deviation.relative) else f"{deviation.relative:.2g}"
