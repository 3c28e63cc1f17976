"""`fornaxc compile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fornaxc.cli import options
from fornaxc.cli.progress import progress
from fornaxc.cli.session import Session, reporting
from fornaxc.cli.text import facts, table
from fornaxc.phases import PHASES

if TYPE_CHECKING:
    from fornaxc.api import CompileResult


@click.command("compile")
@click.argument("model", type=options.FILE)
@options.target("What to compile for")
@click.option("-o", "--output", type=options.FILE, metavar="OUT.fxa", help="Also write the artifact as one file.")
@options.dims
@options.choice
@options.cache_dir
@options.optimization(1)
@options.host_fallback
@options.timeout
@click.option(
    "--stop-after",
    type=click.Choice([phase.name for phase in PHASES]),
    help="End after this phase; nothing is cached before `package`.",
)
@click.option("--dump", type=options.FILE, metavar="DIR", help="Write what each phase makes into a folder.")
@options.disabled_passes
@reporting
def command(session: Session, model: Path, **choices: Any) -> int:
    """Compile MODEL for a target, or find it in the cache. MODEL is ONNX, or StableHLO as text, bytecode or a jax.export file.

    Prints where the artifact is; with -q, its path alone.

    \b
    Examples:
      fornaxc compile model.onnx
      fornaxc compile model.onnx --target amd -o model.fxa
      fornaxc compile model.onnx --target nvidia:sm_80 --dim batch=8 --json
      fornaxc compile model.mlir --entry predict --freeze params.npz -o model.fxa
      fornaxc compile model.onnx --stop-after import --dump ir/
    """
    from fornaxc import api

    with progress(session) as show:
        result = api.compile(model, progress=show, **choices)
    session.show(result.to_json(), lambda: str(result.artifact or "") if session.quiet else _text(model, result))
    return 0


def _text(model: Path, result: CompileResult) -> str:
    if result.artifact is None:
        return facts({"model": model.name, "target": result.target, "artifact": "none: stopped before one was made"})
    seconds = sum(result.phases.values())
    if result.cache == "hit":
        found = "found in the cache"
    elif result.code == "hit":
        found = f"its compiled code was in the cache; weights packed in {seconds:.1f} s"
    else:
        found = f"compiled in {seconds:.1f} s"
    lines = [
        f"{model.name} for {result.target}: {found}",
        facts({"artifact": result.artifact, "request key": result.request_key, "code key": result.key}, indent=2),
    ]
    host_nodes = result.manifest.get("host_nodes", [])
    if host_nodes:
        lines += ["  on the host, with transfers:", table(host_nodes, indent=4)]
    return "\n".join(lines)
