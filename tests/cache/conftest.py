"""A cache in a fresh folder, and small artifacts to put into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fornaxc.cache import Cache, StoredArtifact, media

Publish = Callable[..., StoredArtifact]


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache.at(tmp_path / "cache" / "v1")


@pytest.fixture
def publish() -> Publish:
    """publish(cache, key, weights=..., mef=...) stores a whole artifact."""

    def build(cache: Cache, key: str, *, weights: bytes = b"w" * 5000, mef: bytes = b"mef" * 700) -> StoredArtifact:
        config = cache.store.put_bytes(b'{"format": 1}', media.CONFIG)
        layers = [cache.store.put_bytes(mef, media.MEF), cache.store.put_bytes(weights, media.WEIGHTS)]
        manifest: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": media.MANIFEST,
            "artifactType": media.ARTIFACT,
            "config": config.to_json(),
            "layers": [layer.to_json() for layer in layers],
            "annotations": {media.TARGET: "cpu", media.SOURCE: "m.onnx"},
        }
        return cache.publish(key, manifest)

    return build


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """The warnings that the cache gave so far."""
    yield lambda: [
        record.getMessage()
        for record in caplog.records
        if record.name == "fornaxc.cache" and record.levelname == "WARNING"
    ]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """mount(options) gives an empty in-memory disk of 256 KiB; skips where mounting is not allowed."""
    import subprocess

    mounted: list[Path] = []

    def mount(options: str = "size=256k") -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        try:
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, check=False
            )
        except OSError:
            pytest.skip("no mount command")
        if done.returncode:
            pytest.skip("mounting is not allowed here")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=False)


def flip(path: Path, at: int) -> None:
    """Change one byte in place, leaving the size as it is."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x40]))


@pytest.fixture(name="flip")
def _flip() -> Callable[[Path, int], None]:
    return flip
