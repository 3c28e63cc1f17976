"""Convolutions, channels last, on the CPU: one instance of the heavy code serves every shape.

`execute` only unpacks tensors into an `Args` of pointers and run-time sizes; the loops are never specialised for a
shape. Weights are packed ahead of time by `packing.py`.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.bit import log2_floor
from std.collections import Array
from std.math import fma, iota, isnan, tanh
from std.memory import alloc
from std.sys import simd_width_of
from std.sys.intrinsics import PrefetchOptions, masked_load, prefetch
from std.utils.numerics import inf
from .functions import HIGHEST, error_function, exponential
from .team import Team, share

comptime FP = Pointer[Float32, UntrackedOrigin[mut=True]]
comptime IP = Pointer[Int64, UntrackedOrigin[mut=True]]
comptime W = simd_width_of[DType.float32]()
comptime PP = Pointer[FP, UntrackedOrigin[mut=True]]
comptime V = SIMD[DType.float32, W]
comptime HALVES = log2_floor(W)
comptime At[T: AnyType] = Pointer[T, UntrackedOrigin[mut=True]]
comptime PANEL = 16  # channels of a panel of packed weights
comptime PANEL_BITS = log2_floor(PANEL)
comptime MR = 6  # output pixels of a register tile
comptime NV = 4 if W != 8 else 2  # vectors of a register tile: 24 accumulators of 32 registers, or 12 of 16
comptime STRIP = max(PANEL, NV * W)  # channels of a register tile: of one panel, or of four where vectors are as wide as panels
comptime FEW = 2  # output pixels that have a tile of their own, each number of them
comptime STREAMS = 4  # panels that a tile of one pixel reads at once, and one of more a part of them: memory brings several sooner than one
comptime DW_PIXELS = 8  # of a tile of a depthwise convolution
comptime NEAR = 65536  # numbers of x that stay in the cache of a core while all strips go over them
comptime FETCHED = 64  # row tiles up to which each also fetches a part of the weights that are next: more than these wait little for them
comptime NEARER = 4096  # numbers of w that stay in the first cache
comptime UNROLLED = 4  # channels of a turn of the loop that multiplies
comptime LINE = 16  # numbers of a line of the cache
comptime READ = 8  # output pixels up to which a weight takes as long to read as to multiply
comptime SMALL = 400000  # multiply-adds below which one thread of a team is quicker
comptime ACTIVATIONS = 9  # kinds of them, with none
comptime CLIP = 2  # one of them


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
    return masked_load[W](p, iota[DType.int32, W]().lt(SIMD[DType.int32, W](Int32(n))), V(0))


@always_inline
def st(p: FP, n: Int, v: V):
    """Store the first n lanes: by halves, since stores under a mask are slow on some cores."""
    if n >= W:
        p.store(v)
        return
    var rest = v
    var at = 0
    comptime for k in range(1, HALVES + 1):
        comptime half = W >> k
        if n > 0 and n & half != 0:
            (p + at).store(rest.slice[half]())
            rest = rest.shift_left[half]()
            at += half


@always_inline
def sigmoid(v: V) -> V:
    return V(1) / (V(1) + exponential(v.lt(V(-HIGHEST)).select(V(HIGHEST), -v)))


@always_inline
def _activated[kind: Int](v: V, least: V, greatest: V) -> V:
    comptime if kind == 1:
        return v.lt(V(0)).select(V(0), v)
    comptime if kind == 2:
        var low = v.lt(least).select(least, v)
        return low.gt(greatest).select(greatest, low)
    comptime if kind == 3:
        return v * sigmoid(v)
    comptime if kind == 4:
        return sigmoid(v)
    comptime if kind == 5:
        var gate = v * V(1.0 / 6.0) + V(0.5)
        gate = gate.lt(V(0)).select(V(0), gate)
        return v * gate.gt(V(1)).select(V(1), gate)
    comptime if kind == 6:
        return isnan(v).select(v, tanh(v))
    comptime if kind == 7:
        return V(0.5) * v * (V(1) + error_function(v * V(0.7071067811865476)))
    return V(0.5) * v * (V(1) + tanh(V(0.7978845608028654) * (v + V(0.044715) * v * v * v)))


@no_inline
def activate(p: FP, n: Int, kind: Int, least: Float32, greatest: Float32, scale: Float32, offset: Float32):
    """n numbers from p on, in place: 0 none, 1 relu, 2 clip, 3 silu, 4 sigmoid, 5 hardswish, 6 tanh, 7 GELU, 8 GELU by tanh; NaN stays NaN. Then a scale and an
    offset. Two vectors at a time: each waits for its own results."""
    var low = V(least)
    var high = V(greatest)
    comptime for k in range(1, ACTIVATIONS):
        if kind == k:
            var i = 0
            while n - i >= 2 * W:
                var u = _activated[k]((p + i).load[width=W](), low, high)
                var v = _activated[k]((p + i + W).load[width=W](), low, high)
                (p + i).store(u)
                (p + i + W).store(v)
                i += 2 * W
            while i < n:
                st(p + i, n - i, _activated[k](ld(p + i, n - i), low, high))
                i += W
    if scale != 1 or offset != 0:
        var i = 0
        while i < n:
            st(p + i, n - i, fma(ld(p + i, n - i), V(scale), V(offset)))
            i += W


@always_inline
def finish(p: FP, n: Int, a: Args):
    """What a convolution does last to n of its numbers."""
    if a.activation != 0 or a.scale != 1 or a.offset != 0:
        activate(p, n, a.activation, a.least, a.greatest, a.scale, a.offset)


@always_inline
def is_dense(a: Args) -> Bool:
    """Whether a pixel of y is made of the pixel of x with the same number, as in linear layers."""
    return a.R * a.S == 1 and a.sh == 1 and a.sw == 1 and a.ph == 0 and a.pw == 0 and a.H == a.HO and a.W == a.WO


struct Pixels[MR: Int]:
    """The pixels of x under the filters' first taps, for MR output pixels, where these are and whether all taps of all are inside x."""

    var at: Array[FP, Self.MR]
    var h: Array[Int, Self.MR]
    var w: Array[Int, Self.MR]
    var inside: Bool
    var image: Int  # of the next output pixel, like its row and column
    var row: Int
    var column: Int

    def __init__(out self, a: Args, first: Int):
        """Before output pixel `first`."""
        self.at = Array[FP, Self.MR](fill=a.x)
        self.h = Array[Int, Self.MR](fill=0)
        self.w = Array[Int, Self.MR](fill=0)
        self.inside = True
        var row = first // a.WO
        self.column = first - row * a.WO
        self.image = row // a.HO
        self.row = row - self.image * a.HO

    @always_inline
    def forward(mut self, a: Args, mr: Int):
        """The next `mr` output pixels, MR or what is left."""
        var h = self.row * a.sh - a.ph
        var w = self.column * a.sw - a.pw
        var at = a.x + ((self.image * a.H + h) * a.W + w) * a.xs
        var step = a.sw * a.xs
        self.inside = h >= 0 and h + (a.R - 1) * a.dh < a.H and w >= 0
        if self.column + Self.MR <= a.WO:
            comptime for i in range(Self.MR):
                self.h[i] = h
                self.w[i] = w + i * a.sw
                self.at[i] = at + i * step
            self.inside = self.inside and w + (Self.MR - 1) * a.sw + (a.S - 1) * a.dw < a.W
            self.column += Self.MR
            if self.column == a.WO:
                self.end_row(a)
            return
        comptime for i in range(Self.MR):
            h = self.row * a.sh - a.ph
            w = self.column * a.sw - a.pw
            self.h[i] = h
            self.w[i] = w
            self.at[i] = a.x + ((self.image * a.H + h) * a.W + w) * a.xs
            if h < 0 or w < 0 or h + (a.R - 1) * a.dh >= a.H or w + (a.S - 1) * a.dw >= a.W:
                self.inside = False
            if i + 1 < mr or mr == Self.MR:  # those that are not there are the last one again
                self.column += 1
                if self.column == a.WO:
                    self.end_row(a)

    @always_inline
    def end_row(mut self, a: Args):
        self.column = 0
        self.row += 1
        if self.row == a.HO:
            self.row = 0
            self.image += 1


