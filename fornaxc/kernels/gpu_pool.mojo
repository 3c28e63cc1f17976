"""Window reductions on GPUs: one kernel an element type, for every shape."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu import MAX_THREADS_PER_BLOCK_METADATA, block_idx, thread_idx
from max.gpu.host import DeviceContext
from std.math import isnan
from std.utils import StaticTuple
from std.utils.numerics import min_or_neg_inf
from .gpu_gemm import Ptr, THREADS, quotient, sum_type

comptime Window = StaticTuple[Int64, 14]  # H W C HO WO, R S, sh sw, ph pw, dh dw, and whether it sums


@always_inline
def pool_element[dtype: DType](index: Int, y: Ptr[dtype], x: Ptr[dtype], g: Window):
    """One element of y [outer, HO, WO, C] from x [outer, H, W, C]."""
    comptime acc = sum_type[dtype]()
    var C = Int(g[2])
    var WO = Int(g[4])
    var HO = Int(g[3])
    var pixel = quotient(index, C)
    var line = quotient(pixel, WO)
    var outer = quotient(line, HO)
    var h0 = (line - outer * HO) * Int(g[7]) - Int(g[9])
    var w0 = (pixel - line * WO) * Int(g[8]) - Int(g[10])
    var base = outer * Int(g[0]) * Int(g[1]) * C + index - pixel * C
    var sums = g[13] != 0
    var total = Scalar[acc](0) if sums else min_or_neg_inf[acc]()
    for r in range(Int(g[5])):
        var h = h0 + r * Int(g[11])
        if h < 0 or h >= Int(g[0]):
            continue
        for s in range(Int(g[6])):
            var w = w0 + s * Int(g[12])
            if w < 0 or w >= Int(g[1]):
                continue
            var v = x.unsafe_load(base + (h * Int(g[1]) + w) * C).cast[acc]()
            if sums:
                total += v
            elif v > total or isnan(v):
                total = v
    y.unsafe_store(index, total.cast[dtype]())


@__llvm_metadata(MAX_THREADS_PER_BLOCK_METADATA=StaticTuple[Int32, 1](Int32(THREADS)))
def pool_kernel[dtype: DType](y: Ptr[dtype], x: Ptr[dtype], total: Int64, g: Window):
    var index = Int(block_idx.x) * THREADS + Int(thread_idx.x)
    if index < Int(total):
        pool_element[dtype](index, y, x, g)


@no_inline
def launch_pool[dtype: DType, target: StaticString](ctx: DeviceContext, y: Ptr[dtype], x: Ptr[dtype], total: Int, g: Window) raises:
    if total == 0:
        return
    if total >= 1 << 31:
        raise Error("a result of ", total, " elements is too large for one kernel")
    comptime if target == "cpu":
        for index in range(total):
            pool_element[dtype](index, y, x, g)
    else:
        ctx.enqueue_function[pool_kernel[dtype]](
            y, x, Int64(total), g, grid_dim=(total + THREADS - 1) // THREADS, block_dim=THREADS
        )


@extensibility.register("fx_gpu_pool2d")
struct GpuPool2d:
    """Output [outer, Ho, Wo, C] of x [outer, H, W, C]: the maximum, or the sum where `sums`. Padding is the identity; NaN wins."""

    @staticmethod
    def execute[
        R: Int, S: Int, sh: Int, sw: Int, ph: Int, pw: Int, dh: Int, dw: Int, sums: Int, target: StaticString
    ](
        output: OutputTensor[rank=4, ...],
        x: InputTensor[dtype=output.dtype, rank=4, ...],
        ctx: DeviceContext,
    ) raises:
        var g = Window(fill=0)
        g[0] = Int64(Int(x.dim_size(1)))
        g[1] = Int64(Int(x.dim_size(2)))
        g[2] = Int64(Int(x.dim_size(3)))
        g[3] = Int64(Int(output.dim_size(1)))
        g[4] = Int64(Int(output.dim_size(2)))
        g[5] = Int64(R)
        g[6] = Int64(S)
        g[7] = Int64(sh)
        g[8] = Int64(sw)
        g[9] = Int64(ph)
        g[10] = Int64(pw)
        g[11] = Int64(dh)
        g[12] = Int64(dw)
        g[13] = Int64(sums)
        var total = Int(output.dim_size(0)) * Int(g[2]) * Int(g[3]) * Int(g[4])
        comptime P = Ptr[output.dtype]
        launch_pool[output.dtype, target](ctx, rebind[P](output.unsafe_ptr()), rebind[P](x.unsafe_ptr()), total, g)
