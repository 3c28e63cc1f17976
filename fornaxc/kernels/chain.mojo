"""Steps that follow one another as one kernel, on the CPU: convolutions, pools, attention, norms, arithmetic, copies and transposes over places in a few buffers.

One instance serves a whole net: which steps there are, their sizes and their places are numbers in a table.
"""

import extensibility
from extensibility import InputTensor, InputVariadicTensors, OutputTensor, OutputVariadicTensors
from max.gpu.host import DeviceContext
from std.memory import alloc
from .attention import Job, attention_run
from .conv import Args, FP, IP, PP, V, W, activate, conv_entry, ld, st
from .local_norm import local_norm
from .pool import pool_run
from .reduce import SUM, reduce_columns
from .rows import normalize_rows, softmax_rows
from .team import Team, share, together
from .transpose import Axes, copy_row, transpose_run

comptime COLUMNS = 44  # of a row of the table
comptime FLOATS = 3  # beside each row
comptime WINDOW = 0  # the kinds of steps, which column 0 tells
comptime POOL = 1
comptime COPY = 2
comptime SWAP = 3
comptime ARITHMETIC = 4
comptime SUMS = 5
comptime LOCAL_NORM = 6
comptime NORM = 7
comptime SOFTMAX = 8
comptime ATTENTION = 9
comptime Y = 1  # where columns begin: the places of operands, sizes, geometry, scale, offset and spare
comptime X = 4
comptime WEIGHTS = 7
comptime BIAS = 10
comptime RESIDUAL = 13
comptime SIZES = 16
comptime GEOMETRY = 23
comptime SCALE = 34
comptime OFFSET = 37
comptime SPARE = 40
comptime WORK = 43  # about the multiply-adds of a step
comptime LITTLE = 1250000  # of a chain, WAKE times which take one thread as long as it takes to wake another
comptime STRIDE = 2  # in a place: the numbers from one pixel to the next
comptime OPERATIONS = 5  # of ARITHMETIC
comptime SHARES = 2  # the most calls of `share` that a step makes
comptime SMALL = 1 << 15  # numbers below which one thread of a team copies quicker
comptime UP = Pointer[UInt32, UntrackedOrigin[mut=True]]


@always_inline
def place(buffers: PP, row: IP, column: Int) -> FP:
    """Where an operand lies: the columns from `column` on are the number of its buffer, and how many numbers are before it there."""
    return buffers[unsafe_offset=Int(row.load(column))] + Int(row.load(column + 1))


@no_inline
def copy_run(mut team: Team, y: FP, x: FP, n: Int, a: Int, b: Int, c: Int, d: Int, width: Int, steps: IP):
    """`width` neighbours in each turn of five loops of these sizes, the outermost first. `steps`: how far y goes in each, then x."""
    var rows = n * a * b * c * d
    var parts = team.parts(rows * width, SMALL, rows)
    var yn = Int(steps.load(0))
    var ya = Int(steps.load(1))
    var yb = Int(steps.load(2))
    var yc = Int(steps.load(3))
    var yd = Int(steps.load(4))
    var xn = Int(steps.load(5))
    var xa = Int(steps.load(6))
    var xb = Int(steps.load(7))
    var xc = Int(steps.load(8))
    var xd = Int(steps.load(9))

    def work(t: Int) {imm}:
        var row = rows * t // parts
        var end = rows * (t + 1) // parts
        while row < end:  # the rest of one turn of the four outer loops
            var rest = row // d
            var from_d = row - rest * d
            var to_d = min(d, from_d + end - row)
            row += to_d - from_d
            var ic = rest % c
            rest //= c
            var ib = rest % b
            rest //= b
            var ia = rest % a
            rest //= a
            var yo = y + (rest * yn + ia * ya + ib * yb + ic * yc)
            var xo = x + (rest * xn + ia * xa + ib * xb + ic * xc)
            for i in range(from_d, to_d):
                copy_row[DType.float32](yo + i * yd, xo + i * xd, width)

    share(team, work, parts)


@always_inline
def spread(p: FP, apart: Int, left: Int) -> V:
    """W neighbours, or one number for all of them where they are 0 `apart`."""
    return V(p.load(0)) if apart == 0 else ld(p, left)


@no_inline
def arithmetic_row[op: Int](y: FP, x: FP, xc: Int, r: FP, rc: Int, n: Int):
    """y = x op r for n numbers; those of x are `xc` apart, those of r `rc`."""
    var c = 0
    while c < n:
        var v = spread(x + c * xc, xc, n - c)
        comptime if op == 1:
            v += spread(r + c * rc, rc, n - c)
        comptime if op == 2:
            v -= spread(r + c * rc, rc, n - c)
        comptime if op == 3:
            v *= spread(r + c * rc, rc, n - c)
        comptime if op == 4:
            v /= spread(r + c * rc, rc, n - c)
        st(y + c, n - c, v)
        c += W


