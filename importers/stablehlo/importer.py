"""StableHLO file to `Graph`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fornaxc.errors import ModelError, UnsupportedError, UsageError
from fornaxc.importers.stablehlo.block import BlockImporter, Broken, Program
from fornaxc.importers.stablehlo.codes import Code
from fornaxc.importers.stablehlo.dimensions import SizeArguments, dim_names
from fornaxc.importers.stablehlo.names import symbol_of, text_of
from fornaxc.importers.stablehlo.platforms import ARGUMENT, platform_argument, platform_index
from fornaxc.importers.stablehlo.reader import StablehloModule, how_to_convert, open_module
from fornaxc.importers.stablehlo.types import Complex, Operand, Token, UnknownType, parts, tensor_info
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, symbol
from fornaxc.ir.graph import Array, Graph, Value
from fornaxc.ir.types import TensorType, dtype_of

Frozen = Mapping[str, Array]

_DIALECTS = {"chlo", "func", "sdy", "stablehlo"}


def import_stablehlo(
    path: Path, pins: Mapping[str, int] | None = None, entry: str | None = None, freeze: Frozen | None = None
) -> Graph:
    """The graph of a StableHLO file: text, MLIR bytecode, a portable artifact or a jax.export file.

    `pins` gives sizes to named dims; `entry` names the function where several are public; `freeze` makes weights of the inputs
    that it names. A complex input or output is two of real numbers, `NAME.real` and `NAME.imag`; a frozen one may be one
    array, `NAME`. Of a module for several platforms the branches of one are taken (`platforms.PREFERRED`). Raises `ModelError`
    for a damaged or invalid file, `UnsupportedError` (with one detail per operation) for what fornaxc cannot do, `UsageError`
    for a pin, an entry or a frozen input that the module does not have.
    """
    return import_module(open_module(path), pins or {}, entry, freeze or {})


def import_module(
    module: StablehloModule, pins: Mapping[str, int], entry: str | None = None, freeze: Frozen | None = None
) -> Graph:
    """As `import_stablehlo`, of a module that is parsed already."""
    function = module.functions[entry_name(module, entry)]
    builder = GraphBuilder()
    program = Program(module.functions, builder, module.path.name)
    block = function.regions[0].blocks[0]
    inputs = _Inputs(module, function, builder, pins, dict(freeze or {}))
    arguments = [inputs.operand(argument, i) for i, argument in enumerate(block.arguments)]
    inputs.finish()
    builder.reserve(builder.input_symbols())
    SizeArguments(module.functions, function).bind(builder, arguments)
    importer = BlockImporter(program, builder)
    results: list[Operand] = []
    try:
        results = importer.run(block, arguments)
    except Broken:
        if not (program.refused or program.invalid):
            raise
    _raise_findings(module, program)
    values, names = _outputs(function, results)
    return builder.finish(values, names)


def entry_name(module: StablehloModule, entry: str | None) -> str:
    """The function to compile: the one named, the only public one, or `main`."""
    if entry is not None:
        if entry not in module.functions:
            known = ", ".join(module.functions) or "none"
            raise UsageError(
                f"{module.path} has no function {entry!r}", code="FX216", hint=f"its functions are: {known}"
            )
        if not module.functions[entry].regions[0].blocks:
            bodies = ", ".join(n for n, f in module.functions.items() if f.regions[0].blocks) or "none"
            raise UsageError(
                f"{module.path} declares the function {entry!r} without a body",
                code="FX216",
                hint=f"functions with a body are: {bodies}",
            )
        return entry
    if not module.public:
        known = ", ".join(module.functions)
        raise ModelError(
            f"{module.path} has no public function",
            code=Code.NO_FUNCTION,
            hint=f"choose one with --entry: {known}" if known else "it has no function at all: export the model again",
        )
    if len(module.public) > 1 and "main" not in module.public:
        raise UsageError(
            f"{module.path} has several public functions",
            code="FX216",
            hint=f"choose one of them with --entry: {', '.join(module.public)}",
        )
    return "main" if "main" in module.public else module.public[0]


class _Inputs:
    """Turns the arguments of the entry function into graph inputs, or weights where they are frozen."""

    def __init__(
        self,
        module: StablehloModule,
        function: Any,
        builder: GraphBuilder,
        pins: Mapping[str, int],
        freeze: dict[str, Array],
    ) -> None:
        self.module = module
        self.builder = builder
        self.pins = pins
        self.freeze = freeze
        self.names = argument_names(module.functions, function)
        self.platform = platform_argument(function)
        self.dims = dim_names(module, function)
        self.symbols: set[str] = set()
        self._anonymous = 0

    def operand(self, argument: Any, index: int) -> Operand:
        if index == self.platform:
            return self._platform()
        return self._operand(argument.type, self.names[index], index)

    def _operand(self, type: Any, name: str, index: int) -> Operand:
        if str(type).startswith("!stablehlo.token"):
            return Token()
        if str(type).startswith("tuple<"):
            from jaxlib.mlir import ir

            items = ir.TupleType(type)
            return tuple(self._operand(items.get_type(i), f"{name}.{i}", index) for i in range(items.num_types))
        try:
            info = tensor_info(type)
        except UnknownType as unknown:
            raise UnsupportedError(
                f"{self.module.path.name}: the input {name!r} has {unknown}, which is not supported",
                code="FX303",
                details=[{"input": name}],
            ) from None
        ir_type = TensorType(info.dtype, tuple(self._dim(d, index, axis) for axis, d in enumerate(info.shape)))
        if info.complex:
            self._split(name, ir_type)
            return Complex(self._value(ir_type, f"{name}.real"), self._value(ir_type, f"{name}.imag"))
        return self._value(ir_type, name)

    def _platform(self) -> Value:
        """The number of the platform, as part of the program: the branches of the others are not imported."""
        given = self.freeze.pop(ARGUMENT, None)
        if given is not None and (given.dtype.kind not in "iu" or given.size != 1):
            raise UsageError(f"the frozen input {ARGUMENT!r} must be one integer", code="FX217")
        index = platform_index(self.module) if given is None else int(given.reshape(()))
        return self.builder.literal(np.array(index, np.int32))

    def _split(self, name: str, part: TensorType) -> None:
        """Make two arrays of a complex one that is frozen under the input's name; `part` is the type of each."""
        array = self.freeze.pop(name, None)
        if array is None:
            return
        if array.dtype.kind != "c":
            raise UsageError(
                f"the frozen input {name!r} must be complex, of two {part}; "
                f"the file holds {dtype_of(array.dtype)}{list(array.shape)}",
                code="FX217",
            )
        self.freeze |= {f"{name}.real": array.real, f"{name}.imag": array.imag}

    def _value(self, type: TensorType, name: str) -> Value:
        if name not in self.freeze:
            return self.builder.input(type, name)
        array = self.freeze.pop(name)
        if array.dtype.kind == "V" and array.dtype.itemsize == type.dtype.numpy.itemsize:
            array = array.view(type.dtype.numpy)  # .npy files keep only the size of bfloat16 and float8
        if array.shape != type.shape or array.dtype != type.dtype.numpy:
            raise UsageError(
                f"the frozen input {name!r} must be {type}; the file holds {dtype_of(array.dtype)}{list(array.shape)}",
                code="FX217",
                hint="" if type.is_static else "give its symbolic sizes with --dim NAME=SIZE",
            )
        return self.builder.weight(type, _loader(array), name)

    def _dim(self, declared: int | None, index: int, axis: int) -> Dim:
        if declared is not None:
            return declared
        found = self.dims.get((index, axis))
        if found is None:
            taken = {str(d) for d in self.dims.values()}
            while f"d{self._anonymous}" in taken:
                self._anonymous += 1
            found = symbol(f"d{self._anonymous}")
            self._anonymous += 1
        self.symbols.add(str(found))
        return self.pins.get(str(found), found)

    def finish(self) -> None:
        """`UsageError` for a pin or a frozen name that no input has."""
        for name in self.pins:
            if name not in self.symbols:
                known = ", ".join(sorted(self.symbols)) or "none"
                raise UsageError(
                    f"no input has a dim named {name!r}", code="FX215", hint=f"the symbolic dims are: {known}"
                )
        if self.freeze:
            raise UsageError(
                f"no input is named {', '.join(sorted(self.freeze))}",
                code="FX217",
                hint=f"the inputs are: {', '.join(self.names)}",
            )