struct Ahead(ImplicitlyCopyable):
    """Where to bring memory into the second cache from while weights are multiplied, and how many numbers further each time."""

    var at: FP
    var step: Int

    def __init__(out self, at: FP, step: Int = 0):
        self.at = at
        self.step = step

    def __init__(out self, a: Args, q: Int, p: Int, pe: Int, tile: Int, tiles: Int):
        """For one of the `tiles` that the taps p to pe of strip q are for: its part of the weights behind these."""
        var tap = a.C * PANEL
        var taps = a.R * a.S
        var next = (q * STRIP // PANEL * taps + pe) * tap if pe < taps else (q + 1) * STRIP // PANEL * taps * tap
        self.at = a.w + (next + (pe - p) * tap // tiles * tile)
        self.step = max(1, PANEL // tiles)


@always_inline
def multiply[MR: Int, N: Int](mut acc: Array[V, MR * N], at: Array[FP, MR], c: Int, w: FP, apart: Int):
    """Add the products of channel c of MR pixels with N vectors of weights, which start at w in each panel."""
    var weights = Array[V, N](fill=V(0))
    comptime for j in range(N):
        weights[j] = (w + j * W // PANEL * apart).load[width=W](j * W % PANEL)
    comptime for i in range(MR):
        var x = V(at[i].load(c))
        comptime for j in range(N):
            acc[i * N + j] = fma(x, weights[j], acc[i * N + j])


@no_inline
def tile[MR: Int, N: Int](job: At[Args], under: At[Pixels[MR]], m0: Int, mr: Int, k0: Int, times: Int, p0: Int, p1: Int, first: Bool, last: Bool, ahead: Ahead):
    """`mr` output pixels from m0 on by `times` times N vectors of channels from k0 on, over the taps p0 to p1 of the filter. Partial sums of earlier taps, the
    residual among them, are in y, which may lie where the residual does.

    What it reads much of comes by its address: by value, all of it is copied for each tile. Rows that are not there are the last one again, so what is stored for them is
    stored twice."""
    ref a = job[]
    ref pixels = under[]
    var apart = a.R * a.S * a.C * PANEL  # from one panel to the next
    var run = pixels.inside and a.dw == 1 and a.xs == a.C  # the taps of a filter's row are neighbours in memory
    var added = first and a.residual
    var is_plain = not last or (a.activation <= 1 and a.scale == 1 and a.offset == 0)
    var least = V(0 if last and a.activation == 1 else -inf[DType.float32]())
    var yp = Array[FP, MR](fill=a.y)
    var rp = Array[FP, MR](fill=a.r)
    comptime for i in range(MR):
        var m = m0 + min(i, mr - 1)
        yp[i] = a.y + m * a.ys
        rp[i] = a.r + m * a.rs if added else yp[i]
    var fetched = ahead.at
    for k in range(k0, k0 + times * N * W, N * W):
        var left = a.K - k
        var full = left >= N * W
        var acc = Array[V, MR * N](fill=V(0))
        comptime for j in range(N):
            if first:
                var bias = (a.b + (k + j * W)).load[width=W]() if full else ld(a.b + (k + j * W), left - j * W)
                comptime for i in range(MR):
                    acc[i * N + j] = bias
            else:
                comptime for i in range(MR):
                    acc[i * N + j] = ld(yp[i] + (k + j * W), left - j * W)
        if first:  # what is written at last, or added to it, comes near while weights are multiplied
            comptime for i in range(MR):
                comptime for j in range(0, N * W, LINE):
                    prefetch[PrefetchOptions().for_read().high_locality().to_data_cache()](rp[i] + (k + j))
        var wp = a.w + ((k >> PANEL_BITS) * apart + p0 * a.C * PANEL + (k & (PANEL - 1)))
        var p = p0
        var r = 0 if p0 == 0 else p0 // a.S
        var s = p0 - r * a.S
        while p < p1:
            var taps = min(a.S - s, p1 - p) if run else 1
            var tap = (r * a.dh * a.W + s * a.dw) * a.xs
            var at = Array[FP, MR](fill=a.zero)
            if pixels.inside:
                comptime for i in range(MR):
                    at[i] = pixels.at[i] + tap
            else:
                comptime for i in range(MR):
                    var h = pixels.h[i] + r * a.dh
                    var w = pixels.w[i] + s * a.dw
                    if h >= 0 and h < a.H and w >= 0 and w < a.W:
                        at[i] = pixels.at[i] + tap
            var c = 0
            while c + UNROLLED <= a.C * taps:
                comptime for u in range(UNROLLED):
                    multiply[MR, N](acc, at, c + u, wp + u * PANEL, apart)
                    prefetch[PrefetchOptions().for_read().medium_locality().to_data_cache()](fetched)
                    fetched += ahead.step
                wp += UNROLLED * PANEL
                c += UNROLLED
            while c < a.C * taps:
                multiply[MR, N](acc, at, c, wp, apart)
                wp += PANEL
                c += 1
            p += taps
            s += taps
            if s == a.S:
                s = 0
                r += 1
        if added and full:
            comptime for i in range(MR):
                comptime for j in range(N):
                    acc[i * N + j] += (rp[i] + k).load[width=W](j * W)
        if is_plain and full:
            comptime for i in range(MR):
                comptime for j in range(N):
                    var v = acc[i * N + j]
                    (yp[i] + k).store(j * W, v.lt(least).select(least, v))
            continue
        var sums = Array[V, MR * N](fill=V(0))
        comptime for i in range(MR * N):
            sums[i] = acc[i]
        finish_tile[MR, N](job, sums, m0, mr, k, added and not full, last)


@no_inline
def finish_tile[MR: Int, N: Int](job: At[Args], mut sums: Array[V, MR * N], m0: Int, mr: Int, k: Int, added: Bool, last: Bool):
    """Store `mr` by N vectors of sums, for channels from k on of which there may be fewer, once the residual is `added` and, at `last`, what follows is done."""
    ref a = job[]
    if added:
        comptime for i in range(MR):
            comptime for j in range(N):
                if i < mr:
                    sums[i * N + j] += ld(a.r + ((m0 + i) * a.rs + k + j * W), a.K - k - j * W)
    if last:
        finish(rebind[FP](Pointer(to=sums).bitcast[Float32]()), mr * N * W, a)
    comptime for i in range(MR):
        comptime for j in range(N):
            if i < mr:
                st(a.y + ((m0 + i) * a.ys + k + j * W), a.K - k - j * W, sums[i * N + j])


@no_inline
def strip_rows(a: Args, M: Int, m_lo: Int, m_hi: Int, q_lo: Int, q_hi: Int):
    """Row tiles m_lo to m_hi of the strips of channels q_lo to q_hi; taps are blocked to keep the weights of one strip in cache, if they are read again."""
    var dense = is_dense(a)
    var taps = a.R * a.S
    var block = taps if M <= FEW else max(1, 1536 // max(1, a.C))
    var p = 0
    while p < taps:
        var pe = min(taps, p + block)
        var pixels = Pixels[MR](a, m_lo * MR)
        for t in range(m_lo, m_hi):
            var m0 = t * MR
            var mr = min(MR, M - m0)
            comptime for few in range(1, FEW + 1):  # bound by the weights: no arithmetic on rows that are not there
                if mr == few:
                    var those = Pixels[few](a, m0)
                    those.forward(a, mr)
                    streams[few](a, those, m0, q_lo, q_hi, p, pe, taps)
            if mr > FEW:
                if dense:
                    comptime for i in range(MR):
                        pixels.at[i] = a.x + (m0 + min(i, mr - 1)) * a.xs
                else:
                    pixels.forward(a, mr)
                var ahead = Ahead(a.w)
                if q_hi - q_lo == 1 and m_hi - m_lo <= FETCHED:
                    ahead = Ahead(a, q_lo, p, pe, t - m_lo, m_hi - m_lo)
                columns[MR](rebind[At[Args]](Pointer(to=a)), rebind[At[Pixels[MR]]](Pointer(to=pixels)), m0, mr, q_lo, q_hi, p, pe, taps, ahead)
        p = pe


@always_inline
def columns[MR: Int](a: At[Args], pixels: At[Pixels[MR]], m0: Int, mr: Int, q_lo: Int, q_hi: Int, p: Int, pe: Int, taps: Int, ahead: Ahead):
    """`tile` for the strips q_lo to q_hi, the last of which may have fewer vectors."""
    var vectors = (a[].K + W - 1) // W
    var whole = max(q_lo, min(q_hi, vectors // NV))
    if whole > q_lo:
        tile[MR, NV](a, pixels, m0, mr, q_lo * STRIP, whole - q_lo, p, pe, p == 0, pe == taps, ahead)
    if whole == q_hi:
        return
    vectors -= whole * NV
    comptime if NV > 2 and MR > FEW:
        comptime for n in range(2, NV):
            if vectors == n:
                tile[MR, n](a, pixels, m0, mr, whole * STRIP, 1, p, pe, p == 0, pe == taps, ahead)
                return
    tile[MR, 1](a, pixels, m0, mr, whole * STRIP, vectors, p, pe, p == 0, pe == taps, ahead)


@always_inline
def streams[few: Int](a: Args, those: Pixels[few], m0: Int, q_lo: Int, q_hi: Int, p: Int, pe: Int, taps: Int):
    """A few output pixels, `few` of them, by the strips q_lo to q_hi, several at once where a strip is narrow."""
    comptime MANY = max(1, STREAMS * PANEL // STRIP // few)
    var job = rebind[At[Args]](Pointer(to=a))
    var under = rebind[At[Pixels[few]]](Pointer(to=those))  # an argument: it lives as long as this call
    var ahead = Ahead(a.w)
    var times = max(0, min(q_hi, a.K // STRIP) - q_lo) // MANY
    if times > 0:
        tile[few, MANY * NV](job, under, m0, few, q_lo * STRIP, times, p, pe, p == 0, pe == taps, ahead)
    var q = q_lo + times * MANY
    if q < q_hi:
        columns[few](job, under, m0, few, q, q_hi, p, pe, taps, ahead)


@always_inline
def strips_of(K: Int) -> Int:
    """How many strips K channels are, whose panels are filled up."""
    return ((K + PANEL - 1) // PANEL * PANEL + STRIP - 1) // STRIP


@no_inline
def multiply_rows(a: Args, M: Int, m_lo: Int, m_hi: Int, q_lo: Int, q_hi: Int):
    """Row tiles m_lo to m_hi of the strips q_lo to q_hi: each tile with several strips at once where their weights are few, or are read only once."""
    var together = max(1, q_hi - q_lo if M <= FEW else NEARER // max(1, a.C * a.R * a.S * STRIP))
    for q in range(q_lo, q_hi, together):
        strip_rows(a, M, m_lo, m_hi, q, min(q_hi, q + together))


@no_inline
def conv_run(mut team: Team, a0: Args, M: Int, G: Int):
    """Grouped convolution of M output pixels."""
    var kp = (a0.K + PANEL - 1) // PANEL * PANEL
    var strips = strips_of(a0.K)
    var mt = (M + MR - 1) // MR
    var unit = 1  # strips that stay together
    if M <= FEW:
        unit = max(1, min(STREAMS * PANEL // STRIP, strips * G // max(1, team.threads)))
    var units = (strips * G + unit - 1) // unit
    var parts = team.parts(max(M, READ) * a0.K * a0.C * a0.R * a0.S * G, SMALL, mt * units)
    var by_rows = mt >= 16 * parts or units < parts  # else the strips are shared
    var step = max(4, NEAR // max(1, MR * a0.C))  # row tiles that all strips go over before the next ones

    def work(t: Int) {imm}:
        var m_lo = mt * t // parts if by_rows else 0
        var m_hi = mt * (t + 1) // parts if by_rows else mt
        var q_lo = 0 if by_rows else units * t // parts * unit
        var q_hi = strips * G if by_rows else min(strips * G, units * (t + 1) // parts * unit)
        var m = m_lo
        while m < m_hi:
            var gq = q_lo
            while gq < q_hi:
                var g = gq // strips
                var a = a0.copy()
                a.x = a.x + g * a.C
                a.y = a.y + g * a.K
                a.r = a.r + g * a.K
                a.w = a.w + g * kp * a.R * a.S * a.C
                a.b = a.b + g * a.K
                var q = gq - g * strips
                var count = min(strips - q, q_hi - gq)
                multiply_rows(a, M, m, min(m_hi, m + step), q, q + count)
                gq += count
            m += step

    share(team, work, parts)


@always_inline
def depthwise_tile[P: Int, N: Int, full: Bool](a: Args, origin: FP, r0: Int, r1: Int, s0: Int, s1: Int, pixel: Int, c: Int):
    """P neighbouring pixels of one row from `pixel` on, by N vectors of channels from c on, over the taps r0 to r1 by s0 to s1, which are inside x for all of them.

    `origin` is the pixel of x under the first tap of the first filter. `full`: there are as many channels."""
    var step = a.sw * a.xs
    var acc = Array[V, P * N](fill=V(0))
    comptime for j in range(N):
        var left = W if full else a.K - c - j * W
        var bias = ld(a.b + (c + j * W), left)
        comptime for i in range(P):
            acc[i * N + j] = bias
    for r in range(r0, r1):
        for s in range(s0, s1):
            var xp = origin + ((r * a.dh * a.W + s * a.dw) * a.xs + c)
            comptime for j in range(N):
                var left = W if full else a.K - c - j * W
                var wv = ld(a.w + ((r * a.S + s) * a.K + c + j * W), left)
                comptime for i in range(P):
                    acc[i * N + j] = fma(ld(xp + (i * step + j * W), left), wv, acc[i * N + j])
    var out = Array[V, P * N](fill=V(0))
    comptime for i in range(P):
        comptime for j in range(N):
            out[i * N + j] = acc[i * N + j]
            if a.residual:
                out[i * N + j] += ld(a.r + ((pixel + i) * a.rs + c + j * W), W if full else a.K - c - j * W)
    finish(rebind[FP](Pointer(to=out).bitcast[Float32]()), P * N * W, a)
    comptime for i in range(P):
        comptime for j in range(N):
            st(a.y + ((pixel + i) * a.ys + c + j * W), W if full else a.K - c - j * W, out[i * N + j])


@no_inline
def depthwise_pixels[P: Int, N: Int](job: At[Args], origin: FP, r0: Int, r1: Int, s0: Int, s1: Int, pixel: Int):
    """All channels of P neighbouring pixels, as in `depthwise_tile`."""
    ref a = job[]
    var c = 0
    while a.K - c >= N * W:
        depthwise_tile[P, N, True](a, origin, r0, r1, s0, s1, pixel, c)
        c += N * W
    while c < a.K:
        depthwise_tile[P, 1, False](a, origin, r0, r1, s0, s1, pixel, c)
        c += W


@always_inline
def taps_inside(at: Int, size: Int, taps: Int, apart: Int) -> Tuple[Int, Int]:
    """Which taps of a filter along an axis are inside x, whose first is at position `at` and which are `apart`: from, and up to."""
    return max(0, (apart - 1 - at) // apart), min(taps, (size - 1 - at + apart) // apart)


@no_inline
def depthwise_run(mut team: Team, a: Args, N: Int):
    """Depthwise convolution: as many groups as channels, one filter each; K is the channels."""
    var rows = N * a.HO
    var parts = team.parts(rows * a.WO * a.K * a.R * a.S, SMALL // 8, rows)

    def work(t: Int) {imm}:
        var job = rebind[At[Args]](Pointer(to=a))
        for q in range(rows * t // parts, rows * (t + 1) // parts):
            var n = q // a.HO
            var h = (q - n * a.HO) * a.sh - a.ph
            var down = taps_inside(h, a.H, a.R, a.dh)
            var wo = 0
            while wo < a.WO:
                var w = wo * a.sw - a.pw
                var across = taps_inside(w, a.W, a.S, a.dw)
                var origin = a.x + ((n * a.H + h) * a.W + w) * a.xs
                var last = w + (DW_PIXELS - 1) * a.sw + (a.S - 1) * a.dw  # where the last tap of a whole tile is
                if w >= 0 and last < a.W and wo + DW_PIXELS <= a.WO:
                    depthwise_pixels[DW_PIXELS, 1](job, origin, down[0], down[1], 0, a.S, q * a.WO + wo)
                    wo += DW_PIXELS
                else:
                    depthwise_pixels[1, 4](job, origin, down[0], down[1], across[0], across[1], q * a.WO + wo)
                    wo += 1

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
