"""Batched matrix products on the CPU, with the register tile of the convolutions."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from std.collections import Array
from std.math import fma
from std.memory import alloc
from .conv import Args, FP, MR, NV, PANEL, READ, SMALL, V, W, ld, multiply_rows, st, strips_of
from .team import Team
from .transpose import BLOCK, swap_block


@no_inline
def pack_matrix(buffer: FP, w: FP, K: Int, N: Int, sk: Int, sn: Int):
    """w [K, N] with strides sk and sn into panels, as `packing.py` lays out 1 x 1 filters."""
    var kp = (N + PANEL - 1) // PANEL * PANEL
    var q = 0
    while q < kp:
        var d = buffer + q * K
        if sn == 1:
            for k in range(K):
                for j in range(0, PANEL, W):
                    (d + (k * PANEL + j)).store(ld(w + (k * sk + q + j), N - q - j))
        else:
            for j in range(0, PANEL, BLOCK):
                var k = 0
                if q + j + BLOCK <= N:
                    while k + BLOCK <= K:
                        swap_block[DType.float32](d + (k * PANEL + j), w + ((q + j) * sn + k), PANEL, sn)
                        k += BLOCK
                for jj in range(j, j + BLOCK):
                    for kk in range(k, K):
                        d.store(kk * PANEL + jj, w.load((q + jj) * sn + kk) if q + jj < N else Float32(0))
        q += PANEL


@always_inline
def product(y: FP, x: FP, packed: FP, zeros: FP, M: Int, K: Int, N: Int) -> Args:
    """y [M, N] = x [M, K] times a packed matrix, as a 1 x 1 convolution of M pixels."""
    var a = Args(y, x, packed, zeros, zeros, zeros)
    a.H = M
    a.HO = M
    a.C = K
    a.K = N
    a.xs = K
    a.ys = N
    return a


@no_inline
def row_product(y: FP, x: FP, w: FP, K: Int, N: Int, stride: Int):
    """One row y [N] = x [K] times w [K, N], whose rows are `stride` apart."""
    var q = 0
    while q < N:
        if q + NV * W <= N:
            var acc = Array[V, NV](fill=V(0))
            for k in range(K):
                var v = V(x.load(k))
                comptime for j in range(NV):
                    acc[j] = fma(v, (w + (k * stride + q + j * W)).load[width=W](), acc[j])
            comptime for j in range(NV):
                (y + (q + j * W)).store(acc[j])
            q += NV * W
        else:
            var acc = V(0)
            for k in range(K):
                acc = fma(V(x.load(k)), ld(w + (k * stride + q), N - q), acc)
            st(y + q, N - q, acc)
            q += W


@no_inline
def row_dots(y: FP, x: FP, w: FP, K: Int, N: Int, stride: Int):
    """One row y [N] = x [K] times the transpose of w [N, K], whose rows are `stride` apart."""
    for n in range(N):
        var acc = V(0)
        var more = V(0)
        var row = w + n * stride
        var k = 0
        while k + 2 * W <= K:
            acc = fma((x + k).load[width=W](), (row + k).load[width=W](), acc)
            more = fma((x + k + W).load[width=W](), (row + k + W).load[width=W](), more)
            k += 2 * W
        while k < K:
            acc = fma(ld(x + k, K - k), ld(row + k, K - k), acc)
            k += W
        y.store(n, (acc + more).reduce_add())


@no_inline
def rows_run(y: FP, x: FP, w: FP, B: Int, K: Int, N: Int, transposed: Bool, threads: Int):
    """The product where x has one row: nothing is packed."""

    def work(t: Int) {imm}:
        for b in range(B * t // threads, B * (t + 1) // threads):
            if transposed:
                row_dots(y + b * N, x + b * K, w + b * K * N, K, N, K)
            else:
                row_product(y + b * N, x + b * K, w + b * K * N, K, N, N)

    if threads == 1:
        work(0)
    else:
        sync_parallelize(work, threads)


@no_inline
def bmm_run(y: FP, x: FP, w: FP, B: Int, M: Int, K: Int, N: Int, transposed: Bool):
    """y [B, M, N] = x [B, M, K] times w [B, K, N], or w [B, N, K] where `transposed`."""
    var mt = (M + MR - 1) // MR
    var threads = Team().parts(B * max(M, READ) * K * N, SMALL, B * mt)
    if M == 1:
        rows_run(y, x, w, B, K, N, transposed, threads)
        return
    var kp = (N + PANEL - 1) // PANEL * PANEL
    var sk = 1 if transposed else N
    var sn = K if transposed else 1
    var by_batch = B >= threads or B >= mt  # else the rows of each product are split
    threads = max(1, min(threads, B if by_batch else mt))
    var buffers = rebind[FP](alloc[Float32]((threads if by_batch else 1) * kp * K + 1))
    var zeros = rebind[FP](alloc[Float32](kp + K + 1))
    for i in range(kp + K):
        zeros.store(i, Float32(0))

    def batches(t: Int) {imm}:
        var buffer = buffers + t * kp * K
        for b in range(B * t // threads, B * (t + 1) // threads):
            pack_matrix(buffer, w + b * K * N, K, N, sk, sn)
            var a = product(y + b * M * N, x + b * M * K, buffer, zeros, M, K, N)
            multiply_rows(a, M, 0, mt, 0, strips_of(N))

    if threads == 1:
        batches(0)
    elif by_batch:
        sync_parallelize(batches, threads)
    else:
        for b in range(B):
            pack_matrix(buffers, w + b * K * N, K, N, sk, sn)
            var a = product(y + b * M * N, x + b * M * K, buffers, zeros, M, K, N)

            def rows(t: Int) {imm}:
                multiply_rows(a, M, mt * t // threads, mt * (t + 1) // threads, 0, strips_of(N))

            sync_parallelize(rows, threads)
    buffers.free()
    zeros.free()


@extensibility.register("fx_bmm")
struct BatchedMatMul:
    """Output [B, M, N] of x [B, M, K] and w [B, K, N], or w [B, N, K] where the flag is not 0."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[dtype=DType.float32, rank=3, ...],
        x: InputTensor[dtype=DType.float32, rank=3, ...],
        w: InputTensor[dtype=DType.float32, rank=3, ...],
        transposed: InputTensor[dtype=DType.int64, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        bmm_run(
            rebind[FP](output.unsafe_ptr()),
            rebind[FP](x.unsafe_ptr()),
            rebind[FP](w.unsafe_ptr()),
            Int(x.dim_size(0)),
            Int(x.dim_size(1)),
            Int(x.dim_size(2)),
            Int(output.dim_size(2)),
            transposed.unsafe_ptr().load(0) != 0,
        )
