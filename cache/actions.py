"""Actions: what a key led to. They are written last, so whatever one names is complete."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from fornaxc.cache.files import cache_errors, discard
from fornaxc.cache.location import prepare
from fornaxc.cache.records import Document, log, read_record, write_record

Namespace = Literal["request", "code", "weights", "source", "verified"]
"""request: request key -> manifest; code: code key -> .mef; weights: pack key -> weights; source: model digest -> facts;
verified: digest of a manifest -> what was proven of that artifact."""

NAMESPACES: Final[tuple[Namespace, ...]] = get_args(Namespace)

_KEY: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Entry:
    """An action on disk; `used` is when it was last written or hit, in seconds since the epoch."""

    namespace: Namespace
    key: str
    path: Path
    used: float


class Actions:
    """The entries below `root/actions`. A key is 64 hexadecimal digits, with or without `sha256:` before them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, namespace: Namespace, key: str) -> Document | None:
        """The document of `key`, marked as used now; None if there is none or, with a warning, if it is damaged."""
        document = self.peek(namespace, key)
        if document is not None:
            try:
                os.utime(self.path_of(namespace, key))
            except OSError as error:
                log.debug("the use of %s/%s is not recorded: %s", namespace, key, error)
        return document

    def peek(self, namespace: Namespace, key: str) -> Document | None:
        """As `get`, without marking it."""
        path = self.path_of(namespace, key)
        return read_record(path, f"{namespace}/{path.name}")

    def put(self, namespace: Namespace, key: str, document: Document) -> None:
        """Make `document` the one of `key`, in one durable step. Raises CacheError."""
        prepare(self.root)
        path = self.path_of(namespace, key)
        with cache_errors(path):
            write_record(path, f"{namespace}/{path.name}", document, self.root / "tmp")

    def remove(self, namespace: Namespace, key: str) -> None:
        """Remove the entry of `key`, if it can be."""
        discard(self.path_of(namespace, key))

    def entries(self) -> list[Entry]:
        """Every entry, damaged ones too, sorted by namespace and key."""
        found = []
        for namespace in NAMESPACES:
            try:
                names = sorted(os.listdir(self.root / "actions" / namespace))
            except OSError:
                continue
            for name in names:
                path = self.root / "actions" / namespace / name
                try:
                    used = path.stat().st_mtime
                except OSError:
                    continue
                if _KEY.fullmatch(name):
                    found.append(Entry(namespace, name, path, used))
        return found

    def path_of(self, namespace: Namespace, key: str) -> Path:
        """The file of an entry. Raises ValueError for a namespace or key that cannot be."""
        bare = key.removeprefix("sha256:")
        if namespace not in NAMESPACES or _KEY.fullmatch(bare) is None:
            raise ValueError(f"not the name of an action: {namespace!r}, {key!r}")
        return self.root / "actions" / namespace / bare
