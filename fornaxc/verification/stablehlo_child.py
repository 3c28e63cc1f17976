"""The child that evaluates a StableHLO function: `python -m fornaxc.verification.stablehlo_child JOB.json`.

The job is {"model", "entry", "dtypes", "folder"}; `inputs.npz` in the folder holds the arguments by name. Writes `outputs.npz` and their
element types as `outputs.json`. The interpreter ends the process natively where it cannot evaluate an operation.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from fornaxc.importers.stablehlo.importer import argument_names, entry_name
from fornaxc.importers.stablehlo.literals import dense_array
from fornaxc.importers.stablehlo.placement import IDENTITY_CALLS, IDENTITY_OPERATIONS
from fornaxc.importers.stablehlo.platforms import ARGUMENT, platform_argument, platform_index
from fornaxc.importers.stablehlo.reader import open_module, run_passes
from fornaxc.importers.stablehlo.types import tensor_info
from fornaxc.ir.graph import Array
from fornaxc.ir.types import dtype_of
from fornaxc.npz import load_npz, save_npz, with_dtypes
from fornaxc.verification.departures import interpreter_departures

_TO_CORE = (
    "func.func(stablehlo-legalize-composite-to-call)",
    "func.func(chlo-legalize-to-stablehlo)",
    "func.func(shape-legalize-to-stablehlo)",
)


class Cannot(Exception):
    """The interpreter cannot be asked; the text says why."""


def evaluate(path: Path, entry: str | None, arrays: Mapping[str, Array]) -> list[Array]:
    """The results of a function; a complex one is two arrays, as is a complex argument, NAME.real and NAME.imag, unless
    NAME is given.

    The number of the platform is the importer's where it is not given.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    opened = open_module(path)
    module, name = opened.module, entry_name(opened, entry)
    function = opened.functions[name]
    names = argument_names(opened.functions, function)
    arguments = list(function.regions[0].blocks[0].arguments)
    if platform_argument(function) is not None and ARGUMENT not in arrays:
        arrays = {**arrays, ARGUMENT: np.array(platform_index(opened), np.int32)}
    given = [_parts(arrays, n, a.type) for n, a in zip(names, arguments, strict=True)]
    with module.context, ir.Location.unknown():
        _make_main(opened.functions, name)
        if any(_is_complex(v.type) for v in (*arguments, *_returned(function))):
            _split_complex(function)
            arguments = list(function.regions[0].blocks[0].arguments)
        _drop_identities(module)
        flat = [part for parts in given for part in parts]
        types = [_static(a.type, part.shape) for a, part in zip(arguments, flat, strict=True)]
        if any(t != str(a.type) for t, a in zip(types, arguments, strict=True)):
            module = _refined(module, types)
        run_passes(module, *_TO_CORE)
        known = interpreter_departures(_walk(module.operation))
        if known:
            raise Cannot("; ".join(known))
        values = [ir.Attribute.parse(f"{_dense(p)} : {t}") for p, t in zip(flat, types, strict=True)]
        results = stablehlo.eval_module(module, values)
        return [_array(r) for r in results]


def _parts(arrays: Mapping[str, Array], name: str, type: Any) -> list[Array]:
    info = tensor_info(type)
    if info.complex and name in arrays:
        return [arrays[name].real, arrays[name].imag]
    wanted = [f"{name}.real", f"{name}.imag"] if info.complex else [name]
    missing = [n for n in wanted if n not in arrays]
    if missing:
        raise Cannot(f"no value is given for the argument {missing[0]!r}")
    return [arrays[n] for n in wanted]


def _make_main(functions: Mapping[str, Any], name: str) -> None:
    """Give the function the name that the interpreter evaluates."""
    from jaxlib.mlir import ir

    if name == "main":
        return
    renamed = {name: "main"} | ({"main": "main__other"} if "main" in functions else {})
    for old, new in renamed.items():
        functions[old].attributes["sym_name"] = ir.StringAttr.get(new)
    for function in functions.values():
        for op in _walk(function):
            if op.name == "func.call":
                callee = str(op.attributes["callee"]).lstrip("@").strip('"')
                if callee in renamed:
                    op.attributes["callee"] = ir.FlatSymbolRefAttr.get(renamed[callee])


def _walk(op: Any) -> Iterator[Any]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _walk(inner.operation)


