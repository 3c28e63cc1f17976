"""Random decision trees as attributes of the operators of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def forest(
    what: str,
    targets: int,
    *,
    trees: int = 6,
    depth: int = 4,
    features: int = 5,
    modes: Sequence[str] = MODES[:1],
    own_target: bool = False,
    sparse: bool = False,
    positive: bool = False,
    missing: bool = False,
    ids: Sequence[int] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """The lists of nodes and of weights; `what` is "class" or "target".

    `own_target`: all leaves of a tree are for one target; `sparse`: leaves are for some targets; `ids`: for these.
    Splits and samples of one decimal meet, so that every comparison is decided either way.
    """
    rng = np.random.default_rng(seed)
    nodes: dict[str, list[Any]] = {}
    weights: dict[str, list[Any]] = {}

    def node(**values: Any) -> None:
        for name, value in values.items():
            nodes.setdefault(f"nodes_{name}", []).append(value)

    for tree in range(trees):
        waiting, following = [(0, 0)], 1
        while waiting:
            number, level = waiting.pop()
            leaf = level == depth or (level > 0 and rng.random() < 0.2)
            tracks = int(missing and rng.random() < 0.5)
            node(treeids=tree, nodeids=number, missing_value_tracks_true=tracks)
            if not leaf:
                split = float(np.float32(round(rng.standard_normal(), 1)))
                node(featureids=int(rng.integers(features)), values=split, modes=str(rng.choice(modes)))
                node(truenodeids=following, falsenodeids=following + 1)
                waiting += [(following, level + 1), (following + 1, level + 1)]
                following += 2
                continue
            node(featureids=0, values=0.0, modes="LEAF", truenodeids=0, falsenodeids=0)
            chosen: Sequence[int] = range(targets) if ids is None else ids
            chosen = [tree % targets] if own_target else chosen
            chosen = [t for t in chosen if rng.random() < 0.4] if sparse else chosen
            for target in chosen:
                weight = rng.standard_normal()
                found = float(abs(weight) / trees if positive else weight)
                for name, value in (("treeids", tree), ("nodeids", number), ("ids", int(target)), ("weights", found)):
                    weights.setdefault(f"{what}_{name}", []).append(value)
    return {**nodes, **weights}
