"""What was proven of an artifact, kept by the digest of its manifest: beside the artifact, so that proving changes nothing of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fornaxc.cache.cache import Cache

Record = dict[str, Any]

_KIND: Final = ("executed_on", "oracle", "samples", "seed", "inputs_digest", "tolerance")
"""Records that share these are about the same proof, made at different times."""


def known(cache: Cache, manifest: str) -> list[Record]:
    """The records of the artifact whose manifest has this digest (`sha256:...`), newest first."""
    return merged((cache.actions.get("verified", manifest) or {}).get("records"))


def remember(cache: Cache, manifest: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Add records. One takes the place of an older one of the same kind only: a weak proof hides no strong one. Raises CacheError."""
    with cache.lock(f"verified-{manifest.removeprefix('sha256:')}", timeout=10):
        cache.actions.put("verified", manifest, {"records": merged(records, known(cache, manifest))})


def merged(*sources: Any) -> list[Record]:
    """The newest record of each kind, newest first. What is no list of records counts as none."""
    found = [r for source in sources if isinstance(source, Sequence) for r in source if isinstance(r, Mapping)]
    newest: dict[str, Record] = {}
    for record in sorted(found, key=_when, reverse=True):
        newest.setdefault(json.dumps([record.get(name) for name in _KIND], sort_keys=True, default=str), dict(record))
    return list(newest.values())


def _when(record: Mapping[str, Any]) -> str:
    return str(record.get("when", ""))
