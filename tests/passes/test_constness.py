"""Knowing what is constant costs the same per node however many constants a graph has."""

from __future__ import annotations

import numpy as np

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


def test_a_literal_that_repeats_its_numbers_is_one_number_a_channel() -> None:
    b = GraphBuilder()
    facts = Constness(())
    line = np.arange(3, dtype=np.float32)
    repeated = b.literal(np.broadcast_to(line.reshape(1, 3, 1), (2, 3, 4)).copy())
    mixed = b.literal(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    facts.catch_up(b)
    found = facts.per_channel(b, repeated, 1, 3)
    assert found is not None
    content = b.known(found)
    assert content is not None
    np.testing.assert_array_equal(content, line)
    assert facts.per_channel(b, repeated, 2, 4) is None
    assert facts.per_channel(b, mixed, 1, 3) is None
    same = b.literal(np.full((2, 1, 4), 0.5, np.float32))
    facts.catch_up(b)
    wide = facts.per_channel(b, same, 1, 3)
    assert wide is not None and wide.type.shape == (3,)
