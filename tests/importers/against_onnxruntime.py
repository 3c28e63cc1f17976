"""Runs a model of one node through the importer, the checker and the interpreter, and through onnxruntime without its optimiser."""

from __future__ import annotations

from collections.abc import Sequence
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


def assert_agrees(op: str, inputs: Sequence[Array | None], outputs: Sequence[str] = ("y",), **rest: Any) -> None:
    """As `one_node`; integers of 8 bits may differ by one in a few places, where a half rounds either way."""
    model, feeds = one_node(op, inputs, outputs, **rest)
    for found, wanted in zip(computed(model, feeds), reference(model, feeds), strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype in (np.uint8, np.int8):
            assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1
            assert (found == wanted).mean() > 0.9
        elif wanted.dtype.kind == "f":
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, wanted)
