"""Model files of every format: which one a file holds, its graph, and what identifies it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fornaxc.errors import UsageError

if TYPE_CHECKING:
    from fornaxc.ir.graph import Array, Graph


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a StableHLO module is taken: the function `entry` (by default the only public one, or `main`), and as weights in
    place of arguments the arrays of the .npz file `freeze`, by name."""

    entry: str | None = None
    freeze: Path | None = None

    def key_parts(self, digest: Callable[[Path], str]) -> dict[str, Any]:
        """What of it decides the artifact. UsageError where the .npz file cannot be read."""
        if self.freeze is None:
            return {"entry": self.entry, "freeze": None}
        try:
            return {"entry": self.entry, "freeze": digest(self.freeze)}
        except OSError as error:
            raise UsageError(
                f"the frozen inputs {self.freeze} cannot be read: {error.strerror}", code="FX223"
            ) from error

    def frozen(self) -> dict[str, Array]:
        """The arrays of the .npz file. UsageError where it is none."""
        from fornaxc.npz import load_npz

        return load_npz(self.freeze, "frozen inputs") if self.freeze is not None else {}


WHOLE = Choice()


def format_of(path: Path) -> str:
    """`stablehlo` or `onnx`, from a file's content; onnx where it is neither, whose reader says what is wrong."""
    from fornaxc.importers.stablehlo.sniff import stablehlo_form

    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return "onnx" if stablehlo_form(content) is None else "stablehlo"
    except (OSError, ValueError):  # ValueError: the file is empty
        return "onnx"


def import_source(
    path: Path, dims: Mapping[str, int], digest: Callable[[Path], str], choice: Choice = WHOLE
) -> tuple[Graph, dict[str, Any]]:
    """The graph of a model file, and the facts of its source: format, digest, digests of external data by name."""
    if format_of(path) == "stablehlo":
        from fornaxc.importers.stablehlo.importer import import_stablehlo

        graph = import_stablehlo(path, dims, choice.entry, choice.frozen())
        return graph, {"format": "stablehlo", "digest": digest(path), "external": {}}
    if choice != WHOLE:
        raise UsageError(
            f"{path} is an ONNX model: --entry and --freeze are for StableHLO modules",
            code="FX233",
            hint="an ONNX model is one graph, whose weights are initializers",
        )
    from fornaxc.importers.onnx.importer import import_model
    from fornaxc.importers.onnx.reader import open_model

    model = open_model(path)
    graph = import_model(model, dims)
    external = {name: digest(path.parent / name) for name in sorted(model.external_files())}
    return graph, {"format": "onnx", "digest": digest(path), "external": external}
