"""Collectives and communication: the identity over one replica, refused otherwise; tokens order nothing here."""

from __future__ import annotations

import numpy as np

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Operand, Token
from fornaxc.ir.graph import Value
from fornaxc.ir.types import DType

_GROUPED = ("all_gather", "all_reduce", "all_to_all", "reduce_scatter", "collective_broadcast")
_COMMUNICATION = ("send", "recv", "infeed", "outfeed", "async_start", "async_done")


@stablehlo_op(*(f"stablehlo.{name}" for name in _GROUPED))
def grouped(ctx: OpContext) -> list[Operand]:
    """Within groups of one replica every member has its own data only."""
    groups = ctx.attribute("replica_groups")
    sizes = np.array(groups).shape if groups is not None else ()
    if len(sizes) != 2 or sizes[1] > 1 or sizes[0] > 1:
        raise Refused("it joins the data of several devices; a program here runs on one")
    return list(ctx.operands)


@stablehlo_op("stablehlo.collective_permute")
def permute(ctx: OpContext) -> list[Operand]:
    """One replica that sends to itself has what it had."""
    if ctx.ints("source_target_pairs") != (0, 0):
        raise Refused("it moves data between devices; a program here runs on one")
    return list(ctx.operands)


@stablehlo_op(*(f"stablehlo.{name}" for name in _COMMUNICATION))
def communication(ctx: OpContext) -> Operand:
    raise Refused("it exchanges data with other devices or with the host; a program here runs on one device")


@stablehlo_op("stablehlo.partition_id", "stablehlo.replica_id")
def own_number(ctx: OpContext) -> Value:
    return ctx.scalar(0, DType.U32)


@stablehlo_op("stablehlo.after_all", "stablehlo.create_token")
def token(ctx: OpContext) -> Token:
    return Token()


@stablehlo_op("sdy.sharding_constraint")
def sharding(ctx: OpContext) -> list[Operand]:
    """How data would be spread over devices; there is one."""
    return list(ctx.operands)
