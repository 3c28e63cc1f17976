"""Named arrays in .npz files, also of element types that numpy lacks, and with names that are not identifiers."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fornaxc.cache.files import cache_error, place_for_a_file, replacing
from fornaxc.errors import UsageError
from fornaxc.ir.graph import Array


def load_npz(path: Path, what: str) -> dict[str, Array]:
    """The arrays of the .npz file that is called the `what` file. Raises UsageError where it is not one."""
    if path.exists() and not path.is_file():
        raise UsageError(f"the {what} file {path} is not an ordinary file", code="FX224")
    try:
        with path.open("rb") as file:
            # numpy would take another file for a pickle, and say how to load that
            if not file.read(6).startswith((b"PK", b"\x93NUMPY")):
                raise ValueError("it is neither a zip file nor an .npy file")
        data = np.load(path, allow_pickle=False)
        if isinstance(data, np.ndarray):
            raise UsageError(
                f"{path} holds one array without a name, not named ones",
                code="FX224",
                hint="write it with numpy.savez(path, NAME=array)",
            )
        with data:
            arrays = {name: data[name] for name in data.files}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):  # numpy gives the bytes of what is not an .npy file
                raise UsageError(
                    f"the {what} file {path} is not an .npz file: it holds {name!r}, which is no array", code="FX224"
                )
        return {name: _native(array) for name, array in arrays.items()}
    except FileNotFoundError:
        raise UsageError(f"the {what} file {path} does not exist", code="FX223") from None
    except UsageError:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise many kinds for damaged files
        raise UsageError(
            f"the {what} file {path} is not a readable .npz file: {error}",
            code="FX224",
            hint="write it with numpy.savez(path, NAME=array, ...)",
        ) from None


def _native(array: Array) -> Array:
    """The same values in the byte order of this machine."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def with_dtypes(arrays: Mapping[str, Array], dtypes: Mapping[str, np.dtype[Any]]) -> dict[str, Array]:
    """Give arrays of raw bytes the element type that their name has: .npy files keep only the size of bfloat16 and float8."""
    typed = {}
    for name, array in arrays.items():
        wanted = dtypes.get(name, array.dtype)
        raw = array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize == wanted.itemsize
        typed[name] = array.view(wanted) if raw else array
    return typed


def save_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays to `path` in one step. Raises UsageError if it is no place for a file, CacheError if writing fails."""
    final = place_for_a_file(path)
    try:
        with (
            replacing(final, final.parent, prefix=f".{final.name[:100]}-") as fd,
            os.fdopen(os.dup(fd), "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
        ):
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
    except OSError as error:
        raise cache_error(error, path, "choose another place for the file") from error
