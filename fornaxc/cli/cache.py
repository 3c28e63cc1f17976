"""`fornaxc cache`: dir, ls, explain, gc, check, export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fornaxc.cli import options
from fornaxc.cli.quantities import age, amount
from fornaxc.cli.session import Session, reporting
from fornaxc.cli.text import facts, moment, size, table
from fornaxc.errors import CacheError, UsageError

if TYPE_CHECKING:
    from fornaxc.cache import Cache, StoredArtifact

_SHORT = 12


@click.group("cache")
def command() -> None:
    """Look at the cache of artifacts, and look after it.

    \b
    Examples:
      fornaxc cache ls
      fornaxc cache explain 3f2a 91bc
      fornaxc cache gc --max-age 30d --max-size 10GB
      fornaxc cache check --repair
    """


def _open(cache_dir: Path | None) -> Cache:
    from fornaxc.cache import Cache

    return Cache.open(cache_dir)


@command.command("dir")
@options.cache_dir
@reporting
def directory(session: Session, cache_dir: Path | None) -> int:
    """Print the folder that the cache is in.

    \b
    Example:
      du -sh "$(fornaxc cache dir)"
    """
    root = _open(cache_dir).root
    session.show({"dir": str(root)}, lambda: str(root))
    return 0


@command.command("ls")
@options.cache_dir
@reporting
def listing(session: Session, cache_dir: Path | None) -> int:
    """List the artifacts, last used first.

    \b
    Examples:
      fornaxc cache ls
      fornaxc cache ls --json
    """
    from fornaxc.cache.maintenance import ls, usage

    cache = _open(cache_dir)
    artifacts, used = ls(cache), usage(cache)
    document = {
        "dir": str(cache.root),
        "artifacts": [
            {
                "key": a.key,
                "manifest": a.manifest,
                "path": str(cache.store.path_of(a.manifest)),
                "target": a.target,
                "source": a.source,
                "size": a.size,
                "created": a.created,
                "last_used": a.last_used,
            }
            for a in artifacts
        ],
        "size": used.size,
        "blobs": used.blobs,
    }
    rows = [
        {
            "key": a.key[:_SHORT],
            "target": a.target,
            "size": size(a.size),
            "last_used": moment(a.last_used),
            "source": a.source,
        }
        for a in artifacts
    ]
    total = f"{len(artifacts)} artifact{'' if len(artifacts) == 1 else 's'}, {size(used.size)} in {cache.root}"
    session.show(document, lambda: "\n".join(part for part in (table(rows), total) if part))
    return 0


@command.command("explain")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@options.cache_dir
@reporting
def explanation(session: Session, first: str, second: str, cache_dir: Path | None) -> int:
    """Say which parts of two artifacts' keys differ. A and B are keys (or their beginning) or .fxa files.

    \b
    Examples:
      fornaxc cache explain 3f2a91bc 77e0
      fornaxc cache explain yesterday.fxa today.fxa
    """
    from fornaxc.cache import explain

    cache = _open(cache_dir)
    configs = [_config(cache, name) for name in (first, second)]
    parts = [{"source": config["source"], **config["key_parts"]} for config in configs]
    differences = [{"part": d.path, "a": d.old, "b": d.new} for d in explain(*parts)]
    same_code = configs[0]["key"] == configs[1]["key"]
    document = {"keys": [config["key"] for config in configs], "same_code": same_code, "differences": differences}
    verdict = "the compiled code is the same" if same_code else "the compiled code differs"
    session.show(document, lambda: f"{table(differences)}\n{verdict}" if differences else f"nothing differs; {verdict}")
    return 0


def _config(cache: Cache, name: str) -> dict[str, Any]:
    """The config of the artifact that a file or the beginning of a key names."""
    if Path(name).is_file():
        from fornaxc import api

        document = api.inspect(Path(name))
        if document["kind"] != "artifact":
            raise UsageError(f"{name} is a model, not an artifact", code="FX229", hint="give a key or a .fxa file")
        return document
    return _read_config(_find(cache, name))


def _find(cache: Cache, prefix: str) -> StoredArtifact:
    """The one artifact whose key begins with `prefix`. Raises UsageError."""
    from fornaxc.cache.maintenance import ls

    wanted = prefix.lower().removeprefix("sha256:")
    found: dict[str, StoredArtifact] = {}
    for listed in ls(cache):
        stored = cache.lookup(listed.key, "size")
        if (
            stored is not None
            and wanted
            and (listed.key.startswith(wanted) or _read_config(stored)["key"].startswith(wanted))
        ):
            found.setdefault(listed.manifest, stored)
    if len(found) != 1:
        many = "no artifact has" if not found else f"{len(found)} artifacts have"
        raise UsageError(
            f"{many} a key that begins with {prefix!r}",
            code="FX230",
            hint="`fornaxc cache ls` lists the keys" if not found else "give more of the key",
        )
    return next(iter(found.values()))


def _read_config(stored: StoredArtifact) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(stored.paths[stored.manifest["config"]["digest"]].read_bytes())
    return config


@command.command("gc")
@click.option("--max-age", callback=age, metavar="AGE", help="Remove what was not used for longer: 12h, 30d, 4w.")
@click.option(
    "--max-size", callback=amount, metavar="SIZE", help="Remove what was used longest ago until the rest fits: 10GB."
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@options.cache_dir
@reporting
def collect(
    session: Session, max_age: float | None, max_size: int | None, dry_run: bool, cache_dir: Path | None
) -> int:
    """Remove what nothing names any more and, by age and size, artifacts. What is in use stays.

    \b
    Examples:
      fornaxc cache gc
      fornaxc cache gc --max-age 30d --max-size 10GB --dry-run
    """
    from fornaxc.cache.maintenance import gc

    report = gc(_open(cache_dir), max_age=max_age, max_size=max_size, dry_run=dry_run)
    document = {
        "dry_run": dry_run,
        "removed": report.actions,
        "blobs": report.blobs,
        "freed": report.freed,
        "kept": report.kept,
        "in_use": report.in_use,
    }
    verb = "would remove" if dry_run else "removed"
    what = f"{verb} {len(report.actions)} entries and {report.blobs} blobs, {size(report.freed)}"
    in_use = f"; {len(report.in_use)} entries in use stay" if report.in_use else ""
    session.show(document, lambda: f"{what}; {size(report.kept)} kept{in_use}")
    return 0


@command.command("check")
@click.option("--repair", is_flag=True, help="Remove what is damaged; it is compiled again when it is needed.")
@options.cache_dir
@reporting
def checking(session: Session, repair: bool, cache_dir: Path | None) -> int:
    """Read every blob and entry, and report what is damaged; exit status 6 if something damaged is left.

    \b
    Examples:
      fornaxc cache check
      fornaxc cache check --repair
    """
    from fornaxc.cache.maintenance import check

    report = check(_open(cache_dir), repair=repair)
    findings = [
        {"problem": f.problem, "path": str(f.path), "repaired": f.repaired, "detail": f.detail} for f in report.findings
    ]
    if not report.ok:
        left = sum(not f["repaired"] for f in findings)
        hint = "`fornaxc cache check --repair` removes what is damaged" if not repair else "remove the files yourself"
        raise CacheError(f"the cache has {left} damaged parts", code="FX610", details=findings, hint=hint)
    document = {
        "ok": True,
        "blobs": report.blobs,
        "size": report.size,
        "actions": report.actions,
        "findings": findings,
    }
    summary = f"{report.blobs} blobs ({size(report.size)}) and {report.actions} entries are intact"
    session.show(document, lambda: "\n".join(part for part in (table(findings), summary) if part))
    return 0


@command.command("export")
@click.argument("key")
@click.argument("output", type=options.FILE, metavar="OUT.fxa")
@options.cache_dir
@reporting
def export(session: Session, key: str, output: Path, cache_dir: Path | None) -> int:
    """Write the artifact whose key begins with KEY as one file.

    \b
    Example:
      fornaxc cache export 3f2a91bc model.fxa
    """
    from fornaxc.cache.archive_write import write_archive

    cache = _open(cache_dir)
    stored = _find(cache, key)
    write_archive(output, cache.store.path_of(stored.descriptor.digest).read_bytes(), stored.blobs())
    document = {"artifact": str(output), "key": _read_config(stored)["key"], "manifest": stored.descriptor.digest}
    session.show(document, lambda: str(output) if session.quiet else facts(document))
    return 0
