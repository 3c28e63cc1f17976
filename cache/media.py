"""Media types and annotation names of artifacts, as OCI descriptors and manifests spell them."""

from __future__ import annotations

from typing import Final

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
ARTIFACT: Final = "application/vnd.fornaxc.artifact.v1"
CONFIG: Final = "application/vnd.fornaxc.config.v1+json"
MEF: Final = "application/vnd.fornaxc.max.mef"
WEIGHTS: Final = "application/vnd.fornaxc.weights.v1+safetensors"
IR: Final = "application/vnd.fornaxc.ir.v1+json"

TARGET: Final = "vnd.fornaxc.target"
SOURCE: Final = "vnd.fornaxc.source"
VERIFIED: Final = "vnd.fornaxc.verified"

OCI_LAYOUT: Final = b'{"imageLayoutVersion": "1.0.0"}\n'
