"""Looking after a cache: list, measure, check and clean it."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from fornaxc.cache.actions import Entry
from fornaxc.cache.beside import units
from fornaxc.cache.cache import Cache
from fornaxc.cache.descriptor import Descriptor, blobs_of, parse_manifest
from fornaxc.cache.files import discard
from fornaxc.cache.lock import held_keys, holding, known_keys, lock_path
from fornaxc.cache.media import MANIFEST, SOURCE, TARGET
from fornaxc.cache.records import log
from fornaxc.cache.store import INDEX_LOCK
from fornaxc.errors import ArtifactError, CacheError

GRACE: Final = 3600.0
"""Seconds for which a temporary file, or a blob that nothing names yet, may belong to a running process."""

_SMALL: Final = ("source", "verified")
"""Namespaces whose entries hold no blobs, so that removing them frees nothing."""

Problem = Literal["damaged blob", "foreign file", "damaged action", "dangling action", "stray temporary file"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong at `path`; `repaired` if it was removed, which makes it a miss."""

    problem: Problem
    path: Path
    detail: str
    repaired: bool


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check` read (`size` in bytes) and found."""

    blobs: int
    size: int
    actions: int
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        """Whether nothing wrong is left."""
        return all(finding.repaired for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Listed:
    """An artifact in the cache: `size` in bytes, blobs that others share included; times in seconds since the epoch."""

    key: str
    manifest: str
    target: str
    source: str
    size: int
    created: int
    last_used: float


@dataclass(frozen=True, slots=True)
class Usage:
    """What the cache holds; sizes in bytes. `beside` is what lies beside the artifacts, such as MAX's own caches."""

    blobs: int
    size: int
    beside: int


@dataclass(slots=True)
class GcReport:
    """What `gc` removed (or would remove): actions, units beside the artifacts, blobs, bytes freed; bytes kept; what was kept as in use."""

    actions: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    blobs: int = 0
    freed: int = 0
    kept: int = 0
    in_use: list[str] = field(default_factory=list)


def ls(cache: Cache) -> list[Listed]:
    """Every artifact whose manifest can be read, last used first."""
    found = []
    for entry in cache.actions.entries():
        if entry.namespace != "request":
            continue
        document = cache.actions.peek("request", entry.key) or {}
        try:
            descriptor = Descriptor.from_json(document.get("manifest"))
            manifest = parse_manifest(cache.store.read(descriptor) or b"")
        except ArtifactError as error:
            log.warning("%s leads to nothing: %s", entry.path, error.message)
            continue
        notes = manifest.get("annotations")
        notes = notes if isinstance(notes, dict) else {}
        size = descriptor.size + sum({d.digest: d.size for d in blobs_of(manifest)}.values())
        created = document.get("created")
        found.append(
            Listed(
                key=entry.key,
                manifest=descriptor.digest,
                target=str(notes.get(TARGET, "")),
                source=str(notes.get(SOURCE, "")),
                size=size,
                created=created if isinstance(created, int) else int(entry.used),
                last_used=entry.used,
            )
        )
    return sorted(found, key=lambda listed: (-listed.last_used, listed.key))


def usage(cache: Cache) -> Usage:
    """How much is in the cache now."""
    sizes = [status.st_size for _, status in _files(cache.store.blobs())]
    return Usage(len(sizes), sum(sizes), sum(unit.size for unit in units(cache.root)))


def check(cache: Cache, *, repair: bool = False, now: float | None = None) -> CheckReport:
    """Read every blob, action and temporary file; with `repair`, remove what is damaged, dangling or left behind."""
    findings: list[Finding] = []

    def found(problem: Problem, path: Path, detail: str) -> None:
        findings.append(Finding(problem, path, detail, repair and _removed(path)))

    entries = cache.actions.entries()
    blobs = size = 0
    intact: set[str] = set()
    for path in cache.store.blobs():
        digest = f"sha256:{path.name}"
        try:
            cache.store.path_of(digest)
        except ArtifactError:
            found("foreign file", path, "not the name of a blob")
            continue
        try:
            blobs, size = blobs + 1, size + path.stat().st_size
            actual = cache.digests.of_file(path, fresh=True)
        except FileNotFoundError:
            continue
        except OSError as error:
            found("damaged blob", path, f"cannot be read: {error.strerror or error}")
            continue
        if actual == digest:
            intact.add(digest)
        else:
            found("damaged blob", path, f"its bytes have the digest {actual}")

    for entry in entries:
        document = cache.actions.peek(entry.namespace, entry.key)
        if document is None:
            if entry.path.exists():
                found("damaged action", entry.path, "its checksum is not that of its content")
            continue
        broken = _broken(cache, document, intact)
        if broken:
            found("dangling action", entry.path, broken)

    deadline = (time.time() if now is None else now) - GRACE
    for path, status in _files(_temporaries(cache)):
        if status.st_mtime < deadline:
            found("stray temporary file", path, f"{status.st_size} bytes, left by a process that ended")
    if repair and any(finding.repaired for finding in findings):
        _rewrite_index(cache)
    return CheckReport(blobs, size, len(entries), findings)


def gc(
    cache: Cache,
    *,
    max_age: float | None = None,
    max_size: int | None = None,
    keep: Collection[str] = (),
    dry_run: bool = False,
    now: float | None = None,
) -> GcReport:
    """Remove what nothing names any more, and artifacts by age and size.

    max_age: seconds; what was not used for longer goes. max_size: bytes; what was used longest ago goes until the rest
    fits; what lies beside the artifacts counts and goes first, since losing it costs no artifact. keep: request keys that
    stay. What stays too: an entry whose KEY or NAMESPACE-KEY is locked; while anything is locked, what was used within the
    last hour, and what lies beside the artifacts, as also within an hour of a qualification; temporary files and
    never-named blobs younger than an hour.
    """
    current = time.time() if now is None else now
    before = {path: status.st_ctime_ns for path, status in _files(cache.store.blobs())}
    report = GcReport()
    locked = held_keys(cache.root) - {INDEX_LOCK}
    references = {entry: _references(cache, entry) for entry in cache.actions.entries()}
    used = _last_uses(references)
    sizes = {d.digest: d.size for found in references.values() for d in found or ()}
    holders = Counter(digest for found in references.values() for digest in _digests([found]))
    report.kept = sum(sizes.values())
    _collect_beside(cache, report, max_age, max_size, dry_run, current, bool(locked))

    def protected(entry: Entry) -> bool:
        if entry.key in keep and entry.namespace == "request":
            return True
        in_use = bool(locked & {entry.key, f"{entry.namespace}-{entry.key}"}) or (
            bool(locked) and current - used[entry] < GRACE
        )
        if in_use:
            report.in_use.append(f"{entry.namespace}/{entry.key}")
        return in_use

    for entry in sorted(references, key=lambda e: (used[e], e.namespace != "request", e.namespace, e.key)):
        dangling = references[entry] is None
        old = max_age is not None and current - used[entry] > max_age
        large = max_size is not None and report.kept > max_size and entry.namespace not in _SMALL
        if (dangling or old or large) and not protected(entry):
            holders.subtract(_digests([references[entry]]))
            report.kept -= sum(sizes[digest] for digest in _digests([references[entry]]) if not holders[digest])
            report.actions.append(f"{entry.namespace}/{entry.key}")
            if not dry_run:
                cache.actions.remove(entry.namespace, entry.key)

    for path, status in _files(cache.store.blobs()):
        digest = f"sha256:{path.name}"
        changed_since = status.st_ctime_ns != before.get(path)
        never_named = digest not in holders
        if holders[digest] or changed_since or (never_named and current - status.st_ctime < GRACE):
            continue
        if dry_run or _removed(path):
            report.blobs += 1
            report.freed += status.st_size
    for path, status in _files(_temporaries(cache)):
        if current - status.st_mtime >= GRACE and (dry_run or _removed(path)):
            report.freed += status.st_size
    if not dry_run:
        _rewrite_index(cache)
        _sweep_locks(cache)
        if max_age is not None:
            cache.digests.sweep(current - max_age)
    return report


def _collect_beside(
    cache: Cache, report: GcReport, max_age: float | None, max_size: int | None, dry_run: bool, now: float, locked: bool
) -> None:
    found = units(cache.root)
    if locked or any(unit.name.startswith("qualify/") and now - unit.newest < GRACE for unit in found):
        report.in_use += [unit.name for unit in found]  # and it may not press artifacts out
        return
    report.kept += sum(unit.size for unit in found)
    for unit in found:
        old = max_age is not None and now - unit.newest > max_age
        large = max_size is not None and report.kept > max_size
        if (old or large) and (dry_run or unit.remove()):
            report.beside.append(unit.name)
            report.kept -= unit.size
            report.freed += unit.size


def _references(cache: Cache, entry: Entry) -> list[Descriptor] | None:
    """The blobs that an entry needs; None if the entry is damaged or one of them is missing or has the wrong size."""
    document = cache.actions.peek(entry.namespace, entry.key)
    if document is None:
        return None
    try:
        found = list(_needed(cache, document))
    except ArtifactError:
        return None
    return found if all(cache.store.find(d, "size") for d in found) else None


def _broken(cache: Cache, document: dict[str, Any], intact: set[str]) -> str:
    """Why a document leads to nothing; empty if it leads to intact blobs only."""
    try:
        for needed in _needed(cache, document):
            if needed.digest not in intact or cache.store.find(needed, "size") is None:
                return f"{needed.digest} ({needed.media_type}) is missing or damaged"
    except ArtifactError as error:
        return error.message
    return ""


def _needed(cache: Cache, document: dict[str, Any]) -> Iterator[Descriptor]:
    """The descriptors in a document, and those in the manifests among them. Raises ArtifactError."""
    for descriptor in _descriptors(document):
        yield descriptor
        if descriptor.media_type == MANIFEST:
            raw = cache.store.read(descriptor)
            if raw is None:
                raise ArtifactError(f"{descriptor.digest} ({descriptor.media_type}) is missing or damaged")
            yield from blobs_of(parse_manifest(raw))


def _descriptors(value: Any) -> Iterator[Descriptor]:
    if isinstance(value, dict):
        if {"mediaType", "digest", "size"} <= value.keys():
            yield Descriptor.from_json(value)
        else:
            for inner in value.values():
                yield from _descriptors(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _descriptors(inner)


def _last_uses(references: dict[Entry, list[Descriptor] | None]) -> dict[Entry, float]:
    """An entry counts as used when an artifact that shares a blob with it, or that it is about, was: a hit reads the request's entry only."""
    by_blob: dict[str, float] = {}
    for entry, found in references.items():
        for descriptor in found or () if entry.namespace == "request" else ():
            by_blob[descriptor.digest] = max(entry.used, by_blob.get(descriptor.digest, 0.0))
    return {
        entry: entry.used
        if entry.namespace == "request"
        else max(
            [entry.used, by_blob.get(f"sha256:{entry.key}", 0.0), *(by_blob.get(d.digest, 0.0) for d in found or ())]
        )
        for entry, found in references.items()
    }


def _digests(groups: Collection[list[Descriptor] | None]) -> set[str]:
    return {descriptor.digest for group in groups for descriptor in group or ()}


def _files(paths: list[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    for path in paths:
        try:
            yield path, path.stat(follow_symlinks=False)
        except OSError:
            continue


def _temporaries(cache: Cache) -> list[Path]:
    try:
        return sorted((cache.root / "tmp").iterdir())
    except OSError:
        return []


def _removed(path: Path) -> bool:
    discard(path)
    return not os.path.lexists(path)


def _rewrite_index(cache: Cache) -> None:
    manifests: dict[str, Descriptor] = {}
    for entry in cache.actions.entries():
        for descriptor in _references(cache, entry) or ():
            if descriptor.media_type == MANIFEST:
                manifests[descriptor.digest] = descriptor
    try:
        if manifests or (cache.root / "index.json").exists():
            with holding(cache.root, INDEX_LOCK, timeout=10):
                cache.store.rewrite_index(list(manifests.values()))
    except CacheError as error:
        log.warning("index.json is not up to date: %s", error.message)


def _sweep_locks(cache: Cache) -> None:
    for key in known_keys(cache.root):
        if key != INDEX_LOCK:
            with holding(cache.root, key, timeout=0) as held:
                if held:
                    discard(lock_path(cache.root, key))
