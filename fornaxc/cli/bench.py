"""`fornaxc bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fornaxc.cli import options
from fornaxc.cli.measuring import measuring, ratio_text, side_rows
from fornaxc.cli.progress import progress
from fornaxc.cli.session import Session, reporting
from fornaxc.cli.text import facts, shape, table

SHOWN = 8  # kernels
NODES = 4  # of the source model, for each kernel


@click.command("bench")
@click.argument("model_or_artifact", type=options.FILE, metavar="ARTIFACT|MODEL")
@click.option(
    "--against", type=click.Choice(["ort"]), help="Measure onnxruntime in turn, block by block, and tell the ratio."
)
@click.option(
    "--model", type=options.FILE, metavar="MODEL", help="The source model of an artifact: onnxruntime runs it."
)
@measuring(None)
@options.inputs
@options.seed
@options.tolerances_file
@options.target("What to compile MODEL for", default=None)
@options.dims
@options.choice
@options.cache_dir
@options.optimization(None)
@options.host_fallback
@options.timeout
@click.option("--html", type=options.FILE, metavar="OUT.html", help="Write the result as a page too.")
@reporting
def command(session: Session, model_or_artifact: Path, **choices: Any) -> int:
    """Measure how fast ARTIFACT (.fxa), or MODEL once it is compiled, runs on this machine.

    Tells latency, throughput, the times of loading and of the first run, and peak memory. docs/bench.md says how it is
    measured. Exit status 1 where onnxruntime computes other numbers.

    \b
    Examples:
      fornaxc bench model.fxa
      fornaxc bench model.onnx --against ort --threads 2 --size batch=8
      fornaxc bench model.fxa --model model.onnx --against ort --html bench.html
    """
    from fornaxc import api

    with progress(session) as show:
        found = api.bench(model_or_artifact, progress=show, **choices)
    document = found.to_json()
    session.show(document, lambda: _text(document))
    return found.exit


def _text(document: dict[str, Any]) -> str:
    sides = [side for side in (document["ours"], document["against"]) if side is not None]
    lines = [table(side_rows(sides)), _parts(document), *_kernels(document["kernels"])]
    lines += [f"note: {note}" for note in document["notes"]]
    inputs = [f"{i['name']} {i['dtype']} {shape(i['shape'])}" for i in document["inputs"]]
    plan, ratio = document["plan"], document["ratio"]
    lines.append(
        facts(
            {
                "artifact": document["artifact"],
                "target": document["target"],
                "inputs": [document["sample"], *inputs],
                "threads": document["threads"],
                "measured": f"{plan['iterations']} runs in {len(plan['blocks'])} blocks, each after {plan['warmup']} that do not "
                f"count and {plan['pause_seconds']:g} s of rest",
                "fornaxc / onnxruntime": ratio_text(ratio) if ratio else "",
                "outputs": _agreement(document["agreement"]),
            }
        )
    )
    return "\n".join(line for line in lines if line)


def _parts(document: dict[str, Any]) -> str:
    parts = document["ours"]["parts"]
    whole = sum(parts.values()) or 1.0
    told = ", ".join(
        f"{_PARTS[name]} {seconds * 1e3:.3g} ms ({seconds / whole:.0%})" for name, seconds in parts.items()
    )
    return f"of one run: {told}"


_PARTS = {
    "inputs": "inputs to the device",
    "execute": "program",
    "wait": "wait for the device",
    "outputs": "outputs from it",
}


def _kernels(kernels: dict[str, Any]) -> list[str]:
    shown = kernels["fused"][:SHOWN]
    if not shown:
        return []
    left = len(kernels["fused"]) - len(shown)
    return [
        f"{kernels['calls']} {'kernel' if kernels['calls'] == 1 else 'kernels'}, by what each fuses{f' ({left} kinds more in --json)' if left else ''}:",
        table([_kernel(k) for k in shown], indent=2),
        f"time of each kernel: not available: {kernels['reason']}",
    ]


def _kernel(kernel: dict[str, Any]) -> dict[str, Any]:
    nodes = kernel["nodes"]
    more = f" and {len(nodes) - NODES} more" if len(nodes) > NODES else ""
    return {
        "calls": kernel["count"],
        "fuses": ", ".join(kernel["operations"]),
        "may_come_from": ", ".join(nodes[:NODES]) + more,
    }


def _agreement(rows: list[dict[str, Any]] | None) -> str:
    if rows is None:
        return ""
    wrong = [f"{row['name']}: {row['reason']}" for row in rows if row["verdict"] == "fail"]
    return f"differ: {'; '.join(wrong)}" if wrong else "agree"
