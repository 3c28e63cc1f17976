"""What running the command line in a test gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What a command line gave."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout; fails where there is anything else."""
        loaded: dict[str, Any] = json.loads(self.out)
        return loaded


Cli = Callable[..., Outcome]
