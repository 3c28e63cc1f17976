"""The compile worker with a rule that MAX refuses: sin becomes a sum of truth values."""

from __future__ import annotations

from typing import Any

from max.graph import ops

from fornaxc import worker
from fornaxc.ir.ops import Unary
from fornaxc.lowering import lower, registry


def plant() -> None:
    assert lower._FAMILIES  # the rules are registered
    for (op, on), (rule, host) in list(registry._RULES.items()):
        if op is Unary:
            registry._RULES[op, on] = (_refused(rule), host)


def _refused(rule: Any) -> Any:
    def faulty(c: Any, op: Unary, x: Any) -> Any:
        if op.fn != "sin":
            return rule(c, op, x)
        total = ops.sum(ops.is_nan(x), x.rank - 1)
        return ops.broadcast_to(ops.cast(total, x.dtype), x.shape)

    return faulty


if __name__ == "__main__":
    plant()
    worker.main()
