"""Runs the kernels on given arrays: `python child.py JOB.npz RESULT.npz [--cpu NAME] [--one-processor]`.

Every kernel is compiled once, all its sizes symbolic, in one module; `JOB` holds the operands as `case/kernel/index` and
`RESULT` gets the results as `case/index`.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import sys
import traceback
from pathlib import Path

import numpy as np

KERNELS = Path(__file__).parents[2] / "fornaxc" / "kernels"

# kernel -> operands and results, each "dtype dim dim ...", and how many last operands only bring the sizes of the results
SIGNATURES: dict[str, tuple[list[str], list[str], int]] = {
    "conv2d": (["f n h w c", "f p", "f k", "f n ho wo k", "i 11", "f 2"], ["f n ho wo k"], 0),
    "bmm": (["f b m k", "f bw kw n", "i 1", "f b m no"], ["f b m no"], 1),
    "attention": (["f a b c d", "f e f g h", "f i j k l", "f m n o p", "f 3", "i 6", "f q r s t"], ["f q r s t"], 1),
    "pool2d": (["f n h w c", "i 9", "f n ho wo c"], ["f n ho wo c"], 1),
    "lstm": (
        ["f t b g", "f r", "f b h", "f b h", "i l", "f p", "i 7", "f 1"],
        ["f t b h", "f b h", "f b h"],
        0,
    ),
    "gru": (["f t b g", "f r", "f q", "f b h", "i l", "i 5", "f 1"], ["f t b h", "f b h"], 0),
    "rnn": (["f t b h", "f r", "f b h", "i l", "i 3", "f 1"], ["f t b h", "f b h"], 0),
    **{f"reduce_{t}{kind}": ([f"{t} o n i"], [f"{t} o 1 i"], 0) for t in "fi" for kind in range(4)},
    "softmax": (["f r n", "i 1"], ["f r n"], 0),
    "normalize": (["f r n", "f n", "f n", "f 1", "i 1"], ["f r n"], 0),
    "lrn": (["f r n", "i 2", "f 3"], ["f r n"], 0),
    "product_i": (["i b m k", "i bw k n"], ["i b m n"], 0),
    "product_d": (["d b m k", "d bw k n"], ["d b m n"], 0),
    **{
        f"quantized_{x}{y}": (
            [f"{x} m k", "b p q 16 4", "w 1", "w n", "w z", "f n", "f n", "f 1", "f 1", "i 2"],
            [f"{y} m n"],
            0,
        )
        for x in "ub"
        for y in "wfub"
    },
    **{f"im2col_{x}": ([f"{x} n h w c", f"{x} 1", "i 10", f"{x} m k"], [f"{x} m k"], 1) for x in "ub"},
    "transpose_f2": (["f a b", "i 2", "f c d"], ["f c d"], 1),
    "transpose_f4": (["f a b c d", "i 4", "f e f g h"], ["f e f g h"], 1),
    "transpose_i5": (["i a b c d e", "i 5", "i f g h i j"], ["i f g h i j"], 1),
    "transpose_b3": (["b a b c", "i 3", "b d e f"], ["b d e f"], 1),
    "transpose_h3": (["h a b c", "i 3", "h d e f"], ["h d e f"], 1),
}


def guarded(array: np.ndarray) -> np.ndarray:
    """A copy that ends where memory ends that may be read: what reads behind it crashes."""
    page = mmap.PAGESIZE
    size = -(-array.nbytes // page) * page
    memory = mmap.mmap(-1, size + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + size), ctypes.c_size_t(page), 0) == 0
    copy = np.frombuffer(memory, array.dtype, array.size, size - array.nbytes).reshape(array.shape)
    copy[...] = array
    return copy


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("job", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--cpu", help="the processor to compile for; this one where absent")
    parser.add_argument("--one-processor", action="store_true")
    options = parser.parse_args()
    if options.one_processor:  # MAX counts the processors when it starts
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from max import driver, engine
    from max.dtype import DType
    from max.graph import DeviceRef, Graph, KernelLibrary, Module, TensorType, ops

    if options.cpu:
        driver.set_virtual_cpu_target(options.cpu)
    cpu = DeviceRef.CPU()
    dtypes = {"f": DType.float32, "d": DType.float64, "i": DType.int64, "b": DType.int8, "h": DType.int16}
    dtypes |= {"u": DType.uint8, "w": DType.int32}

    def tensor_type(text: str) -> TensorType:
        kind, *dims = text.split()
        return TensorType(dtypes[kind], [int(d) if d.isdigit() else d for d in dims], cpu)

    session = engine.InferenceSession(devices=[driver.CPU()], custom_extensions=[KERNELS])
    module, library = Module(), KernelLibrary()
    library.load_paths([KERNELS])
    for kernel, (operands, results, extra) in SIGNATURES.items():
        inputs = [tensor_type(t) for t in operands]
        with Graph(kernel, input_types=inputs, module=module, kernel_library=library) as graph:
            given = [v.tensor for v in graph.inputs]
            types = [tensor_type(t) for t in results]
            name = kernel.split("_")[0]
            parameters = {"kind": int(kernel[-1])} if name == "reduce" else None
            found = ops.custom(f"fx_{name}", cpu, given[: len(given) - extra], types, parameters=parameters)
            graph.output(*(v.tensor for v in found))
    models = session.init_all(session.compile(module))
    with np.load(options.job) as arrays:
        cases: dict[tuple[str, str], list[np.ndarray]] = {}
        for key in arrays.files:
            case, kernel, _ = key.rsplit("/", 2)
            cases.setdefault((case, kernel), []).append(arrays[key])
    found = {}
    for (case, kernel), operands in cases.items():
        outputs = models[kernel].execute(*map(driver.Buffer.from_numpy, map(guarded, operands)))
        for index, output in enumerate(outputs):
            found[f"{case}/{index}"] = np.array(output.to_numpy())
    np.savez(options.result, **found)


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # MAX may abort in its destructors