@no_inline
def arithmetic(mut team: Team, y: FP, ys: Int, x: FP, r: FP, N: Int, A: Int, B: Int, C: Int, geometry: IP):
    """y = activation(x op r) for C numbers in each turn of three loops, whose results are `ys` apart. `geometry`: op (0 x alone, 1 add, 2 sub, 3 mul, 4 div),
    the activation, how many numbers of x are apart in each loop and next to one another, and those of r."""
    var op = Int(geometry.load(0))
    var activation = Int(geometry.load(1))
    var xn = Int(geometry.load(2))
    var xa = Int(geometry.load(3))
    var xb = Int(geometry.load(4))
    var xc = Int(geometry.load(5))
    var rn = Int(geometry.load(6))
    var ra = Int(geometry.load(7))
    var rb = Int(geometry.load(8))
    var rc = Int(geometry.load(9))
    var rows = N * A * B
    var parts = team.parts(rows * C, SMALL, rows)
    var flat = N * A == 1 and ys == C and xb == C and xc == 1 and rb == C and rc == 1  # no gaps: rows are one

    def work(t: Int) {imm}:
        var row = rows * t // parts
        var end = rows * (t + 1) // parts
        while row < end:
            var taken = end - row if flat else 1
            var n = taken * C
            var image = 0
            var a = 0
            var b = row
            if N * A > 1:
                a = row // B
                b = row - a * B
                image = a // A
                a -= image * A
            var xo = x + (image * xn + a * xa + b * xb)
            var ro = r + (image * rn + a * ra + b * rb)
            comptime for k in range(OPERATIONS):
                if op == k:
                    arithmetic_row[k](y + row * ys, xo, xc, ro, rc, n)
            activate(y + row * ys, n, activation, 0, 0, 1, 0)
            row += taken

    share(team, work, parts)


@no_inline
def image_sums(mut team: Team, y: FP, x: FP, N: Int, P: Int, C: Int, mean: Bool):
    """The sums, or means, of the P pixels of N images."""
    reduce_columns[DType.float32, SUM](team, y, x, N, P, C)

    def divide(_part: Int) {imm}:
        for i in range(N * C):
            y.store(i, y.load(i) / Float32(P))

    if mean:
        share(team, divide, 1)


@always_inline
def number(buffers: PP, row: IP, column: Int, otherwise: Float32) -> Float32:
    """One number from outside, if column `column` says that there is one; its place follows."""
    return place(buffers, row, column + 1).load(0) if row.load(column) != 0 else otherwise


@no_inline
def attend(mut team: Team, buffers: PP, row: IP):
    """The step ATTENTION of `chain_steps`."""
    var a = Job(
        place(buffers, row, Y),
        place(buffers, row, X),
        place(buffers, row, WEIGHTS),
        place(buffers, row, BIAS),
        place(buffers, row, RESIDUAL),
    )
    var size = row + SIZES
    a.B = Int(size.load(0))
    a.H = Int(size.load(1))
    a.M = Int(size.load(2))
    a.C = Int(size.load(3))
    a.G = Int(size.load(4))
    a.S = Int(size.load(5))
    a.N = Int(size.load(6))
    var geometry = row + GEOMETRY
    a.arrange(geometry)
    a.mb = Int(geometry.load(6))
    a.mh = Int(geometry.load(7))
    a.mm = Int(geometry.load(8))
    a.ms = Int(geometry.load(9))
    a.scale = number(buffers, row, SCALE, 1)
    a.fill = number(buffers, row, OFFSET, 0)
    a.spare = number(buffers, row, SPARE, 0)
    attention_run(team, a)


