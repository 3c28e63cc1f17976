"""Custom calls whose meaning is known."""

from __future__ import annotations

import re

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.ops import size_arithmetic
from fornaxc.importers.stablehlo.ops.arithmetic import unary
from fornaxc.importers.stablehlo.ops.lapack import lapack_call
from fornaxc.importers.stablehlo.ops.sort import top
from fornaxc.importers.stablehlo.placement import IDENTITY_CALLS, SEVERAL_DEVICES
from fornaxc.importers.stablehlo.registry import handler_for, stablehlo_op
from fornaxc.importers.stablehlo.types import Operand

_PLATFORMS = (
    (r"cu(blas|solver|sparse|dnn|fft|rand|da|_|tensor).*|__cu.*|triton_kernel_call.*|__triton.*", "NVIDIA GPUs"),
    (r"hip(blas|solver|sparse|fft|rand|_).*|roc(blas|solver|sparse|fft|rand|m).*|miopen.*|__hip.*", "AMD GPUs"),
    (r"tpu_.*|mosaic_tpu.*|__tpu.*", "TPUs"),
    (r"Eigh|Qr|LuDecomposition|ProductOfElementaryHouseholderReflectors", "TPUs"),
    (r"AggregateToTopK|PartialReduce", "TPUs"),
    (r"mosaic_gpu.*|xla\.gpu.*|__gpu\$.*|gpu\$.*", "GPUs"),
    (r"lapack_.*|blas_.*", "CPUs, through LAPACK"),
    (r"__xla_cpu.*|__onednn.*", "CPUs"),
    (r"(xla_|xla_buffer_|xla_ffi_)?(partitioned_)?python_.*callback.*|CustomSPMDPartitioning", "a Python process"),
    (r"tf\..*", "TensorFlow"),
)
"""Whose runtime has the targets, by patterns that match all of a target."""
_FOR_CPU = (
    'export the model for the CPU, whose program every target takes: jax.export.export(…, platforms=["cpu"]); '
    "a kernel that is written for one platform must be replaced by JAX's own operations first"
)
_ADVICE = {
    **dict.fromkeys(("NVIDIA GPUs", "AMD GPUs", "GPUs", "TPUs"), _FOR_CPU),
    "a Python process": "leave callbacks out of the function that is exported: an artifact runs without Python",
    "TensorFlow": "export the model without operations of TensorFlow's runtime",
}
"""What to do about custom calls of a platform."""
_FUNCTIONS = {"erf", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"}
_OWN = {
    "ApproxTopK",
    *(f"stablehlo.dynamic_{name}" for name in ("approx_top_k", "reduce_window", "rng_bit_generator", "top_k")),
}
"""Targets that have a handler under their own name."""


@stablehlo_op("stablehlo.custom_call")
def custom_call(ctx: OpContext) -> list[Operand] | Operand:
    target = ctx.string("call_target_name")
    if target == "shape_assertion":
        return shape_assertion(ctx)
    if target in IDENTITY_CALLS:
        return _placed(ctx, target)
    if target.startswith("lapack_"):
        return lapack_call(ctx, target, ctx.config())
    own = handler_for(target) if target in _OWN else None
    if own is not None:
        return own(ctx)
    if target in ("mhlo.topk", "topk", "TopK"):
        return _top_k(ctx)
    dialect, _, function = target.partition(".")
    if dialect in ("mhlo", "chlo", "stablehlo") and function in _FUNCTIONS:
        return unary(ctx.b, function, ctx.value(0))
    platform = _written_for(target)
    raise Refused(f"the custom call {target!r}, which was written for {platform}", _ADVICE.get(platform, ""))


def _placed(ctx: OpContext, target: str) -> list[Operand]:
    """The operands, which are the results; refused where they are shards of one another."""
    ctx.refuse_unless(
        len(ctx.operands) == ctx.result_count or ctx.result_count == 0, f"{target} with another number of results"
    )
    for i in range(ctx.result_count):
        given, declared = ctx.operand_info(i).shape, ctx.result_info(i).shape
        same = len(given) == len(declared) and all(
            a == b or None in (a, b) for a, b in zip(given, declared, strict=True)
        )
        ctx.refuse_unless(same, f"{target} of shards: {SEVERAL_DEVICES}")
    return list(ctx.operands)[: ctx.result_count]


def _written_for(target: str) -> str:
    for pattern, platform in _PLATFORMS:
        if re.fullmatch(pattern, target):
            return platform
    return "a runtime that registers it"


def shape_assertion(ctx: OpContext) -> list[Operand]:
    """A condition on the input sizes: recorded, and checked before each run."""
    condition = ctx.sizes.condition(ctx.b, ctx.value(0))
    message = _message(ctx)
    if condition is None:
        raise Refused(f"a shape assertion that sizes do not decide: {message}")
    ctx.refuse_unless(condition.known is not False, f"a shape assertion that never holds: {message}")
    if condition.known is None:
        for left, relation, right in condition.requirements:
            ctx.b.require(left, relation, right, message)
    return []


def _message(ctx: OpContext) -> str:
    """The assertion's message in one line, sizes in the places where it would show numbers."""
    text = ctx.string("error_message") or "the shapes do not fit"
    first = re.sub(r"\s+", " ", text).split(" Using the following polymorphic")[0].split(" Please see")[0]
    first = re.sub(r"[,.]?\s*but (found|got) \{\d+\}", "", first)
    return re.sub(r"\{(\d+)\}", lambda place: _shown(ctx, int(place[1])), first).strip(" .")


def _shown(ctx: OpContext, place: int) -> str:
    """The size that a place of an assertion's message shows."""
    operand = ctx.operands[place + 1] if place + 1 < len(ctx.operands) else None
    size = size_arithmetic.entry(ctx, operand) if operand is not None else None
    return "?" if size is None else str(size)


def _top_k(ctx: OpContext) -> list[Operand]:
    from jaxlib.mlir import ir

    found = ctx.attribute("mhlo.attributes")
    sizes = ctx.result_info(0).shape
    k = sizes[-1] if sizes else None
    if found is not None and "k" in ir.DictAttr(found):
        k = int(ir.IntegerAttr(ir.DictAttr(found)["k"]).value)
    ctx.refuse_unless(k is not None, "top_k of a dynamic size")
    if found is not None and "largest" in ir.DictAttr(found):
        ctx.refuse_unless("true" in str(ir.DictAttr(found)["largest"]), "the smallest elements")
    return list(top(ctx.b, ctx.value(0), k or 0, ctx.result_info(1).dtype))
