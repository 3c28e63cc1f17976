"""Runs a model of one node through the importer, the checker and the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.checker import check
from fornaxc.ir.interpreter import run

Array = np.ndarray[Any, np.dtype[Any]]


def f32(values: object) -> Array:
    return np.array(values, np.float32)


def run_node(
    op: str,
    inputs: Sequence[Array | None],
    *,
    opset: int,
    constants: Sequence[int] = (),
    outputs: int = 1,
    symbolic: Sequence[tuple[int, int]] = (),
    domain: str = "",
    **attributes: Any,
) -> list[Array]:
    """The results of one node. `constants` are the inputs that are initializers; None is an omitted input.

    `symbolic`: (input, axis) pairs whose size the importer does not know.
    """
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    infos, tensors, arrays = [], [], []
    for i, (name, array) in enumerate(zip(names, inputs, strict=True)):
        if array is None:
            continue
        if i in constants:
            tensors.append(numpy_helper.from_array(array, name))
            continue
        shape = [f"n{i}_{k}" if (i, k) in symbolic else size for k, size in enumerate(array.shape)]
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape))
        arrays.append(array)
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info(r) for r in results], tensors)
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    imported = import_model(model_from_proto(helper.make_model(graph, opset_imports=imports, ir_version=10)), {})
    check(imported)
    return run(imported, arrays)
