"""Errors that a user sees: each has a code, an exit status, a message, details and a next step.

Exit statuses: 1 mismatch, 2 usage, 3 unsupported, 4 bad model or artifact, 5 toolchain, 6 cache.
Codes are FXnmm, where n is the exit status; `docs/errors.md` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Detail = Mapping[str, Any]


class FornaxError(Exception):
    """Base of every error that fornaxc reports. `details` holds one JSON-ready mapping per finding."""

    exit = 5
    code = "FX500"

    def __init__(
        self, message: str, *, code: str | None = None, details: Sequence[Detail] = (), hint: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = [dict(d) for d in details]
        self.hint = hint
        if code is not None:
            self.code = code

    def to_json(self) -> dict[str, Any]:
        """The document that `--json` prints for an error."""
        return {
            "status": "error",
            "code": self.code,
            "exit": self.exit,
            "message": self.message,
            "details": self.details,
            "hint": self.hint,
        }


class UsageError(FornaxError):
    """The request is not valid: an unknown target, a wrong input name, dtype or shape."""

    exit = 2
    code = "FX200"


class UnsupportedError(FornaxError):
    """The model is valid but uses what fornaxc, MAX or the target cannot do."""

    exit = 3
    code = "FX300"


class ModelError(FornaxError):
    """The model file is damaged, incomplete or invalid."""

    exit = 4
    code = "FX400"


class ArtifactError(FornaxError):
    """The artifact is damaged, or made for another MAX version or target."""

    exit = 4
    code = "FX450"


class ToolchainError(FornaxError):
    """MAX failed, crashed or ran out of time."""

    exit = 5
    code = "FX500"


class CacheError(FornaxError):
    """The cache cannot be written or read."""

    exit = 6
    code = "FX600"


def first_line(error: Exception) -> str:
    """What an error says in short."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = next((i for i, line in enumerate(lines) if not line.endswith(":")), len(lines) - 1)  # what ends so goes on
    return " ".join(lines[: first + 1])[:300] if lines else type(error).__name__
