"""Runs a model of one node through the importer, the checker and the interpreter, and through onnxruntime without its optimiser."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.checker import check
from fornaxc.ir.interpreter import run

Array = np.ndarray[Any, np.dtype[Any]]
MICROSOFT = "com.microsoft"
ML = "ai.onnx.ml"


def one_node(
    op: str,
    inputs: Sequence[Array | None],
    outputs: Sequence[str] = ("y",),
    *,
    domain: str = MICROSOFT,
    constants: Sequence[int] = (),
    symbolic: bool = False,
    opset: int = 17,
    ml: int = 3,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model and what to feed it. None is an omitted input, '' an omitted output; `constants` are initializers.

    `symbolic`: the sizes above 1 of the inputs are not known to the importer.
    """
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    node = helper.make_node(op, names, list(outputs), domain=domain, **attributes)
    infos, tensors, feeds = [], [], {}
    for i, (name, array) in enumerate(zip(names, inputs, strict=True)):
        if array is None:
            continue
        if i in constants:
            tensors.append(numpy_helper.from_array(array, name))
            continue
        shape = [f"n{size}" if symbolic and size > 1 else size for size in array.shape]
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape))
        feeds[name] = array
    named = [helper.make_empty_tensor_value_info(o) for o in outputs if o]
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid(ML, ml)]
    graph = helper.make_graph([node], "g", infos, named, tensors)
    return helper.make_model(graph, opset_imports=imports, ir_version=8), feeds


def reference(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """What onnxruntime gives, with one thread: a few of its kernels give other numbers with more."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return [np.asarray(a) for a in session.run(None, feeds)]


def computed(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    graph = import_model(model_from_proto(model), {})
    check(graph)
    return run(graph, list(feeds.values()))


def _record(model: onnx.ModelProto, feeds: dict[str, Array], outputs: Sequence[Array]) -> None:
    """Keep the case in the backend-test layout, in the folder that FORNAXC_RECORD_CASES names: `make onnxruntime-cases`."""
    base = os.environ.get("FORNAXC_RECORD_CASES")
    if not base:
        return
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0].rpartition("::")[2]
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", f"{model.graph.node[0].op_type}-{test.removeprefix('test_')}").strip("_")
    folder = next(f for n in range(1000) if not (f := Path(base, f"{name}-{n}")).exists())
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    declared = onnx.ModelProto()
    declared.CopyFrom(model)
    for info, array in zip(declared.graph.output, outputs, strict=True):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        info.CopyFrom(helper.make_tensor_value_info(info.name, kind, [None] * array.ndim))
    (folder / "model.onnx").write_bytes(declared.SerializeToString())
    for side, arrays in (("input", feeds.values()), ("output", outputs)):
        for index, array in enumerate(arrays):
            (data / f"{side}_{index}.pb").write_bytes(numpy_helper.from_array(np.asarray(array)).SerializeToString())


def assert_agrees(op: str, inputs: Sequence[Array | None], outputs: Sequence[str] = ("y",), **rest: Any) -> None:
    """As `one_node`."""
    assert_same(*one_node(op, inputs, outputs, **rest))


def assert_same(model: onnx.ModelProto, feeds: dict[str, Array]) -> None:
    """Integers of 8 bits may differ by one in a few places, where a half rounds either way."""
    references = reference(model, feeds)
    _record(model, feeds, references)
    for found, wanted in zip(computed(model, feeds), references, strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype in (np.uint8, np.int8):
            assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1
            assert (found == wanted).mean() > 0.9
        elif wanted.dtype.kind == "f":
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, wanted)
