"""The cache as one object: look an artifact up by its request key, publish one, lock a key."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fornaxc.cache.actions import Actions
from fornaxc.cache.descriptor import Descriptor, blobs_of, parse_manifest
from fornaxc.cache.digests import DigestMemory
from fornaxc.cache.files import cache_error
from fornaxc.cache.location import cache_dir
from fornaxc.cache.lock import holding
from fornaxc.cache.media import MANIFEST
from fornaxc.cache.records import log
from fornaxc.cache.store import Store, Verify
from fornaxc.errors import ArtifactError, CacheError


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """An artifact in the cache. `paths` gives the file of each blob, by digest; `manifest` is the parsed JSON."""

    descriptor: Descriptor
    manifest: dict[str, Any]
    paths: dict[str, Path]

    @property
    def config(self) -> dict[str, Any]:
        """The config document, parsed."""
        document: dict[str, Any] = json.loads(self.paths[self.manifest["config"]["digest"]].read_bytes())
        return document

    def blobs(self) -> list[tuple[Descriptor, Path]]:
        """The config and the layers with their files, as `write_archive` takes them."""
        return [(d, self.paths[d.digest]) for d in blobs_of(self.manifest)]


@dataclass(frozen=True, slots=True)
class Cache:
    """The cache at `root`, which need not exist yet: reading creates nothing."""

    root: Path
    store: Store
    actions: Actions
    digests: DigestMemory

    @classmethod
    def at(cls, root: Path) -> Cache:
        """The cache whose (versioned) root is `root`."""
        digests = DigestMemory(root)
        return cls(root, Store(root, digests), Actions(root), digests)

    @classmethod
    def open(cls, override: Path | None = None) -> Cache:
        """The cache that `cache_dir(override)` names. Raises CacheError where a file is in its place."""
        root = cache_dir(override)
        for place in (root.parent, root):
            if place.exists() and not place.is_dir():
                raise cache_error(NotADirectoryError(errno.ENOTDIR, "it is not a folder"), place)
        return cls.at(root)

    def toolchain_environment(self) -> dict[str, str]:
        """The environment that lets MAX keep its own caches below the root."""
        folder = self.root / "toolchain"
        return {"MODULAR_CACHE_DIR": str(folder / "kernels"), "MODULAR_MAX_CACHE_DIR": str(folder / "models")}

    def lock(
        self, key: str, *, timeout: float | None = None, on_wait: Callable[[str], None] | None = None
    ) -> AbstractContextManager[bool]:
        """As `lock.holding`. After waiting, look the key up again."""
        return holding(self.root, key, timeout=timeout, on_wait=on_wait)

    def lookup(self, key: str, verify: Verify = "remembered") -> StoredArtifact | None:
        """The complete and intact artifact of a request key; None, with a warning where something is damaged or gone."""
        document = self.actions.get("request", key)
        if document is None:
            return None
        try:
            descriptor = Descriptor.from_json(document.get("manifest"))
            return self.artifact(descriptor, verify)
        except ArtifactError as error:
            log.warning("the cached artifact of %s is not used: %s", key, error.message)
            return None

    def artifact(self, descriptor: Descriptor, verify: Verify = "remembered") -> StoredArtifact:
        """The artifact of a manifest. Raises ArtifactError if a blob is missing or damaged."""
        raw = self.store.read(descriptor)
        if raw is None:
            raise ArtifactError(f"its manifest {descriptor.digest} is missing or damaged", code="FX452")
        manifest = parse_manifest(raw)
        paths: dict[str, Path] = {}
        for blob in blobs_of(manifest):
            path = self.store.find(blob, verify)
            if path is None:
                raise ArtifactError(f"its blob {blob.digest} ({blob.media_type}) is missing or damaged", code="FX452")
            paths[blob.digest] = path
        return StoredArtifact(descriptor, manifest, paths)

    def publish(self, key: str, manifest: Mapping[str, Any]) -> StoredArtifact:
        """Store `manifest`, whose blobs are in the store, and make it what `key` leads to, in this order.

        Raises ArtifactError for a manifest that is none, CacheError where a blob is not in the store or writing fails.
        """
        raw = json.dumps(manifest, sort_keys=True, indent=1, allow_nan=False).encode("ascii")
        for blob in blobs_of(parse_manifest(raw)):
            if self.store.find(blob, "size") is None:
                path = self.store.path_of(blob.digest)
                raise CacheError(f"{path} is missing or damaged", hint="run the command again", code="FX604")
        descriptor = self.store.put_bytes(raw, MANIFEST)
        self.attach(key, descriptor)
        return self.artifact(descriptor, "size")

    def attach(self, key: str, descriptor: Descriptor) -> None:
        """Make a stored manifest (from `publish` or `import_archive`) what `key` leads to. Raises CacheError."""
        self.store.list_manifest(descriptor)
        self.actions.put("request", key, {"manifest": descriptor.to_json(), "created": int(time.time())})
