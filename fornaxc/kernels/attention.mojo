"""Attention on the CPU: the scores of a few queries at a time, so that they stay in the cache. f32; one instance serves every shape."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.math import isnan
from std.memory import alloc
from std.utils.numerics import inf
from .bmm import pack_matrix, product, row_dots, row_product
from .conv import FP, IP, MR, PANEL, SMALL, V, W, ld, multiply_rows, st, strips_of
from .rows import grow_row, scale_row
from .team import FINE, Team, share

comptime SCORES = 65536  # about how many are in the cache at a time
comptime MOST_ROWS = 96
comptime LEAST_ROWS = 24  # of a block where threads share a head: each packs its keys and values
comptime FEW = 2  # queries up to which nothing is packed
comptime ADDED = 1
comptime CHOSEN = 2


struct Strides(ImplicitlyCopyable):
    """The distances between batches, heads, rows and columns of a tensor; `layout` is 0 [b, h, l, c], 1 [b, l, h, c] or 2 [b, h, c, l]."""

    var batch: Int
    var head: Int
    var row: Int
    var column: Int

    def __init__(out self, heads: Int, length: Int, channels: Int, layout: Int):
        self.batch = heads * length * channels
        self.head = channels if layout == 1 else length * channels
        self.row = 1 if layout == 2 else (heads * channels if layout == 1 else channels)
        self.column = length if layout == 2 else 1


struct Job(ImplicitlyCopyable):
    """One attention: pointers, sizes, strides."""

    var y: FP
    var q: FP
    var k: FP
    var v: FP
    var mask: FP
    var B: Int
    var H: Int  # heads of q
    var M: Int  # queries
    var C: Int  # channels of q and k
    var G: Int  # heads of k and v
    var S: Int  # keys
    var N: Int  # channels of v
    var ys: Strides
    var qs: Strides
    var ks: Strides
    var vs: Strides
    var mb: Int  # strides of the mask; 0 along an axis that it repeats
    var mh: Int
    var mm: Int
    var ms: Int
    var kind: Int  # of the mask: 0 none, ADDED, CHOSEN
    var replaces: Bool  # `spare` is put into a row whose softmax is NaN
    var scale: Float32
    var fill: Float32
    var spare: Float32

    def __init__(out self, y: FP, q: FP, k: FP, v: FP, mask: FP):
        self.y = y
        self.q = q
        self.k = k
        self.v = v
        self.mask = mask
        self.B = 0
        self.H = 0
        self.M = 0
        self.C = 0
        self.G = 1
        self.S = 0
        self.N = 0
        self.ys = Strides(0, 0, 0, 0)
        self.qs = self.ys
        self.ks = self.ys
        self.vs = self.ys
        self.mb = 0
        self.mh = 0
        self.mm = 0
        self.ms = 0
        self.kind = 0
        self.replaces = False
        self.scale = 1
        self.fill = 0
        self.spare = 0

    def arrange(mut self, flags: IP):
        """Strides, the kind of mask and whether there is a spare, by the sizes and `flags`: the layouts of q, k, v and the result, then those two."""
        self.qs = Strides(self.H, self.M, self.C, Int(flags.load(0)))
        self.ks = Strides(self.G, self.S, self.C, Int(flags.load(1)))
        self.vs = Strides(self.G, self.S, self.N, Int(flags.load(2)))
        self.ys = Strides(self.H, self.M, self.N, Int(flags.load(3)))
        self.kind = Int(flags.load(4))
        self.replaces = flags.load(5) != 0


@always_inline
def score[kind: Int](a: Job, s: FP, mask: FP, left: Int) -> V:
    """The next products, scaled and masked; -inf behind the last of `left`."""
    var v = ld(s, left) * V(a.scale)
    comptime if kind != 0:
        var chosen = ld(mask, left) if a.ms == 1 else V(mask.load(0))
        comptime if kind == ADDED:
            v += chosen
        else:
            v = chosen.ne(V(0)).select(v, V(a.fill))
    for lane in range(left, W):
        v[lane] = -inf[DType.float32]()
    return v


@always_inline
def score_row[kind: Int](a: Job, s: FP, mask: FP) -> Float32:
    """A row of products, scaled and masked in place; returns the greatest. NaN is passed over."""
    var top = V(-inf[DType.float32]())
    var more = top
    var i = 0
    while i < a.S:
        var u = score[kind](a, s + i, mask + i * a.ms, a.S - i)
        st(s + i, a.S - i, u)
        top = u.gt(top).select(u, top)
        i += W
        if i < a.S:
            var v = score[kind](a, s + i, mask + i * a.ms, a.S - i)
            st(s + i, a.S - i, v)
            more = v.gt(more).select(v, more)
            i += W
    return more.gt(top).select(more, top).reduce_max()


@no_inline
def finish_scores(a: Job, s: FP, b: Int, h: Int, m: Int):
    """A row of products, scaled, masked and then their softmax, in place."""
    if a.S == 0:
        return
    var mask = a.mask + (b * a.mb + h * a.mh + m * a.mm)
    var top = Float32(0)
    comptime for kind in range(CHOSEN + 1):
        if a.kind == kind:
            top = score_row[kind](a, s, mask)
    var total = grow_row[True](s, s, a.S, top)  # NaN, where there is one, or +inf, or nothing but -inf
    if a.replaces and isnan(total):
        for j in range(a.S):
            s.store(j, a.spare)
        return
    scale_row(s, a.S, 1 / total)


@no_inline
def few_rows(a: Job, b: Int, h: Int, scores: FP):
    """All queries of a head, one by one."""
    var g = h * a.G // a.H
    var k = a.k + (b * a.ks.batch + g * a.ks.head)
    var v = a.v + (b * a.vs.batch + g * a.vs.head)
    for m in range(a.M):
        var q = a.q + (b * a.qs.batch + h * a.qs.head + m * a.qs.row)
        if a.ks.column == 1:
            row_dots(scores, q, k, a.C, a.S, a.ks.row)
        else:
            row_product(scores, q, k, a.C, a.S, a.ks.column)
        finish_scores(a, scores, b, h, m)
        row_product(a.y + (b * a.ys.batch + h * a.ys.head + m * a.ys.row), scores, v, a.S, a.N, a.vs.row)


@no_inline
def attention_run(mut team: Team, a: Job):
    var rows = max(MR, min(MOST_ROWS, SCORES // max(1, a.S) // MR * MR))
    var multiplications = a.B * a.H * a.M * a.S * (a.C + a.N)
    var blocks = max(1, (a.M + rows - 1) // rows)
    if team.parts(multiplications, SMALL, 2) > 1:  # two for each part of a team, so that parts differ little
        var wanted = (2 * FINE * team.threads + a.B * a.H - 1) // (a.B * a.H)
        blocks = max(blocks, min(wanted, a.M // LEAST_ROWS))
    rows = ((a.M + blocks - 1) // blocks + MR - 1) // MR * MR
    blocks = 1 if a.M <= FEW else (a.M + rows - 1) // rows
    var units = a.B * a.H * blocks
    var parts = team.parts(multiplications, SMALL, units)
    var sp = (a.S + PANEL - 1) // PANEL * PANEL
    var np = (a.N + PANEL - 1) // PANEL * PANEL
    var packed = a.M > FEW
    var each = rows * a.S + (sp * a.C + np * a.S if packed else 0) + 1
    var zeros = rebind[FP](alloc[Float32](sp + np + a.C + 1))
    for i in range(sp + np + a.C + 1):
        zeros.store(i, Float32(0))

    def work(t: Int) {imm}:
        var buffer = alloc[Float32](each)
        var scores = rebind[FP](buffer)
        var keys = scores + rows * a.S
        var values = keys + sp * a.C
        var have = -1
        for unit in range(units * t // parts, units * (t + 1) // parts):
            var head = unit // blocks
            var b = head // a.H
            var h = head % a.H
            if not packed:
                few_rows(a, b, h, scores)
                continue
            var g = b * a.G + h * a.G // a.H
            if g != have:
                have = g
                var from_k = a.k + (b * a.ks.batch + (g - b * a.G) * a.ks.head)
                var from_v = a.v + (b * a.vs.batch + (g - b * a.G) * a.vs.head)
                pack_matrix(keys, from_k, a.C, a.S, a.ks.column, a.ks.row)
                pack_matrix(values, from_v, a.S, a.N, a.vs.row, a.vs.column)
            var m = unit % blocks * rows
            var count = min(rows, a.M - m)
            var tiles = (count + MR - 1) // MR
            var q = a.q + (b * a.qs.batch + h * a.qs.head + m * a.qs.row)
            var first = product(scores, q, keys, zeros, count, a.C, a.S)
            first.xs = a.qs.row
            multiply_rows(first, count, 0, tiles, 0, strips_of(a.S))
            for i in range(count):
                finish_scores(a, scores + i * a.S, b, h, m + i)
            var y = a.y + (b * a.ys.batch + h * a.ys.head + m * a.ys.row)
            var second = product(y, scores, values, zeros, count, a.S, a.N)
            second.ys = a.ys.row
            multiply_rows(second, count, 0, tiles, 0, strips_of(a.N))
        buffer.free()

    share(team, work, parts)
    zeros.free()


@extensibility.register("fx_attention")
struct AttentionHeads:
    """softmax(scale * q k^T + mask) v. `flags`: the layouts of q, k, v and the result (see `Strides`), the kind of mask, whether `spare` takes the place of NaN.
    `mask` (any tensor where unused) is [b, h, m, s] or 1 in place of a size; `numbers`: scale, fill, spare."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[dtype=DType.float32, rank=4, ...],
        q: InputTensor[dtype=DType.float32, rank=4, ...],
        k: InputTensor[dtype=DType.float32, rank=4, ...],
        v: InputTensor[dtype=DType.float32, rank=4, ...],
        mask: InputTensor[dtype=DType.float32, rank=4, ...],
        numbers: InputTensor[dtype=DType.float32, rank=1, ...],
        flags: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var a = Job(
            rebind[FP](output.unsafe_ptr()),
            rebind[FP](q.unsafe_ptr()),
            rebind[FP](k.unsafe_ptr()),
            rebind[FP](v.unsafe_ptr()),
            rebind[FP](mask.unsafe_ptr()),
        )
        var f = rebind[IP](flags.unsafe_ptr())
        var ql = Int(f.load(0))
        var kl = Int(f.load(1))
        var vl = Int(f.load(2))
        a.B = Int(q.dim_size(0))
        a.H = Int(q.dim_size(2)) if ql == 1 else Int(q.dim_size(1))
        a.M = Int(q.dim_size(3)) if ql == 2 else (Int(q.dim_size(1)) if ql == 1 else Int(q.dim_size(2)))
        a.C = Int(q.dim_size(2)) if ql == 2 else Int(q.dim_size(3))
        a.G = Int(k.dim_size(2)) if kl == 1 else Int(k.dim_size(1))
        a.S = Int(v.dim_size(1)) if vl == 1 else Int(v.dim_size(2))
        a.N = Int(v.dim_size(3))
        a.arrange(f)
        if a.kind != 0:
            var mb = Int(mask.dim_size(0))
            var mh = Int(mask.dim_size(1))
            var mm = Int(mask.dim_size(2))
            var ms = Int(mask.dim_size(3))
            a.ms = 0 if ms == 1 else 1
            a.mm = 0 if mm == 1 else ms
            a.mh = 0 if mh == 1 else mm * ms
            a.mb = 0 if mb == 1 else mh * mm * ms
        var n = rebind[FP](numbers.unsafe_ptr())
        a.scale = n.load(0)
        a.fill = n.load(1)
        a.spare = n.load(2)
        var alone = Team()
        attention_run(alone, a)
