"""Modules that jax exported for several platforms: their first argument is the number of the platform they run on."""

from __future__ import annotations

from typing import Any

from fornaxc.errors import UnsupportedError
from fornaxc.importers.stablehlo.names import text_of
from fornaxc.importers.stablehlo.reader import StablehloModule

ARGUMENT = "_platform_index"
PREFERRED = ("cpu", "cuda", "rocm")
"""Of which platform the branches are taken, by jax's names. The graph is the same for every target; jax writes the CPU's
branches in operations and LAPACK's routines, which all targets have, and the others in calls of a vendor's library."""


def global_constant(function: Any, index: int) -> str:
    """The name that jax gave an argument whose value it knows; empty for the others."""
    from jaxlib.mlir import ir

    if "arg_attrs" not in function.attributes:
        return ""
    attributes = ir.DictAttr(ir.ArrayAttr(function.attributes["arg_attrs"])[index])
    if "jax.global_constant" not in attributes:
        return ""
    return text_of(attributes["jax.global_constant"])


def platform_argument(function: Any) -> int | None:
    """Which argument is the number of the platform; None where none is."""
    count = len(function.regions[0].blocks[0].arguments)
    return next((i for i in range(count) if global_constant(function, i) == ARGUMENT), None)


def platform_index(module: StablehloModule) -> int:
    """The number of the platform whose branches are compiled. UnsupportedError where the file does not tell the platforms,
    or they are none of `PREFERRED`."""
    platforms = module.export.platforms if module.export is not None else ()
    name = module.path.name
    if not platforms:
        raise UnsupportedError(
            f"{name} is a module for several platforms, and does not say which: "
            f"what {ARGUMENT!r} stands for is not known",
            hint=f"compile the jax.export file itself, or give {ARGUMENT!r} with --freeze: the number of the platform, "
            "from 0, in the order of the export",
        )
    for platform in PREFERRED:
        if platform in platforms:
            return platforms.index(platform)
    raise UnsupportedError(
        f"{name} was exported for {', '.join(platforms)}, and not for {', '.join(PREFERRED)}",
        hint=f"export it for one of these as well: jax.export.export(…, platforms=[…, {PREFERRED[0]!r}])",
    )
