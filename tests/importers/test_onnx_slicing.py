"""The elements that a slice of a symbolic axis takes are those that numpy takes, for every size."""

from __future__ import annotations

from itertools import product

from fornaxc.importers.onnx.slicing import cut
from fornaxc.ir.binding import ShapeMismatch, check_constraints
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, substitute, symbol
from fornaxc.ir.types import DType, TensorType

FAR = 2**31 - 1
BOUNDS = (*range(-4, 5), FAR, 2**63 - 1, -FAR, -(2**63))


def taken(n: Dim, size: int, start: Dim, end: Dim, step: int, sizes: dict[str, Dim]) -> list[int] | None:
    """The places that `cut` gives for one size; None where it leaves them to run time or forbids the size."""
    b = GraphBuilder()
    b.input(TensorType(DType.F32, (symbol("n"), symbol("m"))), "x")
    found = cut(b, n, start, end, step)
    if found is None:
        return None
    try:
        check_constraints(b.constraints, sizes)
    except ShapeMismatch:
        return None
    first, count = substitute(found.start, sizes), substitute(found.size, sizes)
    assert isinstance(first, int) and isinstance(count, int)
    if count:
        assert 0 <= first < size and 0 <= first + (count - 1) * step < size
    return [first + i * step for i in range(count)]


def wanted(size: int, start: int, end: int, step: int) -> list[int]:
    """The clamping rules of Slice-13, spelt out."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first = min(max(start + size if start < 0 else start, low if step > 0 else 0), high)
    last = min(max(end + size if end < 0 else end, low), high)
    return list(range(first, last, step))


def test_constant_bounds() -> None:
    checked = 0
    for start, end, step, size in product(BOUNDS, BOUNDS, (1, 2, 3, -1, -2), range(6)):
        for n in (size, symbol("n")):
            found = taken(n, size, start, end, step, {"n": size, "m": 0})
            if found is None:
                assert n != size
                continue
            assert found == wanted(size, start, end, step), (n, size, start, end, step)
            checked += 1
    assert checked > 6000


def test_symbolic_bounds() -> None:
    m = symbol("m")
    for start, size, other in product(range(-4, 5), range(6), range(6)):
        sizes: dict[str, Dim] = {"n": size, "m": other}
        for n in (size, symbol("n")):
            for first, last in ((start, m), (m, FAR), (m, m + 2)):
                found = taken(n, size, first, last, 1, sizes)
                if found is not None:
                    numbers = (substitute(first, sizes), substitute(last, sizes))
                    assert isinstance(numbers[0], int) and isinstance(numbers[1], int)
                    assert found == wanted(size, *numbers, 1), (n, size, first, last, other)
