"""The reference interpreter of StableHLO, as jaxlib has it: an oracle that shares nothing with the importer."""

from __future__ import annotations

from typing import Any

import numpy as np

from fornaxc.importers.stablehlo.literals import text_arrays
from fornaxc.importers.stablehlo.reader import parse_text
from fornaxc.importers.stablehlo.types import TensorInfo, tensor_info

Arrays = list[np.ndarray[Any, Any]]


def input_infos(text: str) -> list[TensorInfo]:
    """The types of the arguments of the module's first function."""
    module = parse_text(text, "module")
    block = module.body.operations[0].operation.regions[0].blocks[0]
    return [tensor_info(argument.type) for argument in block.arguments]


def evaluate(text: str, inputs: Arrays) -> Arrays:
    """What the reference interpreter gives for the first function. Results must not be complex: jaxlib cannot hand those out."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    module = parse_text(text, "module")
    block = module.body.operations[0].operation.regions[0].blocks[0]
    with module.context, ir.Location.unknown():
        rest = iter(inputs)
        arguments = []
        for argument in block.arguments:
            count = 2 if tensor_info(argument.type).complex else 1
            arguments.append(ir.Attribute.parse(f"{_dense([next(rest) for _ in range(count)])} : {argument.type}"))
        found = []
        for result in stablehlo.eval_module(module, arguments):
            printed = str(result)
            info = tensor_info(ir.Type.parse(printed[printed.rindex(" : ") + 3 :]))
            found += text_arrays(printed, info, tuple(d or 0 for d in info.shape))
        return found


def _dense(parts: Arrays) -> str:
    """A dense attribute's text, of one array or of a real and an imaginary one."""
    array = np.stack([np.atleast_1d(p) for p in parts], axis=-1) if len(parts) == 2 else np.atleast_1d(parts[0])
    if array.size == 0:
        return "dense<>"
    if array.dtype == np.bool_:
        return f"dense<{str(array.reshape(parts[0].shape).tolist()).lower()}>"
    if parts[0].size == 1:  # hex text would be taken for a splat of bytes
        raw = [np.asarray(p).reshape(-1).view(np.dtype(f"u{p.dtype.itemsize}"))[0] for p in parts]
        is_integer = array.dtype.kind in "iu" or array.dtype.name.startswith(("int", "uint"))
        shown = [
            str(int(np.asarray(p).reshape(-1)[0])) if is_integer else hex(int(r))
            for p, r in zip(parts, raw, strict=True)
        ]
        return f"dense<({', '.join(shown)})>" if len(parts) == 2 else f"dense<{shown[0]}>"
    return f'dense<"0x{np.ascontiguousarray(array).tobytes().hex()}">'
