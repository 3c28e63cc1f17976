"""The models that are measured: what each is, how its file is made or fetched, and the inputs that it runs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class Unavailable(Exception):
    """A model that cannot be made or fetched here; the text says why."""


@dataclass(frozen=True, slots=True)
class Given:
    """What an input holds: numbers of a standard normal distribution, whole numbers below `below`, or one `value` everywhere. A `fixed` one is a constant of the file."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    below: int = 0
    value: float | None = None
    fixed: bool = False

    def array(self, rng: np.random.Generator) -> Array:
        """The input; the same for the same generator."""
        if self.value is not None:
            return np.full(self.shape, self.value, self.dtype)
        if self.below:
            return rng.integers(0, self.below, self.shape).astype(self.dtype)
        return rng.standard_normal(self.shape).astype(self.dtype)


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the benchmark. `make` writes its file into the folder that it gets, or raises `Unavailable`.

    `origin` says for readers where it comes from. `given` is by input name; its sizes become those of the file, where it is `pinned`. Where it is not, `dims` has the
    sizes of symbols, NAME=SIZE, that fornaxc is told.
    """

    name: str
    origin: str
    given: Mapping[str, Given]
    make: Callable[[Path], Path] = field(repr=False)
    pinned: bool = True
    dims: Sequence[str] = ()

    def inputs(self) -> dict[str, Array]:
        """The arrays that it runs on, seeded by the model's own name alone."""
        rng = np.random.default_rng(list(self.name.encode()))
        return {name: given.array(rng) for name, given in self.given.items() if not given.fixed}

    def file(self, folder: Path) -> Path:
        """The file of the model, made where it is not there yet. Raises `Unavailable`."""
        path = folder / f"{self.name}.onnx"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            made = self.make(folder)
            partial = path.with_suffix(".partial")
            _prepare(made, partial, self.given, self.pinned)
            if made.parent == folder:
                made.unlink()
            partial.rename(path)
        return path


def _prepare(source: Path, target: Path, given: Mapping[str, Given], pinned: bool) -> None:
    """The model without the inputs that are fixed and, where it is pinned, with these input shapes, so that every engine is told the same; a size that follows is left open."""
    import onnx

    model = onnx.load(source)
    for value in [v for v in model.graph.input if v.name in given and given[v.name].fixed]:
        array = given[value.name].array(np.random.default_rng(0))
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        model.graph.input.remove(value)
    if not pinned:
        onnx.save(model, target)
        return
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name in constants:
            continue
        if value.name not in given:
            raise Unavailable(f"{source.name} has an input {value.name!r}, for which the table gives nothing")
        shape = value.type.tensor_type.shape
        del shape.dim[:]
        for size in given[value.name].shape:
            shape.dim.add().dim_value = size
    del model.graph.value_info[:]
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                dim.Clear()
    onnx.save(model, target)


def select(models: Sequence[Model], patterns: Sequence[str]) -> list[Model]:
    """The models whose names match one of the patterns (`*`, `?`, `[…]`), all where there is none, in their order."""
    return [m for m in models if not patterns or any(fnmatchcase(m.name, p) for p in patterns)]


def unmatched(models: Sequence[Model], patterns: Sequence[str]) -> list[str]:
    """The patterns that no model's name matches."""
    return [p for p in patterns if not any(fnmatchcase(m.name, p) for m in models)]
