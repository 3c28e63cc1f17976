"""Knowing what is constant costs the same per node however many constants a graph has."""

from __future__ import annotations

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.types import DType, TensorType
from fornaxc.passes.constness import Constness


class Counting(dict[Value, object]):
    """Counts the keys that are read."""

    read = 0

    def __iter__(self):  # type: ignore[no-untyped-def]
        for key in super().__iter__():
            self.read += 1
            yield key

    def __reversed__(self):  # type: ignore[no-untyped-def]
        for key in super().__reversed__():
            self.read += 1
            yield key


def test_each_constant_is_seen_once() -> None:
    b = GraphBuilder()
    counting = Counting()
    b.constants = counting  # type: ignore[assignment]
    facts = Constness(())
    type = TensorType(DType.F32, (2,))
    weights = []
    for number in range(50):
        weights.append(b.weight(type, lambda: None, f"w{number}"))  # type: ignore[arg-type,return-value]
        facts.catch_up(b)
        facts.catch_up(b)
    assert all(map(facts.is_constant, weights))
    assert counting.read <= 2 * len(weights)
