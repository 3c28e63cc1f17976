"""StableHLO text, imported, checked and evaluated by the numpy interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fornaxc.importers.stablehlo.importer import import_module
from fornaxc.importers.stablehlo.reader import module_of, parse_text
from fornaxc.ir.checker import check
from fornaxc.ir.interpreter import run

Arrays = list[np.ndarray]


def results(text: str, *inputs: np.ndarray) -> Arrays:
    """What the module's one public function gives."""
    graph = import_module(module_of(parse_text(text, "module"), Path("module")), {})
    check(graph)
    return run(graph, list(inputs))


def function(line: str, arguments: str, result: str) -> str:
    """A function of one operation."""
    return f"func.func @main({arguments}) -> {result} {{\n%r = {line}\nreturn %r : {result}\n}}"
