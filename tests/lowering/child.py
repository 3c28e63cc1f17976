"""Compiles and runs the cases of one module: `python child.py REPORT RULES FOLDER...` (see `harness`)."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from time import perf_counter
from typing import Any

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from harness import read_arrays, write_arrays

from fornaxc.ir.serialize import graph_from_json
from fornaxc.lowering.context import KERNELS
from fornaxc.lowering.lower import lower_graph

BF16 = np.dtype(ml_dtypes.bfloat16)


def to_buffer(array: Any) -> Any:
    from max.driver import Buffer
    from max.dtype import DType

    array = np.ascontiguousarray(array) if array.ndim else np.array(array)
    if array.dtype == BF16:
        return Buffer.from_numpy(array.view(np.uint16)).view(DType.bfloat16, array.shape)
    if array.ndim == 0:  # from_numpy fails on a rank-0 bool
        return Buffer.from_numpy(array.reshape(1)).view(DType.from_numpy(array.dtype), ())
    return Buffer.from_numpy(array)


def to_array(buffer: Any) -> Any:
    from max.dtype import DType

    if buffer.dtype == DType.bfloat16:
        return np.array(buffer.view(DType.uint16, buffer.shape).to_numpy()).view(BF16).copy()
    return np.array(buffer.to_numpy()).copy()


def main() -> None:
    report, rules, folders = Path(sys.argv[1]), sys.argv[2], [Path(f) for f in sys.argv[3:]]
    from max import driver, engine
    from max.graph import Module

    graphs = {}
    for folder in folders:
        document = json.loads((folder / "graph.json").read_text())
        weights = read_arrays(folder / "weights")
        graphs[folder] = graph_from_json(document, lambda number, _, held=weights: held[number])
    registry, good, module = {}, [], Module()
    device = {"device_kind": "cpu", "rules": rules}
    for folder, graph in graphs.items():
        prefix = f"{folder.name}_"
        try:
            lower_graph(graph, name=f"g{folder.name}", module=Module(), weight_prefix=prefix, **device)
        except Exception as error:
            text = f"{type(error).__name__}: {error}\n{traceback.format_exc()[-1500:]}"
            (folder / "result.json").write_text(json.dumps({"phase": "lower", "error": text}))
            continue
        lowered = lower_graph(graph, name=f"g{folder.name}", module=module, weight_prefix=prefix, **device)
        registry.update(zip(lowered.weight_names, map(to_buffer, read_arrays(folder / "weights")), strict=True))
        good.append(folder)
    if not good:
        return
    start = perf_counter()
    try:
        session = engine.InferenceSession(devices=[driver.CPU()], custom_extensions=[KERNELS])
        models = session.init_all(session.compile(module), weights_registry=registry)
    except Exception as error:
        report.write_text(json.dumps({"error": f"{error}\n"}))
        return
    print(f"compiled {len(good)} graphs in {perf_counter() - start:.1f} s", flush=True)
    for folder in good:
        report.write_text(json.dumps({"running": str(folder)}))
        try:
            outputs = models[f"g{folder.name}"].execute(*map(to_buffer, read_arrays(folder / "inputs")))
            write_arrays(folder / "outputs", [to_array(o) for o in outputs])
            result = {"phase": "ok", "error": ""}
        except Exception as error:
            result = {"phase": "run", "error": f"{type(error).__name__}: {error}"}
        (folder / "result.json").write_text(json.dumps(result))
    report.write_text("{}")


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
