"""Products of 8-bit integers by packed matrices, on the CPU: exact sums of 32 bits, rescaled, one instance for every shape.

The rows are copied first, as the operands of the processor's own instruction: unsigned bytes for x86's dot product of four,
signed bytes for Arm's, and else numbers of 16 bits, which are multiplied in pairs. The weights are laid out by the pass
`fuse-quantized`: [panels, K/4, 16 columns, 4], signed bytes.
"""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from std.collections import Array
from std.math import isnan
from std.memory import alloc, bitcast
from std.sys import llvm_intrinsic, simd_width_of
from std.sys.info import CompilationTarget
from .conv import FP, IP
from .reduce import P
from .team import Team

comptime BYTES = P[DType.uint8]
comptime INTS = P[DType.int32]
comptime L = simd_width_of[DType.int32]()
comptime I = SIMD[DType.int32, L]
comptime F = SIMD[DType.float32, L]
comptime X86_DOT = CompilationTarget.is_x86() and CompilationTarget.has_vnni() and L >= 8
comptime ARM_DOT = CompilationTarget.has_neon_int8_dotprod()
comptime X86_PAIRS = CompilationTarget.is_x86() and L >= 8
comptime STAGED = DType.uint8 if X86_DOT else (DType.int8 if ARM_DOT else DType.int16)
comptime WORD = DType.int64 if STAGED == DType.int16 else DType.int32  # four staged numbers
comptime SHARES = 2 if STAGED == DType.int16 else 1  # neighbouring lanes that hold the sum of one column
comptime COLUMNS = L // SHARES  # of a vector of sums
comptime WIDTH = 16  # columns of a panel
comptime GROUP = 64  # columns that one unit of work has
comptime TILE_ROWS = 6
comptime NV = 4 if L != 8 else 2  # vectors of a tile: 24 accumulators of 32 registers, or 12 of 16
comptime BLOCK = 32  # tiles of rows that take turns at a group of columns
comptime SMALL = 400000  # times WAKE: multiply-adds below which one thread is quicker
comptime COPIED = 1 << 15  # times WAKE: numbers that one thread copies as fast as several


struct Quantized(ImplicitlyCopyable):
    """One product: pointers, then sizes. `quads` is K/4, rounded up; kind of result: 0 f32, 1 i32, 2 u8, 3 i8."""

    var y: BYTES
    var x: BYTES
    var w: P[DType.int8]
    var sums: INTS
    var w_zero: INTS
    var scale: FP
    var bias: FP
    var staged: P[STAGED]
    var row_sums: INTS
    var M: Int
    var K: Int
    var N: Int
    var quads: Int
    var zero: Int32
    var y_scale: Float32
    var y_zero: Float32
    var kind: Int
    var signed: Bool
    var relu: Bool
    var shifted: Bool

    def __init__(out self, y: BYTES, x: BYTES, w: P[DType.int8], sums: INTS, w_zero: INTS, scale: FP, bias: FP):
        self.y = y
        self.x = x
        self.w = w
        self.sums = sums
        self.w_zero = w_zero
        self.scale = scale
        self.bias = bias
        self.staged = rebind[P[STAGED]](sums.unsafe_bitcast[Scalar[STAGED]]())
        self.row_sums = sums
        self.M = 0
        self.K = 0
        self.N = 0
        self.quads = 0
        self.zero = 0
        self.y_scale = 1
        self.y_zero = 0
        self.kind = 0
        self.signed = False
        self.relu = False
        self.shifted = False


