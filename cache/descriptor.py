"""Descriptors: what a blob is, which bytes it has, and how many (OCI image specification, content descriptors)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fornaxc.cache.media import MANIFEST
from fornaxc.errors import ArtifactError

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """`digest` is `sha256:<64 hex>`, `size` is in bytes. Raises ArtifactError where they are not."""

    media_type: str
    digest: str
    size: int

    def __post_init__(self) -> None:
        check_digest(self.digest)
        if not isinstance(self.media_type, str) or type(self.size) is not int or self.size < 0:
            raise ArtifactError(f"not a descriptor of a blob: {self.media_type!r}, {self.size!r} bytes", code="FX451")

    def to_json(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}

    @classmethod
    def from_json(cls, document: Any) -> Descriptor:
        """Further fields are ignored. Raises ArtifactError."""
        if not isinstance(document, Mapping):
            raise ArtifactError(f"not a descriptor of a blob: {str(document)[:80]!r}", code="FX451")
        return cls(document.get("mediaType", ""), document.get("digest", ""), document.get("size", -1))


def check_digest(digest: Any) -> str:
    """`digest` itself if it is `sha256:<64 hex>`; otherwise raises ArtifactError."""
    if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
        raise ArtifactError(f"not a sha256 digest: {str(digest)[:80]!r}", code="FX451")
    return digest


def parse_manifest(raw: bytes) -> dict[str, Any]:
    """The manifest in `raw`, with every descriptor in it checked. Raises ArtifactError."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ArtifactError("the manifest is not JSON", code="FX451") from error
    if not isinstance(document, dict) or document.get("schemaVersion") != 2 or document.get("mediaType") != MANIFEST:
        raise ArtifactError(f"the manifest is not an OCI image manifest ({MANIFEST})", code="FX451")
    blobs_of(document)
    return document


def blobs_of(manifest: Mapping[str, Any]) -> list[Descriptor]:
    """The descriptors of the config and of the layers, in this order. Raises ArtifactError."""
    layers = manifest.get("layers")
    if not isinstance(layers, list):
        raise ArtifactError("the manifest has no list of layers", code="FX451")
    return [Descriptor.from_json(manifest.get("config")), *(Descriptor.from_json(layer) for layer in layers)]
