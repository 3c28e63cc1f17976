"""Models with composed forms, written node by node, and what a pass makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.ir.ops import Binary, Reduce, Softmax, Unary
from fornaxc.passes.cse import share_common
from fornaxc.passes.simplify import simplify

Array = np.ndarray[Any, np.dtype[Any]]
BF16 = np.dtype(ml_dtypes.bfloat16)
TOLERANCES = {
    np.dtype(np.float16): (4e-3, 4e-3),
    BF16: (4e-2, 4e-2),
    np.dtype(np.float32): (2e-5, 2e-6),
    np.dtype(np.float64): (1e-12, 1e-12),
}


class Form:
    """A model with inputs x, x1, ...; values are names."""

    def __init__(self, *shapes: Sequence[int | str], dtype: Any = np.float32, opset: int = 13) -> None:
        self.dtype = np.dtype(dtype)
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []
        self.names = [f"x{i or ''}" for i in range(len(shapes))]
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.inputs = [helper.make_tensor_value_info(n, kind, list(s)) for n, s in zip(self.names, shapes, strict=True)]

    def constant(self, value: ArrayLike, dtype: Any = None) -> str:
        name = f"c{len(self.tensors)}"
        array = np.asarray(value).astype(dtype or self.dtype)
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def __call__(self, op: str, *operands: str | float, **attributes: Any) -> str:
        """The result of a new node; numbers become constants of rank 0."""
        names = [v if isinstance(v, str) else self.constant(v) for v in operands]
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, [result], **attributes))
        return result

    def reduce(self, fn: str, x: str, axes: Sequence[int] = (-1,), keepdims: int = 1) -> str:
        if fn == "Sum" and self.opset >= 13:
            return self("ReduceSum", x, self.constant(axes, np.int64), keepdims=keepdims)
        return self(f"Reduce{fn}", x, axes=list(axes), keepdims=keepdims)

    def model(self, *outputs: str, dtype: Any = None) -> onnx.ModelProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype or self.dtype))
        infos = [helper.make_tensor_value_info(n, kind, None) for n in outputs]
        graph = helper.make_graph(self.nodes, "form", self.inputs, infos, self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def imported(model: onnx.ModelProto) -> Graph:
    """The graph as it is before the passes that recognise forms."""
    with TemporaryDirectory() as folder:
        onnx.save(model, Path(folder) / "m.onnx")
        return share_common(simplify(import_onnx(Path(folder) / "m.onnx")))


def counts(graph: Graph) -> Counter[str]:
    """How many nodes of each operation there are, those of elementwise functions and reductions by function; bodies included."""
    names = [
        node.op.fn
        if isinstance(node.op, Unary | Binary | Reduce)
        else "log_softmax"
        if isinstance(node.op, Softmax) and node.op.log
        else node.op.name
        for node in graph.walk()
    ]
    return Counter(names)


def assert_same(found: Array, wanted: Array) -> None:
    """NaN and infinities at the same places, the rest within the rounding of the element type."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    rtol, atol = TOLERANCES[wanted.dtype]
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol, atol)


def after(
    step: Callable[[Graph], Graph], model: onnx.ModelProto, *samples: Sequence[Array], odd: Array | None = None
) -> Graph:
    """What a pass makes of a model, after the numpy interpreter gave the same before and after on all samples.

    onnxruntime, without its own fusions, gives the same on `samples`, which are finite; `odd` is the one input of a further sample.
    """
    before = imported(model)
    result = step(before)
    check(result)
    assert step(result) is result, "a second time changes something"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = None
    dtypes = {s.dtype for sample in samples for s in sample}
    if BF16 not in dtypes and not (
        np.dtype(np.float64) in dtypes and counts(before)["erf"]
    ):  # onnxruntime has none of these
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    for sample in samples:
        references = session.run(None, dict(zip(before.input_names, sample, strict=True))) if session else []
        originals = run(before, sample)
        for i, found in enumerate(run(result, sample)):
            assert_same(found, originals[i])
            if references:
                assert_same(found, references[i])
    if odd is not None:
        for found, original in zip(run(result, [odd]), run(before, [odd]), strict=True):
            assert_same(found, original)
    return result


def odd_rows(width: int, dtype: Any = np.float32) -> Array:
    """Rows with NaN, infinities, nothing but one of them, one number, zeros and numbers that differ much: f[11, width]."""
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((11, width))
    rows[1, 2] = np.nan
    rows[2, 1] = np.inf
    rows[3, 1] = -np.inf
    rows[4, 1:3] = np.inf, -np.inf
    rows[5], rows[6], rows[7] = -np.inf, np.inf, np.nan
    rows[8], rows[9] = 2.0, 0.0
    rows[10] *= np.logspace(-3, 3, width)
    return rows.astype(dtype)


def odd_numbers(dtype: Any = np.float32) -> Array:
    """Zeros of both signs, NaN, infinities, the least and large numbers, f[n]."""
    info = ml_dtypes.finfo(np.dtype(dtype))
    sizes = [0.0, float(info.tiny), 1e-3, 1.0, 3.0, 9.0, 20.0, 88.0, 90.0, 105.0, 1e4, float(info.max) / 4, np.inf]
    return np.array([*sizes, *(-s for s in sizes), np.nan]).astype(dtype)
