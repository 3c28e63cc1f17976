"""Softmax and normalisations of rows, on the CPU: one instance of each serves every shape. f32."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.math import log, sqrt
from std.utils.numerics import isfinite, nan
from .conv import FP, IP, V, W, ld, st
from .functions import exponential
from .reduce import MAX, SUM, reduce_row
from .team import Team, share

comptime SMALL = 8192  # elements below which one thread of a team is quicker


@always_inline
def grow_row[stored: Bool](y: FP, x: FP, n: Int, top: Float32) -> Float32:
    """y = e^(x - top) for n numbers, if they are to be `stored`; returns their sum."""
    var sums = V(0)
    var more = V(0)
    var i = 0
    while n - i >= 2 * W:
        var u = exponential((x + i).load[width=W]() - V(top))
        var v = exponential((x + i + W).load[width=W]() - V(top))
        comptime if stored:
            (y + i).store(u)
            (y + i + W).store(v)
        sums += u
        more += v
        i += 2 * W
    while i < n:  # what the lanes behind the last make is let go
        var grown = exponential(ld(x + i, n - i) - V(top))
        comptime if stored:
            st(y + i, n - i, grown)
        for lane in range(n - i, W):
            grown[lane] = 0
        sums += grown
        i += W
    return (sums + more).reduce_add()


@always_inline
def scale_row(y: FP, n: Int, factor: Float32):
    var i = 0
    while i < n:
        st(y + i, n - i, ld(y + i, n - i) * V(factor))
        i += W


@always_inline
def softmax_row(y: FP, x: FP, n: Int, logarithm: Bool):
    var top = reduce_row[MAX](x, n)
    if not isfinite(top):  # NaN, an infinity, or nothing but -inf
        for i in range(n):
            y.store(i, nan[DType.float32]())
        return
    if not logarithm:
        var total = grow_row[True](y, x, n, top)
        scale_row(y, n, 1 / total)
        return
    var shift = V(log(grow_row[False](y, x, n, top)))
    var i = 0
    while i < n:
        st(y + i, n - i, ld(x + i, n - i) - V(top) - shift)
        i += W


@no_inline
def softmax_rows(mut team: Team, y: FP, x: FP, rows: Int, n: Int, logarithm: Bool):
    var parts = team.parts(rows * n, SMALL, rows)

    def work(t: Int) {imm}:
        for row in range(rows * t // parts, rows * (t + 1) // parts):
            softmax_row(y + row * n, x + row * n, n, logarithm)

    share(team, work, parts)


@extensibility.register("fx_softmax")
struct SoftmaxRows:
    """e^x over its sum, of each row of [rows, n]; where `flags` is [1], its logarithm. A row with NaN or +inf, or of nothing but -inf, is NaN."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[dtype=DType.float32, rank=2, ...],
        x: InputTensor[dtype=DType.float32, rank=2, ...],
        flags: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var alone = Team()
        softmax_rows(
            alone,
            rebind[FP](output.unsafe_ptr()),
            rebind[FP](x.unsafe_ptr()),
            Int(x.dim_size(0)),
            Int(x.dim_size(1)),
            flags.unsafe_ptr().unsafe_load(0) != 0,
        )


@always_inline
def _moments(x: FP, n: Int, centre: Float32) -> Tuple[Float32, Float32]:
    """The mean distance from `centre`, and the mean square of the distances."""
    var sums = V(0)
    var squares = V(0)
    var i = 0
    while i < n:
        var off = ld(x + i, n - i) - V(centre)
        if n - i < W:
            for lane in range(n - i, W):
                off[lane] = 0
        sums += off
        squares += off * off
        i += W
    return sums.reduce_add() / Float32(n), squares.reduce_add() / Float32(n)


@no_inline
def normalize_rows(mut team: Team, y: FP, x: FP, scale: FP, bias: FP, rows: Int, n: Int, epsilon: Float32, centred: Bool):
    var parts = team.parts(rows * n, SMALL, rows)

    def work(t: Int) {imm}:
        for row in range(rows * t // parts, rows * (t + 1) // parts):
            var src = x + row * n
            var dst = y + row * n
            var mean = reduce_row[SUM](src, n) / Float32(n) if centred else Float32(0)
            var moments = _moments(src, n, mean)
            var square = moments[1]
            if centred:  # the mean was rounded: what is left of it
                mean += moments[0]
                square -= moments[0] * moments[0]
            var by = V(1 / sqrt(square + epsilon))
            var i = 0
            while i < n:
                var left = n - i
                var v = (ld(src + i, left) - V(mean)) * by * ld(scale + i, left)
                st(dst + i, left, v + ld(bias + i, left) if centred else v)
                i += W

    share(team, work, parts)


@extensibility.register("fx_normalize")
struct NormalizeRows:
    """Each row of [rows, n] over the root of its mean square plus epsilon, times scale [n]; where `flags` is [1], less its mean
    before, and plus bias [n] after. Without the flag the bias is not read."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[dtype=DType.float32, rank=2, ...],
        x: InputTensor[dtype=DType.float32, rank=2, ...],
        scale: InputTensor[dtype=DType.float32, rank=1, ...],
        bias: InputTensor[dtype=DType.float32, rank=1, ...],
        epsilon: InputTensor[dtype=DType.float32, rank=1, ...],
        flags: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var alone = Team()
        normalize_rows(
            alone,
            rebind[FP](output.unsafe_ptr()),
            rebind[FP](x.unsafe_ptr()),
            rebind[FP](scale.unsafe_ptr()),
            rebind[FP](bias.unsafe_ptr()),
            Int(x.dim_size(0)),
            Int(x.dim_size(1)),
            epsilon.unsafe_ptr().unsafe_load(0),
            flags.unsafe_ptr().unsafe_load(0) != 0,
        )
