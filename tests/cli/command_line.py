"""What running the command line in a test gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fornaxc.ir.graph import Array


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
Change = Callable[[dict[str, Array]], dict[str, Array]]
"""Of the outputs of a run by name: what a device gives in their place."""
