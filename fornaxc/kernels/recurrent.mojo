"""LSTM, GRU and plain recurrences over a sequence whose input projection is done, on the CPU.

Every size is a run-time value, so one instance serves all layers. The state lives in the outputs that end as the last
state. Weights are packed by `pack_matrix_weight` of `packing.py` (a GRU's by `pack_gru_weight`).
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from std.memory import alloc
from .conv import Args, CLIP, FP, IP, MR, PANEL, READ, SMALL, V, W, activate, ld, multiply_rows, st, strips_of
from .team import Team, share, together

comptime FEW_WEIGHTS = 1 << 15  # of a step, which threads that share them do not read sooner than one


struct Sequences(ImplicitlyCopyable):
    """Where each step of each sequence is found. `lengths` is read where `limited`."""

    var T: Int
    var B: Int
    var H: Int
    var lengths: IP
    var limited: Bool
    var reverse: Bool
    var clip: Float32

    def __init__(out self, T: Int, B: Int, H: Int, lengths: IP, limited: Bool, reverse: Bool, clip: Float32):
        self.T = T
        self.B = B
        self.H = H
        self.lengths = lengths
        self.limited = limited
        self.reverse = reverse
        self.clip = clip

    @always_inline
    def length(self, row: Int) -> Int:
        if not self.limited:
            return self.T
        return max(0, min(self.T, Int(self.lengths.load(row))))

    @always_inline
    def row_at(self, step: Int, row: Int) -> Int:
        """The row of [T * B] that is `step` of sequence `row`; -1 once that sequence has ended."""
        var n = self.length(row)
        if step >= n:
            return -1
        return (n - 1 - step if self.reverse else step) * self.B + row

    def finish(self, p: FP, n: Int, kind: Int):
        """Clip n numbers in place, then activate them."""
        if self.clip > 0:
            activate(p, n, CLIP, -self.clip, self.clip, 1, 0)
        activate(p, n, kind, 0, 0, 1, 0)


@no_inline
def copy(y: FP, x: FP, n: Int):
    var i = 0
    while i < n:
        st(y + i, n - i, ld(x + i, n - i))
        i += W


@no_inline
def add_product(y: FP, a: FP, b: FP, n: Int):
    """y += a b, n numbers each."""
    var i = 0
    while i < n:
        st(y + i, n - i, ld(y + i, n - i) + ld(a + i, n - i) * ld(b + i, n - i))
        i += W


@no_inline
def clear(y: FP, n: Int):
    var i = 0
    while i < n:
        st(y + i, n - i, V(0))
        i += W


def zeros_of(n: Int) -> FP:
    """n numbers that the caller frees."""
    var numbers = rebind[FP](alloc[Float32](n + 1))
    clear(numbers, n)
    return numbers


@no_inline
def clear_ends(s: Sequences, y: FP, lo: Int, hi: Int):
    """Zeros of y [T, B, H] past the lengths of the sequences lo to hi."""
    for row in range(lo, hi):
        for t in range(s.length(row), s.T):
            clear(y + (t * s.B + row) * s.H, s.H)


@no_inline
def multiply(mut team: Team, y: FP, x: FP, w: FP, b: FP, rows: Int, C: Int, K: Int):
    """y [rows, K] = b [K] + x [rows, C] times packed w; a team shares the strips."""
    var a = Args(y, x, w, b, x, x)
    a.W = rows
    a.WO = rows
    a.C = C
    a.K = K
    a.xs = C
    a.ys = K
    var strips = strips_of(K)
    var parts = team.parts(strips, 0, strips)

    def work(t: Int) {imm}:
        multiply_rows(a, rows, 0, (rows + MR - 1) // MR, strips * t // parts, strips * (t + 1) // parts)

    share(team, work, parts)


@always_inline
def recur[F: def(Team, Int, Int) -> None](work: F, s: Sequences, weights: Int, strips: Int, shares: Int):
    """`work` of a team and of the sequences from one number up to another. Of many sequences each thread runs some to their end, alone. Of few all threads go
    through the steps together and share the `weights` of each, which take longer to read than to multiply.

    The narrowest product of a step has so many `strips`, and a step calls `share` so often."""
    var threads = Team().parts(s.T * max(s.B, READ) * weights, SMALL, s.T * weights)
    var many = s.B >= threads * MR or (s.B >= threads and strips < threads)
    if not many and weights >= FEW_WEIGHTS:

        def all(team: Team) {imm}:
            work(team, 0, s.B)

        together(all, min(threads, strips), s.T * shares)
        return
    var groups = max(1, min(threads, s.B))

    def some(t: Int) {imm}:
        work(Team(1), s.B * t // groups, s.B * (t + 1) // groups)

    if groups == 1:
        some(0)
    else:
        sync_parallelize(some, groups)


@always_inline
def each[F: def(Int, Int) -> None](mut team: Team, work: F, s: Sequences, step: Int, lo: Int, hi: Int):
    """`work` of where each of the sequences lo to hi that has not ended is in x and y, and of its number; a team shares them."""
    var rows = hi - lo
    var parts = team.parts(rows, 0, rows)

    def some(t: Int) {imm}:
        for row in range(lo + rows * t // parts, lo + rows * (t + 1) // parts):
            var at = s.row_at(step, row)
            if at >= 0:
                work(at, row)

    share(team, some, parts)


@no_inline
def lstm_gates(s: Sequences, y: FP, h: FP, c: FP, x: FP, sr: FP, p: FP, kinds: IP, at: Int, row: Int):
    """One step of one sequence, whose products of h are in `sr`: gates i o f c. `at` is its row of x and y. `kinds`: f g h peephole input_forget."""
    var H = s.H
    var f = Int(kinds.load(0))
    var peephole = kinds.load(3) != 0
    var coupled = kinds.load(4) != 0
    var xr = x + at * 4 * H
    var cr = c + row * H
    var j = 0
    while j < 4 * H:
        st(sr + j, 4 * H - j, ld(sr + j, 4 * H - j) + ld(xr + j, 4 * H - j))
        j += W
    if peephole:
        add_product(sr, p, cr, H)
        add_product(sr + 2 * H, p + 2 * H, cr, H)
    s.finish(sr, H, f)
    s.finish(sr + 2 * H, H, f)
    s.finish(sr + 3 * H, H, Int(kinds.load(1)))
    j = 0
    while j < H:
        var n = H - j
        var vi = ld(sr + j, n)
        var vf = V(1) - vi if coupled else ld(sr + 2 * H + j, n)
        var cell = vf * ld(cr + j, n) + vi * ld(sr + 3 * H + j, n)
        st(cr + j, n, cell)
        st(sr + 3 * H + j, n, cell)
        j += W
    if peephole:
        add_product(sr + H, p + H, cr, H)
    s.finish(sr + H, H, f)
    activate(sr + 3 * H, H, Int(kinds.load(2)), 0, 0, 1, 0)
    j = 0
    while j < H:
        var n = H - j
        var out = ld(sr + H + j, n) * ld(sr + 3 * H + j, n)
        st(h + (row * H + j), n, out)
        st(y + (at * H + j), n, out)
        j += W


@no_inline
def lstm_run(s: Sequences, y: FP, h: FP, c: FP, x: FP, w: FP, h0: FP, c0: FP, p: FP, kinds: IP):
    """An LSTM; h and c hold the state. `kinds` are those of `lstm_gates`."""
    var H = s.H
    copy(h, h0, s.B * H)
    copy(c, c0, s.B * H)
    clear_ends(s, y, 0, s.B)
    var sums = rebind[FP](alloc[Float32](s.B * 4 * H + 1))
    var zeros = zeros_of(4 * H)

    def work(shared: Team, lo: Int, hi: Int) {imm}:
        var team = shared
        var rows = hi - lo
        for step in range(s.T):
            multiply(team, sums + lo * 4 * H, h + lo * H, w, zeros, rows, H, 4 * H)

            def gates(at: Int, row: Int) {imm}:
                lstm_gates(s, y, h, c, x, sums + row * 4 * H, p, kinds, at, row)

            each(team, gates, s, step, lo, hi)

    recur(work, s, 4 * H * H, strips_of(4 * H), 2)
    sums.free()
    zeros.free()


@no_inline
def gru_reset(s: Sequences, scaled: FP, h: FP, x: FP, gr: FP, f: Int, linear: Bool, at: Int, row: Int):
    """The gates z and r of one step of one sequence, and h by r where the product of h comes after it."""
    var H = s.H
    var xr = x + at * 3 * H
    var j = 0
    while j < 2 * H:
        var n = 2 * H - j
        st(gr + j, n, ld(xr + j, n) + ld(gr + j, n))
        j += W
    s.finish(gr, 2 * H, f)
    if linear:
        return
    j = 0
    while j < H:
        var n = H - j
        st(scaled + (row * H + j), n, ld(gr + H + j, n) * ld(h + (row * H + j), n))
        j += W


@no_inline
def gru_update(s: Sequences, y: FP, h: FP, x: FP, new: FP, gr: FP, g: Int, linear: Bool, at: Int, row: Int):
    """The gate h and the state of one step of one sequence."""
    var H = s.H
    var xr = x + (at * 3 + 2) * H
    var j = 0
    while j < H:
        var n = H - j
        var v = ld(new + j, n)
        if linear:
            v *= ld(gr + H + j, n)
        st(new + j, n, ld(xr + j, n) + v)
        j += W
    s.finish(new, H, g)
    j = 0
    while j < H:
        var n = H - j
        var z = ld(gr + j, n)
        var out = (V(1) - z) * ld(new + j, n) + z * ld(h + (row * H + j), n)
        st(h + (row * H + j), n, out)
        st(y + (at * H + j), n, out)
        j += W


@no_inline
def gru_run(s: Sequences, y: FP, h: FP, x: FP, w: FP, b: FP, h0: FP, kinds: IP):
    """A GRU; h holds the state. `kinds`: f g linear_before_reset."""
    var H = s.H
    copy(h, h0, s.B * H)
    clear_ends(s, y, 0, s.B)
    var gates = rebind[FP](alloc[Float32](s.B * 2 * H + 1))
    var carried = rebind[FP](alloc[Float32](s.B * H + 1))
    var scaled = zeros_of(s.B * H)
    var w2 = w + H * ((2 * H + PANEL - 1) // PANEL * PANEL)
    var f = Int(kinds.load(0))
    var g = Int(kinds.load(1))
    var linear = kinds.load(2) != 0

    def work(shared: Team, lo: Int, hi: Int) {imm}:
        var team = shared
        var rows = hi - lo
        for step in range(s.T):
            multiply(team, gates + lo * 2 * H, h + lo * H, w, b, rows, H, 2 * H)

            def reset(at: Int, row: Int) {imm}:
                gru_reset(s, scaled, h, x, gates + row * 2 * H, f, linear, at, row)

            each(team, reset, s, step, lo, hi)
            multiply(team, carried + lo * H, (h if linear else scaled) + lo * H, w2, b + 2 * H, rows, H, H)

            def update(at: Int, row: Int) {imm}:
                gru_update(s, y, h, x, carried + row * H, gates + row * 2 * H, g, linear, at, row)

            each(team, update, s, step, lo, hi)

    recur(work, s, 3 * H * H, strips_of(H), 4)
    gates.free()
    carried.free()
    scaled.free()


@no_inline
def rnn_run(s: Sequences, y: FP, h: FP, x: FP, w: FP, h0: FP, kind: Int):
    """A plain recurrence: h = activation(x + h r)."""
    var H = s.H
    copy(h, h0, s.B * H)
    clear_ends(s, y, 0, s.B)
    var sums = rebind[FP](alloc[Float32](s.B * H + 1))
    var zeros = zeros_of(H)

    def work(shared: Team, lo: Int, hi: Int) {imm}:
        var team = shared
        var rows = hi - lo
        for step in range(s.T):
            multiply(team, sums + lo * H, h + lo * H, w, zeros, rows, H, H)

            def update(at: Int, row: Int) {imm}:
                var sr = sums + row * H
                var j = 0
                while j < H:
                    st(sr + j, H - j, ld(x + (at * H + j), H - j) + ld(sr + j, H - j))
                    j += W
                s.finish(sr, H, kind)
                copy(h + row * H, sr, H)
                copy(y + at * H, sr, H)

            each(team, update, s, step, lo, hi)

    recur(work, s, H * H, strips_of(H), 2)
    sums.free()
    zeros.free()


@extensibility.register("fx_lstm")
struct LongShortTermMemory:
    """y [T, B, H], last h and c [B, H] of x [T, B, 4H] (gates i o f c), packed r, initial h and c, i64 lengths [B] and
    peepholes [3H] (any vectors where unused), flags [reverse limited f g h peephole input_forget], clip [1] (0: none).
    f g h are activation codes of `conv.mojo`."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        y: OutputTensor[dtype=DType.float32, rank=3, ...],
        last_h: OutputTensor[dtype=DType.float32, rank=2, ...],
        last_c: OutputTensor[dtype=DType.float32, rank=2, ...],
        x: InputTensor[dtype=DType.float32, rank=3, ...],
        r: InputTensor[dtype=DType.float32, rank=1, ...],
        h: InputTensor[dtype=DType.float32, rank=2, ...],
        c: InputTensor[dtype=DType.float32, rank=2, ...],
        lengths: InputTensor[dtype=DType.int64, rank=1, ...],
        p: InputTensor[dtype=DType.float32, rank=1, ...],
        flags: InputTensor[dtype=DType.int64, rank=1, ...],
        clip: InputTensor[dtype=DType.float32, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var f = rebind[IP](flags.unsafe_ptr())
        var s = Sequences(
            Int(x.dim_size(0)),
            Int(x.dim_size(1)),
            Int(h.dim_size(1)),
            rebind[IP](lengths.unsafe_ptr()),
            f.load(1) != 0,
            f.load(0) != 0,
            rebind[FP](clip.unsafe_ptr()).load(0),
        )
        lstm_run(
            s,
            rebind[FP](y.unsafe_ptr()),
            rebind[FP](last_h.unsafe_ptr()),
            rebind[FP](last_c.unsafe_ptr()),
            rebind[FP](x.unsafe_ptr()),
            rebind[FP](r.unsafe_ptr()),
            rebind[FP](h.unsafe_ptr()),
            rebind[FP](c.unsafe_ptr()),
            rebind[FP](p.unsafe_ptr()),
            f + 2,
        )


@extensibility.register("fx_gru")
struct GatedRecurrentUnit:
    """y [T, B, H], last h [B, H] of x [T, B, 3H] (gates z r h), packed r, its bias [3H], initial h, i64 lengths [B] (any
    vector where unused), flags [reverse limited f g linear_before_reset], clip [1] (0: none)."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        y: OutputTensor[dtype=DType.float32, rank=3, ...],
        last_h: OutputTensor[dtype=DType.float32, rank=2, ...],
        x: InputTensor[dtype=DType.float32, rank=3, ...],
        r: InputTensor[dtype=DType.float32, rank=1, ...],
        b: InputTensor[dtype=DType.float32, rank=1, ...],
        h: InputTensor[dtype=DType.float32, rank=2, ...],
        lengths: InputTensor[dtype=DType.int64, rank=1, ...],
        flags: InputTensor[dtype=DType.int64, rank=1, ...],
        clip: InputTensor[dtype=DType.float32, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var f = rebind[IP](flags.unsafe_ptr())
        var s = Sequences(
            Int(x.dim_size(0)),
            Int(x.dim_size(1)),
            Int(h.dim_size(1)),
            rebind[IP](lengths.unsafe_ptr()),
            f.load(1) != 0,
            f.load(0) != 0,
            rebind[FP](clip.unsafe_ptr()).load(0),
        )
        gru_run(
            s,
            rebind[FP](y.unsafe_ptr()),
            rebind[FP](last_h.unsafe_ptr()),
            rebind[FP](x.unsafe_ptr()),
            rebind[FP](r.unsafe_ptr()),
            rebind[FP](b.unsafe_ptr()),
            rebind[FP](h.unsafe_ptr()),
            f + 2,
        )


@extensibility.register("fx_rnn")
struct PlainRecurrence:
    """y [T, B, H], last h [B, H] of x [T, B, H], packed r, initial h, i64 lengths [B] (any vector where unused), flags
    [reverse limited activation], clip [1] (0: none)."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        y: OutputTensor[dtype=DType.float32, rank=3, ...],
        last_h: OutputTensor[dtype=DType.float32, rank=2, ...],
        x: InputTensor[dtype=DType.float32, rank=3, ...],
        r: InputTensor[dtype=DType.float32, rank=1, ...],
        h: InputTensor[dtype=DType.float32, rank=2, ...],
        lengths: InputTensor[dtype=DType.int64, rank=1, ...],
        flags: InputTensor[dtype=DType.int64, rank=1, ...],
        clip: InputTensor[dtype=DType.float32, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var f = rebind[IP](flags.unsafe_ptr())
        var s = Sequences(
            Int(x.dim_size(0)),
            Int(x.dim_size(1)),
            Int(h.dim_size(1)),
            rebind[IP](lengths.unsafe_ptr()),
            f.load(1) != 0,
            f.load(0) != 0,
            rebind[FP](clip.unsafe_ptr()).load(0),
        )
        rnn_run(
            s,
            rebind[FP](y.unsafe_ptr()),
            rebind[FP](last_h.unsafe_ptr()),
            rebind[FP](x.unsafe_ptr()),
            rebind[FP](r.unsafe_ptr()),
            rebind[FP](h.unsafe_ptr()),
            Int(f.load(2)),
        )
