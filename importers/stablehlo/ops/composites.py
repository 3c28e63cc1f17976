"""Composites whose meaning is known by name, so that their decomposition is not needed."""

from __future__ import annotations

from fornaxc.importers.stablehlo.context import OpContext
from fornaxc.importers.stablehlo.types import Operand


def native_composite(ctx: OpContext) -> list[Operand] | None:
    """The results of a composite that is an operation here; None for the others."""
    return None
