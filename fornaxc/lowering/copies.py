"""Copies between places with any distance from one element to the next, as the loops that kernels/chain.mojo runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fornaxc.ir.chains import COPIED_AXES

LOOPS = COPIED_AXES + 1  # around the innermost, which is over neighbours


@dataclass(frozen=True, slots=True)
class Copy:
    """`sizes` of the loops from the outermost on, how far `y` and `x` go in each, and how many neighbours the innermost copies."""

    sizes: tuple[int, ...]
    y: tuple[int, ...]
    x: tuple[int, ...]
    width: int


def copy_loops(shape: Sequence[int], y: Sequence[int], x: Sequence[int], apart: bool) -> Copy:
    """The loops that copy an array of `shape`, whose elements are `y` and `x` apart on each axis.

    Axes that are one in both places become one. The first axis stays one by itself, the outermost, where it is to be kept `apart`.
    """
    axes = list(zip(shape, y, x, strict=True))
    first = axes[:1] if apart else []
    merged: list[tuple[int, int, int]] = []
    for size, to, of in axes[len(first) :]:
        if size == 1:
            continue
        if merged and merged[-1][1:] == (size * to, size * of):
            merged[-1] = (merged[-1][0] * size, to, of)
        else:
            merged.append((size, to, of))
    width = merged.pop()[0] if merged and merged[-1][1:] == (1, 1) else 1
    none = [(1, 0, 0)] * (LOOPS - len(first) - len(merged))
    sizes, ys, xs = zip(*first, *none, *merged, strict=True)
    return Copy(sizes, ys, xs, width)
