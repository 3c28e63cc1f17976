"""Custom calls whose meaning is known."""

from __future__ import annotations

import re
from typing import Any

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.ops import factor
from fornaxc.importers.stablehlo.ops.arithmetic import unary
from fornaxc.importers.stablehlo.ops.solve import cholesky_factor, solve_triangular
from fornaxc.importers.stablehlo.ops.sort import top
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Complex, Operand, parts
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Compare, Iota, Unary
from fornaxc.ir.types import DType, TensorType

_DROPPED = {
    *(
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "annotate_device_placement",
        "MoveToHost",
        "MoveToDevice",
    ),
    *(
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "LayoutConstraint",
        "AllocateBuffer",
    ),
}
_PLATFORMS = (
    (r"^(cu|cuda|cusolver|cublas|cudnn|__cu|gpu\$|triton_kernel|__gpu|cudnn_)", "NVIDIA GPUs"),
    (r"^(hip|roc|miopen)", "AMD GPUs"),
    (r"^(tpu|mosaic_tpu|tpu_custom_call)", "TPUs"),
    (r"^(mosaic_gpu|xla\.gpu)", "GPUs"),
    (r"^(lapack_|blas_|xla_python_cpu|__xla_cpu)", "CPUs, through LAPACK"),
    (r"python|callback", "a Python process"),
)
_FUNCTIONS = {"erf", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"}
_NO_FAILURE = 2**31 - 1
_LAPACK = re.compile(r"lapack_([sdcz])(potrf|trsm|getrf|geqrf|orgqr|ungqr|syevd|heevd)_ffi")


@stablehlo_op("stablehlo.custom_call")
def custom_call(ctx: OpContext) -> list[Operand] | Operand:
    target = ctx.string("call_target_name")
    if target == "shape_assertion":
        return shape_assertion(ctx)
    if target in _DROPPED:
        ctx.refuse_unless(
            len(ctx.operands) == ctx.result_count or ctx.result_count == 0, f"{target} with another number of results"
        )
        return list(ctx.operands)[: ctx.result_count]
    lapack = _LAPACK.fullmatch(target)
    if lapack is not None:
        return _lapack(ctx, lapack.group(2))
    if target in ("mhlo.topk", "topk", "TopK"):
        return _top_k(ctx)
    dialect, _, function = target.partition(".")
    if dialect in ("mhlo", "chlo", "stablehlo") and function in _FUNCTIONS:
        return unary(ctx.b, function, ctx.value(0))
    raise Refused(f"the custom call {target!r}, which was written for {_written_for(target)}")


def _written_for(target: str) -> str:
    for pattern, platform in _PLATFORMS:
        if re.search(pattern, target):
            return platform
    return "a runtime that registers it"


def shape_assertion(ctx: OpContext) -> list[Operand]:
    """A condition on the input sizes: recorded, and checked before each run."""
    condition = ctx.value(0)
    message = _message(ctx)
    known = ctx.known(condition)
    if known is not None:
        ctx.refuse_unless(bool(known), f"a shape assertion that never holds: {message}")
        return []
    found = ctx.importer.program.predicates.get(condition)
    if found is None:
        raise Refused(f"a shape assertion that is not a comparison of sizes: {message}")
    direction, left, right = found
    if direction == "EQ":
        ctx.b.require(left, "==", right, message)
    elif direction in ("GE", "GT"):
        ctx.b.require(left, ">=", right + (direction == "GT"), message)
    elif direction in ("LE", "LT"):
        ctx.b.require(right, ">=", left + (direction == "LT"), message)
    else:
        raise Refused(f"a shape assertion with {direction}: {message}")
    return []


def _message(ctx: OpContext) -> str:
    """The assertion's message in one line, without the places where it would show numbers."""
    text = ctx.string("error_message") or "the shapes do not fit"
    first = re.sub(r"\s+", " ", text).split(" Using the following polymorphic")[0].split(" Please see")[0]
    return re.sub(r"[,.]?\s*but (found|got) \{\d+\}|\{\d+\}", "", first).strip(" .")


def _config(ctx: OpContext) -> dict[str, Any]:
    """The integer attributes that an FFI call carries."""
    from jaxlib.mlir import ir

    for name in ("mhlo.backend_config", "backend_config"):
        found = ctx.attribute(name)
        if found is not None and str(found).startswith("{"):
            entries: Any = ir.DictAttr(found)
            return {entry.name: ir.IntegerAttr(entry.attr).value for entry in entries}
    return {}


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


def _lapack(ctx: OpContext, routine: str) -> list[Operand]:
    b = ctx.b
    config = _config(ctx)
    letter = {name: chr(int(value)) for name, value in config.items() if 64 < int(value) < 91}
    a = ctx.operands[0]
    assert isinstance(a, Value | Complex)
    if routine == "potrf":
        lower = letter.get("uplo", "L") == "L"
        found = cholesky_factor(b, a, lower=lower)
        return [found, _first_failure(b, parts(found)[0])]
    if routine == "trsm":
        x = ctx.operands[1]
        assert isinstance(x, Value | Complex)
        kinds = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
        solved = solve_triangular(
            b,
            a,
            x,
            left=letter.get("side", "L") == "L",
            lower=letter.get("uplo", "L") == "L",
            unit=letter.get("diag", "N") == "U",
            transpose=kinds[letter.get("trans_x", "N")],
        )
        return [solved]
    if isinstance(a, Complex):
        raise Refused(f"LAPACK's {routine} of complex matrices")
    if routine == "getrf":
        lu, pivots = factor.lu(b, a)
        return [lu, pivots, _info(ctx, 2)]
    if routine == "geqrf":
        return list(factor.householder(b, a))
    if routine == "orgqr":
        return [factor.from_householder(b, a, ctx.value(1))]
    if routine == "syevd":
        vectors, values = factor.symmetric_eigen(b, a, lower=letter.get("uplo", "L") == "L")
        return [vectors, values, _info(ctx, 2)]
    raise Refused(f"LAPACK's {routine}")


def _info(ctx: OpContext, index: int) -> Value:
    """LAPACK's status, 0: these routines find something for every finite matrix."""
    shape = tuple(0 if d is None else d for d in ctx.result_info(index).shape)
    if None in ctx.result_info(index).shape:
        shape = parts(ctx.operands[0])[0].type.shape[:-2]  # type: ignore[assignment]
    return c.full(ctx.b, 0, TensorType(DType.I32, shape))


def _first_failure(b: GraphBuilder, factor: Value) -> Value:
    """potrf's status: the number, from 1, of the first diagonal element that is not positive; 0 where all are."""
    rank = factor.type.rank
    if factor.type.shape[-1] == 0:
        return c.full(b, 0, TensorType(DType.I32, factor.type.shape[:-2]))
    i = b.emit(Iota(factor.type.shape, rank - 2, DType.I32))
    j = b.emit(Iota(factor.type.shape, rank - 1, DType.I32))
    positive = c.compare(b, "gt", factor, c.scalar(b, 0, factor.type.dtype))
    failing = b.emit(Binary("and"), b.emit(Compare("eq"), i, j), b.emit(Unary("not"), positive))
    none = c.scalar(b, _NO_FAILURE, DType.I32)
    numbers = c.select(b, failing, c.with_scalar(b, "add", i, 1), none)
    first = c.squeeze(b, c.reduce(b, "min", numbers, [rank - 2, rank - 1]), [rank - 2, rank - 1])
    return c.select(b, c.compare(b, "ge", first, none), c.full_like(b, 0, first), first)
