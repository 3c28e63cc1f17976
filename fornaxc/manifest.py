"""The content of an artifact: its config document, and the OCI manifest around it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fornaxc.cache import Descriptor
    from fornaxc.ir.graph import Graph

FORMAT = 2


def toolchain_versions(*more: str) -> dict[str, str]:
    """The installed versions of the packages that shape an artifact."""
    from fornaxc import __version__

    return {"fornaxc": __version__, **{package: installed_version(package) for package in ("max", *more)}}


def installed_version(package: str) -> str:
    """The version of an installed package, "not installed" where there is none.

    Folder names tell it, which is much faster than the packages' metadata; that is asked where no name does.
    """
    wanted = package.replace("-", "_").lower()
    for folder in _listings():
        for name in folder:
            stem, dash, version = name.removesuffix(".dist-info").rpartition("-")
            if dash and stem.replace("-", "_").lower() == wanted:
                return version
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as metadata_version

    try:
        return metadata_version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def _listings() -> tuple[tuple[str, ...], ...]:
    """The .dist-info folders of each place on the import path."""
    found = []
    for place in sys.path:
        try:
            found.append(tuple(n for n in os.listdir(place or ".") if n.endswith(".dist-info")))
        except OSError:
            continue
    return tuple(found)


def sources_digest(*rooms: str) -> str:
    """sha256 over fornaxc's own sources (.py and .mojo) in these folders of the package; all of it where none is named."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for folder in [root / room for room in rooms] or [root]:
        files = [folder] if folder.is_file() else _sources(folder)
        for file in files:
            digest.update(f"{file.relative_to(root).as_posix()}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _sources(folder: Path) -> list[Path]:
    """The source files below a folder, links followed, in a fixed order."""
    found = []
    for base, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        found += [Path(base, name) for name in sorted(names) if name.endswith((".py", ".mojo"))]
    return found


def artifact_config(
    graph: Graph,
    *,
    key: str,
    key_parts: Mapping[str, Any],
    request: Mapping[str, Any],
    source: Mapping[str, Any],
    ir_digest: str,
    target: Mapping[str, Any],
    options: Mapping[str, Any],
    host_nodes: Sequence[Mapping[str, Any]],
    weight_types: Sequence[Any],
) -> dict[str, Any]:
    """The config document of an artifact. `request` holds the parts of the key of what it answers."""
    from fornaxc.ir.chains import own_outputs
    from fornaxc.ir.serialize import encode_dim, type_to_json

    def tensor(name: str, type: Any) -> dict[str, Any]:
        return {"name": name, "dtype": type.dtype.value, "shape": [encode_dim(d) for d in type.shape]}

    return {
        "format": FORMAT,
        "key": key,
        "key_parts": dict(key_parts),
        "request": dict(request),
        "source": dict(source),
        "ir_digest": ir_digest,
        "target": dict(target),
        "toolchain": toolchain_versions(),
        "options": dict(options),
        "inputs": [tensor(v.name, v.type) for v in graph.inputs],
        "outputs": [tensor(n, v.type) for n, v in zip(graph.output_names, graph.outputs, strict=True)],
        "own_outputs": own_outputs(graph),
        "constraints": [[encode_dim(c.left), c.relation, encode_dim(c.right), c.why] for c in graph.constraints],
        "weights": [type_to_json(t) for t in weight_types],
        "host_nodes": [dict(n) for n in host_nodes],
    }


def malformed_part(config: Mapping[str, Any]) -> str:
    """The name of a part of a config document that is not what `artifact_config` makes; "" where there is none."""
    from fornaxc.ir.serialize import decode_dim
    from fornaxc.ir.types import DType

    dtypes = [d.value for d in DType]

    def dim(value: Any) -> bool:
        try:
            return type(value) is int or (isinstance(value, str) and decode_dim(value) is not None)
        except (ValueError, ZeroDivisionError, RecursionError):
            return False

    def typed(dtype: Any, shape: Any) -> bool:
        return dtype in dtypes and isinstance(shape, list) and all(map(dim, shape))

    def tensor(value: Any) -> bool:
        return (
            isinstance(value, dict)
            and isinstance(value.get("name"), str)
            and typed(value.get("dtype"), value.get("shape"))
        )

    def rows(value: Any, *kinds: type | tuple[type, ...]) -> bool:
        return isinstance(value, list) and all(
            isinstance(row, list) and len(row) == len(kinds) and all(map(isinstance, row, kinds)) for row in value
        )

    def texts(value: Any, *names: str) -> bool:
        return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in names)

    def mappings(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)

    size = (int, str)
    well_formed = {
        "key": lambda v: isinstance(v, str),
        "key_parts": lambda v: isinstance(v, dict),
        "request": lambda v: isinstance(v, dict),
        "source": lambda v: isinstance(v, dict),
        "ir_digest": lambda v: isinstance(v, str),
        "target": lambda v: texts(v, "label", "device"),
        "toolchain": lambda v: texts(v, "max"),
        "options": lambda v: isinstance(v, dict),
        "inputs": lambda v: isinstance(v, list) and all(map(tensor, v)),
        "outputs": lambda v: isinstance(v, list) and all(map(tensor, v)),
        "own_outputs": lambda v: (
            v is None or (isinstance(v, list) and list(map(type, v)) == [bool] * len(config["outputs"]))
        ),
        "constraints": lambda v: rows(v, size, str, size, str) and all(dim(r[0]) and dim(r[2]) for r in v),
        "weights": lambda v: rows(v, str, list) and all(typed(*row) for row in v),
        "host_nodes": mappings,
    }
    return next((name for name, right in well_formed.items() if not right(config.get(name))), "")


def oci_manifest(config: Descriptor, layers: Sequence[Descriptor], target: str, source: str) -> dict[str, Any]:
    """The OCI image manifest of an artifact."""
    from fornaxc.cache import media

    return {
        "schemaVersion": 2,
        "mediaType": media.MANIFEST,
        "artifactType": media.ARTIFACT,
        "config": config.to_json(),
        "layers": [layer.to_json() for layer in layers],
        "annotations": {media.TARGET: target, media.SOURCE: source},
    }
