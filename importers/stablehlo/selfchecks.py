"""Modules that check themselves, as StableHLO's own test data does: taken apart into a program, its inputs and what it must give.

Two layouts are known. `@main` calls `@inputs()` and `@expected()` and compares with `check.expect_eq`, `expect_close` or
`expect_almost_eq`; or a function makes constants, computes, and compares with `check.expect_eq_const` and its kin. The
results of `@inputs`, or those constants, become inputs of the program, so that nothing of it can be folded away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fornaxc.errors import ModelError, UnsupportedError
from fornaxc.importers.stablehlo.codes import Code
from fornaxc.importers.stablehlo.dimensions import SizeArguments
from fornaxc.importers.stablehlo.importer import import_module
from fornaxc.importers.stablehlo.names import symbol_of
from fornaxc.importers.stablehlo.reader import StablehloModule, module_of, parse_text
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.interpreter import run

_CONST_CHECK = re.compile(
    r"check\.expect_(almost_)?eq_const\s+(%[\w#]+)\s*,\s*(dense<.*?>)\s*:\s*(tensor<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)",
    re.DOTALL,
)
_GENERIC_CHECK = re.compile(
    r'"check\.expect_(almost_)?eq_const"\((%[\w#]+)\)\s*<?\{\s*value = (dense<.*?>)\s*:\s*(tensor<[^>]*(?:<[^>]*>)?>)\}>?\s*:\s*\([^\n]*\) -> \(\)',
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Expectation:
    """The output `output` (by place) must equal `value`: `eq` exactly, `close` within units in the last place, `almost` to 1e-4."""

    kind: str
    output: int
    value: Array


@dataclass(frozen=True, slots=True, eq=False)
class SelfCheck:
    """A program of a file, its inputs in order, and what its outputs must be."""

    name: str
    graph: Graph
    inputs: tuple[Array, ...]
    expectations: tuple[Expectation, ...]


def split_checks(path: Path) -> list[tuple[str, str]]:
    """The parts of a file that are separate modules: their names and texts."""
    pieces = re.split(r"^// -----.*$", path.read_text(), flags=re.MULTILINE)
    kept = [p for p in pieces if re.search(r"^\s*(module|func)\b", p, re.MULTILINE)]
    return [(path.stem if len(kept) == 1 else f"{path.stem}#{i}", piece) for i, piece in enumerate(kept)]


def read_check(name: str, text: str) -> SelfCheck:
    """The one check of a module's text. `ModelError` where it compares nothing; `UnsupportedError` as the importer has it."""
    if re.search(r"\binterpreter\.(run_parallel|probe|print)\b", text):
        raise UnsupportedError(
            f"{name}: the module uses operations of the reference interpreter itself",
            code="FX301",
            details=[
                {"op": "interpreter", "location": name, "reason": "several devices, or instruments of the interpreter"}
            ],
        )
    module = module_of(parse_text(_without_check_dialect(text), name), Path(name))
    entry = "main" if "main" in module.functions else next(iter(module.functions))
    rewritten = _Rewriter(module, entry)
    graph = import_module(rewritten.module, {}, entry)
    return SelfCheck(name, graph, rewritten.inputs, rewritten.expectations)


def _without_check_dialect(text: str) -> str:
    """The checks of the dialect that jaxlib does not have, as custom calls on a constant."""
    counter = [0]

    def call(match: re.Match[str]) -> str:
        almost, value, dense, type = match.groups()
        counter[0] += 1
        name = f"%expected__{counter[0]}"
        kind = "expect_almost_eq" if almost else "expect_eq"
        return (
            f"{name} = stablehlo.constant {dense} : {type}\n"
            f"stablehlo.custom_call @check.{kind}({value}, {name}) {{has_side_effect = true}} : ({type}, {type}) -> ()"
        )

    return _CONST_CHECK.sub(call, _GENERIC_CHECK.sub(call, text))


