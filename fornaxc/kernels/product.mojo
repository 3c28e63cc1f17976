"""Products of matrices of integers or f64, on the CPU: one instance for an element type serves every shape."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from std.collections import Array
from std.sys import simd_width_of
from .reduce import P
from .team import Team

comptime ROWS = 4  # of a tile
comptime SMALL = 25000  # times WAKE: multiply-adds below which one thread is quicker


@always_inline
def _tile[dtype: DType, //, width: Int](y: P[dtype], a: P[dtype], b: P[dtype], rows: Int, K: Int, N: Int):
    """`width` columns of up to ROWS rows; `b` and `y` are at the first of the columns."""
    var sums = Array[SIMD[dtype, width], ROWS](fill=SIMD[dtype, width](0))
    for k in range(K):
        var right = (b + k * N).load[width=width]()
        comptime for r in range(ROWS):
            sums[r] += SIMD[dtype, width](a.load(min(r, rows - 1) * K + k)) * right
    comptime for r in range(ROWS):
        if r < rows:
            (y + r * N).store(sums[r])


@no_inline
def multiply_matrices[dtype: DType](y: P[dtype], a: P[dtype], b: P[dtype], batch: Int, M: Int, K: Int, N: Int, shared: Bool):
    """y[i] = a[i] b[i], or a[i] b[0] where `shared`."""
    comptime WIDE = 2 * simd_width_of[dtype]()
    var tiles = (M + ROWS - 1) // ROWS
    var units = batch * tiles
    var threads = Team().parts(units * ROWS * K * N, SMALL, units)

    def work(t: Int) {imm}:
        for unit in range(units * t // threads, units * (t + 1) // threads):
            var i = unit // tiles
            var m = unit % tiles * ROWS
            var left = a + (i * M + m) * K
            var right = b if shared else b + i * K * N
            var out = y + (i * M + m) * N
            var j = 0
            while j + WIDE <= N:
                _tile[WIDE](out + j, left, right + j, M - m, K, N)
                j += WIDE
            while j < N:
                _tile[1](out + j, left, right + j, M - m, K, N)
                j += 1

    if threads == 1:
        work(0)
    else:
        sync_parallelize(work, threads)


@extensibility.register("fx_product")
struct Product:
    """[B, M, K] times [B, K, N], or times [1, K, N]. Integers wrap around; K = 0 gives zeros."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=3, ...],
        a: InputTensor[dtype=output.dtype, rank=3, ...],
        b: InputTensor[dtype=output.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        multiply_matrices[output.dtype](
            rebind[P[output.dtype]](output.unsafe_ptr()),
            rebind[P[output.dtype]](a.unsafe_ptr()),
            rebind[P[output.dtype]](b.unsafe_ptr()),
            Int(a.dim_size(0)),
            Int(a.dim_size(1)),
            Int(a.dim_size(2)),
            Int(b.dim_size(2)),
            Int(b.dim_size(0)) == 1,
        )
