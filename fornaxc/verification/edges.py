"""Edge sets of inputs: values at the ends of what an input may hold, and dims of size one and none.

Every set is role-aware: an index stays in range, a length is 1 at least, a mask holds 0 and 1, a probability lies between them. What an input
of a role cannot hold (a NaN, of an index) stays as generated; a set that changes no input is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import ml_dtypes
import numpy as np

from fornaxc.ir.dims import Dim, substitute
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.types import DType, dtype_of
from fornaxc.verification.inputs import equal_symbols, fits, generate
from fornaxc.verification.roles import Role, input_uses, steering_inputs

VALUE_SETS = ("zeros", "ones", "denormals", "largest", "infinities", "nan")
PREFIX = "edge "
_SPRINKLED = 1 / 16  # the share of elements that are infinite or NaN among ordinary ones


class Edge(NamedTuple):
    """A set of inputs and what the report calls it."""

    label: str
    inputs: dict[str, Array]


def edge_inputs(graph: Graph, sizes: Mapping[str, int], seed: int) -> tuple[list[Edge], list[str]]:
    """The edge sets of a graph, those of values at `sizes` of the symbols; and a note for each size of a dim that it does not allow."""
    edges = []
    plain = generate(graph, sizes, seed)
    for name in VALUE_SETS:
        changed = _changed(graph, plain, sizes, name, seed)
        if changed:
            edges.append(Edge(_label(name, sizes), {**plain, **changed}))
    notes = []
    for name, chosen in _edge_sizes(graph, sizes).items():
        label = _label(name, chosen)
        if fits(graph, chosen, 0):
            edges.append(Edge(label, generate(graph, chosen, seed)))
        else:
            notes.append(f"{label}: not tried: the model does not allow these sizes")
    return edges, notes


def not_tried(graph: Graph) -> list[str]:
    """A note for a report on generated inputs alone; none where a graph has no inputs."""
    if not graph.inputs:
        return []
    sizes = ["dims of size 1 and 0"] if any(not v.type.is_static for v in graph.inputs) else []
    return [f"edge sets not tried: {', '.join([*VALUE_SETS, *sizes])} (--edge-cases tries them)"]


def _label(name: str, sizes: Mapping[str, int]) -> str:
    shown = ", ".join(f"{symbol}={size}" for symbol, size in sizes.items())
    return f"{PREFIX}{name} ({shown})" if shown else f"{PREFIX}{name}"


def _edge_sizes(graph: Graph, sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """All symbols 1, and each symbol 0 with those that must equal it."""
    if not sizes:
        return {}
    found = {"size 1": dict.fromkeys(sizes, 1)}
    groups = equal_symbols(graph, list(sizes))
    for leader in dict.fromkeys(groups.values()):
        found[f"empty {leader}"] = {name: 0 if groups[name] == leader else size for name, size in sizes.items()}
    return found


def _changed(
    graph: Graph, plain: Mapping[str, Array], sizes: Mapping[str, int], name: str, seed: int
) -> dict[str, Array]:
    """The inputs that a set of values makes other than generated ones."""
    rng = np.random.default_rng(seed)
    uses, steering = input_uses(graph), steering_inputs(graph)
    bound: dict[str, Dim] = dict(sizes)
    found = {}
    for value in graph.inputs:
        use, old = uses[value.name], np.asarray(plain[value.name])
        limit = substitute(use.bound, bound)
        if value.name in steering:
            continue
        new = _edge_values(rng, old, use.role, limit if isinstance(limit, int) else 1, name)
        if new is not None and new.tobytes() != old.tobytes():
            found[value.name] = new
    return found


def _edge_values(rng: np.random.Generator, old: Array, role: Role, bound: int, name: str) -> Array | None:
    """The elements of one input in a set, in place of `old` ones; None where the set has none for such an input."""
    dtype = dtype_of(old.dtype)
    if role is Role.UNIQUE_INDEX:
        return None
    if role is Role.VALUE and dtype is not DType.BOOL:
        return _values(rng, old, dtype, name)
    if role is Role.PROBABILITY and name == "denormals":
        return np.abs(_denormals(rng, old))
    top = {Role.INDEX: max(bound - 1, 0), Role.LENGTH: max(bound, 1)}.get(role, 1)
    least = 1 if role is Role.LENGTH else 0
    same = {"zeros": least, "ones": min(1, top), "largest": top}
    return np.full(old.shape, same[name], old.dtype) if name in same else None


def _values(rng: np.random.Generator, old: Array, dtype: DType, name: str) -> Array | None:
    """Of an input that may hold any number."""
    if name in ("zeros", "ones"):
        return np.full(old.shape, name == "ones", old.dtype)
    if dtype.is_small:
        return None
    signs = np.asarray(rng.random(old.shape) < 0.5)
    if not dtype.is_float:
        limits = np.iinfo(old.dtype)
        return np.where(signs, limits.max, limits.min).astype(old.dtype) if name == "largest" else None
    if name == "largest":
        largest = np.full(old.shape, ml_dtypes.finfo(old.dtype).max, old.dtype)
        return np.where(signs, largest, -largest)
    if name == "denormals":
        return _denormals(rng, old)
    special = np.where(signs, np.inf, -np.inf) if name == "infinities" else np.full(old.shape, np.nan)
    at = np.asarray(rng.random(old.shape) < _SPRINKLED)
    at.reshape(-1)[:1] = True
    return np.where(at, special.astype(old.dtype), old)


def _denormals(rng: np.random.Generator, old: Array) -> Array:
    least_normal = float(ml_dtypes.finfo(old.dtype).smallest_normal)
    return np.asarray(rng.uniform(-1, 1, old.shape) * least_normal).astype(old.dtype)
