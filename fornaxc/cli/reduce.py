"""`fornaxc reduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fornaxc.cli import options
from fornaxc.cli.progress import progress
from fornaxc.cli.session import Session, reporting
from fornaxc.cli.text import facts


@click.command("reduce")
@click.argument("model", type=options.FILE, metavar="MODEL")
@click.option(
    "--check", default="verify", show_default=True, metavar="verify|compile|CMD",
    help="What fails: the numbers, MAX's compile, or a command (status other than 0). {} in the command is the candidate's file, which "
    "else is its last argument; its inputs lie beside it as .npz.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=options.FILE, required=True, metavar="OUT.onnx",
    help="The small model to write: ONNX, also of a StableHLO model.",
)  # fmt: skip
@options.target("What to compile for")
@options.inputs
@click.option("--edge-cases", is_flag=True, help="Also try the edge sets of `verify --edge-cases`.")
@options.dims
@options.choice
@options.seed
@options.tolerances
@options.tolerances_file
@options.cache_dir
@options.optimization(1)
@options.timeout
@reporting
def command(session: Session, model: Path, output: Path, **choices: Any) -> int:
    """Make a small model that fails as MODEL does, for a report that gives nothing of MODEL away.

    Writes OUT.onnx, also of a StableHLO model, its inputs OUT.npz and a report OUT.md; where a tolerance of what differs is stated in a file, that
    is in OUT.tolerances.toml. Names of MODEL are not in them, and its numbers only where it does not fail with seeded random ones; the
    report says so.

    \b
    Examples:
      fornaxc reduce model.onnx -o small.onnx
      fornaxc reduce model.onnx --check compile --target amd -o small.onnx
      fornaxc reduce model.onnx --check "python check.py {}" -o small.onnx
    """
    from fornaxc import api

    with progress(session) as show:
        reduction = api.reduce(model, output, progress=show, **choices)
    document = reduction.to_json()
    session.show(document, lambda: str(document["files"][0]) if session.quiet else _text(document))
    return 0


def _text(document: dict[str, Any]) -> str:
    kept = [w for w in ("weights", "inputs") if document[f"holds_{w}_of_the_model"]]
    lines = list(document["trail"])
    lines.append(
        facts(
            {
                "fails with": document["signature"],
                "inputs": document["sample"],
                "nodes": f"{document['nodes']} of {document['nodes_before']}",
                "operations": document["operations"],
                "rounds": document["rounds"],
                "fails again": document["reproduced"],
                "wrote": document["files"],
            }
        )
    )
    if kept:
        lines.append(
            f"note: the files hold {' and '.join(kept)} of the model or computed from it: it does not fail with seeded ones"
        )
    return "\n".join(lines)
