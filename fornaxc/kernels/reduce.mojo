"""Sums, products and extremes along one axis, on the CPU: one instance for a function and element type serves every shape."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from std.math import isnan
from std.memory import alloc
from std.sys import simd_width_of
from std.utils.numerics import max_or_inf, min_or_neg_inf
from .team import Team, share

comptime P[dtype: DType] = Pointer[Scalar[dtype], UntrackedOrigin[mut=True]]
comptime SUM = 0
comptime PROD = 1
comptime MAX = 2
comptime MIN = 3
comptime BLOCK = 128  # elements that are joined before their total is: rounding errors grow with n / BLOCK
comptime SMALL = 16384  # elements below which one thread of a team is quicker
comptime PART = 65536  # elements of one unit of work, which does not depend on the number of threads


@always_inline
def _identity[dtype: DType, kind: Int]() -> Scalar[dtype]:
    comptime if kind == MAX:
        return min_or_neg_inf[dtype]()
    comptime if kind == MIN:
        return max_or_inf[dtype]()
    return Scalar[dtype](kind)


@always_inline
def _joined[dtype: DType, //, kind: Int, width: Int](a: SIMD[dtype, width], b: SIMD[dtype, width]) -> SIMD[dtype, width]:
    """NaN wins."""
    comptime if kind == SUM:
        return a + b
    comptime if kind == PROD:
        return a * b
    var better = b.gt(a) if kind == MAX else b.lt(a)
    comptime if dtype.is_floating_point():
        better = better | isnan(b)
    return better.select(b, a)


@always_inline
def _lanes[dtype: DType, //, kind: Int, width: Int](src: P[dtype], n: Int, step: Int) -> SIMD[dtype, width]:
    """n vectors, `step` elements apart, lane by lane."""
    var total = SIMD[dtype, width](_identity[dtype, kind]())
    var t = 0
    while t < n:
        var part = SIMD[dtype, width](_identity[dtype, kind]())
        var end = min(t + BLOCK, n)
        while t < end:
            part = _joined[kind, width](part, (src + t * step).load[width=width]())
            t += 1
        total = _joined[kind, width](total, part)
    return total


@always_inline
def reduce_row[dtype: DType, //, kind: Int](src: P[dtype], n: Int) -> Scalar[dtype]:
    """n elements next to one another."""
    comptime WIDE = 4 * simd_width_of[dtype]()
    var full = n // WIDE
    var total = _lanes[kind, 1](src + full * WIDE, n - full * WIDE, 1)[0]
    if full > 0:
        var lanes = _lanes[kind, WIDE](src, full, WIDE)
        comptime for i in range(WIDE):
            total = _joined[kind, 1](total, lanes[i])
    return total


@no_inline
def reduce_rows[dtype: DType, kind: Int](y: P[dtype], x: P[dtype], outer: Int, n: Int):
    """y[o] of x[o, :]. Long rows are cut into parts of equal length, whatever the number of threads."""
    var parts = max(1, n // PART)
    var units = outer * parts
    var partial = y if parts == 1 else alloc[Scalar[dtype]](units)
    var threads = Team().parts(outer * n, SMALL, units)

    def work(t: Int) {imm}:
        for unit in range(units * t // threads, units * (t + 1) // threads):
            var first = unit % parts * n // parts
            var last = (unit % parts + 1) * n // parts
            partial.store(unit, reduce_row[kind](x + (unit // parts * n + first), last - first))

    if threads == 1:
        work(0)
    else:
        sync_parallelize(work, threads)
    if parts > 1:
        for o in range(outer):
            y.store(o, reduce_row[kind](partial + o * parts, parts))
        partial.unsafe_free()


@no_inline
def reduce_columns[dtype: DType, kind: Int](mut team: Team, y: P[dtype], x: P[dtype], outer: Int, n: Int, inner: Int):
    """y[o, i] of x[o, :, i], vectors of columns at a time."""
    comptime WIDE = 2 * simd_width_of[dtype]()
    var strips = (inner + WIDE - 1) // WIDE
    var units = outer * strips
    var parts = team.parts(outer * n * inner, SMALL, units)

    def work(t: Int) {imm}:
        for unit in range(units * t // parts, units * (t + 1) // parts):
            var i = unit % strips * WIDE
            var src = x + (unit // strips * n * inner + i)
            var dst = y + (unit // strips * inner + i)
            if inner - i >= WIDE:
                dst.store(_lanes[kind, WIDE](src, n, inner))
            else:
                for rest in range(inner - i):
                    dst.store(rest, _lanes[kind, 1](src + rest, n, inner)[0])

    share(team, work, parts)


@extensibility.register("fx_reduce")
struct ReduceAxis:
    """The middle axis of [outer, n, inner]: its sum (`kind` 0), product, maximum or minimum (3). NaN wins; of nothing, the identity."""

    @staticmethod
    def execute[
        kind: Int, target: StaticString
    ](output: OutputTensor[rank=3, ...], x: InputTensor[dtype=output.dtype, rank=3, ...], ctx: DeviceContext) raises:
        var outer = Int(x.dim_size(0))
        var n = Int(x.dim_size(1))
        var inner = Int(x.dim_size(2))
        var src = rebind[P[output.dtype]](x.unsafe_ptr())
        var dst = rebind[P[output.dtype]](output.unsafe_ptr())
        if inner == 1:
            reduce_rows[output.dtype, kind](dst, src, outer, n)
        else:
            var alone = Team()
            reduce_columns[output.dtype, kind](alone, dst, src, outer, n, inner)
