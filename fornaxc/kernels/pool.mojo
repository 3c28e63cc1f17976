"""Window reductions, channels last, on the CPU."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.collections import Array
from std.math import isnan
from std.utils.numerics import inf
from .conv import FP, IP, V, W, ld, st, taps_inside
from .team import Team, share


comptime MAXIMUM = 0  # kinds
comptime MEAN = 2
comptime SMALL = 50000  # numbers seen below which one thread of a team is quicker
comptime VECTORS = 4  # of channels at a time: each maximum waits for the one before


@always_inline
def _window[N: Int, full: Bool, largest: Bool](x: FP, left: Int, r0: Int, r1: Int, s0: Int, s1: Int, down: Int, across: Int) -> Array[V, N]:
    """The maximum or the sum over the taps r0 to r1 by s0 to s1 of N vectors of channels, of which there are `left` where not `full`."""
    var total = Array[V, N](fill=V(-inf[DType.float32]() if largest else Float32(0)))
    for r in range(r0, r1):
        for s in range(s0, s1):
            var tap = x + (r * down + s * across)
            comptime for j in range(N):
                var v = (tap + j * W).load[width=W]() if full else ld(tap + j * W, left - j * W)
                comptime if largest:
                    total[j] = (v.gt(total[j]) | isnan(v)).select(v, total[j])
                else:
                    total[j] += v
    return total^


@no_inline
def _pixel[largest: Bool](y: FP, x: FP, C: Int, r0: Int, r1: Int, s0: Int, s1: Int, down: Int, across: Int, count: Float32):
    """C channels of a pixel; sums are divided by `count`."""
    var c = 0
    while c < C:
        if C - c >= VECTORS * W:
            var total = _window[VECTORS, True, largest](x + c, 0, r0, r1, s0, s1, down, across)
            comptime for j in range(VECTORS):
                (y + (c + j * W)).store(total[j] if largest else total[j] / V(count))
            c += VECTORS * W
        else:
            var total = _window[1, False, largest](x + c, C - c, r0, r1, s0, s1, down, across)
            st(y + c, C - c, total[0] if largest else total[0] / V(count))
            c += W


@no_inline
def pool_run(mut team: Team, y: FP, ys: Int, x: FP, xs: Int, N: Int, H: Int, Wi: Int, C: Int, HO: Int, WO: Int, geometry: IP):
    """`geometry`: R S sh sw ph pw dh dw kind. Kinds: 0 the maximum, 1 the sum, 2 the mean of what lies inside x. From one pixel to
    the next are ys and xs numbers."""
    var R = Int(geometry.load(0))
    var S = Int(geometry.load(1))
    var sh = Int(geometry.load(2))
    var sw = Int(geometry.load(3))
    var ph = Int(geometry.load(4))
    var pw = Int(geometry.load(5))
    var dh = Int(geometry.load(6))
    var dw = Int(geometry.load(7))
    var kind = Int(geometry.load(8))
    if R == 0:
        R = H
    if S == 0:
        S = Wi
    var rows = N * HO
    var parts = team.parts(rows * WO * C * R * S, SMALL, rows)

    def work(t: Int) {imm}:
        for q in range(rows * t // parts, rows * (t + 1) // parts):
            var n = q // HO
            var h0 = (q - n * HO) * sh - ph
            var down = taps_inside(h0, H, R, dh)
            for wo in range(WO):
                var w0 = wo * sw - pw
                var across = taps_inside(w0, Wi, S, dw)
                var count = Float32(max(0, down[1] - down[0]) * max(0, across[1] - across[0])) if kind == MEAN else Float32(1)
                var src = x + ((n * H + h0) * Wi + w0) * xs
                var dst = y + (q * WO + wo) * ys
                if kind == MAXIMUM:
                    _pixel[True](dst, src, C, down[0], down[1], across[0], across[1], dh * Wi * xs, dw * xs, count)
                else:
                    _pixel[False](dst, src, C, down[0], down[1], across[0], across[1], dh * Wi * xs, dw * xs, count)

    share(team, work, parts)


@extensibility.register("fx_pool2d")
struct Pool2d:
    """Output [N, Ho, Wo, C] of x [N, H, W, C] and i64 geometry [R S sh sw ph pw dh dw kind]; a window of 0 is the whole
    axis. Padding counts as -inf, 0 or not at all, by kind; NaN wins."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[dtype=DType.float32, rank=4, ...],
        x: InputTensor[dtype=DType.float32, rank=4, ...],
        geometry: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var alone = Team()
        pool_run(
            alone,
            rebind[FP](output.unsafe_ptr()),
            Int(x.dim_size(3)),
            rebind[FP](x.unsafe_ptr()),
            Int(x.dim_size(3)),
            Int(x.dim_size(0)),
            Int(x.dim_size(1)),
            Int(x.dim_size(2)),
            Int(x.dim_size(3)),
            Int(output.dim_size(1)),
            Int(output.dim_size(2)),
            rebind[IP](geometry.unsafe_ptr()),
        )
