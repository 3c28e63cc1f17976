"""Steps that follow one another as one kernel, on the CPU: convolutions, pools, arithmetic, copies and transposes over places in a few buffers.

One instance serves a whole net: which steps there are, their sizes and their places are numbers in a table.
"""

import extensibility
from extensibility import InputTensor, InputVariadicTensors, OutputTensor, OutputVariadicTensors
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.memory import alloc
from .conv import Args, FP, IP, PP, V, W, activate, conv_entry, ld, st
from .pool import pool_run
from .reduce import SUM, reduce_columns
from .transpose import Axes, copy_row, transpose_run

comptime COLUMNS = 48
comptime SMALL = 1 << 15  # numbers below which one thread copies quicker
comptime UP = Pointer[UInt32, UntrackedOrigin[mut=True]]


@always_inline
def place(buffers: PP, row: IP, column: Int, images: Int) -> FP:
    """Where an operand lies: the columns from `column` on are the number of its buffer, numbers for each image before it, and further ones."""
    return buffers[unsafe_offset=Int(row.load(column))] + (Int(row.load(column + 1)) * images + Int(row.load(column + 2)))


@no_inline
def copy_rows(y: FP, ys: Int, x: FP, xs: Int, rows: Int, width: Int):
    """`width` numbers of each of `rows`, which are ys and xs numbers apart."""
    var threads = 1 if rows * width < SMALL else max(1, min(parallelism_level(None), rows))

    def work(t: Int) {imm}:
        for i in range(rows * t // threads, rows * (t + 1) // threads):
            copy_row[DType.float32](y + i * ys, x + i * xs, width)

    if threads == 1:
        work(0)
    else:
        sync_parallelize(work, threads)


@always_inline
def spread(p: FP, apart: Int, left: Int) -> V:
    """W neighbours, or one number for all of them where they are 0 `apart`."""
    return V(p.load(0)) if apart == 0 else ld(p, left)


@no_inline
def arithmetic(y: FP, ys: Int, x: FP, r: FP, N: Int, P: Int, C: Int, geometry: IP):
    """y = activation(x op r) for C numbers of each of P pixels of N images. `geometry`: op (0 x alone, 1 add, 2 sub, 3 mul, 4 div), the activation, how many
    numbers images, pixels and channels of x are apart, and those of r."""
    var op = Int(geometry.load(0))
    var activation = Int(geometry.load(1))
    var xn = Int(geometry.load(2))
    var xp = Int(geometry.load(3))
    var xc = Int(geometry.load(4))
    var rn = Int(geometry.load(5))
    var rp = Int(geometry.load(6))
    var rc = Int(geometry.load(7))
    var rows = N * P
    var threads = 1 if rows * C < SMALL else max(1, min(parallelism_level(None), rows))

    def work(t: Int) {imm}:
        for row in range(rows * t // threads, rows * (t + 1) // threads):
            var n = row // P
            var p = row - n * P
            var xo = x + (n * xn + p * xp)
            var ro = r + (n * rn + p * rp)
            var yo = y + row * ys
            var c = 0
            while c < C:
                var left = C - c
                var v = spread(xo + c * xc, xc, left)
                if op == 1:
                    v += spread(ro + c * rc, rc, left)
                elif op == 2:
                    v -= spread(ro + c * rc, rc, left)
                elif op == 3:
                    v *= spread(ro + c * rc, rc, left)
                elif op == 4:
                    v /= spread(ro + c * rc, rc, left)
                if activation != 0:
                    v = activate(v, activation, 0, 0)
                st(yo + c, left, v)
                c += W

    if threads == 1:
        work(0)
    else:
        sync_parallelize(work, threads)


@no_inline
def image_sums(y: FP, x: FP, N: Int, P: Int, C: Int, mean: Bool):
    """The sums, or means, of the P pixels of N images."""
    reduce_columns[DType.float32, SUM](y, x, N, P, C)
    if mean:
        for i in range(N * C):
            y.store(i, y.load(i) / Float32(P))


@no_inline
def chain_run(buffers: PP, table: IP, bounds: FP, count: Int, images: Int):
    """`count` steps. A row of `table`: kind (0 a convolution, 1 a pool, 2 a copy, 3 a transpose of the last of three axes, 4 arithmetic, 5 a mean or sum of images),
    the places of y, x, w, b and r (those of `place`, and the numbers from one pixel to the next), N H W C Ho Wo K, and the geometry of `conv_entry`, `pool_run`
    or `arithmetic`; of a convolution also whether a scale and an offset follow, and their places. N is for one of `images`. `bounds`: two a row.
    """
    for i in range(count):
        var row = table + i * COLUMNS
        var kind = Int(row.load(0))
        var y = place(buffers, row, 1, images)
        var ys = Int(row.load(4))
        var x = place(buffers, row, 5, images)
        var xs = Int(row.load(8))
        var N = Int(row.load(21)) * images
        var H = Int(row.load(22))
        var wide = Int(row.load(23))
        var C = Int(row.load(24))
        var HO = Int(row.load(25))
        var WO = Int(row.load(26))
        var geometry = row + 28
        if kind == 0:
            var w = place(buffers, row, 9, images)
            var b = place(buffers, row, 13, images)
            var a = Args(y, x, w, b, place(buffers, row, 17, images), x)
            a.H = H
            a.W = wide
            a.C = C
            a.HO = HO
            a.WO = WO
            a.K = Int(row.load(27))
            a.xs = xs
            a.ys = ys
            a.rs = Int(row.load(20))
            if row.load(39) != 0:
                a.scale = place(buffers, row, 40, images).load(0)
            if row.load(43) != 0:
                a.offset = place(buffers, row, 44, images).load(0)
            conv_entry(a, N, geometry, bounds + 2 * i)
        elif kind == 1:
            pool_run(y, ys, x, xs, N, H, wide, C, HO, WO, geometry)
        elif kind == 2:
            copy_rows(y, ys, x, xs, N, C)
        elif kind == 4:
            arithmetic(y, ys, x, place(buffers, row, 9, images), N, H, C, geometry)
        elif kind == 5:
            image_sums(y, x, N, H, C, geometry.load(0) != 0)
        else:
            var sizes = Axes(fill=1)
            sizes[0] = N
            sizes[1] = wide
            sizes[2] = H
            transpose_run[DType.uint32](
                rebind[UP](y.bitcast[UInt32]()), rebind[UP](x.bitcast[UInt32]()), 3, sizes, geometry
            )


@extensibility.register("fx_chain")
struct Chain:
    """Buffers of f32: a workspace and the results, then the operands. i64 table [steps * 48] and f32 bounds [steps * 2] as `chain_run` has them; i64 images [1]."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        outputs: OutputVariadicTensors[dtype=DType.float32, rank=1, ...],
        table: InputTensor[dtype=DType.int64, rank=1, ...],
        bounds: InputTensor[dtype=DType.float32, rank=1, ...],
        images: InputTensor[dtype=DType.int64, rank=1, ...],
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
        chain_run(
            rebind[PP](buffers),
            rebind[IP](table.unsafe_ptr()),
            rebind[FP](bounds.unsafe_ptr()),
            Int(table.dim_size(0)) // COLUMNS,
            Int(rebind[IP](images.unsafe_ptr()).load(0)),
        )
        buffers.free()
