"""Convolutions, channels last, on the CPU: one instance of the heavy code serves every shape.

`execute` only unpacks tensors into an `Args` of pointers and run-time sizes; the loops are never specialised for a
shape. Weights are packed ahead of time by `packing.py`.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.collections import Array
from std.math import erf, exp, fma, isnan, tanh
from std.memory import alloc
from std.sys import simd_width_of
from std.utils.numerics import inf
from .team import Team, share

comptime FP = Pointer[Float32, UntrackedOrigin[mut=True]]
comptime IP = Pointer[Int64, UntrackedOrigin[mut=True]]
comptime W = simd_width_of[DType.float32]()
comptime PP = Pointer[FP, UntrackedOrigin[mut=True]]
comptime V = SIMD[DType.float32, W]
comptime PANEL = 16  # channels of a panel of packed weights
comptime MR = 6  # output pixels of a register tile
comptime NV = 4 if W != 8 else 2  # vectors of a register tile: 24 accumulators of 32 registers, or 12 of 16
comptime STRIP = max(PANEL, NV * W)  # channels of a register tile: of one panel, or of four where vectors are as wide as panels
comptime DW_PIXELS = 8
comptime DW_TAPS = 64
comptime NEAR = 65536  # numbers of x that stay in the cache of a core while all strips go over them
comptime SMALL = 400000  # multiply-adds below which one thread is quicker


struct Args(ImplicitlyCopyable):
    """One convolution: pointers, then sizes. C and K are per group; xs, ys and rs are the numbers from one pixel to the next.

    After the activation come a scale and an offset."""

    var y: FP
    var x: FP
    var w: FP
    var b: FP
    var r: FP
    var zero: FP
    var H: Int
    var W: Int
    var C: Int
    var HO: Int
    var WO: Int
    var K: Int
    var R: Int
    var S: Int
    var sh: Int
    var sw: Int
    var ph: Int
    var pw: Int
    var dh: Int
    var dw: Int
    var xs: Int
    var ys: Int
    var rs: Int
    var residual: Bool
    var activation: Int
    var least: Float32
    var greatest: Float32
    var scale: Float32
    var offset: Float32

    def __init__(out self, y: FP, x: FP, w: FP, b: FP, r: FP, zero: FP):
        self.y = y
        self.x = x
        self.w = w
        self.b = b
        self.r = r
        self.zero = zero
        self.H = 1
        self.W = 1
        self.C = 1
        self.HO = 1
        self.WO = 1
        self.K = 1
        self.R = 1
        self.S = 1
        self.sh = 1
        self.sw = 1
        self.ph = 0
        self.pw = 0
        self.dh = 1
        self.dw = 1
        self.xs = 1
        self.ys = 1
        self.rs = 1
        self.residual = False
        self.activation = 0
        self.least = 0
        self.greatest = 0
        self.scale = 1
        self.offset = 0


@always_inline
def ld(p: FP, n: Int) -> V:
    """The first n lanes at p; zeros after them."""
    if n >= W:
        return p.load[width=W]()
    var v = V(0)
    for i in range(n):
        v[i] = p.load(i)
    return v


@always_inline
def st(p: FP, n: Int, v: V):
    """Store the first n lanes."""
    if n >= W:
        p.store(v)
    else:
        for i in range(n):
            p.store(i, v[i])


@always_inline
def sigmoid(v: V) -> V:
    var s = V(1) / (V(1) + exp(-v))
    return isnan(v).select(v, s)


@no_inline
def activate(v: V, kind: Int, least: Float32, greatest: Float32) -> V:
    """0 none, 1 relu, 2 clip, 3 silu, 4 sigmoid, 5 hardswish, 6 tanh, 7 GELU, 8 GELU by tanh; NaN stays NaN."""
    if kind == 1:
        return v.lt(V(0)).select(V(0), v)
    if kind == 2:
        var low = v.lt(V(least)).select(V(least), v)
        return low.gt(V(greatest)).select(V(greatest), low)
    if kind == 3:
        return v * sigmoid(v)
    if kind == 4:
        return sigmoid(v)
    if kind == 5:
        var gate = v * V(1.0 / 6.0) + V(0.5)
        gate = gate.lt(V(0)).select(V(0), gate)
        return v * gate.gt(V(1)).select(V(1), gate)
    if kind == 6:
        return isnan(v).select(v, tanh(v))
    if kind == 7:
        return V(0.5) * v * (V(1) + erf(v * V(0.7071067811865476)))
    if kind == 8:
        return V(0.5) * v * (V(1) + tanh(V(0.7978845608028654) * (v + V(0.044715) * v * v * v)))
    return v


@always_inline
def activated(v: V, a: Args) -> V:
    """`activate`, without a call where there is nothing to do, or relu; then scale and offset."""
    var u = v
    if a.activation == 1:
        u = v.lt(V(0)).select(V(0), v)
    elif a.activation != 0:
        u = activate(v, a.activation, a.least, a.greatest)
    if a.scale != 1 or a.offset != 0:
        return fma(u, V(a.scale), V(a.offset))
    return u


@always_inline
def is_dense(a: Args) -> Bool:
    """Whether a pixel of y is made of the pixel of x with the same number, as in linear layers."""
    return a.R * a.S == 1 and a.sh == 1 and a.sw == 1 and a.ph == 0 and a.pw == 0 and a.H == a.HO and a.W == a.WO


@no_inline
def tile[MR: Int, N: Int](a: Args, dense: Bool, m0: Int, mr: Int, k0: Int, p0: Int, p1: Int, first: Bool, last: Bool):
    """MR output pixels by N vectors of channels from k0 on, over the taps p0 to p1 of the filter.

    `dense` as `is_dense` tells. Partial sums of earlier taps are in y.
    """
    var apart = a.R * a.S * a.C * PANEL  # from one panel to the next
    var acc = Array[V, MR * N](fill=V(0))
    var nn = Array[Int, MR](fill=0)
    var hh = Array[Int, MR](fill=0)
    var ww = Array[Int, MR](fill=0)
    var run = a.dw == 1 and a.xs == a.C  # the taps of a filter's row are neighbours in memory, if no pixel is at an edge
    if not dense:
        var row = m0 // a.WO  # of all output rows of all images
        var column = m0 - row * a.WO
        var image = row // a.HO
        row -= image * a.HO
        comptime for i in range(MR):
            nn[i] = image * a.H
            hh[i] = row * a.sh - a.ph
            ww[i] = column * a.sw - a.pw
            run = run and ww[i] >= 0 and ww[i] + a.S <= a.W
            if i + 1 < mr:
                column += 1
                if column == a.WO:
                    column = 0
                    row += 1
                    if row == a.HO:
                        row = 0
                        image += 1
    comptime for j in range(N):
        var left = a.K - k0 - j * W
        var bias = ld(a.b + (k0 + j * W), left) if first else V(0)
        comptime for i in range(MR):
            acc[i * N + j] = bias if first else ld(a.y + ((m0 + min(i, mr - 1)) * a.ys + k0 + j * W), left)
    var wp = a.w + (k0 // PANEL * apart + p0 * a.C * PANEL + k0 % PANEL)
    var p = p0
    while p < p1:
        var taps = 1
        var ptr = Array[FP, MR](fill=a.zero)
        if dense:
            comptime for i in range(MR):
                ptr[i] = a.x + (m0 + min(i, mr - 1)) * a.xs
        else:
            var r = p // a.S
            var s = p - r * a.S
            taps = min(a.S - s, p1 - p) if run else 1
            comptime for i in range(MR):
                var h = hh[i] + r * a.dh
                var w = ww[i] + s * a.dw
                if h >= 0 and h < a.H and w >= 0 and w < a.W:
                    ptr[i] = a.x + ((nn[i] + h) * a.W + w) * a.xs
        for c in range(a.C * taps):
            var bv = Array[V, N](fill=V(0))
            comptime for j in range(N):
                bv[j] = (wp + j * W // PANEL * apart).load[width=W](j * W % PANEL)
            comptime for i in range(MR):
                var av = V(ptr[i].load(c))
                comptime for j in range(N):
                    acc[i * N + j] = fma(av, bv[j], acc[i * N + j])
            wp += PANEL
        p += taps
    var is_plain = a.activation <= 1 and a.scale == 1 and a.offset == 0
    if a.K - k0 >= N * W and (is_plain or not last):
        var added = last and a.residual
        var least = V(0 if last and a.activation == 1 else -inf[DType.float32]())
        comptime for i in range(MR):
            if i < mr:
                comptime for j in range(N):
                    var v = acc[i * N + j]
                    if added:
                        v += (a.r + ((m0 + i) * a.rs + k0)).load[width=W](j * W)
                    (a.y + ((m0 + i) * a.ys + k0 + j * W)).store(v.lt(least).select(least, v))
        return
    comptime for i in range(MR):
        if i < mr:
            comptime for j in range(N):
                var v = acc[i * N + j]
                var k = k0 + j * W
                if last:
                    if a.residual:
                        v += ld(a.r + ((m0 + i) * a.rs + k), a.K - k)
                    v = activated(v, a)
                st(a.y + ((m0 + i) * a.ys + k), a.K - k, v)


@no_inline
def strip_rows(a: Args, M: Int, m_lo: Int, m_hi: Int, q: Int):
    """Row tiles m_lo to m_hi of the channels from q on, as many as a strip has; taps are blocked to keep the weights in cache."""
    var vectors = min(NV, (a.K - q + W - 1) // W)
    var dense = is_dense(a)
    var taps = a.R * a.S
    var block = max(1, 1536 // max(1, a.C))
    var p = 0
    while p < taps:
        var pe = min(taps, p + block)
        for t in range(m_lo, m_hi):
            var m0 = t * MR
            var mr = min(MR, M - m0)
            if mr == 1:  # one row is bound by the weights: no arithmetic on rows that are not there
                if vectors == NV:
                    tile[1, NV](a, dense, m0, mr, q, p, pe, p == 0, pe == taps)
                else:
                    for j in range(vectors):
                        tile[1, 1](a, dense, m0, mr, q + j * W, p, pe, p == 0, pe == taps)
            elif vectors == NV:
                tile[MR, NV](a, dense, m0, mr, q, p, pe, p == 0, pe == taps)
            elif vectors == 1:
                tile[MR, 1](a, dense, m0, mr, q, p, pe, p == 0, pe == taps)
            else:
                comptime if NV > 2:
                    if vectors == 2:
                        tile[MR, 2](a, dense, m0, mr, q, p, pe, p == 0, pe == taps)
                    else:
                        tile[MR, 3](a, dense, m0, mr, q, p, pe, p == 0, pe == taps)
        p = pe


@no_inline
def conv_run(mut team: Team, a0: Args, M: Int, G: Int):
    """Grouped convolution of M output pixels."""
    var kp = (a0.K + PANEL - 1) // PANEL * PANEL
    var strips = (kp + STRIP - 1) // STRIP
    var mt = (M + MR - 1) // MR
    var parts = team.parts(M * a0.K * a0.C * a0.R * a0.S * G, SMALL, mt * strips * G)
    var by_rows = mt >= 16 * parts or strips * G < parts  # else the strips are shared
    var step = max(4, NEAR // max(1, MR * a0.C))  # row tiles that all strips go over before the next ones

    def work(t: Int) {imm}:
        var m_lo = mt * t // parts if by_rows else 0
        var m_hi = mt * (t + 1) // parts if by_rows else mt
        var q_lo = 0 if by_rows else strips * G * t // parts
        var q_hi = strips * G if by_rows else strips * G * (t + 1) // parts
        var m = m_lo
        while m < m_hi:
            for gq in range(q_lo, q_hi):
                var g = gq // strips
                var a = a0.copy()
                a.x = a.x + g * a.C
                a.y = a.y + g * a.K
                a.r = a.r + g * a.K
                a.w = a.w + g * kp * a.R * a.S * a.C
                a.b = a.b + g * a.K
                strip_rows(a, M, m, min(m_hi, m + step), (gq - g * strips) * STRIP)
            m += step

    share(team, work, parts)


@always_inline
def depthwise_lanes[full: Bool](a: Args, ptr: PP, t0: Int, t1: Int, pixel: Int, count: Int, c: Int):
    """W channels from c on of `count` pixels from `pixel` on, over the taps t0 to t1 whose pixels are in `ptr`; `full`: there are as many channels."""
    var left = W if full else a.K - c
    var taps = a.R * a.S
    var acc = Array[V, DW_PIXELS](fill=V(0))
    comptime for i in range(DW_PIXELS):
        if t0 == 0:
            acc[i] = ld(a.b + c, left)
        elif i < count:
            acc[i] = ld(a.y + ((pixel + i) * a.ys + c), left)
    for t in range(t0, t1):
        var wv = ld(a.w + (t * a.K + c), left)
        comptime for i in range(DW_PIXELS):
            acc[i] = fma(ld(ptr[unsafe_offset=(t - t0) * DW_PIXELS + i] + c, left), wv, acc[i])
    comptime for i in range(DW_PIXELS):
        if i < count:
            var v = acc[i]
            if t1 == taps:
                if a.residual:
                    v += ld(a.r + ((pixel + i) * a.rs + c), left)
                v = activated(v, a)
            st(a.y + ((pixel + i) * a.ys + c), left, v)


@no_inline
def depthwise_pixels(a: Args, ptr: PP, n: Int, ho: Int, w0: Int):
    """Up to DW_PIXELS neighbouring pixels of one row, all channels; taps in blocks of DW_TAPS, whose pixels `ptr` has room for."""
    var taps = a.R * a.S
    var count = min(DW_PIXELS, a.WO - w0)
    var pixel = (n * a.HO + ho) * a.WO + w0
    var t0 = 0
    while t0 < taps:
        var t1 = min(taps, t0 + DW_TAPS)
        for t in range(t0, t1):
            var r = t // a.S
            var h = ho * a.sh - a.ph + r * a.dh
            var inside = h >= 0 and h < a.H
            var row = a.x + (n * a.H + h) * a.W * a.xs
            for i in range(DW_PIXELS):
                var w = (w0 + i) * a.sw - a.pw + (t - r * a.S) * a.dw
                var there = inside and i < count and w >= 0 and w < a.W
                ptr[unsafe_offset=(t - t0) * DW_PIXELS + i] = row + w * a.xs if there else a.zero
        var c = 0
        while c < a.K:
            if a.K - c >= W:
                depthwise_lanes[True](a, ptr, t0, t1, pixel, count, c)
            else:
                depthwise_lanes[False](a, ptr, t0, t1, pixel, count, c)
            c += W
        t0 = t1


@no_inline
def depthwise_run(mut team: Team, a: Args, N: Int):
    """Depthwise convolution: as many groups as channels, one filter each; K is the channels."""
    var rows = N * a.HO
    var parts = team.parts(rows * a.WO * a.K * a.R * a.S, SMALL // 8, rows)

    def work(t: Int) {imm}:
        var pixels = alloc[FP](DW_PIXELS * DW_TAPS)
        for q in range(rows * t // parts, rows * (t + 1) // parts):
            var n = q // a.HO
            var w = 0
            while w < a.WO:
                depthwise_pixels(a, rebind[PP](pixels), n, q - n * a.HO, w)
                w += DW_PIXELS
        pixels.free()

    share(team, work, parts)


@no_inline
def conv_entry(mut team: Team, a0: Args, N: Int, geometry: IP, bounds: FP):
    """`geometry`: R S sh sw ph pw dh dw groups activation residual. `bounds`: those of clip. C and K of `a0` are those of all groups."""
    var a = a0.copy()
    var groups = Int(geometry.load(8))
    a.R = Int(geometry.load(0))
    a.S = Int(geometry.load(1))
    a.sh = Int(geometry.load(2))
    a.sw = Int(geometry.load(3))
    a.ph = Int(geometry.load(4))
    a.pw = Int(geometry.load(5))
    a.dh = Int(geometry.load(6))
    a.dw = Int(geometry.load(7))
    a.activation = Int(geometry.load(9))
    a.residual = geometry.load(10) != 0
    a.least = bounds.load(0)
    a.greatest = bounds.load(1)
    var zero = alloc[Float32](a.S * a.C)
    for i in range(a.S * a.C):
        zero.unsafe_store(i, Float32(0))
    a.zero = rebind[FP](zero)
    if groups > 1 and groups == a.C and groups == a.K:
        depthwise_run(team, a, N)
    else:
        a.C = a.C // groups
        a.K = a.K // groups
        conv_run(team, a, N * a.HO * a.WO, groups)
    zero.free()


@extensibility.register("fx_conv2d")
struct Conv2d:
    """Output [N, Ho, Wo, K] of x [N, H, W, C]; packed weights, bias [K], residual (any tensor where unused)."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[dtype=DType.float32, rank=4, ...],
        x: InputTensor[dtype=DType.float32, rank=4, ...],
        w: InputTensor[dtype=DType.float32, rank=1, ...],
        b: InputTensor[dtype=DType.float32, rank=1, ...],
        r: InputTensor[dtype=DType.float32, rank=4, ...],
        geometry: InputTensor[dtype=DType.int64, rank=1, ...],
        bounds: InputTensor[dtype=DType.float32, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var p = rebind[FP](x.unsafe_ptr())
        var a = Args(
            rebind[FP](output.unsafe_ptr()),
            p,
            rebind[FP](w.unsafe_ptr()),
            rebind[FP](b.unsafe_ptr()),
            rebind[FP](r.unsafe_ptr()),
            p,
        )
        a.H = Int(x.dim_size(1))
        a.W = Int(x.dim_size(2))
        a.C = Int(x.dim_size(3))
        a.HO = Int(output.dim_size(1))
        a.WO = Int(output.dim_size(2))
        a.K = Int(output.dim_size(3))
        a.xs = a.C
        a.ys = a.K
        a.rs = a.K
        var alone = Team()
        conv_entry(alone, a, Int(x.dim_size(0)), rebind[IP](geometry.unsafe_ptr()), rebind[FP](bounds.unsafe_ptr()))
