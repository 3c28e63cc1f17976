"""How long a model takes to import and to optimise, against its number of nodes.

`python benchmarks/import_speed.py [--json] [NODES ...]` prints processor seconds of each phase and, of the same file in the same run, those of
onnx's checker with shape inference and of an onnxruntime session without optimisation. `growth` is the time for a node over that in the
smallest model: 1 where nothing grows faster than the model.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import helper, numpy_helper

from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.passes.pipeline import optimize

SIZES = (500, 3_600, 15_000, 50_000)
WIDTH = 16


def layered(count: int) -> onnx.ModelProto:
    """Layers of 14 nodes with the shape arithmetic of exported attention, until there are `count` nodes."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    constants = {"first": [0], "rest": [-1], "heads": [4, 4], "width": [WIDTH]}
    tensors = [numpy_helper.from_array(np.array(values), name) for name, values in constants.items()]

    def add(op: str, *inputs: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], name=f"n{len(nodes)}", **attributes))
        return str(nodes[-1].output[0])

    x = "x"
    while len(nodes) < count:
        weight, bias = f"w{len(nodes)}", f"b{len(nodes)}"
        tensors.append(numpy_helper.from_array(rng.standard_normal((WIDTH, WIDTH)).astype(np.float32), weight))
        tensors.append(numpy_helper.from_array(np.zeros(WIDTH, np.float32), bias))
        y = add("Add", add("MatMul", x, weight), bias)
        batch = add("Gather", add("Shape", y), "first")
        split = add("Reshape", y, add("Concat", batch, "rest", "heads", axis=0))
        mixed = add("Softmax", add("Transpose", split, perm=[0, 2, 1, 3]), axis=-1)
        merged = add("Transpose", mixed, perm=[0, 2, 1, 3])
        y = add("Reshape", merged, add("Concat", batch, "rest", "width", axis=0))
        x = add("Add", add("Mul", add("Erf", y), y), x)
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", "sequence", WIDTH])]
    outputs = [helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, ["batch", "sequence", WIDTH])]
    graph = helper.make_graph(nodes, "layers", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def seconds(work: Callable[[], object]) -> tuple[float, object]:
    """Processor seconds of this process, all threads together, and the result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def peers(path: Path) -> tuple[float, float]:
    import onnxruntime

    def check() -> None:
        onnx.checker.check_model(str(path))
        onnx.shape_inference.infer_shapes(onnx.load(path))

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = seconds(lambda: onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"]))
    return seconds(check)[0], session[0]


def measure(path: Path) -> tuple[float, float]:
    importing, graph = seconds(lambda: import_onnx(path))
    optimizing, _ = seconds(lambda: optimize(graph, "cpu"))  # type: ignore[arg-type]
    return importing, optimizing


def rows(sizes: Sequence[int]) -> Iterator[dict[str, float]]:
    """The figures of a model of each size, in seconds."""
    with TemporaryDirectory() as folder:
        for count in sizes:
            path = Path(folder) / f"{count}.onnx"
            onnx.save(layered(count), path)
            measure(path)  # what is imported and remembered once is no part of the figures
            importing, optimizing = measure(path)
            checks, session = peers(path)
            yield {
                "nodes": count,
                "import": importing,
                "optimize": optimizing,
                "onnx_checks": checks,
                "onnxruntime_session": session,
            }


def main(arguments: Sequence[str]) -> None:
    sizes = [int(argument) for argument in arguments if argument != "--json"] or list(SIZES)
    if "--json" in arguments:
        print(json.dumps(list(rows(sizes))))
        return
    print(
        f"{'nodes':>7} {'import':>8} {'optimize':>9} {'us/node':>8} {'growth':>7} {'onnx checks':>12} {'onnxruntime':>12}"
    )
    smallest = 0.0
    for row in rows(sizes):
        each = (row["import"] + row["optimize"]) / row["nodes"]
        smallest = smallest or each
        print(
            f"{row['nodes']:7} {row['import']:7.2f}s {row['optimize']:8.2f}s {each * 1e6:8.0f} {each / smallest:7.2f}"
            f" {row['onnx_checks']:11.2f}s {row['onnxruntime_session']:11.2f}s",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
