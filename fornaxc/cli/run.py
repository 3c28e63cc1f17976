"""`fornaxc run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fornaxc.cli import options
from fornaxc.cli.session import Session, reporting
from fornaxc.cli.text import shape, table

if TYPE_CHECKING:
    from fornaxc.api import RunResult


@click.command("run")
@click.argument("artifact", type=options.FILE)
@click.option("-i", "--inputs", type=options.FILE, metavar="IN.npz", help="The inputs: arrays by input name.")
@click.option("-o", "--output", type=options.FILE, metavar="OUT.npz", help="Write the outputs: arrays by output name.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of CPU kernels; default all cores.")
@options.timeout
@reporting
def command(
    session: Session,
    artifact: Path,
    inputs: Path | None,
    output: Path | None,
    threads: int | None,
    timeout: float | None,
) -> int:
    """Run ARTIFACT (.fxa, or its path in the cache) once, and print what its outputs are.

    \b
    Examples:
      fornaxc run model.fxa --inputs in.npz -o out.npz
      fornaxc run "$(fornaxc compile -q model.onnx)" --inputs in.npz
    """
    from fornaxc import api

    result = api.run(artifact, inputs=inputs, output=output, threads=threads, timeout=timeout)
    session.show(result.to_json(), lambda: "" if session.quiet else _text(result))
    return 0


def _text(result: RunResult) -> str:
    rows = [
        {"output": name, "dtype": value.dtype.name, "shape": shape(value.shape), "values": _sample(value)}
        for name, value in result.outputs.items()
    ]
    lines = [table(rows), f"ran on {result.target} in {result.seconds:.2f} s, loading included"]
    if result.written is not None:
        lines.append(f"written to {result.written}")
    return "\n".join(lines)


def _sample(value: object) -> str:
    """The first elements of an array."""
    import numpy as np

    first = np.asarray(value).ravel()[:4]
    more = ", ..." if np.asarray(value).size > len(first) else ""
    return ", ".join(f"{element:.4g}" if first.dtype.kind == "f" else str(element) for element in first) + more
