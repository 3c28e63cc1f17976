"""Matrix products and convolutions on GPUs: two kernels an element type, for every shape.

All sizes and strides are run-time data (`Geometry`), so that compiling costs the same for one product as for a hundred.
A kernel is a sequence of steps of single threads between barriers; on the CPU the same steps run one thread after the
other, which is how their arithmetic is tested.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext
from std.collections import Array
from max.gpu import MAX_THREADS_PER_BLOCK_METADATA, barrier, block_idx, thread_idx
from max.gpu.memory import AddressSpace
from std.math import exp, fma, isnan, tanh
from std.memory import bitcast, unsafe_stack_allocation
from std.utils import StaticTuple
from .conv import PANEL

comptime TILE = 64  # rows, and columns, of the part of y that a block makes
comptime DEPTH = 16  # of the sum, between two barriers
comptime PITCH = TILE + 4  # of a row in shared memory: a multiple of 4 that is none of the number of banks
comptime THREADS = 256
comptime SPAN = 4  # rows, and columns, of one thread
comptime LOADS = TILE * DEPTH // THREADS
comptime Shared[dtype: DType, space: AddressSpace] = Pointer[Scalar[sum_type[dtype]()], UntrackedOrigin[mut=True], address_space=space]
comptime Sums[dtype: DType] = Array[SIMD[sum_type[dtype](), SPAN], SPAN]
comptime SIZES = 33
comptime Sizes = StaticTuple[Int64, SIZES]
comptime Ptr[dtype: DType] = Pointer[Scalar[dtype], UntrackedOrigin[mut=True]]
comptime OUTSIDE = -1073741824  # a coordinate that no tap brings back into x
comptime NARROW = 16  # columns below which a tile would be mostly idle


struct Geometry(ImplicitlyCopyable):
    """A convolution of G independent groups; a batch of matrix products is one of G images with a window of 1 x 1.

    Group g reads x from g*xg on; pixel (n, h, w) and channel c are n*xn + (h*W + w)*xp + c*xc further. y likewise. C and K
    are per group. The sum runs over R*S*C terms: taps first, or channels first where `channels_first`; term t of
    column k has the weight g*wg + t*wk + k*wn, or lies in panels of PANEL columns where kp, the columns with padding, is not 0.
    """

    var N: Int
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
    var G: Int
    var xg: Int
    var xn: Int
    var xp: Int
    var xc: Int
    var yg: Int
    var yn: Int
    var yp: Int
    var yk: Int
    var wg: Int
    var wk: Int
    var wn: Int
    var kp: Int
    var channels_first: Int
    var bias: Int
    var residual: Int
    var activation: Int

    def __init__(out self):
        self.N = 1
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
        self.G = 1
        self.xg = 0
        self.xn = 0
        self.xp = 1
        self.xc = 1
        self.yg = 0
        self.yn = 0
        self.yp = 1
        self.yk = 1
        self.wg = 0
        self.wk = 1
        self.wn = 1
        self.kp = 0
        self.channels_first = 0
        self.bias = 0
        self.residual = 0
        self.activation = 0

    def __init__(out self, s: Sizes):
        """As `packed` wrote it."""
        self.N = Int(s[0])
        self.H = Int(s[1])
        self.W = Int(s[2])
        self.C = Int(s[3])
        self.HO = Int(s[4])
        self.WO = Int(s[5])
        self.K = Int(s[6])
        self.R = Int(s[7])
        self.S = Int(s[8])
        self.sh = Int(s[9])
        self.sw = Int(s[10])
        self.ph = Int(s[11])
        self.pw = Int(s[12])
        self.dh = Int(s[13])
        self.dw = Int(s[14])
        self.G = Int(s[15])
        self.xg = Int(s[16])
        self.xn = Int(s[17])
        self.xp = Int(s[18])
        self.xc = Int(s[19])
        self.yg = Int(s[20])
        self.yn = Int(s[21])
        self.yp = Int(s[22])
        self.yk = Int(s[23])
        self.wg = Int(s[24])
        self.wk = Int(s[25])
        self.wn = Int(s[26])
        self.kp = Int(s[27])
        self.channels_first = Int(s[28])
        self.bias = Int(s[29])
        self.residual = Int(s[30])
        self.activation = Int(s[31])

    def packed(self, bounds: Int) -> Sizes:
        """Everything as one argument of a kernel, with the bits of the bounds of a clip."""
        var s = Sizes(fill=0)
        s[0] = Int64(self.N)
        s[1] = Int64(self.H)
        s[2] = Int64(self.W)
        s[3] = Int64(self.C)
        s[4] = Int64(self.HO)
        s[5] = Int64(self.WO)
        s[6] = Int64(self.K)
        s[7] = Int64(self.R)
        s[8] = Int64(self.S)
        s[9] = Int64(self.sh)
        s[10] = Int64(self.sw)
        s[11] = Int64(self.ph)
        s[12] = Int64(self.pw)
        s[13] = Int64(self.dh)
        s[14] = Int64(self.dw)
        s[15] = Int64(self.G)
        s[16] = Int64(self.xg)
        s[17] = Int64(self.xn)
        s[18] = Int64(self.xp)
        s[19] = Int64(self.xc)
        s[20] = Int64(self.yg)
        s[21] = Int64(self.yn)
        s[22] = Int64(self.yp)
        s[23] = Int64(self.yk)
        s[24] = Int64(self.wg)
        s[25] = Int64(self.wk)
        s[26] = Int64(self.wn)
        s[27] = Int64(self.kp)
        s[28] = Int64(self.channels_first)
        s[29] = Int64(self.bias)
        s[30] = Int64(self.residual)
        s[31] = Int64(self.activation)
        s[32] = Int64(bounds)
        return s

    def rows(self) -> Int:
        return self.N * self.HO * self.WO

    def terms(self) -> Int:
        return self.R * self.S * self.C

    @always_inline
    def first_weight(self, group: Int, k: Int) -> Int:
        """Where the first term of column k has its weight."""
        var within = k // PANEL * PANEL * self.terms() + k % PANEL if self.kp != 0 else k * self.wn
        return group * self.wg + within

    @always_inline
    def term_step(self) -> Int:
        """From the weight of a term to that of the next."""
        return PANEL if self.kp != 0 else self.wk


def sum_type[dtype: DType]() -> DType:
    """What products of a type are summed in: f32 for narrow floats, 32 bits for narrow integers."""
    comptime if dtype == DType.float16 or dtype == DType.bfloat16:
        return DType.float32
    comptime if dtype == DType.int8 or dtype == DType.int16:
        return DType.int32
    comptime if dtype == DType.uint8 or dtype == DType.uint16:
        return DType.uint32
    return dtype


@always_inline
def plus_product[dtype: DType, width: Int](total: SIMD[dtype, width], a: SIMD[dtype, width], b: SIMD[dtype, width]) -> SIMD[dtype, width]:
    comptime if dtype.is_floating_point():
        return fma(a, b, total)
    return total + a * b


@always_inline
def quotient(a: Int, b: Int) -> Int:
    """The quotient of numbers below 2^32, which a GPU divides much faster than longer ones."""
    return Int(UInt32(a) // UInt32(b))


@always_inline
def activated(v: Float32, kind: Int, bounds: Int64) -> Float32:
    """0 none, 1 relu, 2 clip, 3 silu, 4 sigmoid, 5 hardswish, 6 tanh; NaN stays NaN."""
    if kind == 0 or isnan(v):
        return v
    if kind == 1:
        return v if v > 0 else Float32(0)
    if kind == 2:
        var least = bitcast[DType.float32](Int32(bounds >> 32))
        var greatest = bitcast[DType.float32](UInt32(bounds & 0xFFFFFFFF))
        return min(max(v, least), greatest)
    if kind == 5:
        return v * min(max(v * Float32(1.0 / 6.0) + Float32(0.5), Float32(0)), Float32(1))
    if kind == 6:
        return tanh(v)
    var s = Float32(1) / (Float32(1) + exp(-v))
    return v * s if kind == 3 else s


@always_inline
def finish[
    dtype: DType
](g: Geometry, y: Ptr[dtype], b: Ptr[dtype], r: Ptr[dtype], group: Int, m: Int, k: Int, total: Scalar[sum_type[dtype]()], bounds: Int64):
    """Bias, residual and activation of row m and column k of a group, and the store."""
    var v = total
    var pixels = g.HO * g.WO
    var n = quotient(m, pixels) if g.N > 1 else 0
    var at = group * g.yg + n * g.yn + (m - n * pixels) * g.yp + k * g.yk
    if g.bias != 0:
        v += b.unsafe_load(group * g.K + k).cast[v.dtype]()
    if g.residual != 0:
        v += r.unsafe_load(at).cast[v.dtype]()
    comptime if v.dtype == DType.float32:
        v = activated(v.cast[DType.float32](), g.activation, bounds).cast[v.dtype]()
    y.unsafe_store(at, v.cast[dtype]())


struct Rows:
    """The rows of x that one thread brings to shared memory."""

    var base: Array[Int, LOADS]
    var h: Array[Int, LOADS]
    var w: Array[Int, LOADS]

    def __init__(out self, g: Geometry, thread: Int, group: Int, m0: Int):
        self.base = Array[Int, LOADS](fill=0)
        self.h = Array[Int, LOADS](fill=OUTSIDE)
        self.w = Array[Int, LOADS](fill=OUTSIDE)
        comptime for i in range(LOADS):
            var m = m0 + self.row(g, thread, i)
            if m < g.rows():
                var line = quotient(m, g.WO) if g.WO > 1 else m
                var n = quotient(line, g.HO) if g.N > 1 else 0
                self.base[i] = group * g.xg + n * g.xn
                self.h[i] = (line - n * g.HO) * g.sh - g.ph
                self.w[i] = (m - line * g.WO) * g.sw - g.pw

    @staticmethod
    @always_inline
    def row(g: Geometry, thread: Int, i: Int) -> Int:
        """The row in the tile of a thread's i-th element: threads side by side read neighbours in x."""
        return thread // DEPTH + i * (THREADS // DEPTH) if g.xc == 1 else thread % TILE

    @staticmethod
    @always_inline
    def term(g: Geometry, thread: Int, i: Int) -> Int:
        return thread % DEPTH if g.xc == 1 else thread // TILE + i * (THREADS // TILE)

    @always_inline
    def load[
        dtype: DType, space: AddressSpace
    ](self, g: Geometry, x: Ptr[dtype], shared: Shared[dtype, space], thread: Int, t0: Int):
        """Terms t0 to t0 + DEPTH of the rows: shared[term * PITCH + row]."""
        comptime for i in range(LOADS):
            var term = Self.term(g, thread, i)
            var t = t0 + term
            var r = 0
            var s = 0
            var c = t
            if g.R * g.S != 1:
                if g.channels_first != 0:
                    c = quotient(t, g.R * g.S)
                    var tap = t - c * (g.R * g.S)
                    r = quotient(tap, g.S)
                    s = tap - r * g.S
                else:
                    var tap = quotient(t, g.C)
                    c = t - tap * g.C
                    r = quotient(tap, g.S)
                    s = tap - r * g.S
            var h = self.h[i] + r * g.dh
            var w = self.w[i] + s * g.dw
            var v = Scalar[sum_type[dtype]()](0)
            if h >= 0 and h < g.H and w >= 0 and w < g.W and t < g.terms():
                v = x.unsafe_load(self.base[i] + (h * g.W + w) * g.xp + c * g.xc).cast[v.dtype]()
            shared.unsafe_store(term * PITCH + Self.row(g, thread, i), v)


