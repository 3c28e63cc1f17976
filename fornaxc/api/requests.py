"""From what a user gives to what the rooms take: requests, the cache, files to write; and what does not go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fornaxc.errors import UsageError
from fornaxc.phases import PHASES

if TYPE_CHECKING:
    from fornaxc.cache import Cache
    from fornaxc.compiler import Request
    from fornaxc.sources import Choice


def cache_at(cache_dir: Path | None) -> Cache:
    from fornaxc.cache import Cache

    return Cache.open(Path(cache_dir) if cache_dir is not None else None)


def request_of(
    target: str,
    dims: Mapping[str, int] | None,
    host_fallback: bool,
    timeout: float | None,
    stop_after: str | None,
    dump: Path | None,
    disabled_passes: Sequence[str],
    optimization: int = 1,
    choice: Choice | None = None,
) -> Request:
    from fornaxc.compiler import Request
    from fornaxc.sources import WHOLE
    from fornaxc.targets import parse_target

    names = [p.name for p in PHASES]
    if stop_after is not None and stop_after not in names:
        raise UsageError(f"no phase is named {stop_after!r}", code="FX213", hint=f"the phases are: {', '.join(names)}")
    for name, size in (dims or {}).items():
        if not 0 <= size < 2**63:
            raise UsageError(f"the dim {name!r} cannot have size {size}", code="FX214")
    if optimization not in range(4):
        raise UsageError(f"no optimization level {optimization}", code="FX219", hint="the levels are 0, 1, 2 and 3")
    return Request(
        parse_target(target),
        dict(dims or {}),
        host_fallback,
        tuple(disabled_passes),
        timeout,
        stop_after if stop_after not in ("package", "verify") else None,
        Path(dump) if dump is not None else None,
        optimization,
        choice or WHOLE,
    )


def choice_of(entry: str | None, freeze: str | Path | None) -> Choice:
    from fornaxc.sources import Choice

    return Choice(entry, Path(freeze) if freeze is not None else None)


def check_is_model(path: Path, what: str) -> None:
    """Raise UsageError for an artifact; `what` names the work that needs a model."""
    from fornaxc.artifact import is_artifact

    if is_artifact(path):
        raise UsageError(
            f"{path} is an artifact: {what} needs a model",
            code="FX218",
            hint="`fornaxc export` writes its program as a model",
        )


def refuse_for_artifact(
    path: Path,
    target: str | None,
    dims: Mapping[str, int] | None,
    host_fallback: bool,
    optimization: int | None,
    disabled_passes: Sequence[str] = (),
    passes: bool = False,
) -> None:
    """Raise UsageError where something is asked that was settled when an artifact was compiled."""
    asked = {
        "--target": target is not None,
        "--dim": bool(dims),
        "--no-host-fallback": not host_fallback,
        "-O": optimization is not None,
        "--no-pass": bool(disabled_passes),
        "--passes": passes,
    }
    given = [name for name, is_given in asked.items() if is_given]
    if given:
        raise UsageError(
            f"{' and '.join(given)} cannot be given with an artifact: {path} was compiled for one target, with its dims",
            code="FX218",
            hint=f"leave it out, or give the source model; `fornaxc inspect {path}` shows what the artifact was made for",
        )


def refuse_model_beside_model(path: Path, source: Path | None) -> None:
    """Raise UsageError where a source model is named beside a model, which is its own source."""
    if source is not None:
        raise UsageError(f"--model belongs to an artifact, and {path} is a model", code="FX218", hint="leave it out")


def refuse_choice(path: Path, entry: str | None, freeze: str | Path | None) -> None:
    """Raise UsageError where a function, or its weights, are chosen with an artifact, for which both are settled."""
    given = [name for name, value in (("--entry", entry), ("--freeze", freeze)) if value is not None]
    if given:
        raise UsageError(
            f"{' and '.join(given)} cannot be given with an artifact: {path} was compiled from one function, with its weights",
            code="FX218",
            hint="leave it out, or give the source model",
        )


def write_page(path: Path, text: str) -> None:
    from fornaxc.cache.files import write_whole

    write_whole(path, text.encode())
