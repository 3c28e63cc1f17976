"""Inputs to measure with: given ones, or generated ones at the sizes that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from fornaxc.errors import UsageError
from fornaxc.ir.dims import symbols
from fornaxc.ir.graph import Array, Graph
from fornaxc.signature import check_inputs
from fornaxc.verification.given import load_inputs, tensor_sets
from fornaxc.verification.inputs import generate, size_choices

Arrays = dict[str, Array]
"""Inputs by name."""


def sample(graph: Graph, inputs: Path | None, sizes: Mapping[str, int], seed: int) -> tuple[str, Arrays]:
    """A label and the arrays by input name: those of the file `inputs` (of a folder, the first sample), or seeded ones. `sizes` are of symbolic dims; others are chosen.

    Raises UsageError where the file is not what the graph takes, or where no inputs of these sizes meet its conditions.
    """
    if inputs is not None:
        return given_samples(graph, inputs, sizes, only_first=True)[0]
    found = next(candidates(graph, sizes, seed), None)
    if found is None:
        asked = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise UsageError(
            f"no inputs can be made{f' with {asked}' if asked else ''}: no sizes of the other dims go with it",
            code="FX261",
            hint="give inputs with --inputs",
        )
    return found


def given_samples(
    graph: Graph, inputs: Path, sizes: Mapping[str, int], only_first: bool = False
) -> list[tuple[str, Arrays]]:
    """Those of a file or a folder, by their files; `only_first` of several says so in its label. UsageError where they are not what the
    graph takes, or where `sizes` are asked for."""
    if sizes:
        raise UsageError(
            "--size is of generated inputs, and --inputs gives them", code="FX260", hint="leave out one of them"
        )
    sets = tensor_sets(inputs)
    chosen = sets[:1] if only_first else sets
    more = f" (the first of {len(sets)})" if len(sets) > len(chosen) else ""
    return [(f"{files.label}{more}", load_inputs(graph, files)[0]) for files in chosen]


def candidates(graph: Graph, sizes: Mapping[str, int], seed: int) -> Iterator[tuple[str, Arrays]]:
    """Labelled inputs at the sizes that suit the graph, likely ones first, `sizes` among them. Raises UsageError where these cannot be."""
    names = dict.fromkeys(n for v in graph.inputs for d in v.type.shape for n in sorted(symbols(d)))
    for name, size in sizes.items():
        if name not in names:
            known = f"the symbolic dims are: {', '.join(names)}" if names else "all its dims have one size"
            raise UsageError(f"no symbolic dim of the inputs is named {name!r}", code="FX215", hint=known)
        if size < 1:
            raise UsageError(f"the dim {name!r} cannot have size {size} here", code="FX214", hint="give 1 or more")
    signature = {v.name: v.type for v in graph.inputs}
    for choice in size_choices(graph):
        chosen = {**choice, **sizes}
        arrays = generate(graph, chosen, seed)
        try:
            check_inputs(signature, graph.constraints, arrays)
        except UsageError:
            continue
        yield ", ".join(f"{name}={size}" for name, size in chosen.items()) or "static", arrays