def _loader(array: Array) -> Callable[[], Array]:
    return lambda: array


def argument_names(functions: Mapping[str, Any], function: Any) -> list[str]:
    """The names that the source gave the arguments, where all are there and differ; else arg0, arg1, ..."""
    arguments = list(function.regions[0].blocks[0].arguments)
    names = [_location_name(a) or _name_in_callee(functions, a) or f"arg{i}" for i, a in enumerate(arguments)]
    platform = platform_argument(function)
    if platform is not None:
        names[platform] = ARGUMENT
    return names if len(set(names)) == len(names) else [f"arg{i}" for i in range(len(arguments))]


def _location_name(argument: Any) -> str:
    found = re.fullmatch(r'loc\("([^"]+)"(\(.*\))?\)', str(argument.location))
    return found.group(1) if found and not found.group(1).startswith("-") else ""


def _name_in_callee(functions: Mapping[str, Any], argument: Any) -> str:
    """The name of an argument that is only handed on to another function."""
    for use in argument.uses:
        user = use.owner
        if getattr(user, "operation", user).name == "func.call":
            callee = functions.get(symbol_of(user.attributes["callee"]))
            if callee is not None and callee.regions[0].blocks:
                return _location_name(callee.regions[0].blocks[0].arguments[use.operand_number])
    return ""


