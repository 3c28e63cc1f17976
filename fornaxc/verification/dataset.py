"""Many samples, of which one is in memory at a time: a folder of them, or an .npz file whose arrays have one more axis or many rows."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from fornaxc.errors import UsageError
from fornaxc.ir.graph import Array, Graph
from fornaxc.npz import with_dtypes
from fornaxc.signature import Signature, check_inputs
from fornaxc.verification.given import load_inputs, tensor_sets

Named = tuple[str, dict[str, Array]]
"""A sample's label and inputs."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """`count` samples; each call of `read` goes through them from the first on."""

    label: str
    count: int
    read: Callable[[], Iterator[Named]]


def open_dataset(graph: Graph, path: Path) -> Dataset:
    """The samples of a folder (as `given.tensor_sets`) or an .npz file. All are judged. UsageError where they are not the graph's inputs."""
    if path.is_file() and path.suffix.lower() == ".npz":
        return _stacked(graph, path)
    sets = tensor_sets(path)
    for files in sets:
        load_inputs(graph, files)
    return Dataset(path.name, len(sets), lambda: ((files.label, load_inputs(graph, files)[0]) for files in sets))


@dataclass(frozen=True, slots=True)
class _Column:
    """An array in the file: `rows` of its first axis make a sample, whose axis they are (`kept`) unless the array has one more."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    rows: int
    kept: bool

    @property
    def of_sample(self) -> tuple[int, ...]:
        return (self.rows, *self.shape[1:]) if self.kept else self.shape[1:]


def _stacked(graph: Graph, path: Path) -> Dataset:
    signature = {v.name: v.type for v in graph.inputs}
    columns = _columns(path, signature)
    placeholders = {
        n: np.broadcast_to(np.zeros((), c.dtype.newbyteorder("=")), c.of_sample) for n, c in columns.items()
    }
    check_inputs(
        signature, graph.constraints, with_dtypes(placeholders, {n: t.dtype.numpy for n, t in signature.items()})
    )
    counts = {name: column.shape[0] // column.rows for name, column in columns.items()}
    count = next(iter(counts.values()), 0)
    uneven = [name for name, column in columns.items() if column.shape[0] % column.rows or counts[name] != count]
    if uneven or not count:
        what = (
            f"the arrays of {path} do not hold as many samples each: {counts}" if uneven else f"{path} holds no samples"
        )
        raise UsageError(what, code="FX237", hint="the first axis of every array counts the samples")
    return Dataset(path.name, count, lambda: _read(path, signature, columns, count))


def _columns(path: Path, signature: Signature) -> dict[str, _Column]:
    """What the headers of an .npz file say of its arrays."""
    columns = {}
    with ExitStack() as stack:
        for name, file in _members(path, stack).items():
            shape, fortran, dtype = _header(path, name, file)
            wanted = signature.get(name)
            if wanted is not None and (len(shape) not in (wanted.rank, wanted.rank + 1) or not shape):
                raise UsageError(
                    f"{path}: {name!r} has shape {list(shape)}; samples of {wanted} have one more axis, or many rows of the first",
                    code="FX222",
                )
            kept = wanted is not None and len(shape) == wanted.rank
            first = wanted.shape[0] if wanted is not None and kept else 1
            rows = max(1, first) if isinstance(first, int) else 1
            if dtype.hasobject or (fortran and len(shape) > 1):
                raise UsageError(
                    f"{path}: {name!r} holds objects, or its first axis is not the outermost", code="FX224",
                    hint="write it with numpy.ascontiguousarray",
                )  # fmt: skip
            columns[name] = _Column(shape, dtype, rows, kept)
    return columns


def _members(path: Path, stack: ExitStack) -> dict[str, IO[bytes]]:
    """The arrays' files in an .npz file, open at their beginning."""
    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
        names = [n for n in archive.namelist() if n.endswith(".npy")]
        return {n.removesuffix(".npy"): stack.enter_context(archive.open(n)) for n in names}
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise UsageError(f"the dataset {path} is not a readable .npz file: {error}", code="FX224") from None


def _header(path: Path, name: str, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        return read(file)
    except (ValueError, zipfile.BadZipFile, OSError) as error:
        raise UsageError(f"{path}: {name!r} is not a readable array: {error}", code="FX224") from None


def _read(path: Path, signature: Signature, columns: Mapping[str, _Column], count: int) -> Iterator[Named]:
    types = {n: t.dtype.numpy for n, t in signature.items()}
    with ExitStack() as stack:
        files = _members(path, stack)
        for name, file in files.items():
            _header(path, name, file)
        for index in range(count):
            arrays = {name: _next(path, name, files[name], columns[name]) for name in signature}
            yield f"{path.name}[{index}]", with_dtypes(arrays, types)


def _next(path: Path, name: str, file: IO[bytes], column: _Column) -> Array:
    size = int(np.prod(column.of_sample, dtype=np.int64)) * column.dtype.itemsize
    try:
        data = file.read(size)
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise UsageError(f"{path}: {name!r} cannot be read: {error}", code="FX224") from None
    if len(data) < size:
        raise UsageError(f"{path}: {name!r} ends before its last sample", code="FX224")
    array = np.ndarray(column.of_sample, column.dtype, data)
    return array.astype(column.dtype.newbyteorder("="), copy=False)
