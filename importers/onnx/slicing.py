"""The elements that ONNX Slice takes from one axis, also of a size that only the run time knows."""

from __future__ import annotations

from dataclasses import dataclass

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, ceildiv, dim_max, dim_min, is_nonnegative, symbols

_END = 2**31 - 1  # bounds from here on mean the end of an axis of symbolic size
_FAR = 10**9  # bounds from here on are taken to be beyond any axis, which is checked before each run


@dataclass(frozen=True, slots=True)
class Cut:
    """`size` elements: start, start + step, ..."""

    start: Dim
    size: Dim
    step: int


def cut(b: GraphBuilder, n: Dim, start: Dim, end: Dim, step: int) -> Cut | None:
    """The elements of an axis of size `n` from `start` to before `end` (Slice-13: negative bounds count from the end, both clamp).

    May record conditions on the input sizes. None where the sizes alone do not tell which elements those are.
    """
    if isinstance(n, int) and isinstance(start, int) and isinstance(end, int):
        indices = _indices(n, start, end, step)
        return Cut(indices.start if len(indices) else 0, len(indices), step)
    if step < 0:
        return _reversed(n, start, end, step)
    return _forward(b, n, start, end, step)


def _indices(n: int, start: int, end: int, step: int) -> range:
    """Unlike in Python, a start before the first element is the first element also where the step is negative."""
    first = max(start + n if start < 0 else start, 0)
    last = end + n if end < 0 else end
    if step > 0:
        return range(min(first, n), min(max(last, 0), n), step)
    return range(min(first, n - 1), min(max(last, -1), n - 1), step)


def _reversed(n: Dim, start: Dim, end: Dim, step: int) -> Cut | None:
    """Whole axes only."""
    from_end = start == -1 or (isinstance(start, int) and start >= _END) or start in (n, n - 1)
    to_start = isinstance(end, int) and end <= -_END
    return Cut(n - 1, ceildiv(n, -step), step) if from_end and to_start else None


def _forward(b: GraphBuilder, n: Dim, start: Dim, end: Dim, step: int) -> Cut | None:
    for bound in (start, end):
        if not isinstance(bound, int) and not is_nonnegative(bound):
            return None
    first = n + start if isinstance(start, int) and start < 0 else start
    last = n + end if isinstance(end, int) and end < 0 else end
    if isinstance(end, int) and end >= _END:
        last = n
    elif isinstance(end, int) and end >= _FAR and _checkable(b, n):
        b.require(end, ">=", n, f"a slice to {end} means the whole axis")
        last = n
    one = _single(b, n, first, last)
    if one is not None:
        return Cut(one, 1, step)
    if not isinstance(last, int) and isinstance(n, int) and _checkable(b, last):
        b.require(n, ">=", last, f"a slice ends at {last} of an axis of size {n}")
    elif last != n:
        last = dim_max(dim_min(last, n), 0)
    size = dim_min(n - first, n) if last == n and not is_nonnegative(first) else last - dim_max(first, 0)
    size = dim_max(size, 0)
    begin = first if is_nonnegative(first) and is_nonnegative(n - first) else dim_min(dim_max(first, 0), n)
    return Cut(begin, size if step == 1 else ceildiv(size, step), step)


def _single(b: GraphBuilder, n: Dim, first: Dim, last: Dim) -> Dim | None:
    """The place of the one element that a slice takes, where it exists by a condition on the input sizes."""
    if last - first != 1 or not _checkable(b, n, first):
        return None
    b.require(n, ">=", last, f"a slice takes element {first} of an axis of size {n}")
    b.require(first, ">=", 0, f"a slice takes element {first} of an axis of size {n}")
    return first


def _checkable(b: GraphBuilder, *dims: Dim) -> bool:
    return all(symbols(d) <= b.input_symbols() for d in dims)