def _outputs(function: Any, results: Sequence[Operand]) -> tuple[list[Value], list[str]]:
    values: list[Value] = []
    names: list[str] = []
    for label, operand in zip(_result_names(function, len(results)), results, strict=True):
        _name_parts(operand, label, values, names)
    return values, names


def _name_parts(operand: Operand, label: str, values: list[Value], names: list[str]) -> None:
    if isinstance(operand, tuple):
        for i, item in enumerate(operand):
            _name_parts(item, f"{label}.{i}", values, names)
        return
    values += parts(operand)
    if isinstance(operand, Complex):
        names += [f"{label}.real", f"{label}.imag"]
    elif isinstance(operand, Value):
        names.append(label)


def _result_names(function: Any, count: int) -> list[str]:
    """What jax calls the results, where it names all and differently; else result0, result1, ... (result where there is one)."""
    from jaxlib.mlir import ir

    plain = [f"result{i}" for i in range(count)] if count != 1 else ["result"]
    if "res_attrs" not in function.attributes:
        return plain
    names = []
    for attributes in ir.ArrayAttr(function.attributes["res_attrs"]):
        known = ir.DictAttr(attributes)
        names.append(text_of(known["jax.result_info"]) if "jax.result_info" in known else "")
    complete = len(names) == count and all(names) and len(set(names)) == count
    return names if complete else plain


def _raise_findings(module: StablehloModule, program: Program) -> None:
    if program.invalid:
        first = program.invalid[0]
        more = f" (and {len(program.invalid) - 1} more)" if len(program.invalid) > 1 else ""
        raise ModelError(
            f"{module.path.name}: {first['op']} at {first['location'] or 'an unknown place'} is invalid: {first['reason']}{more}",
            code=Code.INVALID_OPERATION,
            details=program.invalid,
        )
    if program.refused:
        count = len(program.refused)
        hint = "; ".join(program.hints) or "each line names an operation, its place and what is missing"
        foreign = sorted({finding["op"].partition(".")[0] for finding in program.refused} - _DIALECTS)
        if foreign:
            hint = f"{foreign[0]} is not StableHLO: {how_to_convert(foreign[0])}"
        raise UnsupportedError(
            f"{module.path.name}: {count} operation{'s' if count > 1 else ''} cannot be compiled",
            code="FX301",
            details=program.refused,
            hint=hint,
        )
