"""`fornaxc export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fornaxc.cli import options
from fornaxc.cli.session import Session, reporting
from fornaxc.cli.text import facts


@click.command("export")
@click.argument("model_or_artifact", type=options.FILE, metavar="MODEL|ARTIFACT")
@click.option("-o", "--output", type=options.FILE, required=True, metavar="OUT.onnx", help="The model file to write.")
@click.option("--optimized", is_flag=True, help="Write the graph after the optimisations for the CPU.")
@options.dims
@options.choice
@reporting
def command(session: Session, model_or_artifact: Path, output: Path, **choices: Any) -> int:
    """Write the graph of MODEL, or the program of ARTIFACT (.fxa), as an ONNX model that onnxruntime runs.

    Weights go to OUT.onnx.data beside it.

    \b
    Examples:
      fornaxc export model.onnx -o graph.onnx
      fornaxc export model.onnx -o graph.onnx --optimized --dim batch=1
      fornaxc export model.fxa -o program.onnx
    """
    from fornaxc import api

    result = api.export(model_or_artifact, output, **choices)
    session.show(
        result.to_json(),
        lambda: str(result.files[0]) if session.quiet else facts({"wrote": result.files, "opset": result.opset}),
    )
    return 0
