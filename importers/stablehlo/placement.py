"""What a module says of the devices that it runs on: how many they are, and where data lies."""

from __future__ import annotations

from typing import Any

IDENTITY_CALLS = frozenset(
    (
        "AllocateBuffer",
        "LayoutConstraint",
        "MoveToDevice",
        "MoveToHost",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "Sharding",
        "annotate_device_placement",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
    )
)
"""Targets of custom calls that only place data: on one device each result is the operand of its number."""

IDENTITY_OPERATIONS = frozenset(
    ("sdy.propagation_barrier", "sdy.reshard", "sdy.sharding_constraint", "sdy.sharding_group")
)
"""Operations of which the same holds."""

SEVERAL_DEVICES = "the module is for several devices; a program here runs on one"


def replicas(op: Any) -> int:
    """How many replicas the module of an operation runs as."""
    return _count(op, "mhlo.num_replicas")


def partitions(op: Any) -> int:
    """How many partitions the module of an operation is divided into."""
    return _count(op, "mhlo.num_partitions")


def devices(op: Any) -> int:
    return replicas(op) * partitions(op)


def _count(op: Any, name: str) -> int:
    from jaxlib.mlir import ir

    module = op
    while module.parent is not None:
        module = module.parent.operation
    return int(ir.IntegerAttr(module.attributes[name]).value) if name in module.attributes else 1
