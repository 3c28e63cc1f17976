"""The terminal's view of progress. Importing it costs what rich costs."""

from __future__ import annotations

from time import perf_counter

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from fornaxc.phases import PHASES

_DESCRIPTIONS = {phase.name: phase.description for phase in PHASES}


class Spinner:
    """A live line per running phase, replaced by its duration when it ends or fails."""

    def __init__(self) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._running: dict[str, tuple[TaskID, float]] = {}
        self._bar.start()

    def __call__(self, phase: str, event: str) -> None:
        if event == "start":
            task = self._bar.add_task(f"[bold]{phase}[/bold] {_DESCRIPTIONS.get(phase, '')}", total=None)
            self._running[phase] = (task, perf_counter())
        elif event in ("end", "failed"):
            if phase in self._running:
                task, begun = self._running.pop(phase)
                self._bar.remove_task(task)
                mark = "[green]✓[/green]" if event == "end" else "[red]✗[/red]"
                self._bar.console.print(f"{mark} {phase} {perf_counter() - begun:.1f} s")
        else:
            self._bar.console.print(f"  {phase}: {event}", markup=False)

    def close(self) -> None:
        self._bar.stop()
