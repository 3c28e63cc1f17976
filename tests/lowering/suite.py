"""Lists of lowered cases whose expected outputs are the numpy interpreter's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.checker import check
from fornaxc.ir.dims import Dim, symbol
from fornaxc.ir.graph import Array, Graph, Value
from fornaxc.ir.interpreter import run
from fornaxc.ir.types import TensorType, dtype_of
from fornaxc.qualify.programs import Options, Outcome, Program, run_programs

Case = tuple[str, Graph, Sequence[Array]]
Build = Callable[..., Value | Sequence[Value]]
Shape = Sequence[Dim | str]
RTOL = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 3e-5, "float64": 1e-9}


@dataclass
class Suite:
    """Cases by name; the first `verify` compiles and runs all those that pytest selected.

    `rules` is the kind of device whose rules are applied, where it is not the CPU.
    """

    cases: dict[str, Case] = field(default_factory=dict)
    expected: dict[str, list[Array]] = field(default_factory=dict)
    tolerances: dict[str, float] = field(default_factory=dict)
    selected: list[str] = field(default_factory=list)
    rules: str = ""
    _outcomes: dict[str, Outcome] | None = None

    def add(
        self,
        name: str,
        build: Build,
        *inputs: Array,
        shapes: Sequence[Shape | None] = (),
        expected: Sequence[Array] | None = None,
        tolerance: float = 0.0,
    ) -> None:
        """`build(builder, *values)` over inputs of the arrays' types, or of `shapes` where those are given (names are symbols)."""
        b = GraphBuilder()
        declared = [*shapes, *[None] * (len(inputs) - len(shapes))]
        values = []
        for index, (array, shape) in enumerate(zip(inputs, declared, strict=True)):
            dims = array.shape if shape is None else tuple(symbol(d) if isinstance(d, str) else d for d in shape)
            values.append(b.input(TensorType(dtype_of(array.dtype), dims), f"x{index}"))
        b.reserve(b.input_symbols())
        results = build(b, *values)
        outputs = [results] if isinstance(results, Value) else list(results)
        graph = b.finish(outputs, [f"y{i}" for i in range(len(outputs))])
        check(graph)
        self.add_graph(name, graph, inputs, expected, tolerance)

    def add_graph(
        self,
        name: str,
        graph: Graph,
        inputs: Sequence[Array],
        expected: Sequence[Array] | None = None,
        tolerance: float = 0.0,
    ) -> None:
        assert name not in self.cases, name
        self.cases[name] = (name, graph, inputs)
        self.expected[name] = list(run(graph, inputs) if expected is None else expected)
        self.tolerances[name] = tolerance

    def parameters(self, *quick: str) -> list[Any]:
        """The names as pytest parameters; all but `quick` are slow."""
        assert set(quick) <= set(self.cases), set(quick) - set(self.cases)
        return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in self.cases]

    def outcomes(self) -> dict[str, Outcome]:
        if self._outcomes is None:
            chosen = [self.cases[name] for name in self.selected or self.cases]
            programs = [Program(name, graph, [inputs]) for name, graph, inputs in chosen]
            self._outcomes = run_programs(programs, Options(rules=self.rules))
        return self._outcomes

    def verify(self, name: str) -> None:
        """Assert that the case ran and gave what is expected."""
        outcome = self.outcomes()[name]
        assert outcome.status == "ok", f"{outcome.status} in {outcome.phase}: {outcome.error}"
        (outputs,) = outcome.outputs
        assert len(outputs) == len(self.expected[name])
        for found, wanted in zip(outputs, self.expected[name], strict=True):
            assert_close(found, wanted, self.tolerances[name])


def assert_close(found: Array, wanted: Array, tolerance: float = 0.0) -> None:
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    rtol = tolerance or RTOL.get(found.dtype.name, 0.0)
    if not rtol:
        exact = np.float64 if found.dtype.isbuiltin != 1 else found.dtype  # numpy does not know the NaN of ml_dtypes
        np.testing.assert_array_equal(found.astype(exact), wanted.astype(exact))
        return
    wide, reference = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(wide, reference, rtol=rtol, atol=min(rtol, 1e-5), equal_nan=True)
