"""The `fornaxc` command. Verbs are imported when they are used, so that help and cache hits start fast."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from fornaxc import __version__
from fornaxc.cli.failures import Terminated, report_failure
from fornaxc.cli.session import Session, verbosity_options

_VERBS = {
    "compile": "Compile a model for a target, ahead of time.",
    "verify": "Prove an artifact's numbers against onnxruntime.",
    "reduce": "Make a small model that fails in the same way.",
    "bench": "Measure how fast an artifact runs, alone or beside onnxruntime.",
    "compare": "Say what differs between two artifacts: numbers, size, speed.",
    "run": "Run an artifact on inputs from an .npz file.",
    "inspect": "Show what a model or an artifact holds.",
    "export": "Write a graph as an ONNX model.",
    "qualify": "Run a suite of operator cases and report each.",
    "ops": "List what is known to work, per operator.",
    "targets": "List the targets, and which compile and run here.",
    "cache": "Look at the cache of artifacts, and look after it.",
}

_COMPLETION = "_FORNAXC_COMPLETE"


class _Verbs(click.Group):
    """A group whose commands live in `fornaxc.cli.<verb>`, each named `command` there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        command: click.Command = import_module(f"fornaxc.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], _VERBS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" The commands are: {', '.join(_VERBS)}."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))


@click.group(
    cls=_Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit status: 0 ok, 1 mismatch, 2 usage, 3 unsupported, 4 bad model or artifact, 5 toolchain failure, 6 "
    "cache failure. Shell completion: see docs/cli.md.",
)
@click.version_option(__version__, "-V", "--version", prog_name="fornaxc")
@verbosity_options
@click.pass_context
def group(ctx: click.Context, quiet: bool, verbose: int) -> None:
    """Compile ONNX and StableHLO models ahead of time with MAX, for CPUs and NVIDIA, AMD and Apple GPUs.

    \b
    Examples:
      fornaxc compile model.onnx                        for this machine's CPU
      fornaxc compile model.onnx --target amd -o m.fxa  for an MI300X; no GPU needed here
      fornaxc verify model.onnx                         against onnxruntime
      fornaxc run m.fxa --inputs in.npz -o out.npz
    """
    ctx.obj = Session(quiet, verbose)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(arguments: Sequence[str]) -> int:
    """Carry out a command line; returns the exit status. Whatever goes wrong is one message, or one JSON document."""
    try:
        completion = os.environ.get(_COMPLETION)
        if completion:
            from click.shell_completion import shell_complete

            return shell_complete(group, {}, "fornaxc", _COMPLETION, completion)
        with group.make_context("fornaxc", list(arguments)) as context:
            result: Any = group.invoke(context)
        sys.stdout.flush()
    except BaseException as error:
        return report_failure(error, arguments)
    return result if isinstance(result, int) else 0


def main() -> NoReturn:
    """The entry point of the installed command."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names that the terminal's encoding lacks
    sys.exit(run(sys.argv[1:]))


def _terminate(number: int, frame: object) -> NoReturn:
    raise Terminated
