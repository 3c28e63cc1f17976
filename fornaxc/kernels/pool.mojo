"""Window reductions, channels last, on the CPU."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.math import isnan
from std.utils.numerics import inf
from .conv import FP, IP, V, W, ld, st
from .team import Team, share


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
    var parts = team.parts(rows * WO * C * R * S, 50000, rows)

    def work(t: Int) {imm}:
        for q in range(rows * t // parts, rows * (t + 1) // parts):
            var n = q // HO
            var h0 = (q - n * HO) * sh - ph
            var r0 = max(0, (dh - 1 - h0) // dh)
            var r1 = min(R, (H - 1 - h0 + dh) // dh)
            for wo in range(WO):
                var w0 = wo * sw - pw
                var s0 = max(0, (dw - 1 - w0) // dw)
                var s1 = min(S, (Wi - 1 - w0 + dw) // dw)
                var count = Float32(max(0, r1 - r0) * max(0, s1 - s0))
                var c = 0
                while c < C:
                    var left = C - c
                    var total = V(-inf[DType.float32]()) if kind == 0 else V(0)
                    for r in range(r0, r1):
                        var row = x + (((n * H + h0 + r * dh) * Wi + w0) * xs + c)
                        for s in range(s0, s1):
                            var v = ld(row + s * dw * xs, left)
                            if kind == 0:
                                total = (v.gt(total) | isnan(v)).select(v, total)
                            else:
                                total += v
                    if kind == 2:
                        total /= V(count)
                    st(y + ((q * WO + wo) * ys + c), left, total)
                    c += W

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
