"""Names of dynamic sizes, and arguments that are sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fornaxc.importers.stablehlo.names import symbol_of
from fornaxc.importers.stablehlo.platforms import global_constant, platform_argument
from fornaxc.importers.stablehlo.reader import StablehloModule
from fornaxc.importers.stablehlo.sizes import bind_sizes
from fornaxc.importers.stablehlo.types import Operand
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, parse_dim, single_symbol, symbol, symbols
from fornaxc.ir.graph import Value

# the operand that holds sizes, or amounts that decide sizes
_SIZE_OPERANDS = {
    "stablehlo.dynamic_broadcast_in_dim": (1,),
    "stablehlo.dynamic_reshape": (1,),
    "stablehlo.dynamic_iota": (0,),
    "stablehlo.dynamic_pad": (2, 3, 4),
    "stablehlo.dynamic_gather": (2,),
    "stablehlo.dynamic_conv": (2,),
    "stablehlo.real_dynamic_slice": (1, 2, 3),
}


def dim_names(module: StablehloModule, function: Any) -> dict[tuple[int, int], Dim]:
    """The dims of dynamic axes, by argument and axis, where the module or the jax.export file names them.

    jax hands each named size, read with get_dimension_size, to functions whose argument has the attribute `jax.global_constant`.
    """
    names: dict[tuple[int, int], Dim] = {}
    for index, argument in enumerate(function.regions[0].blocks[0].arguments):
        for use in argument.uses:
            reader = getattr(use.owner, "operation", use.owner)
            if reader.name == "stablehlo.get_dimension_size":
                found = _global_name(module.functions, reader.results[0])
                if found:
                    names[index, int(reader.attributes["dimension"].value)] = symbol(found)
    parsed = {
        place: dim for place, text in _exported_dims(module, function).items() if (dim := _parse(text)) is not None
    }
    alone = {single_symbol(dim) for dim in (*names.values(), *parsed.values())}
    for place, dim in parsed.items():
        if symbols(dim) <= alone:  # a size in an expression alone could not be read off the shapes
            names.setdefault(place, dim)
    return names


def _exported_dims(module: StablehloModule, function: Any) -> dict[tuple[int, int], str]:
    """What the jax.export file says of the dims, by argument and axis; nothing where it is about other arguments."""
    arguments = list(function.regions[0].blocks[0].arguments)
    platform = platform_argument(function)
    arrays = [i for i, a in enumerate(arguments) if i != platform and not str(a.type).startswith("!stablehlo.token")]
    described = module.export.input_dims if module.export is not None else ()
    if len(described) != len(arrays):
        return {}
    pairs = zip(arrays, described, strict=True)
    return {(index, axis): text for index, dims in pairs for axis, text in enumerate(dims)}


def _parse(text: str) -> Dim | None:
    try:
        return parse_dim(text)
    except (ValueError, ZeroDivisionError):
        return None


def _global_name(functions: Mapping[str, Any], value: Any) -> str:
    for use in value.uses:
        user = getattr(use.owner, "operation", use.owner)
        if user.name != "func.call":
            continue
        callee = functions.get(symbol_of(user.attributes["callee"]))
        name = global_constant(callee, use.operand_number) if callee is not None else ""
        if name:
            return name if name.isidentifier() else ""
    return ""


class SizeArguments:
    """Finds integer arguments whose value decides the size of a tensor."""

    def __init__(self, functions: Mapping[str, Any], entry: Any) -> None:
        self.functions = functions
        self.entry = entry

    def bind(self, builder: GraphBuilder, arguments: Sequence[Operand]) -> None:
        """Make the value of each such argument a dim that the program knows by name."""
        for argument, operand in zip(self.entry.regions[0].blocks[0].arguments, arguments, strict=True):
            if not isinstance(operand, Value) or not operand.type.dtype.is_integer or operand.type.rank > 1:
                continue
            if operand.type.is_static and self.decides_size(argument):
                bind_sizes(builder, operand)

    def decides_size(self, value: Any) -> bool:
        """Whether an MLIR value is, or is computed into, an operand that holds sizes."""
        visited: set[Any] = set()
        waiting = [value]
        while waiting:
            reached = waiting.pop()
            if reached in visited:
                continue
            visited.add(reached)
            for use in reached.uses:
                user = getattr(use.owner, "operation", use.owner)
                if use.operand_number in _SIZE_OPERANDS.get(user.name, ()):
                    return True
                waiting += self._next(user, use.operand_number)
        return False

    def _next(self, user: Any, operand: int) -> list[Any]:
        """The values that an operation, or the function that it calls, computes from one of its operands."""
        found = [] if len(user.regions) else [r for r in user.results if _is_small(r)]
        callee = self.functions.get(symbol_of(user.attributes["callee"])) if user.name == "func.call" else None
        if callee is not None and callee.regions[0].blocks:
            found.append(callee.regions[0].blocks[0].arguments[operand])
        return found


def _is_small(value: Any) -> bool:
    from jaxlib.mlir import ir

    return isinstance(value.type, ir.RankedTensorType) and value.type.rank <= 2