class _Rewriter:
    """Turns the checking function into one of inputs and outputs, in place."""

    def __init__(self, module: StablehloModule, entry: str) -> None:
        from jaxlib.mlir import ir

        self.module = module
        self.function = module.functions[entry]
        self.block = self.function.regions[0].blocks[0]
        self._inputs: list[Array] = []
        with module.module.context, ir.Location.unknown():
            checks = [op.operation for op in self.block.operations if _check_kind(op.operation)]
            if not checks:
                raise ModelError(f"{module.path}: the module compares nothing", code=Code.NO_CHECK)
            kinds = [_check_kind(op) for op in checks]
            places = [_expected_place(op) for op in checks]
            wanted = [op.operands[place] for op, place in zip(checks, places, strict=True)]
            expected = [self._values_of(value) for value in wanted]
            self._take_inputs(set(wanted))
            outputs = [op.operands[1 - place] for op, place in zip(checks, places, strict=True)]
            self._return(outputs)
            for op in checks:
                op.erase()
            self._declare(outputs)
        self.inputs = tuple(self._inputs)
        self.expectations = tuple(_expectations(kinds, expected))

    def _values_of(self, value: Any) -> list[Array]:
        """The parts of a value that constants, or a function of constants, determine."""
        owner = value.owner
        owner = getattr(owner, "operation", owner)
        if owner.name == "func.call":
            name = symbol_of(owner.attributes["callee"])
            return self._evaluate(name)[list(owner.results).index(value)]
        if owner.name == "stablehlo.constant":
            return constant_arrays(owner)
        raise ModelError(f"{self.module.path}: what is expected is not a constant", code=Code.NO_CHECK)

    def _evaluate(self, name: str) -> list[list[Array]]:
        """The results of a function without arguments, part by part."""
        function = self.module.functions[name]
        graph = import_module(self.module, {}, name)
        arrays = iter(run(graph, []))
        results = function.regions[0].blocks[0].operations[-1].operation.operands
        return [[next(arrays) for _ in range(2 if "complex" in str(r.type) else 1)] for r in results]

    def _take_inputs(self, expected: set[Any]) -> None:
        """Results of `@inputs`, and constants that decide no size, become arguments of the function."""
        called = [op.operation for op in self.block.operations if _is_call(op.operation, "inputs")]
        if called:
            for call in called:
                for result, arrays in zip(list(call.results), self._evaluate("inputs"), strict=True):
                    self._argument(result, arrays)
                call.erase()
            return
        sizes = SizeArguments(self.module.functions, self.function)
        for op in list(self.block.operations):
            raw = op.operation
            if raw.name != "stablehlo.constant" or raw.results[0] in expected:
                continue
            if "!quant" in str(raw.results[0].type) or sizes.decides_size(raw.results[0]):
                continue
            self._argument(raw.results[0], constant_arrays(raw))
            raw.erase()

    def _argument(self, value: Any, arrays: list[Array]) -> None:
        from jaxlib.mlir import ir

        argument = self.block.add_argument(value.type, ir.Location.unknown())
        value.replace_all_uses_with(argument)
        self._inputs += arrays

    def _return(self, outputs: list[Any]) -> None:
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import func

        operations = list(self.block.operations)
        with ir.InsertionPoint(operations[-1]):
            func.ReturnOp(outputs)
        operations[-1].operation.erase()

    def _declare(self, outputs: list[Any]) -> None:
        from jaxlib.mlir import ir

        types = [argument.type for argument in self.block.arguments]
        self.function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(types, [v.type for v in outputs])
        )
        for name in ("res_attrs", "arg_attrs"):
            if name in self.function.attributes:
                del self.function.attributes[name]


def constant_arrays(op: Any) -> list[Array]:
    """The parts of a constant operation's value."""
    from fornaxc.importers.stablehlo.literals import dense_array
    from fornaxc.importers.stablehlo.types import tensor_info

    info = tensor_info(op.results[0].type)
    attribute = op.get_asm(enable_debug_info=False) if info.complex else op.attributes["value"]
    return dense_array(attribute, info)


def _check_kind(op: Any) -> str:
    if op.name != "stablehlo.custom_call":
        return ""
    found = re.match(r'"check\.(expect_)?(eq|close|almost_eq)"', str(op.attributes["call_target_name"]))
    return "" if found is None else found.group(2).split("_")[0]


def _expected_place(op: Any) -> int:
    """Which of a check's two operands is what is expected."""
    left = op.operands[0].owner
    raw = getattr(left, "operation", left)
    return 0 if getattr(raw, "name", "") == "stablehlo.constant" or _is_call(raw, "expected") else 1


def _is_call(op: Any, name: str) -> bool:
    return bool(getattr(op, "name", "") == "func.call" and symbol_of(op.attributes["callee"]) == name)


def _expectations(kinds: list[str], expected: list[list[Array]]) -> list[Expectation]:
    found: list[Expectation] = []
    for kind, arrays in zip(kinds, expected, strict=True):
        for array in arrays:
            found.append(Expectation(kind, len(found), array))
    return found


def agrees(expectation: Expectation, actual: Array) -> bool:
    """Whether an output is what was expected, by the rule of its check."""
    wanted = expectation.value
    if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
        return False
    if not _is_float(wanted):
        return bool(np.array_equal(actual, wanted))
    a, b = actual.astype(np.float64), wanted.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if expectation.kind == "eq":
        return bool(same.all())
    with np.errstate(all="ignore"):
        if expectation.kind == "almost":
            near = np.abs(a - b) <= 1e-4 * np.maximum(1, np.abs(b))
        else:
            # sums that cancel keep the rounding of their largest terms
            largest = np.max(np.abs(b), initial=0, where=np.isfinite(b))
            near = (_ulps(actual, wanted) <= 3) | (np.abs(a - b) <= 3 * _epsilon(wanted) * largest)
    return bool((same | (near & np.isfinite(a) & np.isfinite(b))).all())


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or "float" in array.dtype.name


def _epsilon(array: Array) -> float:
    """The distance from 1 to the next number of the type."""
    import ml_dtypes

    return float(ml_dtypes.finfo(array.dtype).eps)


def _ulps(x: Array, y: Array) -> Array:
    """The distance of floats of one type, in steps from one number to the next."""
    bits = x.dtype.itemsize * 8
    signed = np.dtype(f"i{x.dtype.itemsize}")

    def line(v: Array) -> Array:
        raw = np.atleast_1d(np.ascontiguousarray(v)).view(signed).astype(np.float64 if bits < 64 else object)
        return np.where(raw < 0, -(2 ** (bits - 1)) - raw, raw)

    return np.asarray(np.abs(line(x) - line(y)), np.float64).reshape(x.shape)
