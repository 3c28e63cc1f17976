"""Inputs that two artifacts both take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from fornaxc.bench.sample import Arrays, candidates, given_samples
from fornaxc.errors import UsageError
from fornaxc.ir.dims import single_symbol
from fornaxc.ir.graph import Array, Graph
from fornaxc.signature import check_inputs

SAMPLES = 2  # sizes of the symbolic dims to compare at


def shared_samples(
    a: Graph, b: Graph, inputs: Path | None, sizes: Mapping[str, int], seed: int
) -> list[tuple[str, dict[str, Array]]]:
    """Labelled inputs for both: those of the file or folder, or seeded ones at up to two sizes of the symbolic dims; a dim that one side has pinned
    has that size. Empty where no generated inputs suit both. Raises UsageError where the file or the sizes do not suit the first."""
    if inputs is not None:
        given = given_samples(a, inputs, sizes)
        return given if all(takes(b, arrays) for _, arrays in given) else []
    return list(_generated(a, b, {**_pins(a, b), **sizes}, seed))


def _generated(a: Graph, b: Graph, sizes: Mapping[str, int], seed: int) -> Iterator[tuple[str, Arrays]]:
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for label, arrays in candidates(a, sizes, seed):
        shapes = tuple(array.shape for array in arrays.values())
        if shapes not in seen and takes(b, arrays):
            seen.add(shapes)
            yield label, arrays
        if len(seen) == SAMPLES:
            return


def takes(graph: Graph, arrays: Arrays) -> bool:
    """Whether a graph takes these inputs."""
    try:
        check_inputs({v.name: v.type for v in graph.inputs}, graph.constraints, arrays)
    except UsageError:
        return False
    return True


def _pins(a: Graph, b: Graph) -> dict[str, int]:
    """The sizes that the second side has pinned, by the names that the first has for them."""
    pinned = {v.name: v.type.shape for v in b.inputs}
    found: dict[str, int] = {}
    for value in a.inputs:
        for dim, size in zip(value.type.shape, pinned.get(value.name, ()), strict=False):
            name = single_symbol(dim)
            if name is not None and isinstance(size, int):
                found[name] = size
    return found
