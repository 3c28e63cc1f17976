"""Runs the onnx package's own node cases through the importer, the checker and the interpreter.

`python tests/importers/node_cases.py [--variant V] [OP ...]` lists the cases of operators (all without OP);
`--update` rewrites the list of expected refusals.
"""

from __future__ import annotations

import sys
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from fornaxc.errors import ModelError, UnsupportedError
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.binding import ShapeMismatch
from fornaxc.ir.checker import check
from fornaxc.ir.interpreter import run
from fornaxc.qualify.cases import Case
from fornaxc.qualify.suites import load_suite

Array = np.ndarray[Any, np.dtype[Any]]

GAPS = Path(__file__).parent.parent / "onnx_suite" / "node_gaps.toml"
VARIANTS = ("runtime", "constant", "symbolic")
"""How a case is posed: every input at run time; inputs of integers or of rank 0 and 1 as initializers; and then with symbolic dims."""

_LOOSE = {"float16": (2e-3, 2e-3), "bfloat16": (2e-2, 2e-2), "float32": (1e-3, 1e-5), "float64": (1e-5, 1e-7)}


@dataclass(frozen=True)
class Outcome:
    """What became of one case: `pass`, `refused` or `wrong` (a wrong value, type or shape, or a fault of ours)."""

    case: str
    variant: str
    ops: tuple[str, ...]
    status: str
    detail: str = ""


def cases() -> list[Case]:
    """Every node case whose inputs and outputs are tensors of numbers."""
    return [case for case in load_suite("onnx:node") if isinstance(case, Case) and _is_numeric(case)]


def _is_numeric(case: Case) -> bool:
    infos = [*case.model.graph.input, *case.model.graph.output]
    return all(
        info.type.HasField("tensor_type") and info.type.tensor_type.elem_type != onnx.TensorProto.STRING
        for info in infos
    )


def outcomes(ops: Sequence[str] = (), variants: Sequence[str] = VARIANTS) -> Iterator[Outcome]:
    """The outcome of every case, or of those that hold one of `ops`, in each of `variants`."""
    for case in cases():
        held = tuple(dict.fromkeys(node.op_type for node in case.model.graph.node))
        if ops and not set(ops) & set(held):
            continue
        for variant in variants:
            posed = _posed(case, variant)
            if posed is not None:
                yield Outcome(case.id, variant, held, *_try(case, *posed, variant == "symbolic"))


def _posed(case: Case, variant: str) -> tuple[onnx.ModelProto, list[Array]] | None:
    """The model and the arrays to give it; None where this variant is the same as one before."""
    arrays = [np.asarray(a) for a in case.data[0][0]]
    graph = case.model.graph
    if variant == "runtime":
        return case.model, arrays
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    steering = {
        info.name: array
        for info, array in zip(graph.input, arrays, strict=True)
        if array.dtype in (np.int64, np.int32, np.bool_) or array.ndim <= 1
    }
    if arrays and len(steering) == len(arrays):
        steering.pop(graph.input[0].name, None)
    if variant == "constant" and not steering:
        return None
    kept = [(info, array) for info, array in zip(graph.input, arrays, strict=True) if info.name not in steering]
    del model.graph.input[:]
    for info, array in kept:
        added = model.graph.input.add()
        added.CopyFrom(info)
        if variant == "symbolic":
            for dim, size in zip(added.type.tensor_type.shape.dim, array.shape, strict=True):
                if size > 1:
                    dim.dim_param = f"n{size}"
    if variant == "symbolic" and not any(size > 1 for _, array in kept for size in array.shape):
        return None
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in steering.items())
    return model, [array for _, array in kept]


def _try(case: Case, model: onnx.ModelProto, inputs: list[Array], symbolic: bool) -> tuple[str, str]:
    try:
        graph = import_model(model_from_proto(model), {})
        check(graph)
        found = run(graph, inputs)
    except UnsupportedError as error:
        reasons = sorted({f"{d['op']}: {d['reason']}" if "op" in d else error.message for d in error.details})
        return "refused", "; ".join(reasons) or error.message
    except ModelError as error:
        # with sizes unknown, a handler may take what it cannot tell for a fault of the model
        return "refused" if symbolic else "wrong", f"called invalid: {error.message}"
    except ShapeMismatch as error:  # two sizes that were taken to be equal are not
        return "refused" if symbolic else "wrong", str(error)
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error} {traceback.format_exc().splitlines()[-3].strip()}"
    wanted = [np.asarray(a) for a in case.data[0][1]]
    problems = [difference(w, f) for w, f in zip(wanted, found, strict=True)]
    problem = next((p for p in problems if p), "")
    return ("wrong", problem) if problem else ("pass", "")


def difference(wanted: Array, found: Array) -> str:
    """How `found` differs from `wanted`; '' where it does not."""
    if wanted.dtype != found.dtype or wanted.shape != found.shape:
        return f"{found.dtype}{found.shape}, not {wanted.dtype}{wanted.shape}"
    if wanted.dtype.name not in _LOOSE:
        same = np.array_equal(wanted.astype(np.float64), found.astype(np.float64), equal_nan=True)
        return "" if same else f"{found.reshape(-1)[:12]}, not {wanted.reshape(-1)[:12]}"
    relative, absolute = _LOOSE[wanted.dtype.name]
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    if np.allclose(b, b.round(4), rtol=0, atol=1e-7, equal_nan=True):  # some cases hold values with four decimals
        absolute = max(absolute, 6e-5)
    if np.allclose(a, b, rtol=relative, atol=absolute, equal_nan=True):
        return ""
    return f"{found.reshape(-1)[:8]}, not {wanted.reshape(-1)[:8]}"


def expected_refusals() -> dict[str, str]:
    """`case/variant` to the reason why it is refused."""
    return dict(tomllib.loads(GAPS.read_text())["refused"])


def _update(found: Sequence[Outcome]) -> None:
    lines = [f'"{o.case}/{o.variant}" = {_quoted(o.detail)}\n' for o in found if o.status == "refused"]
    GAPS.parent.mkdir(exist_ok=True)
    head = "# Node cases that the importer refuses; written by `python tests/importers/node_cases.py --update`.\n\n"
    GAPS.write_text(head + "[refused]\n" + "".join(sorted(lines)))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main(arguments: list[str]) -> int:
    update = "--update" in arguments
    variants: Sequence[str] = VARIANTS
    if "--variant" in arguments:
        at = arguments.index("--variant")
        variants = (arguments[at + 1],)
        del arguments[at : at + 2]
    found = list(outcomes([a for a in arguments if not a.startswith("--")], variants))
    for outcome in found:
        if outcome.status != "pass" or "--all" in arguments:
            print(outcome.status.upper(), outcome.case, outcome.variant, outcome.detail)
    print(dict(Counter(f"{o.variant} {o.status}" for o in found)))
    if update:
        _update(found)
    return int(any(o.status == "wrong" for o in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
