"""Local response normalisation of the last axis, on the CPU."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.math import exp, isnan, log, sqrt
from std.memory import alloc
from std.utils.numerics import inf
from .conv import FP, IP, V, W, ld, st
from .team import Team, share

comptime SMALL = 8192  # elements below which one thread of a team is quicker


@always_inline
def _to_the_power(v: V, beta: Float32) -> V:
    """v ^ -beta for positive v."""
    if beta == 0.75:
        var root = sqrt(v)
        return V(1) / (root * sqrt(root))
    var limit = V(0) if beta > 0 else V(1) if beta == 0 else V(inf[DType.float32]())
    var found = v.eq(V(inf[DType.float32]())).select(limit, exp(log(v) * V(-beta)))
    return isnan(v).select(v, found)


@no_inline
def local_norm(mut team: Team, y: FP, ys: Int, x: FP, xs: Int, rows: Int, n: Int, window: IP, numbers: FP):
    """y = x / (bias + alpha * (the sum of the squares in the window)) ^ beta for rows of n, ys and xs apart. `window`: how many before and after;
    `numbers`: alpha, beta, bias."""
    var before = Int(window.load(0))
    var after = Int(window.load(1))
    var alpha = numbers.load(0)
    var beta = numbers.load(1)
    var bias = numbers.load(2)
    var parts = team.parts(rows * n, SMALL, rows)
    var room = before + n + after + W

    def work(t: Int) {imm}:
        var squares = rebind[FP](alloc[Float32](room))
        for i in range(room):
            squares.store(i, 0)
        for row in range(rows * t // parts, rows * (t + 1) // parts):
            var xo = x + row * xs
            var yo = y + row * ys
            var c = 0
            while c < n:
                var v = ld(xo + c, n - c)
                st(squares + before + c, n - c, v * v)
                c += W
            c = 0
            while c < n:
                var total = V(0)
                for i in range(before + after + 1):
                    total += (squares + c + i).load[width=W]()
                st(yo + c, n - c, ld(xo + c, n - c) * _to_the_power(V(bias) + V(alpha) * total, beta))
                c += W
        squares.free()

    share(team, work, parts)


@extensibility.register("fx_lrn")
struct LocalNorm:
    """Output [rows, n] of x [rows, n], i64 window [2] and f32 numbers [3] as `local_norm` has them."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[dtype=DType.float32, rank=2, ...],
        x: InputTensor[dtype=DType.float32, rank=2, ...],
        window: InputTensor[dtype=DType.int64, rank=1, ...],
        numbers: InputTensor[dtype=DType.float32, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var n = Int(x.dim_size(1))
        var alone = Team()
        local_norm(
            alone,
            rebind[FP](output.unsafe_ptr()),
            n,
            rebind[FP](x.unsafe_ptr()),
            n,
            Int(x.dim_size(0)),
            n,
            rebind[IP](window.unsafe_ptr()),
            rebind[FP](numbers.unsafe_ptr()),
        )
