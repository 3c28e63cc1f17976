"""Where the cache is, and what its root holds from the start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from fornaxc.cache.files import cache_errors, replacing, sync_folder, write_all
from fornaxc.cache.media import OCI_LAYOUT

VERSION: Final = "v1"
ENVIRONMENT: Final = "FORNAXC_CACHE_DIR"

_TAG = b"""Signature: 8a477f597d28d172789f06886806bc55
# This folder is a cache of fornaxc: everything in it can be made again, so backups may skip it.
# See https://bford.info/cachedir/
"""


def cache_dir(override: Path | None = None) -> Path:
    """The absolute root of the cache: of `override`, else FORNAXC_CACHE_DIR, else the user's cache folder. Creates nothing."""
    chosen = os.environ.get(ENVIRONMENT, "") if override is None else str(override)
    if not chosen:
        from platformdirs import user_cache_dir

        chosen = user_cache_dir("fornaxc", appauthor=False)
    return Path(os.path.abspath(os.path.expanduser(chosen))) / VERSION


def prepare(root: Path) -> None:
    """Create what the root of a cache holds, if it is not there yet. Raises CacheError."""
    with cache_errors(root):
        if (root / "oci-layout").is_file():
            return
        for folder in ("tmp", "blobs/sha256", "actions", "digests", "locks"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        sync_folder(root)
        for name, content in (("CACHEDIR.TAG", _TAG), ("oci-layout", OCI_LAYOUT)):
            with replacing(root / name, root / "tmp") as fd:
                write_all(fd, content)
