"""`fornaxc inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fornaxc.cli import options
from fornaxc.cli.session import Session, reporting
from fornaxc.cli.text import facts, shape, size, table


@click.command("inspect")
@click.argument("model_or_artifact", type=options.FILE, metavar="MODEL|ARTIFACT")
@options.target("Whose support of MODEL to judge", default=None)
@options.dims
@options.choice
@options.cache_dir
@options.optimization(None)
@options.disabled_passes
@click.option("--passes", is_flag=True, help="Show what each step from the file to the program does to MODEL.")
@reporting
def command(session: Session, model_or_artifact: Path, **choices: Any) -> int:
    """Show what MODEL (ONNX or StableHLO) holds and whether the target supports it, or what ARTIFACT (.fxa) holds. Compiles nothing.

    Of an artifact: also what it, or the cache, knows to be proven, against which oracle and within which tolerance.

    \b
    Examples:
      fornaxc inspect model.onnx
      fornaxc inspect model.onnx --target amd --json
      fornaxc inspect model.onnx --passes --no-pass fuse-conv
      fornaxc inspect model.fxa
    """
    from fornaxc import api

    document = api.inspect(model_or_artifact, **choices)
    session.show(document, lambda: _text(document))
    return 0


def _text(document: dict[str, Any]) -> str:
    parts = [_artifact(document)] if document["kind"] == "artifact" else [_model(document)]
    for what in ("inputs", "outputs"):
        if document.get(what):
            parts += [f"{what}:", table([_tensor(tensor) for tensor in document[what]], indent=2)]
    if document.get("constraints"):
        parts += ["constraints:", *(f"  {_constraint(c)}" for c in document["constraints"])]
    if document["kind"] == "artifact":
        parts += _artifact_tables(document)
    else:
        parts += _model_tables(document)
    return "\n".join(part for part in parts if part)


def _model(document: dict[str, Any]) -> str:
    return facts(
        {
            "model": document["path"],
            "format": document["format"],
            "opsets": document.get("opsets", {}),
            "nodes": document.get("nodes", ""),
            "weights": f"{document['weights']}, {size(document['weight_bytes'])}" if "weights" in document else "",
            "external data": document.get("external_data", []),
            "target": document["target"],
            "supported": document["supported"],
        }
    )


def _model_tables(document: dict[str, Any]) -> list[str]:
    known = document.get("evidence")
    operators = [
        {"operator": name, "count": count, "cases_that_work": _cases(known[name]) if known else None}
        for name, count in document.get("operators", {}).items()
    ]
    parts = ["operators:", table(operators, indent=2)] if operators else []
    if document["refused"]:
        parts += ["not supported:", table(document["refused"], indent=2)]
    if "passes" in document:
        parts += ["passes:", table(_steps(document["passes"], document["pass_seconds"]), indent=2)]
    return parts


def _steps(passes: list[dict[str, Any]], seconds: dict[str, float]) -> list[dict[str, Any]]:
    """Weights are told where they are others than after the step before."""
    rows, told = [], None
    for done in passes:
        weights = f"{done['weights']}, {size(done['weight_bytes'])}"
        ran = not done["left_out"]
        before = "?" if done["nodes_before"] is None else done["nodes_before"]
        rows.append(
            {
                "step": done["step"],
                "nodes": f"{before} -> {done['nodes_after']}" if ran and done["changed"] else str(done["nodes_after"]),
                "weights": weights if weights != told else "",
                "seconds": f"{seconds[done['step']]:.3f}" if ran else "",
                "what_it_did": _change(done) if ran else f"not run: {done['left_out']}",
            }
        )
        told = weights
    return rows


def _change(done: dict[str, Any]) -> str:
    if not done["changed"]:
        return "nothing"
    changes = [f"{name} {count:+d}" for name, count in done["operations"].items()]
    return ", ".join(changes) or "as many of each operation, with other operands or attributes"


def _cases(evidence: dict[str, Any] | None) -> str:
    if evidence is None:
        return "no case"
    wrong = f", wrong in {len(evidence['wrong'])}" if evidence["wrong"] else ""
    return f"{evidence['good']} of {evidence['cases']}, since opset {evidence['since']}{wrong}"


def _artifact(document: dict[str, Any]) -> str:
    return facts(
        {
            "artifact": document["path"],
            "format": document["format"],
            "code key": document["key"],
            "target": document["target"]["label"],
            "source": document["source"].get("digest"),
            "ir": document["ir_digest"],
            "made with": document["toolchain"],
        }
    )


def _artifact_tables(document: dict[str, Any]) -> list[str]:
    blobs = [{"blob": b["mediaType"], "size": size(b["size"]), "digest": b["digest"]} for b in document["blobs"]]
    parts = ["blobs:", table(blobs, indent=2)]
    if document["host_nodes"]:
        parts += ["on the host, with transfers:", table(document["host_nodes"], indent=2)]
    names = ("when", "verdict", "executed_on", "oracle", "samples", "tolerance", "known_to")
    runs = [{name: run.get(name) for name in names} for run in document["verified"]]
    never = "  nothing is known, to the artifact or to the cache; `fornaxc verify` proves it"
    return [*parts, "verified:", table(runs, indent=2) if runs else never]


def _tensor(tensor: Any) -> dict[str, Any]:
    if isinstance(tensor, str):
        return {"name": tensor}
    return {
        "name": tensor["name"],
        "dtype": tensor.get("dtype"),
        "shape": "unknown rank" if tensor["shape"] is None else shape(tensor["shape"]),
    }


def _constraint(constraint: Any) -> str:
    return constraint if isinstance(constraint, str) else " ".join(str(part) for part in constraint)
