"""Collectives and communication: the identity among one device, refused otherwise; tokens order nothing here."""

from __future__ import annotations

import numpy as np

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.ops.elementwise import convert_operand
from fornaxc.importers.stablehlo.placement import (
    IDENTITY_OPERATIONS,
    SEVERAL_DEVICES,
    devices,
    partitions,
    replicas,
)
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Operand, Token
from fornaxc.ir.graph import Value
from fornaxc.ir.types import DType

_AMONG_REPLICAS = ("all_gather", "all_reduce", "reduce_scatter")
_AMONG_EITHER = ("all_to_all", "collective_broadcast")
_COMMUNICATION = ("send", "recv", "infeed", "outfeed", "async_start", "async_done")


@stablehlo_op(*(f"stablehlo.{name}" for name in (*_AMONG_REPLICAS, *_AMONG_EITHER)))
def grouped(ctx: OpContext) -> list[Operand]:
    """Within groups of one device every member has its own data only."""
    if _group_size(ctx) != 1:
        raise Refused("it joins the data of several devices; a program here runs on one")
    return [convert_operand(ctx, o, ctx.result_info(i)) for i, o in enumerate(ctx.operands)]


def _group_size(ctx: OpContext) -> int | None:
    """How many devices have their data joined; None where the groups are written in another way.

    Without groups all are joined. With a channel, and numbers that are not those of devices, a group of replicas is one of
    all their partitions; but some collectives then join partitions.
    """
    from jaxlib.mlir import ir

    groups = ctx.attribute("replica_groups")
    has_channel = _channel(ctx) > 0
    if groups is not None and not isinstance(groups, ir.DenseIntElementsAttr):
        return 1 if devices(ctx.op) == 1 else None
    sizes = np.array(groups).shape if groups is not None else (0, 0)
    by_device = ctx.attribute("use_global_device_ids") is not None
    among_partitions = has_channel and ctx.name.removeprefix("stablehlo.") in _AMONG_EITHER
    if 0 in sizes:
        listed = devices(ctx.op) if by_device else partitions(ctx.op) if among_partitions else replicas(ctx.op)
    else:
        listed = sizes[-1]
    return listed * (partitions(ctx.op) if has_channel and not by_device and not among_partitions else 1)


def _channel(ctx: OpContext) -> int:
    """The number of the channel, which is positive where there is one."""
    found = ctx.attribute("channel_handle")
    digits = str(found).partition("handle = ")[2].partition(",")[0] if found is not None else ""
    return int(digits) if digits.isdigit() else 0


@stablehlo_op("stablehlo.collective_permute")
def permute(ctx: OpContext) -> list[Operand]:
    """Where each device sends to itself, it has what it had."""
    numbers = partitions(ctx.op) if _channel(ctx) > 0 else replicas(ctx.op)
    pairs = ctx.ints("source_target_pairs")
    if sorted(zip(pairs[::2], pairs[1::2], strict=True)) != [(i, i) for i in range(numbers)]:
        raise Refused("it moves data between devices; a program here runs on one")
    return list(ctx.operands)


@stablehlo_op(*(f"stablehlo.{name}" for name in _COMMUNICATION))
def communication(ctx: OpContext) -> Operand:
    raise Refused("it exchanges data with other devices or with the host; a program here runs on one device")


@stablehlo_op("sdy.manual_computation")
def divided(ctx: OpContext) -> Operand:
    raise Refused(f"it computes on the shards of its operands: {SEVERAL_DEVICES}")


@stablehlo_op("stablehlo.partition_id", "stablehlo.replica_id")
def own_number(ctx: OpContext) -> Value:
    count = partitions(ctx.op) if ctx.name == "stablehlo.partition_id" else replicas(ctx.op)
    if count > 1:
        raise Refused(f"it tells devices apart: {SEVERAL_DEVICES}")
    return ctx.scalar(0, DType.U32)


@stablehlo_op("stablehlo.after_all", "stablehlo.create_token")
def token(ctx: OpContext) -> Token:
    return Token()


@stablehlo_op(*sorted(IDENTITY_OPERATIONS))
def sharding(ctx: OpContext) -> list[Operand]:
    """How data would be spread over devices; there is one."""
    return list(ctx.operands)[: ctx.result_count]
