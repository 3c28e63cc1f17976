"""What differs between the documents of two artifacts. None of it runs anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fornaxc.artifact import Artifact
from fornaxc.cache import explain, media
from fornaxc.ir.graph import Graph

_PARTS = {media.MEF: "code", media.WEIGHTS: "weights", media.IR: "program"}


def signature_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Inputs, outputs and conditions on sizes that are not alike in two configs: {what, a, b, breaks}.

    One `breaks` where what runs the first cannot run the second: a name, an element type or a rank that is not the same, or two sizes of a
    dim. A dim that one side has pinned is a difference, and breaks nothing by itself.
    """
    found = []
    for side in ("inputs", "outputs"):
        ours, theirs = ({t["name"]: t for t in config[side]} for config in (a, b))
        for name in dict.fromkeys([*ours, *theirs]):
            one, other = ours.get(name), theirs.get(name)
            if one != other:
                texts = (_text(one), _text(other))
                found.append(
                    _difference(f"{side[:-1]} {name}", *texts, one is None or other is None or _breaks(one, other))
                )
    here, there = ([" ".join(map(str, c[:3])) for c in config["constraints"]] for config in (a, b))
    for text in dict.fromkeys([*here, *there]):
        if (text in here) != (text in there):
            found.append(
                _difference("condition", text if text in here else None, text if text in there else None, False)
            )
    return found


def _difference(what: str, a: Any, b: Any, breaks: bool) -> dict[str, Any]:
    return {"what": what, "a": a, "b": b, "breaks": breaks}


def _breaks(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    shapes = one["shape"], other["shape"]
    if one["dtype"] != other["dtype"] or len(shapes[0]) != len(shapes[1]):
        return True
    return any(isinstance(d, int) and isinstance(e, int) and d != e for d, e in zip(*shapes, strict=True))


def _text(tensor: Mapping[str, Any] | None) -> str | None:
    return None if tensor is None else f"{tensor['dtype']} [{', '.join(map(str, tensor['shape']))}]"


def manifest_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of two configs that decided what was compiled and are not alike: source, versions, target, options; {part, a, b}."""
    parts = [
        {"source": config["source"], **config["key_parts"], "host_nodes": config["host_nodes"]} for config in (a, b)
    ]
    return [{"part": d.path, "a": d.old, "b": d.new} for d in explain(*parts)]


def operation_differences(a: Graph, b: Graph) -> list[dict[str, Any]]:
    """The operations that two programs do not have in the same number: {operation, a, b}."""
    return count_differences("operation", *([node.op.name for node in graph.walk()] for graph in (a, b)))


def count_differences(what: str, a: Sequence[str], b: Sequence[str]) -> list[dict[str, Any]]:
    """The names that two lists do not hold equally often: {`what`, a, b}."""
    here, there = Counter(a), Counter(b)
    names = sorted(here.keys() | there.keys())
    return [{what: n, "a": here[n], "b": there[n]} for n in names if here[n] != there[n]]


def sizes(artifact: Artifact) -> dict[str, int]:
    """The bytes of an artifact's parts, and of all of them."""
    layers = {
        _PARTS.get(layer["mediaType"], layer["mediaType"]): layer["size"] for layer in artifact.manifest["layers"]
    }
    return {**layers, "total": sum(layers.values())}
