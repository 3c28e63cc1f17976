"""Copies between places with any distance from one element to the next, as the loops that kernels/chain.mojo runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fornaxc.ir.chains import COPIED_AXES
from fornaxc.ir.dims import Dim

LOOPS = COPIED_AXES + 1  # around the innermost, which is over neighbours


@dataclass(frozen=True, slots=True)
class Copy:
    """`sizes` of the loops from the outermost on, how far `y` and `x` go in each, and how many neighbours the innermost copies."""

    sizes: tuple[Dim, ...]
    y: tuple[Dim, ...]
    x: tuple[Dim, ...]
    width: Dim


def copy_loops(shape: Sequence[Dim], y: Sequence[Dim], x: Sequence[Dim]) -> Copy:
    """The loops that copy an array of `shape`, whose elements are `y` and `x` apart on each axis. Axes that are one in both places become one."""
    merged: list[tuple[Dim, Dim, Dim]] = []
    for size, to, of in zip(shape, y, x, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1:] == (size * to, size * of):
            merged[-1] = (merged[-1][0] * size, to, of)
        else:
            merged.append((size, to, of))
    width = merged.pop()[0] if merged and merged[-1][1:] == (1, 1) else 1
    sizes, ys, xs = zip(*[(1, 0, 0)] * (LOOPS - len(merged)), *merged, strict=True)
    return Copy(sizes, ys, xs, width)
