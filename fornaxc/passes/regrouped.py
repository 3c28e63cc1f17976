"""Which axes of a reshape come from which."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from fornaxc.ir.dims import Dim, product

Group = tuple[list[int], list[int]]


def regrouped(before: Sequence[Dim], after: Sequence[Dim]) -> list[Group] | None:
    """Which axes of a shape make which of its reshape: the fewest on both sides whose sizes have the same product.

    Axes of size 1 before are in no group; those after are in the group of what lies before them, or first and of no axis. None where sizes
    do not tell.
    """
    groups: list[Group] = []
    sources, results = (deque(i for i, d in enumerate(dims) if d != 1) for dims in (before, after))
    while sources and results:
        group = [sources.popleft()], [results.popleft()]
        while True:
            have, want = product([before[i] for i in group[0]]), product([after[o] for o in group[1]])
            if have == want:
                break
            if not (isinstance(have, int) and isinstance(want, int)):
                return None
            side, more = (group[0], sources) if have < want else (group[1], results)
            if not more:
                return None
            side.append(more.popleft())
        groups.append(group)
    if sources or results or not groups:
        return None
    leading: Group = ([], [])
    for o in (o for o, d in enumerate(after) if d == 1):
        _, axes = next((g for g in reversed(groups) if g[1][0] < o), leading)
        axes.append(o)
        axes.sort()
    return [leading, *groups]
