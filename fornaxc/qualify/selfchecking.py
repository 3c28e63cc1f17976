"""Cases in the layout of StableHLO's test data: modules that hold their inputs, and what they must give."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fornaxc.ir.graph import Array, Graph
from fornaxc.qualify.arrays import read_arrays, write_arrays
from fornaxc.qualify.compare import Difference

if TYPE_CHECKING:
    from fornaxc.importers.stablehlo.selfchecks import Expectation
    from fornaxc.qualify.cases import Facts

_CHECK = re.compile(r"\bcheck\.(expect_)?(eq|close|almost_eq|serialized_eq)")
_TOKEN = re.compile(r'@"[^"]*"|"((?:[^"\\]|\\.)*)"(\s*\()?|//[^\n]*|(?<![\w.@#!])((?:stablehlo|chlo)\.\w+)')
"""A symbol; a string, and whether it is called as an operation of the generic form is; a comment; the name of an operation."""
_OPERATION = re.compile(r"(?:stablehlo|chlo)\.\w+")
_TENSOR = re.compile(r"tensor<((?:[\d?]+x)*)((?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*)>")
_STEADY = frozenset({"stablehlo.constant", "stablehlo.return", "stablehlo.custom_call"})
"""What almost every case has around the operation that it is about."""


@dataclass(frozen=True, slots=True)
class SelfChecking:
    """The text of one module that compares what it computes with what it holds."""

    id: str
    text: str
    path: Path


def selfchecking_cases(base: Path) -> Iterator[SelfChecking]:
    """The modules in the .mlir files below a folder; a part without a comparison is no case."""
    from fornaxc.importers.stablehlo.selfchecks import split_checks

    for path in sorted(base.rglob("*.mlir")):
        within = path.relative_to(base).parent
        for name, text in split_checks(path):
            if _CHECK.search(text):
                yield SelfChecking((within / name).as_posix(), text, path)


def selfchecking_facts(case: SelfChecking) -> Facts:
    """The operations of the module's text, apart from constants and checks, and its tensors."""
    from fornaxc.qualify.cases import Facts

    named = operations_of(case.text)
    operators = tuple(n for n in named if n not in _STEADY) or named
    tensors = [(sizes.split("x")[:-1], element) for sizes, element in _TENSOR.findall(case.text)]
    return Facts(
        operators[0] if len(operators) == 1 else None,
        operators,
        0,
        None,
        max((len(sizes) for sizes, _ in tensors), default=0),
        tuple(dict.fromkeys(_element(text) for _, text in tensors)),
        any("?" in sizes for sizes, _ in tensors),
        tuple((name, 0) for name in operators),
    )


def operations_of(text: str) -> tuple[str, ...]:
    """The operations that a module's text applies, each once; names of attributes, types, targets and composites are none."""
    found: dict[str, None] = {}
    for string, called, name in _TOKEN.findall(text):
        if name or (called and _OPERATION.fullmatch(string)):
            found[name or string] = None
    return tuple(found)


def _element(text: str) -> str:
    """The element type in what a tensor type says behind its sizes: without encoding, and without scales and zero points."""
    element = _until_comma(text).strip()
    quantized = "!quant.uniform<"
    if not element.startswith(quantized):
        return element
    return f"{quantized}{_until_comma(element[len(quantized) : -1])}>"


def _until_comma(text: str) -> str:
    """What stands before the first comma that is in no brackets."""
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign in "<{") - (sign in ">}")
        if sign == "," and depth == 0:
            return text[:at]
    return text


def write_selfchecking(folder: Path, case: SelfChecking) -> None:
    """The case as files for the child that prepares it."""
    (folder / "module.mlir").write_text(case.text)
    (folder / "case.json").write_text(json.dumps({"module": str(folder / "module.mlir"), "name": case.id}))


def read_selfchecking(folder: Path, name: str) -> tuple[Graph, list[Array]]:
    """For that child: the program and its inputs. What it must give is left in the folder, for the judge."""
    from fornaxc.importers.stablehlo.selfchecks import read_check

    found = read_check(name, (folder / "module.mlir").read_text())
    write_arrays(folder / "expected", [e.value for e in found.expectations])
    (folder / "checks.json").write_text(json.dumps([[e.kind, e.output] for e in found.expectations]))
    return found.graph, list(found.inputs)


def judge_selfchecking(folder: Path, outputs: Sequence[Array]) -> Difference:
    """Compare the outputs of the one run with what the module expects, each by the rule of its check."""
    from fornaxc.importers.stablehlo.selfchecks import Expectation, agrees

    checks = json.loads((folder / "checks.json").read_text())
    expectations = [Expectation(k, o, a) for (k, o), a in zip(checks, read_arrays(folder / "expected"), strict=True)]
    errors = [e for x in expectations if (e := _error(x, outputs)) is not None]
    wrong = [x for x in expectations if not agrees(x, outputs[x.output])]
    return Difference(_reason(wrong[0], outputs[wrong[0].output]) if wrong else "", max(errors, default=None))


def _error(expectation: Expectation, outputs: Sequence[Array]) -> float | None:
    """The largest error among elements that are finite on both sides; None where there are none."""
    found, wanted = outputs[expectation.output], expectation.value
    if found.shape != wanted.shape:
        return None
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    return float(np.abs(a[finite] - b[finite]).max()) if finite.any() else None


def _reason(expectation: Expectation, found: Array) -> str:
    wanted = expectation.value
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"the output is {found.dtype}{list(found.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    differ = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    with np.errstate(invalid="ignore"):
        error = np.where(differ, np.nan_to_num(np.abs(a - b), nan=np.inf), -1.0)
    at = np.unravel_index(int(np.argmax(error)), error.shape)
    where = [int(i) for i in at]
    return f"{int(differ.sum())} of {found.size} elements differ; at {where} {a[at]:.9g}, not {b[at]:.9g}"
