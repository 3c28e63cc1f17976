"""A verification as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fornaxc.pages.page import cell, facts, page, paragraphs, table
from fornaxc.pages.plot import LogScale, bar, line, svg, text
from fornaxc.verification.compare import DECADES
from fornaxc.verification.dataset_page import dataset_section

WIDTH, LEFT, RIGHT, ROW, BAR, TOP = 1000, 260, 30, 30, 22, 10
SHOWN = 60  # outputs in the plot
LABEL = 36  # letters of an output's name in it


def verify_page(document: Mapping[str, Any], model: str) -> str:
    """The page of a report's JSON document: the verdict, every output, how far off their elements are, what ran where, environment."""
    outputs = document["outputs"]
    wrong = sum(output["verdict"] == "fail" for output in outputs)
    counted = (
        f"{len(outputs)} comparisons, {wrong} of them failed" if wrong else f"{len(outputs)} comparisons, none failed"
    )
    ran = document["executed_on"]
    where = ran if ran == document["target"] else f"{ran} in place of {document['target']}"
    return page(
        f"Verification of {model}",
        [
            f'<div class="totals"><div class="{document["verdict"]}"><b>{document["verdict"]}</b>verdict</div></div>',
            paragraphs([f"{counted}. Run on {where}; judged by {document['oracle']}.", *document["notes"]]),
            dataset_section(document.get("dataset")),
            "<h2>Outputs</h2>" + outputs_table(outputs),
            _errors(outputs),
            _accuracy(outputs),
            _execution(document.get("execution")),
            _host_nodes(document["host_nodes"]),
            "<h2>Environment</h2>",
            facts(
                {
                    "target": document["target"],
                    "executed on": ran,
                    "samples": document["samples"],
                    "seed": document["seed"],
                    "decided by": document.get("rules"),
                    "key of the code": document["key"],
                    "seconds": {name: f"{seconds:.2f}" for name, seconds in document["phases"].items()},
                    **document["environment"],
                }
            ),
        ],
    )


def outputs_table(outputs: Sequence[Mapping[str, Any]]) -> str:
    """A row an output and sample: errors, tolerance, verdict."""
    columns = [
        "output", "sample", "oracle", "shape", "dtype", "largest error", "relative", "ulp", "tolerance", "verdict", "rule", "reason",
    ]  # fmt: skip
    rows = [
        [
            cell(o["name"], "w"),
            cell(o["sample"]),
            cell(o["oracle"]),
            cell(o["shape"]),
            cell(o["dtype"]),
            *(cell(_number(o[name]), "n") for name in ("max_abs", "max_rel", "max_ulp")),
            cell(tolerance_text(o["tolerance"])),
            cell(o["verdict"], o["verdict"]),
            cell(o["rule"]),
            cell(_reason(o), "w"),
        ]
        for o in outputs
    ]
    return table(columns, rows)


def tolerance_text(tolerance: Mapping[str, Any] | None) -> str:
    """A tolerance in words, with where it comes from."""
    if tolerance is None:
        return ""
    bounds = [f"{tolerance[name]:g} {word}" for name, word in (("rtol", "rel"), ("atol", "abs")) if tolerance[name]]
    bounds += [f"{tolerance['ulp']} ulp"] if tolerance.get("ulp") else []
    return f"{', '.join(bounds) or 'exact'} ({tolerance['source']})"


def _reason(output: Mapping[str, Any]) -> str:
    if output["verdict"] == "pass" or output["worst_index"] is None:
        return str(output["reason"])
    value, reference = (_number(output[name]) for name in ("worst_value", "worst_reference"))
    worst = f"{value} at {output['worst_index']}, not {reference}"
    return f"{output['reason']}; worst: {worst}"


def _number(value: Any) -> str | None:
    return f"{value:.4g}" if isinstance(value, float) else None if value is None else str(value)


def _errors(outputs: Sequence[Mapping[str, Any]]) -> str:
    """The plot of errors, with what it shows in words; "" where there is nothing to plot."""
    plotted = [o for o in outputs if o["distribution"] is not None]
    if not plotted:
        return ""
    plotted.sort(key=lambda o: (o["verdict"] != "fail", -max(i for i, count in enumerate(o["distribution"]) if count)))
    left = f" The {SHOWN} worst of {len(plotted)} are shown." if len(plotted) > SHOWN else ""
    words = (
        "For each output of floats, how its elements are spread over their error as a share of what the tolerance allows (logarithmic): "
        f"what is right of 1 is more than that. Each bar is a decade, its height the share of the elements in it.{left}"
    )
    return "<h2>Errors</h2>" + paragraphs([words]) + plot(plotted[:SHOWN])