def _split_complex(function: Any) -> None:
    """Take and return complex numbers as pairs of real ones: the binding hands over no others."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func, stablehlo

    block = function.regions[0].blocks[0]
    final = list(block.operations)[-1].operation
    with ir.InsertionPoint.at_block_begin(block):
        for argument in list(block.arguments):
            if _is_complex(argument.type):
                kind = ir.RankedTensorType(argument.type)
                part = ir.RankedTensorType.get(kind.shape, ir.ComplexType(kind.element_type).element_type)
                pair = [block.add_argument(part, ir.Location.unknown()) for _ in range(2)]
                argument.replace_all_uses_with(stablehlo.complex(*pair))
            else:
                argument.replace_all_uses_with(block.add_argument(argument.type, ir.Location.unknown()))
            block.erase_argument(0)
    with ir.InsertionPoint(final):
        results = [
            part
            for r in _returned(function)
            for part in ([stablehlo.real(r), stablehlo.imag(r)] if _is_complex(r.type) else [r])
        ]
        func.ReturnOp(results)
    final.erase()
    types = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in results])
    function.attributes["function_type"] = ir.TypeAttr.get(types)
    for name in ("arg_attrs", "res_attrs"):
        if name in function.attributes:
            del function.attributes[name]


def _returned(function: Any) -> list[Any]:
    return list(list(function.regions[0].blocks[0].operations)[-1].operation.operands)


def _is_complex(type: Any) -> bool:
    return "complex<" in str(type)


def _drop_identities(module: Any) -> None:
    """Erase what says only where data lies; the interpreter knows nothing of it."""
    for op in list(_walk(module.operation)):
        if op.name in IDENTITY_OPERATIONS or (op.name == "stablehlo.custom_call" and _target(op) in IDENTITY_CALLS):
            for result, operand in zip(op.results, op.operands, strict=False):
                result.replace_all_uses_with(operand)
            op.erase()


def _target(op: Any) -> str:
    return str(op.attributes["call_target_name"]).strip('"')


def _static(type: Any, shape: Sequence[int]) -> str:
    sizes = "".join(f"{n}x" for n in shape)
    return f"tensor<{sizes}{type.element_type}>"


def _refined(module: Any, types: Sequence[str]) -> Any:
    """The module for arguments of these types; its assertions about sizes are checked on the way."""
    from jaxlib import _jax
    from jaxlib.mlir import ir

    run_passes(module, f"stablehlo-refine-arguments{{types={','.join(types)}}}")
    with module.context:
        text = _jax.mlir.refine_polymorphic_shapes(_bytecode(module))
        return ir.Module.parse(text)


def _bytecode(module: Any) -> bytes:
    import io

    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _array(result: Any) -> Array:
    from jaxlib.mlir import ir

    text = str(result)
    return dense_array(result, tensor_info(ir.Type.parse(text[text.rindex(" : ") + 3 :])))[0]


def _dense(array: Array) -> str:
    """A dense attribute's text."""
    if array.size == 0:
        return "dense<>"
    if array.dtype == np.bool_:
        return f"dense<{json.dumps(array.tolist())}>"
    if array.size == 1:  # hex text would be taken for a splat of bytes
        return f"dense<{_number(array.reshape(-1))}>"
    return f'dense<"0x{np.ascontiguousarray(array).tobytes().hex()}">'


def _number(array: Array) -> str:
    is_integer = array.dtype.kind in "iu" or array.dtype.name.startswith(("int", "uint"))
    return str(int(array[0])) if is_integer else hex(int(array.view(np.dtype(f"u{array.dtype.itemsize}"))[0]))


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(job["folder"])
    status = 0
    try:
        dtypes = {n: np.dtype(getattr(ml_dtypes, t, t)) for n, t in job["dtypes"].items()}
        arrays = with_dtypes(load_npz(folder / "inputs.npz", "inputs"), dtypes)
        outputs = evaluate(Path(job["model"]), job["entry"], arrays)
        save_npz(folder / "outputs.npz", {f"r{i}": a for i, a in enumerate(outputs)})
        (folder / "outputs.json").write_text(json.dumps([dtype_of(a.dtype).value for a in outputs]))
    except Exception as error:  # whatever it is, the parent wants a line about it
        print(f"error: {' '.join(str(error).split())[:300] or type(error).__name__}", file=sys.stderr)
        status = 1
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
