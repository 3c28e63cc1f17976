"""How times grow: with the number of nodes, of repeated layers, and with the batch."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.catalogue import Given
from benchmarks.engines import command
from benchmarks.measures import Bench, compiling, latency_at
from benchmarks.models import built

NODES = (500, 3_600, 15_000, 50_000)
LAYERS = (1, 2, 4, 12, 24, 48)
BATCHES = (1, 2, 4, 8, 16, 32)


def by_nodes(size: int) -> dict[str, Any]:
    """Processor seconds of import and of optimisation at a number of nodes, and of onnx's and onnxruntime's own steps."""
    row = json.loads(command([sys.executable, str(Path(__file__).with_name("import_speed.py")), "--json", str(size)]))
    found: dict[str, Any] = row[0]
    return found


def by_layers(bench: Bench, layers: int) -> dict[str, Any]:
    """`measures.compiling` of a decoder with so many equal layers."""
    from benchmarks.graphs.transformers import decoder

    model = built(
        f"layers_{layers}",
        f"{layers}-layer decoder of width 256, 32 tokens",
        {"ids": Given((1, 32), "int64", below=1000)},
        partial(decoder, layers=layers, width=256, heads=4, vocabulary=1000),
    )
    return compiling(bench, model, model.file(bench.folder))


def by_batch(bench: Bench, batch: int, threads: int) -> dict[str, Any]:
    """`measures.latency_at` of a small BERT whose batch is left open: one artifact for all batches."""
    from benchmarks.graphs.transformers import bert

    given = {
        "ids": Given((batch, 32), "int64", below=30_522),
        "mask": Given((batch, 32), "int64", value=1),
    }
    model = built("open_batch", "", given, partial(bert, layers=2, width=128, heads=2))
    model = replace(model, pinned=False)
    return latency_at(bench, model, model.file(bench.folder), threads)


def units(bench: Bench, threads: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """The measurements by their names in the results, in order."""
    return {
        **{f"growth/nodes/{n}": partial(by_nodes, n) for n in NODES},
        **{f"growth/layers/{n}": partial(by_layers, bench, n) for n in LAYERS},
        **{f"growth/batch/{n}": partial(by_batch, bench, n, threads) for n in BATCHES},
    }