def plot(outputs: Sequence[Mapping[str, Any]]) -> str:
    """A row of bars an output: the share of its elements by decade of their error over the allowed one."""
    low, high = DECADES[0] - 1, DECADES[-1] + 1
    height = TOP + ROW * len(outputs) + 30
    scale = LogScale(low, high, LEFT, WIDTH - RIGHT)
    bottom = height - 28
    parts = [line(scale.at(10.0**e), TOP, scale.at(10.0**e), bottom, "limit" if e == 0 else "grid") for e in DECADES]
    parts += [text(scale.at(10.0**e), height - 10, "1" if e == 0 else f"1e{e}", "middle") for e in DECADES]
    step = scale.at(10.0 ** (low + 1)) - scale.at(10.0**low)
    for i, output in enumerate(outputs):
        base = TOP + ROW * (i + 1)
        name = " ".join(part for part in (output["name"], output["sample"]) if part)
        parts += [text(LEFT - 8, base - 4, _short(name), "end"), line(LEFT, base, WIDTH - RIGHT, base)]
        total = sum(output["distribution"])
        for place, count in enumerate(output["distribution"]):
            if count:
                kind = "bad" if place > DECADES.index(0) else "one"
                tall = max(4.0 if kind == "bad" else 1.5, BAR * count / total)
                parts.append(
                    bar(LEFT + step * place + 2, base - tall, step - 4, tall, kind, f"{name}: {count} of {total}")
                )
    return svg(WIDTH, height, "errors as a share of what is allowed", parts)


def _short(name: str) -> str:
    """A name without its middle where it is long: its end tells the sample."""
    return name if len(name) <= LABEL else f"{name[: LABEL // 2]}…{name[1 - LABEL // 2 :]}"


def _accuracy(outputs: Sequence[Mapping[str, Any]]) -> str:
    """How far onnxruntime is from itself, and both sides from the model in double precision; "" where neither was asked."""
    rows = []
    for output in outputs:
        noise, double = output.get("noise") or {}, output.get("float64") or {}
        if noise or double:
            ours, theirs = ((double.get(side) or {}).get("max_abs") for side in ("ours", "oracle"))
            changed = ", ".join(f"{what} {_number(error)}" for what, error in noise.items())
            cells = [cell(_number(error), "n") for error in (output["max_abs"], ours, theirs)]
            names = [cell(output["name"], "w"), cell(output["sample"]), cell(output["oracle"])]
            rows.append([*names, *cells, cell(changed), cell(double.get("by") or double.get("why_not"), "w")])
    if not rows:
        return ""
    words = "The largest errors: of ours against the oracle, of each against the model in double precision, and of onnxruntime against itself."
    columns = [
        "output",
        "sample",
        "oracle",
        "from the oracle",
        "ours in double",
        "the oracle's in double",
        "onnxruntime's noise",
        "double by",
    ]
    return "<h2>How accurate each side is</h2>" + paragraphs([words]) + table(columns, rows)


def _execution(execution: Mapping[str, Any] | None) -> str:
    if execution is None:
        return ""
    told = facts({name.replace("_", " "): value for name, value in execution.items() if name != "kernel_map"})
    kernels = [
        [cell(k["count"], "n"), cell(", ".join(k["operations"]), "w"), cell(", ".join(k["nodes"]), "w")]
        for k in execution["kernel_map"] or ()
    ]
    shown = table(["kernels", "what each fuses", "nodes that it may come from"], kernels) if kernels else ""
    return "<h2>What ran where</h2>" + told + shown


def _host_nodes(nodes: Sequence[Mapping[str, Any]]) -> str:
    if not nodes:
        return ""
    columns = list(dict.fromkeys(name for node in nodes for name in node))
    rows = [[cell(node.get(name), "w") for name in columns] for node in nodes]
    return "<h2>On the host, with transfers</h2>" + table(columns, rows)