@no_inline
def chain_steps(mut team: Team, buffers: PP, table: IP, floats: FP, count: Int):
    """`count` steps, each a row of `table` and FLOATS of `floats`. The places are those of `place`, then a stride.

    kind         places       sizes              geometry
    WINDOW       y x w b r    N H W C Ho Wo K    that of `conv_entry`; then whether a scale follows, where (see `place`), and the same of an offset
    POOL         y x          N H W C Ho Wo K    that of `pool_run`
    COPY         y x          n a b width c d    the `steps` of `copy_run`
    SWAP         y x          N A B              0 2 1: y [N, B, A] of x [N, A, B], without gaps
    ARITHMETIC   y x r        N A B C            that of `arithmetic`
    SUMS         y x          N pixels - C       whether they are means; without gaps
    LOCAL_NORM   y x          N pixels - C       the `window` of `local_norm`, of which the floats are the `numbers`
    NORM         y x w b      rows n             whether they are centred, see `normalize_rows`; epsilon is the first float
    SOFTMAX      y x          rows n             whether its logarithm is wanted
    ATTENTION    y q k v mask B H M C G S N      the `flags` of `Job`, how far the mask goes in b, h, m and s; then scale, fill and spare as those of WINDOW
    """
    for i in range(count):
        var row = table + i * COLUMNS
        var kind = Int(row.load(0))
        var y = place(buffers, row, Y)
        var ys = Int(row.load(Y + STRIDE))
        var x = place(buffers, row, X)
        var xs = Int(row.load(X + STRIDE))
        var size = row + SIZES
        var N = Int(size.load(0))
        var H = Int(size.load(1))
        var wide = Int(size.load(2))
        var C = Int(size.load(3))
        var geometry = row + GEOMETRY
        if kind == WINDOW:
            var w = place(buffers, row, WEIGHTS)
            var a = Args(y, x, w, place(buffers, row, BIAS), place(buffers, row, RESIDUAL), x)
            a.H = H
            a.W = wide
            a.C = C
            a.HO = Int(size.load(4))
            a.WO = Int(size.load(5))
            a.K = Int(size.load(6))
            a.xs = xs
            a.ys = ys
            a.rs = Int(row.load(RESIDUAL + STRIDE))
            a.scale = number(buffers, row, SCALE, 1)
            a.offset = number(buffers, row, OFFSET, 0)
            conv_entry(team, a, N, geometry, floats + FLOATS * i)
        elif kind == POOL:
            pool_run(team, y, ys, x, xs, N, H, wide, C, Int(size.load(4)), Int(size.load(5)), geometry)
        elif kind == COPY:
            copy_run(team, y, x, N, H, wide, Int(size.load(4)), Int(size.load(5)), C, geometry)
        elif kind == SWAP:
            var sizes = Axes(fill=1)
            sizes[0] = N
            sizes[1] = wide
            sizes[2] = H
            transpose_run[DType.uint32](
                team, rebind[UP](y.bitcast[UInt32]()), rebind[UP](x.bitcast[UInt32]()), 3, sizes, geometry
            )
        elif kind == ARITHMETIC:
            arithmetic(team, y, ys, x, place(buffers, row, WEIGHTS), N, H, wide, C, geometry)
        elif kind == SUMS:
            image_sums(team, y, x, N, H, C, geometry.load(0) != 0)
        elif kind == LOCAL_NORM:
            local_norm(team, y, ys, x, xs, N * H, C, geometry, floats + FLOATS * i)
        elif kind == NORM:
            var scale = place(buffers, row, WEIGHTS)
            var bias = place(buffers, row, BIAS)
            normalize_rows(team, y, x, scale, bias, N, H, (floats + FLOATS * i).load(0), geometry.load(0) != 0)
        elif kind == SOFTMAX:
            softmax_rows(team, y, x, N, H, geometry.load(0) != 0)
        elif kind == ATTENTION:
            attend(team, buffers, row)


@no_inline
def chain_run(buffers: PP, table: IP, floats: FP, count: Int):
    """`chain_steps`, by all threads together where there is enough to do."""
    var work = 0
    for i in range(count):
        work += Int(table.load(i * COLUMNS + WORK))
    var threads = Team().parts(work, LITTLE, work)

    def member(shared: Team) {imm}:
        var team = shared
        chain_steps(team, buffers, table, floats, count)

    together(member, threads, SHARES * count)


@no_inline
def patched(rows: IP, count: Int, patches: IP, n: Int, terms: IP) -> IP:
    """A copy of `count` numbers, where for each of n `patches` (which number, which of `terms`, a factor) the term times the factor is added."""
    var table = rebind[IP](alloc[Int64](count))
    for i in range(count):
        table.store(i, rows.load(i))
    for i in range(n):
        var at = Int(patches.load(3 * i))
        table.store(at, table.load(at) + terms.load(Int(patches.load(3 * i + 1))) * patches.load(3 * i + 2))
    return table


@extensibility.register("fx_chain")
struct Chain:
    """Buffers of f32: a workspace and the results, then the operands. i64 rows [steps * COLUMNS] of the table of `chain_steps`, but for what sizes decide:
    that add `patches` [n * 3] and `terms` as in `patched`, where the first factor is not 0; f32 floats [steps * FLOATS]."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        outputs: OutputVariadicTensors[dtype=DType.float32, rank=1, ...],
        rows: InputTensor[dtype=DType.int64, rank=1, ...],
        patches: InputTensor[dtype=DType.int64, rank=1, ...],
        terms: InputTensor[dtype=DType.int64, rank=1, ...],
        floats: InputTensor[dtype=DType.float32, rank=1, ...],
        inputs: InputVariadicTensors[dtype=DType.float32, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        comptime M = outputs.size
        comptime N = inputs.size
        var buffers = alloc[FP](M + N)
        comptime for i in range(M):
            buffers[unsafe_offset=i] = rebind[FP](outputs[i].unsafe_ptr())
        comptime for i in range(N):
            buffers[unsafe_offset=M + i] = rebind[FP](inputs[i].unsafe_ptr())
        var size = Int(rows.dim_size(0))
        var table = rebind[IP](rows.unsafe_ptr())
        var changes = rebind[IP](patches.unsafe_ptr())
        var is_patched = changes.load(2) != 0
        if is_patched:
            table = patched(table, size, changes, Int(patches.dim_size(0)) // 3, rebind[IP](terms.unsafe_ptr()))
        chain_run(rebind[PP](buffers), table, rebind[FP](floats.unsafe_ptr()), size // COLUMNS)
        if is_patched:
            table.free()
        buffers.free()
