"""Opens an artifact, as a `.fxa` file or as a manifest in a cache, and says where each of its parts lies."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fornaxc.cache import Descriptor, media
from fornaxc.errors import ArtifactError
from fornaxc.manifest import FORMAT, malformed_part, toolchain_versions


@dataclass(frozen=True, slots=True)
class Artifact:
    """`config` is the document of `fornaxc.manifest`; `locate` gives the file, offset and size of a blob in bytes."""

    path: Path
    manifest: dict[str, Any]
    config: dict[str, Any]
    locate: Callable[[str], tuple[Path, int, int]]

    def layer(self, media_type: str) -> Descriptor:
        """The layer of a media type. Raises ArtifactError where there is none."""
        for document in self.manifest["layers"]:
            if document["mediaType"] == media_type:
                return Descriptor.from_json(document)
        raise ArtifactError(f"{self.path} holds no {media_type}", code="FX453")

    def read(self, media_type: str) -> bytes:
        """The bytes of a layer."""
        path, offset, size = self.locate(self.layer(media_type).digest)
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)


def is_artifact(path: Path) -> bool:
    """Whether a file looks like an artifact rather than a model: a zip, or an OCI manifest."""
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError:
        return path.suffix == ".fxa"
    if path.suffix == ".fxa" or head.startswith(b"PK\x03\x04"):
        return True
    return head.lstrip().startswith(b"{") and (b"vnd.oci.image" in head or b"annotations" in head)


def open_artifact(path: Path) -> Artifact:
    """Open and prove an artifact. Raises ArtifactError where it is damaged or of a newer format."""
    return _from_cache(path) if _is_manifest(path) else _from_archive(path)


def _is_manifest(path: Path) -> bool:
    try:
        return path.is_file() and path.open("rb").read(1) == b"{"
    except OSError:
        return False  # and the archive's reader says why


def _from_archive(path: Path) -> Artifact:
    from fornaxc.cache import Cache
    from fornaxc.cache.archive import read_archive

    archive = read_archive(path)
    archive.verify(Cache.open().digests)
    manifest = archive.manifest()
    config = json.loads(archive.read(manifest["config"]["digest"]))
    return _checked(Artifact(path, manifest, config, archive.locate))


def _from_cache(path: Path) -> Artifact:
    """The manifest blob of an OCI layout whose other blobs are its siblings."""
    from fornaxc.cache import Cache

    raw = path.read_bytes()
    cache = Cache.at(path.resolve().parents[2])
    descriptor = Descriptor(media.MANIFEST, f"sha256:{path.name}", len(raw))
    stored = cache.artifact(descriptor)

    def locate(digest: str) -> tuple[Path, int, int]:
        if digest not in stored.paths:
            raise ArtifactError(f"{path} holds no blob {digest}", code="FX452")
        blob = stored.paths[digest]
        return blob, 0, blob.stat().st_size

    config = json.loads(stored.paths[stored.manifest["config"]["digest"]].read_bytes())
    return _checked(Artifact(path, stored.manifest, config, locate))


def _checked(artifact: Artifact) -> Artifact:
    found = artifact.config.get("format") if isinstance(artifact.config, dict) else None
    if found != FORMAT:
        raise ArtifactError(
            f"{artifact.path} has artifact format {found}; this fornaxc reads format {FORMAT}",
            code="FX454",
            hint="compile the model again with this fornaxc, or use the fornaxc that made the artifact",
        )
    wrong = malformed_part(artifact.config)
    if wrong:
        raise ArtifactError(
            f"{artifact.path} is damaged: the {wrong!r} of its manifest is missing or malformed",
            code="FX451",
            hint="compile the model again",
        )
    return artifact


def check_runnable(artifact: Artifact) -> None:
    """Raise ArtifactError unless this machine's MAX and devices are those that the artifact was made for."""
    made, here = artifact.config["toolchain"]["max"], toolchain_versions()["max"]
    if made != here:
        raise ArtifactError(
            f"{artifact.path} was compiled with MAX {made}; this environment has MAX {here}",
            code="FX455",
            hint=f"install max=={made}, or compile the model again",
            details=[{"compiled_with": made, "installed": here}],
        )
    from fornaxc.targets import parse_target

    reason = parse_target(artifact.config["target"]["label"]).cannot_run(artifact.config["target"])
    if reason:
        raise ArtifactError(
            f"{artifact.path} is for the target {artifact.config['target']['label']}, which cannot run here: {reason}",
            code="FX456",
            hint="run it on a machine of that target, or compile the model for --target cpu",
        )
