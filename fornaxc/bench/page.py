"""A measurement as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fornaxc.pages.page import cell, facts, page, paragraphs, table
from fornaxc.pages.plot import dot, line, svg, text

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 1000, 300, 70, 30, 20


def bench_page(document: Mapping[str, Any]) -> str:
    """The page of the JSON document of a measurement: the sides, every run in a plot, parts, kernels, environment."""
    sides = [side for side in (document["ours"], document["against"]) if side is not None]
    ratio, plan = document["ratio"], document["plan"]
    found = [f"{document['artifact']} for {document['target']}, {document['sample']}, {document['threads']} threads."]
    if ratio is not None:
        found.append(
            f"{sides[0]['name']} takes {ratio['median']:.2f} times as long as {sides[1]['name']} "
            f"(blocks {ratio['lowest']:.2f} to {ratio['highest']:.2f})."
        )
    return page(
        f"Benchmark: {document['artifact']}",
        [
            paragraphs(found),
            "<h2>Sides</h2>" + sides_table(sides),
            "<h2>Every run</h2>" + plot(sides),
            "<h2>Parts of a run</h2>" + _parts(sides),
            "<h2>Kernels</h2>" + _kernels(document["kernels"]),
            _agreement(document["agreement"]),
            "<h2>How</h2>" + paragraphs([*document["notes"]]),
            facts(
                {
                    "runs that count": f"{plan['iterations']} of each side",
                    "order": plan["order"],
                    "before each block": f"{plan['pause_seconds']:g} s of rest, then {plan['warmup']} runs that do not count",
                    "inputs": [f"{i['name']} {i['dtype']} {i['shape']}" for i in document["inputs"]],
                    "seed": document["seed"],
                    **document["environment"],
                }
            ),
        ],
    )


def sides_table(sides: Sequence[Mapping[str, Any]]) -> str:
    """A row a side: latency, throughput, getting ready, memory."""
    names = ("lowest", "p50", "p90", "p95", "p99", "highest", "mean")
    columns = ["side", "version", *names, "runs/s", "first run", "load", "import", "peak memory"]
    rows = [
        [
            cell(side["name"]),
            cell(side["version"]),
            *(cell(_ms(side["latency"][name]), "n") for name in names),
            cell(f"{side['runs_per_second']:.4g}", "n"),
            *(cell(_ms(side[f"{name}_seconds"]), "n") for name in ("first_run", "load", "import")),
            cell("not available" if side["peak_memory"] is None else f"{side['peak_memory'] / 1e6:.1f} MB", "n"),
        ]
        for side in sides
    ]
    return table(columns, rows)


def plot(sides: Sequence[Mapping[str, Any]]) -> str:
    """The time of each run in the order in which they were made, the sides in two colours, a gap between blocks."""
    order = [
        (kind, seconds)
        for blocks in zip(*(side["blocks"] for side in sides), strict=True)
        for kind, block in zip(("one", "two"), blocks, strict=False)
        for seconds in [*block, None]
    ]
    top: float = 1.05 * max(seconds for _, seconds in order if seconds is not None)

    def y(seconds: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * seconds / top

    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts += [
            line(LEFT, y(top * share), WIDTH - 20, y(top * share)),
            text(LEFT - 8, y(top * share) + 4, _ms(top * share), "end"),
        ]
    step = (WIDTH - 30 - LEFT) / max(1, len(order))
    parts += [
        dot(LEFT + 5 + step * i, y(seconds), kind, _ms(seconds))
        for i, (kind, seconds) in enumerate(order)
        if seconds is not None
    ]
    for i, (kind, side) in enumerate(zip(("one", "two"), sides, strict=False)):
        parts += [
            dot(LEFT + 10 + 160 * i, HEIGHT - 10, kind, side["name"]),
            text(LEFT + 20 + 160 * i, HEIGHT - 6, side["name"]),
        ]
    return svg(WIDTH, HEIGHT, "time of each run", parts)


def _parts(sides: Sequence[Mapping[str, Any]]) -> str:
    titles = {
        "inputs": "inputs to the device",
        "execute": "program",
        "wait": "wait for the device",
        "outputs": "outputs from it",
    }
    rows = [[cell(s["name"]), *(cell(_ms(s["parts"][part]), "n") for part in titles)] for s in sides]
    return table(["side", *titles.values()], rows)


def _kernels(kernels: Mapping[str, Any]) -> str:
    rows = [
        [cell(k["count"], "n"), cell(", ".join(k["operations"]), "w"), cell(", ".join(k["nodes"]), "w")]
        for k in kernels["fused"]
    ]
    why = f"Time of each kernel: not available: {kernels['reason']}."
    return paragraphs([f"{kernels['calls']} kernels.", why]) + table(
        ["calls", "what it fuses", "nodes that it may come from"], rows
    )


def _agreement(rows: Sequence[Mapping[str, Any]] | None) -> str:
    if rows is None:
        return ""
    cells = [
        [cell(r["name"]), cell(r["verdict"], r["verdict"]), cell(r["max_abs"], "n"), cell(r["reason"], "w")]
        for r in rows
    ]
    return "<h2>Do the outputs agree?</h2>" + table(["output", "verdict", "largest error", "reason"], cells)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
