"""Suites of cases: what the installed onnx package holds, and folders in its backend-test layout."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from fornaxc.errors import UsageError
from fornaxc.qualify.cases import AnyCase, Case, as_tensor, facts_of
from fornaxc.qualify.selfchecking import selfchecking_cases
from fornaxc.qualify.undefined import without_undefined

SUITES = {
    "onnx:node": "the cases that the installed onnx package generates, one operator each",
    "onnx:simple": "small graphs of the onnx package",
    "onnx:pytorch-operator": "operators as PyTorch exported them, of the onnx package",
    "onnx:pytorch-converted": "layers as PyTorch exported them, of the onnx package",
}


def load_suite(name: str, filters: Sequence[str] = (), limit: int | None = None) -> list[AnyCase]:
    """The cases of a suite whose id or operator matches one of the glob patterns `filters`; at most `limit`.

    A suite is a name of `SUITES`, or a folder of cases: folders with a model.onnx and test_data_set_*/{input,output}_*.pb, and
    .mlir files whose modules check themselves.
    UsageError where there is no such suite, or nothing in it matches.
    """
    found: Iterator[AnyCase]
    if name == "onnx:node":
        found = _node_cases()
    elif name in SUITES:
        found = _folder_cases(Path(onnx.__file__).parent / "backend" / "test" / "data" / name.removeprefix("onnx:"))
    elif name.startswith("onnx:") or not Path(name).is_dir():
        raise UsageError(
            f"no suite is named {name!r}, and there is no such folder",
            code="FX240",
            details=[{"suite": suite, "what": what} for suite, what in SUITES.items()],
            hint="a folder of cases has folders with a model.onnx and test_data_set_0/input_0.pb, output_0.pb, or .mlir files that check themselves",
        )
    else:
        found = chain(_folder_cases(Path(name)), selfchecking_cases(Path(name)))
    cases = list(islice((c for c in found if not filters or _matches(c, filters)), limit))
    if not cases:
        raise UsageError(
            f"no case of {name} matches" if filters else f"{name} holds no cases",
            code="FX241",
            hint="--filter takes glob patterns of case ids, or operators: 'test_softmax*', 'Softmax'",
        )
    return cases


def _matches(case: AnyCase, filters: Sequence[str]) -> bool:
    operators = facts_of(case).operators
    return any(fnmatchcase(case.id, f) or any(fnmatchcase(o, f) for o in operators) for f in filters)


def _node_cases() -> Iterator[Case]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.random.seed(0)
        collected = collect_testcases(None)
    for case in collected:
        if case.model is not None:
            yield without_undefined(Case(case.name, case.model, [(_values(i), _values(o)) for i, o in case.data_sets]))


def _values(values: Sequence[Any]) -> list[Any]:
    return [as_tensor(v) for v in values]


def _folder_cases(base: Path) -> Iterator[Case]:
    for model in sorted(base.rglob("model.onnx")):
        folder = model.parent
        name = folder.name if folder != base else base.resolve().name
        proto = onnx.load(model, load_external_data=False)
        given = {i.name for i in proto.graph.initializer}
        asked = [i for i in proto.graph.input if i.name not in given]
        sets = sorted(folder.glob("test_data_set_*"), key=lambda p: _number(p.name))
        data = [(_read(s, "input", asked), _read(s, "output", proto.graph.output)) for s in sets]
        yield Case(_id(base, folder, name), proto, data, model)


def _id(base: Path, folder: Path, name: str) -> str:
    inner = folder.relative_to(base).as_posix()
    return name if inner == "." else inner


def _number(name: str) -> int:
    found = re.findall(r"\d+", name)
    return int(found[-1]) if found else 0


def _read(folder: Path, side: str, infos: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    """The values of one side of a data set, each read as what the graph declares."""
    values = []
    files = sorted(folder.glob(f"{side}_*.pb"), key=lambda p: _number(p.stem))
    for file, info in zip(files, infos, strict=False):
        kind = info.type.WhichOneof("value") or "tensor_type"
        if kind != "tensor_type":
            values.append(kind.removesuffix("_type"))
            continue
        tensor = onnx.TensorProto()
        tensor.ParseFromString(file.read_bytes())
        values.append(as_tensor(tensor))
    return values
