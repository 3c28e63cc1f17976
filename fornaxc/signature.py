"""Whether named arrays are what a model takes, or what it gives, judged from its types alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fornaxc.errors import UsageError
from fornaxc.ir.binding import ShapeMismatch, bind_dims, check_constraints
from fornaxc.ir.dims import Dim, substitute
from fornaxc.ir.graph import Array, Constraint
from fornaxc.ir.types import TensorType

Signature = Mapping[str, TensorType]
"""Types by name, in order."""


def check_inputs(
    signature: Signature, constraints: Sequence[Constraint], given: Mapping[str, object]
) -> tuple[dict[str, Array], dict[str, Dim]]:
    """The arrays in the order of the signature, and the sizes of its symbols.

    Raises UsageError: FX220 for a wrong name, FX221 for a wrong element type, FX222 for a wrong shape.
    """
    _check_names(signature, given, "input", "FX220")
    arrays = {name: np.asarray(given[name]) for name in signature}
    for name, array in arrays.items():
        wanted = signature[name].dtype.numpy
        if array.dtype != wanted:
            raise UsageError(
                f"input {name!r} must hold {wanted}, not {array.dtype}",
                code="FX221",
                hint=f"convert it with .astype({wanted.name!r})" if array.dtype.kind in "biufcV" else "give numbers",
            )
    try:
        sizes = bind_dims(list(signature), list(signature.values()), [a.shape for a in arrays.values()])
        check_constraints(constraints, sizes)
    except ShapeMismatch as problem:
        raise UsageError(str(problem), code="FX222") from None
    return arrays, sizes


def check_expected(signature: Signature, sizes: Mapping[str, Dim], given: Mapping[str, Array]) -> None:
    """Raise UsageError unless golden outputs can be those of a model: FX231 for a wrong name, FX232 for a type or shape.

    `sizes` are those of the inputs' symbols; a dim that only the run tells is not judged.
    """
    _check_names(signature, given, "output", "FX231")
    for name, type in signature.items():
        wanted = tuple(substitute(dim, sizes) for dim in type.shape)
        found = given[name]
        fits = len(found.shape) == len(wanted) and all(
            not isinstance(dim, int) or dim == size for dim, size in zip(wanted, found.shape, strict=True)
        )
        if found.dtype != type.dtype.numpy or not fits:
            shapes = f"[{', '.join(map(str, wanted))}]", f"{list(found.shape)}"
            raise UsageError(
                f"the expected output {name!r} is {found.dtype} {shapes[1]}; the model gives {type.dtype.numpy} {shapes[0]}",
                code="FX232",
                hint="give the outputs that belong to these inputs",
            )


def _check_names(signature: Signature, given: Mapping[str, object], what: str, code: str) -> None:
    unknown, missing = [n for n in given if n not in signature], [n for n in signature if n not in given]
    if unknown or missing:
        parts = [f"no {what} is named {', '.join(map(repr, unknown))}"] if unknown else []
        parts += [f"the {what} {', '.join(map(repr, missing))} is missing"] if missing else []
        raise UsageError("; ".join(parts), code=code, hint=f"the {what}s are: {', '.join(signature)}")