@always_inline
def load_columns[
    dtype: DType, space: AddressSpace
](g: Geometry, w: Ptr[dtype], shared: Shared[dtype, space], thread: Int, group: Int, k0: Int, t0: Int):
    """Terms t0 to t0 + DEPTH of the columns from k0 on: shared[term * PITCH + column]."""
    var step = g.term_step()
    comptime for i in range(LOADS):
        var column = thread % TILE
        var term = thread // TILE + i * (THREADS // TILE)
        if g.wn != 1:
            column = thread // DEPTH + i * (THREADS // DEPTH)
            term = thread % DEPTH
        var v = Scalar[sum_type[dtype]()](0)
        if k0 + column < g.K and t0 + term < g.terms():
            v = w.unsafe_load(g.first_weight(group, k0 + column) + (t0 + term) * step).cast[v.dtype]()
        shared.unsafe_store(term * PITCH + column, v)


@always_inline
def accumulate[dtype: DType, space: AddressSpace](mut sums: Sums[dtype], a: Shared[dtype, space], b: Shared[dtype, space], thread: Int):
    """The thread's SPAN x SPAN sums over what is in shared memory."""
    comptime V = SIMD[sum_type[dtype](), SPAN]
    for t in range(DEPTH):
        var rows = a.unsafe_load[width=SPAN](t * PITCH + thread // (TILE // SPAN) * SPAN)
        var columns = b.unsafe_load[width=SPAN](t * PITCH + thread % (TILE // SPAN) * SPAN)
        comptime for i in range(SPAN):
            sums[i] = plus_product[sum_type[dtype](), SPAN](sums[i], V(rows[i]), columns)


@always_inline
def store_sums[
    dtype: DType
](g: Geometry, y: Ptr[dtype], b: Ptr[dtype], r: Ptr[dtype], sums: Sums[dtype], thread: Int, group: Int, m0: Int, k0: Int, bounds: Int64):
    comptime for i in range(SPAN):
        comptime for j in range(SPAN):
            var m = m0 + thread // (TILE // SPAN) * SPAN + i
            var k = k0 + thread % (TILE // SPAN) * SPAN + j
            if m < g.rows() and k < g.K:
                finish[dtype](g, y, b, r, group, m, k, sums[i][j], bounds)


struct Block(ImplicitlyCopyable):
    """Which part of y a block makes."""

    var group: Int
    var m0: Int
    var k0: Int

    def __init__(out self, g: Geometry, index: Int):
        var across = (g.K + TILE - 1) // TILE
        var down = (g.rows() + TILE - 1) // TILE
        var line = quotient(index, across)
        self.group = quotient(line, down)
        self.m0 = (line - self.group * down) * TILE
        self.k0 = (index - line * across) * TILE


@__llvm_metadata(MAX_THREADS_PER_BLOCK_METADATA=StaticTuple[Int32, 1](Int32(THREADS)))
def tiled_kernel[dtype: DType](y: Ptr[dtype], x: Ptr[dtype], w: Ptr[dtype], b: Ptr[dtype], r: Ptr[dtype], sizes: Sizes):
    """One block a tile of y; rows and columns pass through shared memory."""
    var a_shared = unsafe_stack_allocation[DEPTH * PITCH, Scalar[sum_type[dtype]()], alignment=16, address_space=AddressSpace.SHARED]()
    var b_shared = unsafe_stack_allocation[DEPTH * PITCH, Scalar[sum_type[dtype]()], alignment=16, address_space=AddressSpace.SHARED]()
    var g = Geometry(sizes)
    var thread = Int(thread_idx.x)
    var block = Block(g, Int(block_idx.x))
    var rows = Rows(g, thread, block.group, block.m0)
    var sums = Sums[dtype](fill=SIMD[sum_type[dtype](), SPAN](0))
    for t0 in range(0, g.terms(), DEPTH):
        rows.load[dtype](g, x, a_shared, thread, t0)
        load_columns[dtype](g, w, b_shared, thread, block.group, block.k0, t0)
        barrier()
        accumulate[dtype](sums, a_shared, b_shared, thread)
        barrier()
    store_sums[dtype](g, y, b, r, sums, thread, block.group, block.m0, block.k0, sizes[32])


def tiled_on_cpu[dtype: DType](blocks: Int, y: Ptr[dtype], x: Ptr[dtype], w: Ptr[dtype], b: Ptr[dtype], r: Ptr[dtype], sizes: Sizes):
    """`tiled_kernel`, the threads of a block one after the other between barriers."""
    var g = Geometry(sizes)
    var a_shared = rebind[Ptr[sum_type[dtype]()]](unsafe_stack_allocation[DEPTH * PITCH, Scalar[sum_type[dtype]()], alignment=16]())
    var b_shared = rebind[Ptr[sum_type[dtype]()]](unsafe_stack_allocation[DEPTH * PITCH, Scalar[sum_type[dtype]()], alignment=16]())
    var held = rebind[Ptr[sum_type[dtype]()]](unsafe_stack_allocation[THREADS * SPAN * SPAN, Scalar[sum_type[dtype]()], alignment=16]())
    for index in range(blocks):
        var block = Block(g, index)
        for i in range(THREADS * SPAN * SPAN):
            held.unsafe_store(i, 0)
        for t0 in range(0, g.terms(), DEPTH):
            for thread in range(THREADS):
                Rows(g, thread, block.group, block.m0).load[dtype](g, x, a_shared, thread, t0)
                load_columns[dtype](g, w, b_shared, thread, block.group, block.k0, t0)
            for thread in range(THREADS):
                var sums = Sums[dtype](fill=SIMD[sum_type[dtype](), SPAN](0))
                for i in range(SPAN):
                    sums[i] = held.unsafe_load[width=SPAN]((thread * SPAN + i) * SPAN)
                accumulate[dtype](sums, a_shared, b_shared, thread)
                for i in range(SPAN):
                    held.unsafe_store((thread * SPAN + i) * SPAN, sums[i])
        for thread in range(THREADS):
            var sums = Sums[dtype](fill=SIMD[sum_type[dtype](), SPAN](0))
            for i in range(SPAN):
                sums[i] = held.unsafe_load[width=SPAN]((thread * SPAN + i) * SPAN)
            store_sums[dtype](g, y, b, r, sums, thread, block.group, block.m0, block.k0, sizes[32])


@always_inline
def direct_element[dtype: DType](g: Geometry, index: Int, y: Ptr[dtype], x: Ptr[dtype], w: Ptr[dtype], b: Ptr[dtype], r: Ptr[dtype], bounds: Int64):
    """One element of y by itself: for groups of few columns, as in depthwise convolutions."""
    var columns = g.G * g.K
    var rows = g.rows()
    var m = quotient(index, columns)
    var column = index - m * columns
    if g.yk != 1:  # neighbours in y differ in their pixel
        column = quotient(index, rows)
        m = index - column * rows
    var group = quotient(column, g.K)
    var k = column - group * g.K
    var line = quotient(m, g.WO)
    var n = quotient(line, g.HO)
    var h0 = (line - n * g.HO) * g.sh - g.ph
    var w0 = (m - line * g.WO) * g.sw - g.pw
    var base = group * g.xg + n * g.xn
    var at = g.first_weight(group, k)
    var step = g.term_step()
    var per_tap = g.C * step
    var per_channel = step
    if g.channels_first != 0:
        per_tap = step
        per_channel = g.R * g.S * step
    var total = Scalar[sum_type[dtype]()](0)
    for tap_row in range(g.R):
        for tap_column in range(g.S):
            var h = h0 + tap_row * g.dh
            var across = w0 + tap_column * g.dw
            var inside = h >= 0 and h < g.H and across >= 0 and across < g.W
            var from_x = base + (h * g.W + across) * g.xp
            var from_w = at + (tap_row * g.S + tap_column) * per_tap
            for c in range(g.C):
                var one = Scalar[total.dtype](0)
                if inside:
                    one = x.unsafe_load(from_x + c * g.xc).cast[total.dtype]()
                total = plus_product[total.dtype, 1](total, one, w.unsafe_load(from_w + c * per_channel).cast[total.dtype]())
    finish[dtype](g, y, b, r, group, m, k, total, bounds)


@__llvm_metadata(MAX_THREADS_PER_BLOCK_METADATA=StaticTuple[Int32, 1](Int32(THREADS)))
def direct_kernel[dtype: DType](y: Ptr[dtype], x: Ptr[dtype], w: Ptr[dtype], b: Ptr[dtype], r: Ptr[dtype], sizes: Sizes):
    var g = Geometry(sizes)
    var index = Int(block_idx.x) * THREADS + Int(thread_idx.x)
    if index < g.G * g.K * g.rows():
        direct_element[dtype](g, index, y, x, w, b, r, sizes[32])


@no_inline
def launch[dtype: DType, target: StaticString](ctx: DeviceContext, g: Geometry, bounds: Int, y: Ptr[dtype], x: Ptr[dtype], w: Ptr[dtype], b: Ptr[dtype], r: Ptr[dtype]) raises:
    """Run a geometry: by tiles, or element by element where a group has few columns."""
    var total = g.G * g.K * g.rows()
    if total == 0:
        return
    if total >= 1 << 31 or g.rows() >= 1 << 31 or g.terms() >= 1 << 31:
        raise Error("a result of ", total, " elements is too large for one kernel")
    var sizes = g.packed(bounds)
    var direct = g.K < NARROW and g.G > 1 and g.R * g.S * g.C < 1024
    var blocks = g.G * ((g.K + TILE - 1) // TILE) * ((g.rows() + TILE - 1) // TILE)
    if direct:
        blocks = (total + THREADS - 1) // THREADS
    comptime if target == "cpu":
        if direct:
            for index in range(total):
                direct_element[dtype](g, index, y, x, w, b, r, sizes[32])
        else:
            tiled_on_cpu[dtype](blocks, y, x, w, b, r, sizes)
    else:
        if direct:
            ctx.enqueue_function[direct_kernel[dtype]](y, x, w, b, r, sizes, grid_dim=blocks, block_dim=THREADS)
        else:
            ctx.enqueue_function[tiled_kernel[dtype]](y, x, w, b, r, sizes, grid_dim=blocks, block_dim=THREADS)


@extensibility.register("fx_gpu_matmul")
struct GpuMatMul:
    """Output [B, M, N] of x [B, M, K] and w [B, K, N], or w [B, N, K] where `transposed`; sums as in `sum_type`."""

    @staticmethod
    def execute[
        transposed: Int, target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        x: InputTensor[dtype=output.dtype, rank=3, ...],
        w: InputTensor[dtype=output.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        var g = Geometry()
        g.G = Int(output.dim_size(0))
        g.H = Int(output.dim_size(1))
        g.HO = g.H
        g.K = Int(output.dim_size(2))
        g.C = Int(x.dim_size(2))
        g.xp = g.C
        g.xg = g.H * g.C
        g.yp = g.K
        g.yg = g.H * g.K
        g.wg = g.C * g.K
        g.wk = 1 if transposed != 0 else g.K
        g.wn = g.C if transposed != 0 else 1
        comptime P = Ptr[output.dtype]
        var y = rebind[P](output.unsafe_ptr())
        launch[output.dtype, target](ctx, g, 0, y, rebind[P](x.unsafe_ptr()), rebind[P](w.unsafe_ptr()), y, y)


@extensibility.register("fx_gpu_conv_nhwc")
struct GpuConvNhwc:
    """Output [N, Ho, Wo, K] of x [N, H, W, C], filters as `packing.py` lays them out, bias [K] and a residual like the output
    (x where `residual` is 0). Parameters in the order of `ConvNhwc`; `bounds` are the bits of least and greatest."""

    @staticmethod
    def execute[
        R: Int,
        S: Int,
        sh: Int,
        sw: Int,
        ph: Int,
        pw: Int,
        dh: Int,
        dw: Int,
        groups: Int,
        activation: Int,
        residual: Int,
        bounds: Int,
        target: StaticString,
    ](
        output: OutputTensor[rank=4, ...],
        x: InputTensor[dtype=output.dtype, rank=4, ...],
        w: InputTensor[dtype=output.dtype, rank=1, ...],
        bias: InputTensor[dtype=output.dtype, rank=1, ...],
        added: InputTensor[dtype=output.dtype, rank=4, ...],
        ctx: DeviceContext,
    ) raises:
        var g = Geometry()
        g.N = Int(x.dim_size(0))
        g.H = Int(x.dim_size(1))
        g.W = Int(x.dim_size(2))
        g.xp = Int(x.dim_size(3))
        g.C = g.xp // groups
        g.HO = Int(output.dim_size(1))
        g.WO = Int(output.dim_size(2))
        g.yp = Int(output.dim_size(3))
        g.K = g.yp // groups
        g.R = R
        g.S = S
        g.sh = sh
        g.sw = sw
        g.ph = ph
        g.pw = pw
        g.dh = dh
        g.dw = dw
        g.G = groups
        g.xg = g.C
        g.xn = g.H * g.W * g.xp
        g.yg = g.K
        g.yn = g.HO * g.WO * g.yp
        if groups > 1 and g.C == 1 and g.K == 1:  # depthwise filters are [R, S, K]
            g.wg = 1
            g.wk = groups
        else:
            g.kp = (g.K + PANEL - 1) // PANEL * PANEL
            g.wg = g.kp * g.terms()
        g.bias = 1
        g.residual = residual
        g.activation = activation
        comptime P = Ptr[output.dtype]
        launch[output.dtype, target](
            ctx,
            g,
            bounds,
            rebind[P](output.unsafe_ptr()),
            rebind[P](x.unsafe_ptr()),
            rebind[P](w.unsafe_ptr()),
            rebind[P](bias.unsafe_ptr()),
            rebind[P](added.unsafe_ptr()),
        )


@extensibility.register("fx_gpu_conv_nchw")
struct GpuConvNchw:
    """Output [N, K, Ho, Wo] of x [N, C, H, W] and filters [K, C/groups, R, S]; sums as in `sum_type`."""

    @staticmethod
    def execute[
        sh: Int, sw: Int, ph: Int, pw: Int, dh: Int, dw: Int, groups: Int, target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        x: InputTensor[dtype=output.dtype, rank=4, ...],
        w: InputTensor[dtype=output.dtype, rank=4, ...],
        ctx: DeviceContext,
    ) raises:
        var g = Geometry()
        g.N = Int(x.dim_size(0))
        g.H = Int(x.dim_size(2))
        g.W = Int(x.dim_size(3))
        g.C = Int(w.dim_size(1))
        g.HO = Int(output.dim_size(2))
        g.WO = Int(output.dim_size(3))
        g.K = Int(output.dim_size(1)) // groups
        g.R = Int(w.dim_size(2))
        g.S = Int(w.dim_size(3))
        g.sh = sh
        g.sw = sw
        g.ph = ph
        g.pw = pw
        g.dh = dh
        g.dw = dw
        g.G = groups
        g.xc = g.H * g.W
        g.xg = g.C * g.xc
        g.xn = groups * g.xg
        g.yk = g.HO * g.WO
        g.yg = g.K * g.yk
        g.yn = groups * g.yg
        g.channels_first = 1
        g.wn = g.terms()
        g.wg = g.K * g.wn
        comptime P = Ptr[output.dtype]
        var y = rebind[P](output.unsafe_ptr())
        launch[output.dtype, target](ctx, g, 0, y, rebind[P](x.unsafe_ptr()), rebind[P](w.unsafe_ptr()), y, y)
