"""Transposes of any rank on the CPU: the work depends on the width of an element only, not on type, rank or shape."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.collections import Array
from std.sys import size_of
from .conv import IP
from .team import Team, share

comptime AXES = 16  # more than any tensor has
comptime SMALL = 8192  # elements below which one thread of a team is quicker
comptime BLOCK = 16
comptime NARROW = 1024  # about the elements of a job where rows are shorter than a block
comptime FEW = 8  # rows that are interleaved at a time
comptime Axes = Array[Int, AXES]


@always_inline
def swap_block[dtype: DType](y: Pointer[Scalar[dtype], UntrackedOrigin[mut=True]], x: Pointer[Scalar[dtype], UntrackedOrigin[mut=True]], ys: Int, xs: Int):
    """y[j * ys + i] = x[i * xs + j] for i and j below BLOCK, in registers."""
    comptime V = SIMD[dtype, BLOCK]
    var rows = Array[V, BLOCK](fill=V(0))
    comptime for k in range(BLOCK):
        rows[k] = (x + k * xs).load[width=BLOCK]()
    var next = Array[V, BLOCK](fill=V(0))
    comptime for _ in range(4):  # log2 of BLOCK
        comptime for k in range(BLOCK // 2):
            var z = rows[k].interleave(rows[k + BLOCK // 2])
            next[2 * k] = z.slice[BLOCK, offset=0]()
            next[2 * k + 1] = z.slice[BLOCK, offset = BLOCK]()
        comptime for k in range(BLOCK):
            rows[k] = next[k]
    comptime for k in range(BLOCK):
        (y + k * ys).store(rows[k])


@no_inline
def swap_edge[dtype: DType](y: Pointer[Scalar[dtype], UntrackedOrigin[mut=True]], x: Pointer[Scalar[dtype], UntrackedOrigin[mut=True]], ys: Int, xs: Int, rows: Int, columns: Int):
    """y[j * ys + i] = x[i * xs + j] for j below `rows` and i below `columns`, of which there are few."""
    var j = 0
    if ys == columns and 2 <= columns <= 4:  # as between groups of channels, or colours: what is written lies together
        while j + FEW <= rows:
            var first = (x + j).load[width=FEW]()
            var second = (x + (xs + j)).load[width=FEW]()
            if columns == 2:
                (y + 2 * j).store(first.interleave(second))
            elif columns == 3:
                var third = (x + (2 * xs + j)).load[width=FEW]()
                var start = first.shuffle[0, 8, 0, 1, 9, 0, 2, 10](second)
                var middle = first.shuffle[0, 3, 11, 0, 4, 12, 0, 5](second)
                var end = first.shuffle[13, 0, 6, 14, 0, 7, 15, 0](second)
                (y + 3 * j).store(start.shuffle[0, 1, 8, 3, 4, 9, 6, 7](third))
                (y + (3 * j + FEW)).store(middle.shuffle[10, 1, 2, 11, 4, 5, 12, 7](third))
                (y + (3 * j + 2 * FEW)).store(end.shuffle[0, 13, 2, 3, 14, 5, 6, 15](third))
            else:
                var even = first.interleave((x + (2 * xs + j)).load[width=FEW]())
                var odd = second.interleave((x + (3 * xs + j)).load[width=FEW]())
                (y + 4 * j).store(even.interleave(odd))
            j += FEW
    for i in range(columns):
        var from_x = x + i * xs
        var to_y = y + i
        for k in range(j, rows):
            to_y.store(k * ys, from_x.load(k))


@no_inline
def transpose_run[dtype: DType](mut team: Team, y: Pointer[Scalar[dtype], UntrackedOrigin[mut=True]], x: Pointer[Scalar[dtype], UntrackedOrigin[mut=True]], rank: Int, sizes: Axes, perm: IP):
    """y = x with the axes `perm`; `sizes` are those of y."""
    var strides = Axes(fill=0)  # of y's axes, in x
    var from_size = Axes(fill=1)
    for i in range(rank):
        from_size[Int(perm.load(i))] = sizes[i]
    for i in range(rank):
        var stride = 1
        for a in range(Int(perm.load(i)) + 1, rank):
            stride *= from_size[a]
        strides[i] = stride
    # axes of y that lie together in x too are one; axes of size 1 are none
    var n = Axes(fill=1)
    var xs = Axes(fill=0)
    var axes = 0
    var total = 1
    for i in range(rank):
        total *= sizes[i]
        if sizes[i] == 1:
            continue
        if axes > 0 and xs[axes - 1] == strides[i] * sizes[i]:
            n[axes - 1] *= sizes[i]
            xs[axes - 1] = strides[i]
        else:
            n[axes] = sizes[i]
            xs[axes] = strides[i]
            axes += 1
    if total == 0:
        return
    if axes == 0:
        axes = 1
        xs[0] = 1
    # rows of y are its last axis; `across` is the axis of y whose elements are neighbours in x
    var across = axes - 1
    for i in range(axes):
        if xs[i] == 1:
            across = i
    var ys = Axes(fill=1)
    for i in range(axes - 1):
        var k = axes - 2 - i
        ys[k] = ys[k + 1] * n[k + 1]
    var width = n[axes - 1]
    var height = n[across] if across != axes - 1 else 1
    var outer = total // (width * height)
    var tall = BLOCK if width >= BLOCK else NARROW // width
    var strips = (height + tall - 1) // tall
    var jobs = outer * strips
    var parts = team.parts(total, SMALL, jobs)

    def work(t: Int) {imm}:
        for job in range(jobs * t // parts, jobs * (t + 1) // parts):
            var left = job // strips
            var j0 = (job - left * strips) * tall
            var xo = x
            var yo = y
            for i in range(axes - 1):
                var a = axes - 2 - i
                if a != across:
                    var next = left // n[a]
                    xo = xo + (left - next * n[a]) * xs[a]
                    yo = yo + (left - next * n[a]) * ys[a]
                    left = next
            if across == axes - 1:
                copy_row[dtype](yo, xo, width)
                continue
            var step = xs[axes - 1]
            xo = xo + j0
            yo = yo + j0 * ys[across]
            var count = min(tall, height - j0)
            var i0 = 0
            while i0 < width:
                if count == BLOCK and i0 + BLOCK <= width:
                    swap_block[dtype](yo + i0, xo + i0 * step, ys[across], step)
                else:
                    swap_edge[dtype](yo + i0, xo + i0 * step, ys[across], step, count, min(BLOCK, width - i0))
                i0 += BLOCK

    share(team, work, parts)


@always_inline
def copy_row[dtype: DType](y: Pointer[Scalar[dtype], UntrackedOrigin[mut=True]], x: Pointer[Scalar[dtype], UntrackedOrigin[mut=True]], n: Int):
    var i = 0
    while i + BLOCK <= n:
        (y + i).store((x + i).load[width=BLOCK]())
        i += BLOCK
    while i < n:
        (y + i).store((x + i).load())
        i += 1


@extensibility.register("fx_transpose")
struct Transpose:
    """Output = x with its axes in the order of the i64 vector `perm`; any element type of 1, 2, 4 or 8 bytes, any rank."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor,
        x: InputTensor[dtype=output.dtype, rank=output.rank, ...],
        perm: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        var sizes = Axes(fill=1)
        comptime for i in range(output.rank):
            sizes[i] = Int(output.dim_size(i))
        var p = rebind[IP](perm.unsafe_ptr())
        var alone = Team()
        comptime bytes = size_of[output.dtype]()
        comptime if bytes == 8:
            transpose_run[DType.uint64](
                alone,
                rebind[Pointer[UInt64, UntrackedOrigin[mut=True]]](output.unsafe_ptr().bitcast[UInt64]()),
                rebind[Pointer[UInt64, UntrackedOrigin[mut=True]]](x.unsafe_ptr().bitcast[UInt64]()),
                output.rank,
                sizes,
                p,
            )
        elif bytes == 4:
            transpose_run[DType.uint32](
                alone,
                rebind[Pointer[UInt32, UntrackedOrigin[mut=True]]](output.unsafe_ptr().bitcast[UInt32]()),
                rebind[Pointer[UInt32, UntrackedOrigin[mut=True]]](x.unsafe_ptr().bitcast[UInt32]()),
                output.rank,
                sizes,
                p,
            )
        elif bytes == 2:
            transpose_run[DType.uint16](
                alone,
                rebind[Pointer[UInt16, UntrackedOrigin[mut=True]]](output.unsafe_ptr().bitcast[UInt16]()),
                rebind[Pointer[UInt16, UntrackedOrigin[mut=True]]](x.unsafe_ptr().bitcast[UInt16]()),
                output.rank,
                sizes,
                p,
            )
        else:
            transpose_run[DType.uint8](
                alone,
                rebind[Pointer[UInt8, UntrackedOrigin[mut=True]]](output.unsafe_ptr().bitcast[UInt8]()),
                rebind[Pointer[UInt8, UntrackedOrigin[mut=True]]](x.unsafe_ptr().bitcast[UInt8]()),
                output.rank,
                sizes,
                p,
            )
