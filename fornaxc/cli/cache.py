"""`fornaxc cache`: dir, ls, explain, gc, check, export, import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fornaxc.cli import options
from fornaxc.cli.quantities import age, amount
from fornaxc.cli.session import Session, reporting
from fornaxc.cli.text import facts, moment, size, table
from fornaxc.errors import ArtifactError, CacheError, UsageError

if TYPE_CHECKING:
    from fornaxc.cache import Cache, StoredArtifact
    from fornaxc.cache.maintenance import Listed

_SHORT = 12


@click.group("cache", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Look at the cache of artifacts, and look after it.

    Two keys name an artifact, and every KEY below is either, or the beginning of one. The request key covers the model
    file, the target, the options and the versions. The code key covers the compiled code, which models of one structure share.

    \b
    Examples:
      fornaxc cache ls
      fornaxc cache explain 3f2a 91bc
      fornaxc cache gc --max-age 30d --max-size 10GB
      fornaxc cache check --repair
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


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

    Keys are shortened, which is enough for the other commands; --json has them whole.

    \b
    Examples:
      fornaxc cache ls
      fornaxc cache ls --json
    """
    from fornaxc.cache.maintenance import ls, usage

    cache = _open(cache_dir)
    artifacts, used = ls(cache), usage(cache)
    codes = {a.key: _code_key(cache, a) for a in artifacts}
    document = {
        "dir": str(cache.root),
        "artifacts": [
            {
                "key": a.key,
                "code_key": codes[a.key],
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
        "beside": used.beside,
    }
    rows = [
        {
            "request_key": a.key[:_SHORT],
            "code_key": codes[a.key][:_SHORT],
            "target": a.target,
            "size": size(a.size),
            "last_used": moment(a.last_used),
            "source": a.source,
        }
        for a in artifacts
    ]
    beside = f" and {size(used.beside)} of MAX's own caches, outcomes and logs" if used.beside else ""
    total = f"{len(artifacts)} artifact{'' if len(artifacts) == 1 else 's'}, {size(used.size)}{beside} in {cache.root}"
    session.show(document, lambda: "\n".join(part for part in (table(rows), total) if part))
    return 0


@command.command("explain")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@options.cache_dir
@reporting
def explanation(session: Session, first: str, second: str, cache_dir: Path | None) -> int:
    """Say which parts of two artifacts' keys differ. A and B are request or code keys (or their beginning) or artifact files.

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
    if not Path(name).is_file():
        return _find(cache, name).config
    from fornaxc import api

    document = api.inspect(Path(name))
    if document["kind"] != "artifact":
        raise UsageError(f"{name} is a model, not an artifact", code="FX229", hint="give a key or a .fxa file")
    return document


def _find(cache: Cache, prefix: str) -> StoredArtifact:
    """The one artifact whose request key or code key begins with `prefix`. UsageError, with the candidates, where there are several."""
    from fornaxc.cache.maintenance import ls

    wanted = prefix.lower().removeprefix("sha256:")
    found: dict[str, tuple[Listed, str]] = {}
    for listed in ls(cache):
        code_key = _code_key(cache, listed)
        if wanted and (listed.key.startswith(wanted) or code_key.startswith(wanted)):
            found.setdefault(listed.manifest, (listed, code_key))
    if not found:
        raise UsageError(
            f"no artifact has a key that begins with {prefix!r}", code="FX230", hint="`fornaxc cache ls` lists the keys"
        )
    if len(found) > 1:
        candidates = [
            {"request_key": a.key[:_SHORT], "code_key": code[:_SHORT], "target": a.target, "source": a.source}
            for a, code in found.values()
        ]
        shared = all(code.startswith(wanted) for _, code in found.values())
        why = "they share compiled code: give a request key" if shared else "give more of the key"
        raise UsageError(
            f"{len(found)} artifacts have a key that begins with {prefix!r}", code="FX230", details=candidates, hint=why
        )
    ((listed, _),) = found.values()
    stored = cache.lookup(listed.key, "size")
    if stored is None:
        raise CacheError(f"the artifact of {listed.key} is damaged", code="FX604", hint="compile its model again")
    return stored


def _code_key(cache: Cache, listed: Listed) -> str:
    """The key of an artifact's compiled code; "" where its config cannot be read."""
    from fornaxc.cache.descriptor import Descriptor, parse_manifest

    try:
        manifest = parse_manifest(cache.store.path_of(listed.manifest).read_bytes())
        config = json.loads(cache.store.read(Descriptor.from_json(manifest["config"])) or b"{}")
        return str(config.get("key", ""))
    except (OSError, ValueError, ArtifactError):
        return ""


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

    MAX's own caches, outcomes of qualification and logs count too, and go before any artifact: losing them costs time only.

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
        "beside": report.beside,
        "blobs": report.blobs,
        "freed": report.freed,
        "kept": report.kept,
        "in_use": report.in_use,
    }
    verb = "would remove" if dry_run else "removed"
    beside = f", {', '.join(report.beside)}" if report.beside else ""
    what = f"{verb} {len(report.actions)} entries and {report.blobs} blobs{beside}: {size(report.freed)}"
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
    """Write the artifact of KEY as one file, with what the cache knows to be proven of it.

    \b
    Example:
      fornaxc cache export 3f2a91bc model.fxa
    """
    from fornaxc.cache.archive_write import write_archive
    from fornaxc.cache.evidence import known

    cache = _open(cache_dir)
    stored = _find(cache, key)
    digest = stored.descriptor.digest
    write_archive(output, cache.store.path_of(digest).read_bytes(), stored.blobs(), known(cache, digest))
    document = {"artifact": str(output), "key": stored.config["key"], "manifest": digest}
    shown = {"artifact": document["artifact"], "code key": document["key"], "manifest": digest}
    session.show(document, lambda: str(output) if session.quiet else facts(shown))
    return 0


@command.command("import")
@click.argument("artifact", type=options.FILE, metavar="FILE.fxa")
@options.cache_dir
@reporting
def importing(session: Session, artifact: Path, cache_dir: Path | None) -> int:
    """Put an artifact file into the cache, every byte proven.

    Compiling its model with the same target, options and versions is then a hit here too.

    \b
    Example:
      fornaxc cache import model.fxa
    """
    from fornaxc import api

    result = api.import_artifact(artifact, cache_dir=cache_dir)
    document = {
        "artifact": str(result.artifact),
        "key": result.key,
        "request_key": result.request_key,
        "target": result.target,
    }
    shown = {
        "artifact": document["artifact"],
        "request key": result.request_key,
        "code key": result.key,
        "target": result.target,
    }
    session.show(document, lambda: str(result.artifact) if session.quiet else facts(shown))
    return 0
