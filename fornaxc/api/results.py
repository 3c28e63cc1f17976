"""What compiling, running and exporting give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run of an artifact gave: its outputs by name, and the seconds that loading and running took."""

    artifact: Path
    target: str
    outputs: dict[str, Any]
    written: Path | None
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "status": "ok",
            "artifact": str(self.artifact),
            "target": self.target,
            "written": None if self.written is None else str(self.written),
            "seconds": round(self.seconds, 4),
            "outputs": [
                {"name": name, "dtype": value.dtype.name, "shape": list(value.shape)}
                for name, value in self.outputs.items()
            ],
        }


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The files that an export wrote: the ONNX model, then its external data where it has some."""

    files: Sequence[Path]
    opset: int

    def to_json(self) -> dict[str, Any]:
        return {"status": "ok", "model": str(self.files[0]), "files": [str(f) for f in self.files], "opset": self.opset}


@dataclass(frozen=True, slots=True)
class CompileResult:
    """The artifact of a model for a target. `artifact` is None where `stop_after` ended before there was one.

    `cache` is hit or miss; `code` is hit where the compiled code was in the cache, as for a retrained model, else miss. `key` is that
    of the code, `request_key` that of the model and what was asked, which `fornaxc cache ls` shows too. `phases` are seconds.
    """

    target: str
    key: str
    cache: str
    artifact: Path | None
    phases: dict[str, float] = field(repr=False)
    manifest: dict[str, Any] = field(repr=False)
    request_key: str = field(default="", repr=False)
    code: str = "miss"

    def to_json(self) -> dict[str, Any]:
        return {
            "status": "ok",
            "target": self.target,
            "key": self.key,
            "request_key": self.request_key,
            "cache": self.cache,
            "code": self.code,
            "artifact": None if self.artifact is None else str(self.artifact),
            "phases": {name: round(seconds, 4) for name, seconds in self.phases.items()},
            "host_nodes": self.manifest.get("host_nodes", []),
        }
