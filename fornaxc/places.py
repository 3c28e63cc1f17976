"""Where output files go: over nothing that is read, and no two over each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from fornaxc.cache.files import place_for_a_file
from fornaxc.errors import FornaxError, UsageError

_ARRAYS = (".npz", ".safetensors", ".pb")


def check_places(
    written: Iterable[Path | None], models: Sequence[Path | None] = (), given: Sequence[Path | None] = ()
) -> None:
    """Judge the files that are to be written, before minutes of work and not after them.

    `models` are read with their external data, `given` are files or folders of samples; None stands for an option that was left out.
    Raises UsageError where one can be no file (FX228), or would take the place of one that is read or written too (FX252).
    """
    told = [path for path in written if path is not None]
    places = [place_for_a_file(path) for path in told]
    for number, (path, place) in enumerate(zip(told, places, strict=True)):
        taken: Iterable[Path] = told[:number]
        if place.exists():  # else nothing is read there
            taken = chain(taken, _read([m for m in models if m is not None], [g for g in given if g is not None]))
        other = next((file for file in taken if _is_same(place, file)), None)
        if other is not None:
            raise UsageError(
                f"writing {path} would overwrite {other}", code="FX252", hint="give another name for what is written"
            )


def _read(models: Iterable[Path], given: Iterable[Path]) -> Iterator[Path]:
    """The files that are read, those first that need no look into a model. What cannot be read is not judged here."""
    yield from models
    for path in given:
        if not path.is_dir():
            yield path
        else:
            yield from (file for file in path.rglob("*") if file.suffix.lower() in _ARRAYS)
    for path in models:
        yield from _external_data(path)


def _external_data(model: Path) -> list[Path]:
    """The files of an ONNX model's external data; [] for any other file, and for a model that cannot be opened."""
    from fornaxc.importers.onnx.reader import open_model

    try:
        return open_model(model).files()[1:]
    except FornaxError:
        return []


def _is_same(place: Path, file: Path) -> bool:
    try:
        return place == file.resolve() or (place.exists() and file.exists() and place.samefile(file))
    except OSError:
        return False
