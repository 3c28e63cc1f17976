"""What every command shares: how much to say, and in which form."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click

from fornaxc.cli.text import printable

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Session:
    """`quiet` says results and errors only, `verbose` counts -v, `json` prints one document on stdout."""

    quiet: bool = False
    verbose: int = 0
    json: bool = False

    def show(self, document: dict[str, Any], text: Callable[[], str]) -> None:
        """Print a result on stdout: the document, or what `text` makes for people (nothing where that is empty)."""
        shown = json.dumps(document, indent=2, allow_nan=False, default=str) if self.json else text()
        if shown:
            click.echo(printable(shown))

    def say(self, line: str) -> None:
        """A line on stderr, unless quiet."""
        if not self.quiet:
            click.echo(printable(line), err=True)


def verbosity_options(function: Command) -> Command:
    """Add -q and -v."""
    quiet = click.option("-q", "--quiet", is_flag=True, help="Say only results, warnings and errors.")
    verbose = click.option("-v", "--verbose", count=True, help="Say more; -vv also shows tracebacks.")
    return quiet(verbose(function))


def reporting(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Add -q, -v and --json to a command, which gets a `Session` as its first argument; it returns its exit status."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, all else on stderr.")
    @verbosity_options
    @click.pass_context
    @wraps(function)
    def command(ctx: click.Context, /, quiet: bool, verbose: int, as_json: bool, **options: Any) -> int | None:
        return function(open_session(ctx, quiet, verbose, as_json), **options)

    return command


def open_session(ctx: click.Context, quiet: bool, verbose: int, as_json: bool) -> Session:
    """The session of a command, whose -q and -v may also stand before the verb; what the package logs is shown."""
    outer = ctx.obj if isinstance(ctx.obj, Session) else Session()
    session = Session(quiet or outer.quiet, verbose + outer.verbose, as_json)
    listen(session)
    return session


def listen(session: Session) -> None:
    """Show what the package logs on stderr: warnings, with -v more."""
    logger = logging.getLogger("fornaxc")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel([logging.WARNING, logging.INFO, logging.DEBUG][min(session.verbose, 2)])


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.getMessage()}"
