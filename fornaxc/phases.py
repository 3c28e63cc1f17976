"""The phases of a compilation: one table that `--stop-after`, `--dump`, timings and messages come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter


@dataclass(frozen=True, slots=True)
class Phase:
    """One step of the way from a file to a proven artifact. `dumps` names the file that `--dump` writes after it."""

    name: str
    description: str
    dumps: str = ""


PHASES = (
    Phase("import", "read the model into the typed graph", "import.ir"),
    Phase("optimize", "rewrite the graph for the target", "optimize.ir"),
    Phase("lower", "turn the graph into a MAX graph", "lower.mlir"),
    Phase("compile", "compile ahead of time with MAX, in a child process"),
    Phase("package", "pack the weights and write the artifact", "manifest.json"),
    Phase("verify", "compare with the oracle"),
)

Progress = Callable[[str, str], None]  # (phase name, "start" | "end" | "failed" | a line of detail)


def silent(phase: str, event: str) -> None:
    """A `Progress` that says nothing."""


@dataclass
class Clock:
    """Times phases and tells a `Progress` about them."""

    progress: Progress = silent
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.progress(name, "start")
        start = perf_counter()
        try:
            yield
        except BaseException:
            self.progress(name, "failed")
            raise
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start
        self.progress(name, "end")
