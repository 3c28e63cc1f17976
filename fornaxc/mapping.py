"""Memory-mapped arrays, and the way to give their memory back before they go."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np

SPAN = 1 << 28

Array = np.ndarray[Any, np.dtype[Any]]


def map_bytes(path: Path, offset: int, length: int) -> Array:
    """`length` bytes of a file from `offset`, read-only: u8[length]. `OSError`, or `ValueError` where the file is shorter.

    The file must not be cut short while the array lives: the operating system ends a process that reads beyond the end.
    """
    start = offset - offset % mmap.ALLOCATIONGRANULARITY
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), offset - start + length, access=mmap.ACCESS_READ, offset=start)
    return np.frombuffer(data, np.uint8, length, offset - start)


def contiguous(array: Array) -> Array:
    """`array` itself where it is C-contiguous, else a copy; of a mapped file no more than `SPAN` bytes are resident meanwhile."""
    if array.flags.c_contiguous:
        return array
    result = np.empty(array.shape, array.dtype)
    reach = [abs(stride) * (dim > 1) for stride, dim in zip(array.strides, array.shape, strict=True)]
    slowest = int(np.argmax(reach))
    step = max(1, SPAN // max(*reach, 1))  # of one element, seen as many, nothing is reached
    for first in range(0, array.shape[slowest], step):
        block = (slice(None),) * slowest + (slice(first, first + step),)
        result[block] = array[block]
        release_pages(array)
    return result


def release_pages(array: Array) -> None:
    """Let go of the resident pages of what `array` is a view of, where that is mapped: they are read again when needed."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
