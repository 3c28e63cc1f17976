"""`fornaxc verify`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from fornaxc.cli import options
from fornaxc.cli.bisection import bisection, bisection_text, check_bisectable
from fornaxc.cli.comparing import output_row
from fornaxc.cli.dataset import dataset_text
from fornaxc.cli.oracles import execution_facts, oracle_options
from fornaxc.cli.progress import progress
from fornaxc.cli.session import Session, reporting
from fornaxc.cli.text import facts, table
from fornaxc.errors import UsageError


class _Told(click.Command):
    """The JUnit file tells of a command line that cannot be parsed too: what an earlier verification left would pass for this one's."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        given = list(args)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            from fornaxc import api

            model = next((a for before, a in pairwise(["", *given]) if a[:1] != "-" != before[:1]), "")
            files = api.report_files(model, _value_of("--html", given), _value_of("--junit", given))
            with suppress(UsageError):
                files.begin([Path(model)] if model else [])
                files.tell(UsageError(error.format_message(), code="FX201"))
            raise


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    """What follows an option on a command line that may not be parsed."""
    found = [after for given, after in pairwise(arguments) if given == option]
    found += [given.partition("=")[2] for given in arguments if given.startswith(f"{option}=")]
    return found[-1] if found else None


@click.command("verify", cls=_Told)
@click.argument("model_or_artifact", type=options.FILE, metavar="MODEL|ARTIFACT")
@options.target("What to compile MODEL for", default=None)
@click.option(
    "--model", type=options.FILE, metavar="MODEL", help="The source model of an artifact: the oracle runs it."
)
@options.inputs
@click.option(
    "--expected",
    type=options.FILE,
    metavar="PATH",
    help="Golden outputs by name, in place of the oracle: a file or folder as of --inputs.",
)
@click.option(
    "--edge-cases",
    is_flag=True,
    help="Also try zeros, ones, denormals, the largest numbers, infinities and NaN as inputs, and dims of size 1 and 0.",
)
@click.option(
    "--dataset",
    type=options.FILE,
    metavar="PATH",
    help="Many samples, with statistics: a folder of them, or an .npz file whose arrays have a leading axis.",
)
@oracle_options
@options.dims
@options.choice
@options.seed
@options.tolerances
@options.tolerances_file
@options.cache_dir
@options.optimization(None)
@options.host_fallback
@options.timeout
@click.option(
    "--bisect", is_flag=True, help="Look for the first node whose numbers are wrong: one or few more compiles."
)
@click.option(
    "--growth", type=options.FILE, metavar="OUT.html", help="Write the error of every node as a page; means --bisect."
)
@click.option("--html", type=options.FILE, metavar="OUT.html", help="Write the report as a page too, in one file.")
@click.option(
    "--junit", type=options.FILE, metavar="OUT.xml", help="Write the report, or the error, as JUnit XML too, for CI."
)
@reporting
def command(session: Session, model_or_artifact: Path, bisect: bool, growth: Path | None, **choices: Any) -> int:
    """Prove the numbers of MODEL (compiling it first) or ARTIFACT (.fxa) against onnxruntime.

    Exit status 1 where an output differs. For a target that this machine cannot run, the same graph is proven on
    `cpu`, and the verdict is `unproven` for the target itself. Given inputs and outputs are judged before anything is
    compiled. The cache keeps the outcome; `fornaxc inspect` shows it.

    \b
    Examples:
      fornaxc verify model.onnx
      fornaxc verify model.onnx --inputs in.npz --expected out.npz
      fornaxc verify model.fxa --model model.onnx --seed 7
      fornaxc verify model.onnx --target amd --json
      fornaxc verify model.onnx --oracle ort-noopt,onnx-reference
      fornaxc verify model.onnx --edge-cases
      fornaxc verify model.onnx --dataset samples/
      fornaxc verify model.onnx --bisect --growth growth.html
      fornaxc verify model.onnx --html report.html --junit report.xml
    """
    from fornaxc import api

    bisect = bisect or growth is not None
    files = api.report_files(model_or_artifact, choices["html"], choices["junit"], growth)
    with files.telling(), progress(session) as show:
        files.begin(
            [model_or_artifact, choices["model"]],
            [choices[name] for name in ("inputs", "expected", "dataset", "tolerances", "freeze")],
        )
        if bisect:
            check_bisectable(model_or_artifact, choices["expected"], choices["dataset"])
        report = api.verify(model_or_artifact, progress=show, **choices)
        document = report.to_json()
        if bisect:
            document["bisection"] = bisection(model_or_artifact, growth, report.rows, choices, show)
    session.show(document, lambda: "\n".join([_text(document), *bisection_text(document.get("bisection"))]))
    return report.exit


def _text(document: dict[str, Any]) -> str:
    several = len({output.get("oracle") for output in document["outputs"]}) > 1
    lines = [table([output_row(output, several) for output in document["outputs"]])] if document["outputs"] else []
    lines = [*dataset_text(document.get("dataset")), *lines]
    if document.get("host_nodes"):
        lines += ["on the host, with transfers:", table(document["host_nodes"], indent=2)]
    lines += [f"note: {note}" for note in document.get("notes", [])]
    lines.append(
        facts(
            {
                "target": document["target"],
                "executed on": document["executed_on"],
                **execution_facts(document.get("execution")),
                "oracle": document["oracle"],
                "samples": document.get("samples", []),
                "decided by": document.get("rules", []),
                "verdict": document["verdict"],
            }
        )
    )
    return "\n".join(lines)
