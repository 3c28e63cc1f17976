"""Samples that a user gives in files: which files make a sample, and whether their arrays are what a model takes or gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fornaxc.errors import UsageError
from fornaxc.ir.dims import Dim
from fornaxc.ir.graph import Array, Graph
from fornaxc.npz import with_dtypes
from fornaxc.signature import Signature, check_expected, check_inputs
from fornaxc.verification.tensor_files import load_arrays, load_tensor


def check_one_way(ways: Mapping[str, object]) -> None:
    """Raise UsageError where more than one of the options that say what the inputs are has a value."""
    chosen = [name for name, value in ways.items() if value]
    if len(chosen) > 1:
        raise UsageError(
            f"{' and '.join(chosen)} say in two ways what the inputs are", code="FX239", hint="leave out one of them"
        )


@dataclass(frozen=True, slots=True)
class TensorSet:
    """The files that together hold one sample. `label` is the file's name or the folder's, `one_of_many` whether there are others."""

    label: str
    files: tuple[Path, ...]
    one_of_many: bool = False


def tensor_sets(path: Path, side: str = "input") -> list[TensorSet]:
    """The samples at a path, in the order of their names with numbers as numbers.

    A file (.npz, .safetensors, .pb) is one sample. A folder is one where it holds `input_N.pb` (of `side` output, `output_N.pb`), as ONNX's
    test_data_set folders do, or any other .pb files; else every folder like that in it, or every .npz and .safetensors file, is
    one. UsageError FX237 where there is none.
    """
    if not path.is_dir():
        return [TensorSet(path.name, (path,))]
    inner = [_folder(folder, side) for folder in sorted(path.iterdir(), key=_natural) if folder.is_dir()]
    alone = _folder(path, side)
    arrays = sorted((f for f in path.iterdir() if f.suffix.lower() in (".npz", ".safetensors")), key=_natural)
    found = [[alone] if alone else [], [s for s in inner if s], [TensorSet(f.name, (f,)) for f in arrays]]
    kinds = [sets for sets in found if sets]
    if len(kinds) != 1:
        what = "no samples" if not kinds else "samples of several layouts"
        raise UsageError(
            f"the folder {path} holds {what}",
            code="FX237",
            hint=f"give a folder of .npz or .safetensors files, of {side}_0.pb, {side}_1.pb, ..., or of such folders",
        )
    (sets,) = kinds
    return [replace(s, one_of_many=len(sets) > 1) for s in sets]


def _folder(folder: Path, side: str) -> TensorSet | None:
    """The .pb files of a folder, those that are numbered for `side` before others."""
    files = sorted((f for f in folder.iterdir() if f.suffix.lower() == ".pb"), key=_natural)
    numbered = [f for f in files if re.fullmatch(rf"{side}_\d+", f.stem)]
    plain = [f for f in files if not re.fullmatch(r"(input|output)_\d+", f.stem)]
    chosen = numbered or plain
    return TensorSet(folder.name, tuple(chosen)) if chosen else None


def _natural(path: Path) -> list[tuple[int, str]]:
    """A key that sorts numbers in names as numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def load_set(files: TensorSet, signature: Signature, what: str) -> dict[str, Array]:
    """The arrays of a sample by name, not judged yet. UsageError where a file cannot be read.

    A .pb file's tensor goes to the name that it has. Where the names in the files are not all known, `input_N.pb` is the model's N-th input, the
    one tensor of a model with one input is that input, and others have their file's name.
    """
    if any(f.suffix.lower() != ".pb" for f in files.files):
        (file,) = files.files
        return with_dtypes(load_arrays(file, what), {n: t.dtype.numpy for n, t in signature.items()})
    tensors = [load_tensor(file, what) for file in files.files]
    names = [name for name, _ in tensors]
    if not set(names) <= set(signature) or len(set(names)) < len(names):
        names = _names_by_place(files.files, names, list(signature))
    doubled = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if doubled:
        raise UsageError(f"two files of {files.label} hold {doubled[0]!r}", code="FX220")
    return {name: array for name, (_, array) in zip(names, tensors, strict=True)}


def _names_by_place(files: Sequence[Path], names: Sequence[str], known: Sequence[str]) -> list[str]:
    numbers = [re.fullmatch(r"(?:input|output)_(\d+)", f.stem) for f in files]
    if all(numbers):
        places = [int(found.group(1)) for found in numbers if found]
        return [known[n] if n < len(known) else f.stem for n, f in zip(places, files, strict=True)]
    if len(files) == len(known) == 1 and not names[0]:
        return list(known)
    return [name or file.stem for name, file in zip(names, files, strict=True)]


def load_inputs(graph: Graph, files: TensorSet) -> tuple[dict[str, Array], dict[str, Dim]]:
    """A sample in the order of the graph's inputs, and the sizes of its symbols. UsageError where the arrays are not the graph's inputs."""
    signature = {v.name: v.type for v in graph.inputs}
    with _about(files):
        return check_inputs(signature, graph.constraints, load_set(files, signature, "inputs"))


def load_expected(graph: Graph, files: TensorSet, sizes: Mapping[str, Dim]) -> dict[str, Array]:
    """The outputs that belong to a sample. UsageError where they cannot be the graph's outputs at these sizes."""
    signature = {name: v.type for name, v in zip(graph.output_names, graph.outputs, strict=True)}
    with _about(files):
        golden = load_set(files, signature, "expected outputs")
        check_expected(signature, sizes, golden)
    return golden


@contextmanager
def _about(files: TensorSet) -> Iterator[None]:
    """Errors about one of many samples say which."""
    try:
        yield
    except UsageError as error:
        if not files.one_of_many:
            raise
        raise UsageError(f"{files.label}: {error.message}", code=error.code, hint=error.hint) from error
