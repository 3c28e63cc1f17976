"""Faults to plant: for each a block of a model, the operation whose lowering rule is wrong there, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from mutation_models import AFTER, BEFORE, SHAPE, Net, model

from fornaxc.ir import ops as ir
from fornaxc.ir.ops import Op

Rule = Callable[..., Any]
Mutate = Callable[[Any, Any, tuple[Any, ...], Rule], Any]


@dataclass(frozen=True)
class Mutation:
    """`mutate(context, op, operands, rule)` is what the rule of `op` does in place of `rule(context, op, *operands)`."""

    name: str
    op: type[Op]
    build: Callable[[Net, str], str]
    mutate: Mutate


MUTATIONS: dict[str, Mutation] = {}
LARGE = ("layer_norm_epsilon", "conv_window_shift")  # in models of some 900 nodes; the others in 160
LARGE_SIDE = 74  # blocks before and after the fault there


def model_with(name: str) -> onnx.ModelProto:
    """The model in which a fault is planted; of another name, one that looks alike and has none."""
    build = MUTATIONS.get(name, next(iter(MUTATIONS.values()))).build
    before, after = (LARGE_SIDE, LARGE_SIDE) if name in LARGE else (BEFORE, AFTER)
    return model(name, build, before, after)


def fields(**change: Callable[[Any], Any]) -> Mutate:
    """The rule gets an operation with other fields."""

    def mutate(c: Any, op: Any, xs: tuple[Any, ...], rule: Rule) -> Any:
        return rule(c, replace(op, **{name: f(getattr(op, name)) for name, f in change.items()}), *xs)

    return mutate


def planted(name: str, op: type[Op], build: Callable[[Net, str], str], mutate: Mutate) -> None:
    MUTATIONS[name] = Mutation(name, op, build, mutate)


def _previous_axis(axis: int) -> int:
    return axis - 1


def _small(net: Net, x: str) -> str:
    return net.op("Mul", x, net.const(0.004))


def _norm(net: Net, x: str, kind: str, **attributes: Any) -> str:
    scales = [net.const(np.ones(8))] + ([net.const(np.zeros(8))] if kind == "LayerNormalization" else [])
    return net.op(kind, _small(net, x), *scales, axis=-1, epsilon=1e-5, **attributes)


def _joined(net: Net, x: str, part: str) -> str:
    return net.op("Add", x, part)


# -- what rules do wrong, in MAX's operations


def _scaled(x: Any, factor: float) -> Any:
    from max.graph import ops

    return ops.mul(x, ops.constant(factor, x.dtype, x.device))


def _rounded(x: Any) -> Any:
    from max.graph import ops

    return ops.round(x)


def _half_up(c: Any, x: Any) -> Any:
    from max.graph import ops

    return ops.floor(ops.add(x, c.scalar(0.5, x.dtype)))


def _on_other_axis(c: Any, op: Any, xs: tuple[Any, ...], rule: Rule) -> Any:
    from max.graph import ops

    return rule(c, op, ops.permute(xs[0], [0, 1, 3, 2]))


def _less_one(c: Any, product: Any, xs: tuple[Any, ...]) -> Any:
    """A product without the last term of each sum."""
    from max.graph import ops

    left, right = xs
    return ops.sub(product, ops.mul(left[..., -1:], right[..., -1:, :]))


# -- axes

planted("softmax_axis", ir.Softmax, lambda n, x: n.op("Softmax", x, axis=3), fields(axis=_previous_axis))
planted(
    "reduce_axis", ir.Reduce,
    lambda n, x: _joined(n, x, n.op("ReduceSum", x, n.i64(3), keepdims=1)),
    _on_other_axis,
)  # fmt: skip
planted(
    "transpose_perm", ir.Transpose,
    lambda n, x: n.op("Sub", x, n.op("CumSum", n.op("Transpose", x, perm=[0, 1, 3, 2]), n.const(3, np.int64))),
    fields(perm=lambda p: tuple(range(len(p)))),
)  # fmt: skip
planted("concat_order", ir.Concat,
    lambda n, x: n.op("Concat", *n.op("Split", x, outputs=2, axis=3, num_outputs=2)[::-1], axis=3),
    lambda c, op, xs, rule: rule(c, op, *xs[::-1]),
)  # fmt: skip
planted("cumsum_exclusive", ir.Cumulative,
    lambda n, x: n.op("CumSum", x, n.const(3, np.int64)),
    fields(exclusive=lambda e: not e),
)  # fmt: skip
planted("cumsum_reverse", ir.Cumulative,
    lambda n, x: n.op("CumSum", x, n.const(2, np.int64), reverse=1),
    fields(reverse=lambda r: not r),
)  # fmt: skip
planted("gather_elements_axis", ir.GatherElements,
    lambda n, x: n.op("GatherElements", x, n.const(np.arange(512).reshape(2, 4, 8, 8) * 5 % 8, np.int64), axis=3),
    fields(axis=_previous_axis),
)  # fmt: skip

# -- epsilons and divisors

planted(
    "layer_norm_epsilon", ir.LayerNorm, lambda n, x: _norm(n, x, "LayerNormalization"), fields(epsilon=lambda e: e * 10)
)
planted("rms_norm_epsilon", ir.RmsNorm, lambda n, x: _norm(n, x, "RMSNormalization"), fields(epsilon=lambda e: 0.0))
planted("mean_divisor", ir.Reduce,
    lambda n, x: _joined(n, x, n.op("ReduceMean", x, n.i64(2, 3), keepdims=1)),
    lambda c, op, xs, rule: _scaled(rule(c, op, *xs), 64 / 63),
)  # fmt: skip

# -- windows


def _conv(net: Net, x: str, **attributes: Any) -> str:
    return net.op("Conv", x, net.weight(4, 4, 3, 3, scale=0.2), net.weight(4), pads=[1, 1, 1, 1], **attributes)


planted("conv_window_shift", ir.ConvNhwc, _conv,
    fields(low=lambda p: (p[0] + 1, p[1]), high=lambda p: (p[0] - 1, p[1])))  # fmt: skip
planted("conv_dilation", ir.ConvNhwc,
    lambda n, x: n.op("Conv", x, n.weight(4, 4, 3, 3, scale=0.2), n.weight(4), pads=[2, 2, 2, 2], dilations=[2, 2]),
    fields(dilations=lambda d: (1, 1)))  # fmt: skip
planted("conv_bias", ir.ConvNhwc, _conv,
    lambda c, op, xs, rule: rule(c, op, xs[0], xs[1], _scaled(xs[2], 0.0), *xs[3:]))  # fmt: skip
planted("conv_activation", ir.ConvNhwc, lambda n, x: n.op("Relu", _conv(n, x)), fields(activation=lambda a: "none"))
planted("max_pool_window", ir.Pool,
    lambda n, x: n.op("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    fields(window=lambda w: (w[0] - 1, *w[1:]), high=lambda h: (h[0] - 1, *h[1:])))  # fmt: skip
planted("pad_sides", ir.Pad,
    lambda n, x: n.op("Slice", n.op("Pad", x, n.i64(0, 0, 0, 1, 0, 0, 0, 2), mode="reflect"), n.i64(0), n.i64(8), n.i64(3)),
    fields(low=lambda p: (*p[:3], p[3] + 1), high=lambda p: (*p[:3], p[3] - 1)))  # fmt: skip
planted("slice_start", ir.Slice,
    lambda n, x: _joined(n, x, n.op("Slice", x, n.i64(2), n.i64(3), n.i64(3))),
    fields(starts=lambda s: (*s[:3], s[3] + 1)))  # fmt: skip
planted("matmul_last_column", ir.MatMul,
    lambda n, x: n.op("MatMul", x, n.op("Softmax", x, axis=3)),
    lambda c, op, xs, rule: _less_one(c, rule(c, op, *xs), xs))  # fmt: skip

# -- scales and constants

planted("dropped_scale", ir.Binary, lambda n, x: n.op("Add", n.op("Mul", n.op("Sin", x), n.const(0.35)), x),
    lambda c, op, xs, rule: rule(c, op, *xs) if op.fn != "mul" else xs[0])  # fmt: skip
planted("min_for_max", ir.Binary, lambda n, x: n.op("Max", x, n.op("Neg", n.op("Sin", x))),
    lambda c, op, xs, rule: rule(c, op, *xs) if op.fn != "max" else rule(c, replace(op, fn="min"), *xs))  # fmt: skip
planted("erf_constant", ir.Unary, lambda n, x: n.op("Erf", x),
    lambda c, op, xs, rule: _scaled(rule(c, op, *xs), 1.01) if op.fn == "erf" else rule(c, op, *xs))  # fmt: skip

# -- rounding and comparison


def _halves(net: Net, x: str) -> str:
    """Multiples of a half, whose rounding tells ties."""
    return net.op("Mul", net.op("Floor", net.op("Mul", x, net.const(4.0))), net.const(0.5))


planted("round_half_up", ir.Unary, lambda n, x: n.op("Round", _halves(n, x)),
    lambda c, op, xs, rule: _half_up(c, xs[0]) if op.fn.startswith("round") else rule(c, op, *xs))  # fmt: skip
planted("cast_rounds", ir.Cast,
    lambda n, x: n.op("Cast", n.op("Cast", n.op("Mul", x, n.const(3.0)), to=6), to=1),
    lambda c, op, xs, rule: rule(c, op, _rounded(xs[0])) if xs[0].dtype.is_float() else rule(c, op, *xs))  # fmt: skip
planted("greater_for_equal", ir.Compare,
    lambda n, x: n.op("Where", n.op("GreaterOrEqual", n.op("Round", x), n.const(1.0)), x, n.op("Neg", x)),
    lambda c, op, xs, rule: rule(c, replace(op, fn="gt" if op.fn == "ge" else "lt"), *xs))  # fmt: skip
planted("where_swapped", ir.Select,
    lambda n, x: n.op("Where", n.op("Greater", x, n.const(1.5)), x, n.op("Sin", x)),
    lambda c, op, xs, rule: rule(c, op, xs[0], xs[2], xs[1]))  # fmt: skip

# -- indices

planted("gather_next", ir.Gather, lambda n, x: n.op("Gather", x, n.i64(3, 1, 0, 2, 5, 4, 6, 1), axis=2),
    lambda c, op, xs, rule: rule(c, op, xs[0], xs[1] + 1))  # fmt: skip
planted("arg_max_minimum", ir.ArgReduce,
    lambda n, x: _joined(n, x, n.op("Cast", n.op("ArgMax", x, axis=3, keepdims=1), to=1)),
    fields(fn=lambda f: "min"))  # fmt: skip
planted("scatter_reduction", ir.ScatterElements,
    lambda n, x: n.op("ScatterElements", x, n.const(np.arange(512).reshape(SHAPE) % 8, np.int64), n.op("Sin", x), axis=3, reduction="add"),
    fields(reduction=lambda r: "none"))  # fmt: skip
planted("top_k_smallest", ir.TopK,
    lambda n, x: _joined(n, x, n.op("TopK", x, n.i64(1), outputs=2, axis=3)[0]),
    fields(largest=lambda b: not b))  # fmt: skip