@always_inline
def _dot(sums: I, x: SIMD[STAGED, 4 * COLUMNS], w: SIMD[DType.int8, 4 * COLUMNS]) -> I:
    """To the sum of each column four products, or to each of its two sums two."""
    comptime if X86_DOT:
        comptime if L == 16:
            return llvm_intrinsic["llvm.x86.avx512.vpdpbusd.512", I](sums, x, w)
        return llvm_intrinsic["llvm.x86.avx512.vpdpbusd.256", I](sums, x, w)
    comptime if ARM_DOT:
        return llvm_intrinsic["llvm.aarch64.neon.sdot.v4i32.v16i8", I](sums, x, w)
    var wide = w.cast[DType.int16]()
    comptime if X86_PAIRS:
        comptime if L == 16:
            return sums + llvm_intrinsic["llvm.x86.avx512.pmaddw.d.512", I](x, wide)
        return sums + llvm_intrinsic["llvm.x86.avx2.pmadd.wd", I](x, wide)
    var products = x.cast[DType.int32]() * wide.cast[DType.int32]()
    var pairs = products.deinterleave()
    return sums + rebind[I](pairs[0]) + rebind[I](pairs[1])


@always_inline
def _ld[dtype: DType, //](p: P[dtype], n: Int) -> SIMD[dtype, L]:
    """The first n lanes at p; zeros after them."""
    if n >= L:
        return p.load[width=L]()
    var v = SIMD[dtype, L](0)
    for i in range(n):
        v[i] = p.load(i)
    return v


@always_inline
def _st[dtype: DType, //](p: P[dtype], n: Int, v: SIMD[dtype, L]):
    if n >= L:
        p.store(v)
    else:
        for i in range(n):
            p.store(i, v[i])


@always_inline
def _at[dtype: DType](p: BYTES, index: Int) -> P[dtype]:
    return rebind[P[dtype]](p.unsafe_bitcast[Scalar[dtype]]()) + index


@always_inline
def _bounded(v: F, low: Float32, high: Float32) -> I:
    var above = v.lt(F(low)).select(F(low), v)
    var inside = above.gt(F(high)).select(F(high), above)
    return isnan(v).select(F(0), inside).cast[DType.int32]()


@no_inline
def _finish[kind: Int](y: BYTES, products: INTS, a: Quantized, total: Int32, c0: Int, columns: Int):
    """Takes the zero points out of the `products` of one row from column c0 on, whose bytes have the sum `total`, rescales and stores them."""
    for i in range(0, columns, L):
        var c = c0 + i
        var n = columns - i
        var exact = products.load[width=L](i) - I(a.zero) * _ld(a.sums + c, n)
        if a.shifted:
            exact -= I(total) * _ld(a.w_zero + c, n)
        comptime if kind == 1:
            _st(_at[DType.int32](y, c), n, exact)
            continue
        var v = exact.cast[DType.float32]() * _ld(a.scale + c, n) + _ld(a.bias + c, n)
        if a.relu:
            v = v.lt(F(0)).select(F(0), v)
        comptime if kind == 0:
            _st(_at[DType.float32](y, c), n, v)
            continue
        var q = round(v / F(a.y_scale)) + F(a.y_zero)
        comptime if kind == 2:
            _st(_at[DType.uint8](y, c), n, _bounded(q, 0, 255).cast[DType.uint8]())
        else:
            _st(_at[DType.int8](y, c), n, _bounded(q, -128, 127).cast[DType.int8]())


@no_inline
def quantized_tile[R: Int, N: Int](products: INTS, staged: P[STAGED], w: P[DType.int8], quads: Int, mr: Int, c0: Int):
    """Sums of R staged rows, of which `mr` are there, by N vectors of columns from c0 on: to `products` [R, GROUP]."""
    var sums = Array[I, R * N](fill=I(0))
    var rows = Array[P[STAGED], R](fill=staged)
    var columns = Array[P[DType.int8], N](fill=w)
    comptime for i in range(R):
        rows[i] = staged + min(i, mr - 1) * 4 * quads
    comptime for j in range(N):
        var c = c0 + j * COLUMNS
        columns[j] = w + (c // WIDTH * quads * WIDTH + c % WIDTH) * 4
    for q in range(quads):
        var weights = Array[SIMD[DType.int8, 4 * COLUMNS], N](fill=SIMD[DType.int8, 4 * COLUMNS](0))
        comptime for j in range(N):
            weights[j] = (columns[j] + q * 4 * WIDTH).load[width = 4 * COLUMNS]()
        comptime for i in range(R):
            var four = bitcast[WORD, 1]((rows[i] + 4 * q).load[width=4]())
            var x = bitcast[STAGED, 4 * COLUMNS](SIMD[WORD, COLUMNS](four))
            comptime for j in range(N):
                sums[i * N + j] = _dot(sums[i * N + j], x, weights[j])
    comptime for i in range(R):
        comptime for j in range(N):
            var to = products + (i * GROUP + j * COLUMNS)
            comptime if SHARES == 2:
                var pairs = sums[i * N + j].deinterleave()
                comptime C = SIMD[DType.int32, COLUMNS]
                to.store(rebind[C](pairs[0]) + rebind[C](pairs[1]))
            else:
                to.store(rebind[SIMD[DType.int32, COLUMNS]](sums[i * N + j]))


@no_inline
def _group(a: Quantized, t0: Int, t1: Int, first: Int, end: Int):
    """Tiles t0 to t1 of rows, the columns from `first` on that are there, no more than a group; `end` is where the padded ones end."""
    var products = rebind[INTS](alloc[Int32](TILE_ROWS * GROUP))
    for t in range(t0, t1):
        var m0 = t * TILE_ROWS
        var mr = min(TILE_ROWS, a.M - m0)
        var staged = a.staged + m0 * 4 * a.quads
        var c = first
        while c + NV * COLUMNS <= end:
            if mr == 1:  # bound by the weights: no arithmetic on rows that are not there
                quantized_tile[1, NV](products + (c - first), staged, a.w, a.quads, mr, c)
            else:
                quantized_tile[TILE_ROWS, NV](products + (c - first), staged, a.w, a.quads, mr, c)
            c += NV * COLUMNS
        while c < end:
            if mr == 1:
                quantized_tile[1, 1](products + (c - first), staged, a.w, a.quads, mr, c)
            else:
                quantized_tile[TILE_ROWS, 1](products + (c - first), staged, a.w, a.quads, mr, c)
            c += COLUMNS
        var columns = min(a.N, end) - first
        for i in range(mr):
            var m = m0 + i
            var y = a.y + m * a.N * (4 if a.kind < 2 else 1)
            comptime for kind in range(4):
                if a.kind == kind:
                    _finish[kind](y, products + i * GROUP, a, a.row_sums.load(m), first, columns)
    products.free()


@always_inline
def _wide[width: Int](p: BYTES, signed: Bool) -> SIMD[DType.int16, width]:
    var v = p.load[width=width]()
    return bitcast[DType.int8, width](v).cast[DType.int16]() if signed else v.cast[DType.int16]()


@no_inline
def stage_row(a: Quantized, m: Int, shift: Int16):
    """Row m plus `shift` as the operands of `_dot`, with zeros up to a multiple of four, and its sum."""
    comptime S = 16
    var source = a.x + m * a.K
    var staged = a.staged + m * 4 * a.quads
    var sums = SIMD[DType.int32, S](0)
    var k = 0
    while k + S <= a.K:
        var v = _wide[S](source + k, a.signed) + SIMD[DType.int16, S](shift)
        (staged + k).store(v.cast[STAGED]())
        sums += v.cast[DType.int32]()
        k += S
    var sum = sums.reduce_add()
    while k < a.K:
        var v = _wide[1](source + k, a.signed) + shift
        staged.store(k, v.cast[STAGED]())
        sum += v.cast[DType.int32]()
        k += 1
    while k < 4 * a.quads:
        staged.store(k, Scalar[STAGED](0))
        k += 1
    a.row_sums.store(m, sum)


@no_inline
def quantized_run(a0: Quantized):
    var a = a0.copy()
    var shift = Int16(0)
    if X86_DOT and a.signed:
        shift = 128
    elif ARM_DOT and not a.signed:
        shift = -128
    a.zero += shift.cast[DType.int32]()
    a.quads = (a.K + 3) // 4
    var staged = alloc[Scalar[STAGED]](max(1, a.M * 4 * a.quads))
    var row_sums = alloc[Int32](max(1, a.M))
    a.staged = rebind[P[STAGED]](staged)
    a.row_sums = rebind[INTS](row_sums)
    var tiles = (a.M + TILE_ROWS - 1) // TILE_ROWS
    var padded = (a.N + WIDTH - 1) // WIDTH * WIDTH
    var groups = (padded + GROUP - 1) // GROUP
    var threads = Team().parts(a.M * a.N * a.K, SMALL, tiles * groups)
    var copies = Team().parts(a.M * a.K, COPIED, a.M)
    var by_rows = tiles >= 16 * threads or groups < threads  # else split the columns

    def copy(t: Int) {imm}:
        for m in range(a.M * t // copies, a.M * (t + 1) // copies):
            stage_row(a, m, shift)

    def work(t: Int) {imm}:
        var t_lo = tiles * t // threads if by_rows else 0
        var t_hi = tiles * (t + 1) // threads if by_rows else tiles
        var g_lo = 0 if by_rows else groups * t // threads
        var g_hi = groups if by_rows else groups * (t + 1) // threads
        for block in range(t_lo, t_hi, BLOCK):
            for g in range(g_lo, g_hi):
                _group(a, block, min(t_hi, block + BLOCK), g * GROUP, min(padded, (g + 1) * GROUP))

    if copies == 1:
        copy(0)
    else:
        sync_parallelize(copy, copies)
    if threads == 1:
        work(0)
    else:
        sync_parallelize(work, threads)
    staged.free()
    row_sums.free()


@extensibility.register("fx_quantized")
struct QuantizedProduct:
    """Output [M, N], f32, i32, u8 or i8, of x [M, K], u8 or i8, by packed weights: see `QuantizedLinear` of the IR.

    `flags`: relu, whether `w_zero` [N] counts. `scale` and `bias` [N], `y_scale` and `y_zero` [1] are any tensors where the type of the
    result has no use for them.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        x: InputTensor[rank=2, ...],
        w: InputTensor[dtype=DType.int8, rank=4, ...],
        x_zero: InputTensor[dtype=DType.int32, rank=1, ...],
        sums: InputTensor[dtype=DType.int32, rank=1, ...],
        w_zero: InputTensor[dtype=DType.int32, rank=1, ...],
        scale: InputTensor[dtype=DType.float32, rank=1, ...],
        bias: InputTensor[dtype=DType.float32, rank=1, ...],
        y_scale: InputTensor[dtype=DType.float32, rank=1, ...],
        y_zero: InputTensor[dtype=DType.float32, rank=1, ...],
        flags: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        comptime y_type = output.dtype
        comptime kind = 0 if y_type == DType.float32 else (1 if y_type == DType.int32 else (2 if y_type == DType.uint8 else 3))
        var a = Quantized(
            rebind[BYTES](output.unsafe_ptr().unsafe_bitcast[UInt8]()),
            rebind[BYTES](x.unsafe_ptr().unsafe_bitcast[UInt8]()),
            rebind[P[DType.int8]](w.unsafe_ptr()),
            rebind[INTS](sums.unsafe_ptr()),
            rebind[INTS](w_zero.unsafe_ptr()),
            rebind[FP](scale.unsafe_ptr()),
            rebind[FP](bias.unsafe_ptr()),
        )
        a.M = Int(x.dim_size(0))
        a.K = Int(x.dim_size(1))
        a.N = Int(output.dim_size(1))
        a.zero = rebind[INTS](x_zero.unsafe_ptr()).load(0)
        a.y_scale = rebind[FP](y_scale.unsafe_ptr()).load(0)
        a.y_zero = rebind[FP](y_zero.unsafe_ptr()).load(0)
        a.kind = kind
        a.signed = x.dtype == DType.int8
        a.relu = rebind[IP](flags.unsafe_ptr()).load(0) != 0
        a.shifted = rebind[IP](flags.unsafe_ptr()).load(1) != 0
        quantized_run(a)
