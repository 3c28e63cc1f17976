"""Concatenation on the CPU: rows of bytes are copied, by one loop for every type, shape and number of operands."""

import extensibility
from extensibility import InputTensor, InputVariadicTensors, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from std.memory import alloc
from std.sys import size_of
from .team import Team

comptime Bytes = Pointer[UInt8, UntrackedOrigin[mut=True]]
comptime Sources = Pointer[Bytes, UntrackedOrigin[mut=True]]
comptime Widths = Pointer[Int, UntrackedOrigin[mut=True]]
comptime SMALL = 1 << 16  # times WAKE: bytes below which one thread is quicker


@always_inline
def copy_bytes(y: Bytes, x: Bytes, n: Int):
    """n bytes."""
    var i = 0
    while i + 64 <= n:
        (y + i).store((x + i).load[width=64]())
        i += 64
    while i + 8 <= n:
        (y + i).store((x + i).load[width=8]())
        i += 8
    while i < n:
        (y + i).store((x + i).load())
        i += 1


@no_inline
def concat_run(y: Bytes, sources: Sources, widths: Widths, count: Int, rows: Int):
    """Row by row, `widths[i]` bytes of each of `count` sources after one another."""
    var stride = 0
    for i in range(count):
        stride += widths[unsafe_offset=i]
    var threads = Team().parts(rows * stride, SMALL, rows * stride)
    var by_rows = rows >= 4 * threads  # else each thread copies its part of every piece

    def work(t: Int) {imm}:
        var first = rows * t // threads if by_rows else 0
        var last = rows * (t + 1) // threads if by_rows else rows
        for row in range(first, last):
            var place = y + row * stride
            for i in range(count):
                var width = widths[unsafe_offset=i]
                var lo = 0 if by_rows else width * t // threads
                var hi = width if by_rows else width * (t + 1) // threads
                copy_bytes(place + lo, sources[unsafe_offset=i] + (row * width + lo), hi - lo)
                place += width

    if threads == 1:
        work(0)
    else:
        sync_parallelize(work, threads)


@extensibility.register("fx_concat")
struct Concat:
    """Output [rows, the sum of all n] of operands [rows, n]."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        output: OutputTensor[rank=2, ...],
        inputs: InputVariadicTensors[dtype=output.dtype, rank=2, ...],
        ctx: DeviceContext,
    ) raises:
        comptime N = inputs.size
        comptime WIDTH = size_of[Scalar[output.dtype]]()
        var y = rebind[Bytes](output.unsafe_ptr().unsafe_bitcast[UInt8]())
        var sources = alloc[Bytes](N)
        var widths = alloc[Int](N)
        comptime for i in range(N):
            sources[unsafe_offset=i] = rebind[Bytes](inputs[i].unsafe_ptr().unsafe_bitcast[UInt8]())
            widths[unsafe_offset=i] = Int(inputs[i].dim_size(1)) * WIDTH
        concat_run(y, rebind[Sources](sources), rebind[Widths](widths), N, Int(output.dim_size(0)))
        sources.free()
        widths.free()
