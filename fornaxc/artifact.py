"""Opens an artifact, as a `.fxa` file or as a manifest in a cache, and says where each of its parts lies."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fornaxc.cache import Cache, Descriptor, media
from fornaxc.errors import ArtifactError, UsageError
from fornaxc.manifest import FORMAT, malformed_part, toolchain_versions

if TYPE_CHECKING:
    from fornaxc.ir.graph import Array
    from fornaxc.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Artifact:
    """`config` is the document of `fornaxc.manifest`; `locate` gives the file, offset and size of a blob in bytes.

    `digest` is that of the manifest, which names the artifact wherever it lies; `verified` what the file itself says was
    proven of it; `cache` the cache that it lies in, None for a `.fxa` file.
    """

    path: Path
    digest: str
    manifest: dict[str, Any]
    config: dict[str, Any]
    locate: Callable[[str], tuple[Path, int, int]]
    verified: list[dict[str, Any]] = field(default_factory=list)
    cache: Cache | None = None

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

    def weights(self) -> tuple[list[TensorType], list[Array]]:
        """The types of the weights, and the weights themselves, memory-mapped."""
        from fornaxc.ir.types import DType, TensorType
        from fornaxc.weights import read_weights

        types = [TensorType(DType(dtype), tuple(shape)) for dtype, shape in self.config["weights"]]
        if not types:
            return [], []
        file, offset, _ = self.locate(self.layer(media.WEIGHTS).digest)
        return types, read_weights(file, offset, types)


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


def open_artifact(path: Path, cache: Cache | None = None) -> Artifact:
    """Open and prove an artifact; that a file was proven is remembered in `cache`, by default the user's.

    Raises ArtifactError where it is damaged or of another format, UsageError where it is a model.
    """
    if _is_manifest(path):
        return _from_cache(path)
    if _is_model(path):
        made = path.with_suffix(".fxa").name
        raise UsageError(
            f"{path} is a model, not an artifact",
            code="FX229",
            hint=f"make an artifact of it with `fornaxc compile {path} -o {made}`, then use {made}",
        )
    return _from_archive(path, cache or Cache.open())


def _is_model(path: Path) -> bool:
    """Whether a file that is no artifact looks like a model; its content is not proven."""
    if is_artifact(path):
        return False
    from fornaxc.sources import format_of

    return path.suffix == ".onnx" or format_of(path) == "stablehlo"


def _is_manifest(path: Path) -> bool:
    try:
        return path.is_file() and path.open("rb").read(1) == b"{"
    except OSError:
        return False  # and the archive's reader says why


def _from_archive(path: Path, cache: Cache) -> Artifact:
    from fornaxc.cache.archive import read_archive

    archive = read_archive(path)
    archive.verify(cache.digests)
    manifest = archive.manifest()
    config = json.loads(archive.read(manifest["config"]["digest"]))
    return _checked(Artifact(path, archive.descriptor.digest, manifest, config, archive.locate, archive.verified))


def _from_cache(path: Path) -> Artifact:
    """The manifest blob of an OCI layout whose other blobs are its siblings."""
    raw = path.read_bytes()
    cache = Cache.at(path.resolve().parents[2])
    descriptor = Descriptor(media.MANIFEST, f"sha256:{path.name}", len(raw))
    stored = cache.artifact(descriptor)

    def locate(digest: str) -> tuple[Path, int, int]:
        if digest not in stored.paths:
            raise ArtifactError(f"{path} holds no blob {digest}", code="FX452")
        blob = stored.paths[digest]
        return blob, 0, blob.stat().st_size

    return _checked(Artifact(path, descriptor.digest, stored.manifest, stored.config, locate, cache=cache))


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


def check_source(artifact: Artifact, model: Path, digest: str) -> None:
    """Raise UsageError unless a model file, of this digest, is what the artifact was compiled from."""
    if digest != artifact.config["source"]["digest"]:
        raise UsageError(
            f"{model} is not the model that {artifact.path} was compiled from",
            code="FX225",
            details=[{"artifact": artifact.config["source"]["digest"], "model": digest}],
        )


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
