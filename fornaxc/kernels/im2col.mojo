"""The windows of an image of bytes as the rows of a matrix, on the CPU, for one product that is a convolution."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from .concat import copy_bytes
from .conv import IP, taps_inside
from .quantized import BYTES
from .team import Team, share

comptime SMALL = 1 << 14  # times WAKE: bytes below which one thread is quicker


@always_inline
def fill_bytes(y: BYTES, n: Int, fill: UInt8):
    """n bytes."""
    for i in range(n):
        (y + i).store(fill)


@no_inline
def im2col_run(y: BYTES, x: BYTES, fill: UInt8, N: Int, H: Int, Wi: Int, C: Int, geometry: IP):
    """Rows [N * Ho * Wo, R * S * C] of x [N, H, W, C]; `geometry`: R S sh sw ph pw qh qw dh dw, where p pads before and q behind."""
    var R = Int(geometry.load(0))
    var S = Int(geometry.load(1))
    var sh = Int(geometry.load(2))
    var sw = Int(geometry.load(3))
    var ph = Int(geometry.load(4))
    var pw = Int(geometry.load(5))
    var dh = Int(geometry.load(8))
    var dw = Int(geometry.load(9))
    var HO = max(0, (H + ph + Int(geometry.load(6)) - dh * (R - 1) - 1) // sh + 1)
    var WO = max(0, (Wi + pw + Int(geometry.load(7)) - dw * (S - 1) - 1) // sw + 1)
    var width = S * C
    var rows = N * HO
    var team = Team()
    var parts = team.parts(rows * WO * R * width, SMALL, rows)

    def work(t: Int) {imm}:
        for q in range(rows * t // parts, rows * (t + 1) // parts):
            var n = q // HO
            var h0 = (q - n * HO) * sh - ph
            var dst = y + q * WO * R * width
            for wo in range(WO):
                var w0 = wo * sw - pw
                var across = taps_inside(w0, Wi, S, dw)
                for r in range(R):
                    var h = h0 + r * dh
                    if h < 0 or h >= H or across[0] >= across[1]:
                        fill_bytes(dst, width, fill)
                    else:
                        var src = x + ((n * H + h) * Wi + w0) * C
                        fill_bytes(dst, across[0] * C, fill)
                        if dw == 1:
                            copy_bytes(dst + across[0] * C, src + across[0] * C, (across[1] - across[0]) * C)
                        else:
                            for s in range(across[0], across[1]):
                                copy_bytes(dst + s * C, src + s * dw * C, C)
                        fill_bytes(dst + across[1] * C, (S - across[1]) * C, fill)
                    dst += width

    share(team, work, parts)


@extensibility.register("fx_im2col")
struct Im2col:
    """Output [N * Ho * Wo, R * S * C] of x [N, H, W, C], u8 or i8, a fill [1] of its type and i64 geometry [10] as `im2col_run` takes it."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        x: InputTensor[dtype=output.dtype, rank=4, ...],
        fill: InputTensor[dtype=output.dtype, rank=1, ...],
        geometry: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        im2col_run(
            rebind[BYTES](output.unsafe_ptr().unsafe_bitcast[UInt8]()),
            rebind[BYTES](x.unsafe_ptr().unsafe_bitcast[UInt8]()),
            rebind[BYTES](fill.unsafe_ptr().unsafe_bitcast[UInt8]()).load(0),
            Int(x.dim_size(0)),
            Int(x.dim_size(1)),
            Int(x.dim_size(2)),
            Int(x.dim_size(3)),
            rebind[IP](geometry.unsafe_ptr()),
        )
