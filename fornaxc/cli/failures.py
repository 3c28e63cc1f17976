"""From an exception to one message on stderr, or one JSON document on stdout, and an exit status."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from fornaxc.errors import FornaxError, ToolchainError, UsageError

_LONGEST_LIST = 5
_INTERRUPTED, _TERMINATED, _BROKEN_PIPE = 130, 143, 141  # 128 + the signal's number


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. Unwinds like Ctrl-C, so that child processes end and temporary files go."""


def report_failure(error: BaseException, arguments: Sequence[str]) -> int:
    """Tell the user what went wrong; returns the exit status. Never raises, and never shows a traceback below -vv."""
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it once more at exit
        return _BROKEN_PIPE
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0 if error.code is None else 5
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return _interrupted(isinstance(error, Terminated), arguments)
    shown = error if isinstance(error, FornaxError) else _as_fornax_error(error)
    if _verbosity(arguments) >= 2:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    _show(shown.to_json(), arguments)
    return shown.exit


def _interrupted(terminated: bool, arguments: Sequence[str]) -> int:
    status = _TERMINATED if terminated else _INTERRUPTED
    what = "terminated" if terminated else "interrupted"
    message = f"{what}; nothing half-written is left in the cache"
    document = {"status": "error", "code": "FX598", "exit": status, "message": message, "details": [], "hint": ""}
    _show(document, arguments)
    return status


def _as_fornax_error(error: BaseException) -> FornaxError:
    if isinstance(error, click.ClickException):
        usage = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "fornaxc"
        return UsageError(error.format_message(), code="FX201", hint=f"see `{usage} --help`")
    if isinstance(error, MemoryError):
        return ToolchainError(
            "there is not enough memory", code="FX590", hint="close other programs, or use a larger machine"
        )
    log = _write_log(error)
    where = f"the full report is in {log}" if log else "run again with -vv for the full report"
    kind = type(error).__name__
    return ToolchainError(
        f"internal error: {kind}: {error}", code="FX599", details=[{"error": kind, "log": log}],
        hint=f"this is a defect of fornaxc, please report it; {where}",
    )  # fmt: skip


def _write_log(error: BaseException) -> str:
    """Write the traceback to a file; returns its path, "" where there is no place for one."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile("w", prefix="fornaxc-", suffix=".log", delete=False) as file:
            traceback.print_exception(error, file=file)
            return file.name
    except OSError:
        return ""


def _show(document: dict[str, Any], arguments: Sequence[str]) -> None:
    try:
        if wants_json(arguments):
            click.echo(json.dumps(document, indent=2, allow_nan=False, default=str))
        else:
            click.echo(_text(document), err=True)
    except OSError:  # a closed pipe or a full disk: the exit status still tells
        return


def _text(document: dict[str, Any]) -> str:
    from fornaxc.cli.text import facts, printable, table

    told = document["message"] + document["hint"]
    details = [{name: _shortened(value) for name, value in detail.items()} for detail in document["details"]]
    lines = [f"error [{document['code']}]: {document['message']}"]
    if len(details) == 1:
        lines.append(facts({name: value for name, value in details[0].items() if str(value) not in told}, indent=2))
    elif details:
        lines.append(table(details, indent=2))
    if document["hint"]:
        lines.append(f"hint: {document['hint']}")
    return printable("\n".join(line for line in lines if line))


def _shortened(value: Any) -> Any:
    """A long list as its first and last entries; --json has it whole."""
    if not isinstance(value, list) or len(value) <= _LONGEST_LIST:
        return value
    return [*value[: _LONGEST_LIST - 2], f"... {value[-1]} ({len(value)} in all)"]


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether the command line asks for JSON, even where it cannot be parsed."""
    before_end = list(arguments)[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before_end


def _verbosity(arguments: Sequence[str]) -> int:
    short = [a for a in arguments if a.startswith("-v") and set(a[1:]) == {"v"}]
    return sum(len(a) - 1 for a in short) + list(arguments).count("--verbose")
