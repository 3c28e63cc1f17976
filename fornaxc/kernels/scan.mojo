"""Running sums and products, and the k largest or smallest, on the CPU; NaN and ties as fornaxc defines them."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from std.math import isnan
from std.memory import alloc
from .team import Team

comptime SMALL = 4096  # times WAKE: elements to sort below which one thread is quicker


@extensibility.register("fx_cumulative")
struct Cumulative:
    """Along the middle axis of [outer, n, inner]: a sum, or a product where `prod`."""

    @staticmethod
    def execute[
        prod: Int, exclusive: Int, reverse: Int, target: StaticString
    ](output: OutputTensor[rank=3, ...], x: InputTensor[dtype=output.dtype, rank=3, ...], ctx: DeviceContext) raises:
        var n = Int(x.dim_size(1))
        var inner = Int(x.dim_size(2))
        var src = x.unsafe_ptr()
        var dst = output.unsafe_ptr()
        for o in range(Int(x.dim_size(0))):
            for i in range(inner):
                var total = Scalar[output.dtype](prod)
                for step in range(n):
                    var t = n - 1 - step if reverse != 0 else step
                    var at = (o * n + t) * inner + i
                    var before = total
                    comptime if prod != 0:
                        total *= src.unsafe_load(at)
                    else:
                        total += src.unsafe_load(at)
                    dst.unsafe_store(at, before if exclusive != 0 else total)


def _before[dtype: DType, largest: Int](a: Scalar[dtype], b: Scalar[dtype]) -> Bool:
    """True where `a` sorts strictly before `b`; NaN is the largest."""
    comptime if dtype.is_floating_point():
        comptime if largest != 0:
            return (isnan(a) and not isnan(b)) or a > b
        return (isnan(b) and not isnan(a)) or a < b
    comptime if largest != 0:
        return a > b
    return a < b


@extensibility.register("fx_top_k")
struct TopK:
    """The first k of the middle axis of [outer, n, inner] in sorted order; ties to the lower index."""

    @staticmethod
    def execute[
        largest: Int, target: StaticString
    ](
        values: OutputTensor[rank=3, ...],
        places: OutputTensor[dtype=DType.int64, rank=3, ...],
        x: InputTensor[dtype=values.dtype, rank=3, ...],
        ctx: DeviceContext,
    ) raises:
        var n = Int(x.dim_size(1))
        var k = Int(values.dim_size(1))
        var inner = Int(x.dim_size(2))
        var lanes = Int(x.dim_size(0)) * inner
        var src = x.unsafe_ptr()
        var dst = values.unsafe_ptr()
        var idx = places.unsafe_ptr()

        def lane(which: Int) {imm}:
            var base = (which // inner) * n * inner + which % inner
            var target_base = (which // inner) * k * inner + which % inner
            var order = alloc[Int](n)
            var other = alloc[Int](n)
            for i in range(n):
                order.unsafe_store(i, i)
            var width = 1
            while width < n:
                var start = 0
                while start < n:
                    var middle = min(start + width, n)
                    var end = min(start + 2 * width, n)
                    var a = start
                    var b = middle
                    for at in range(start, end):
                        var take_right = a >= middle
                        if not take_right and b < end:
                            take_right = _before[values.dtype, largest](src.unsafe_load(base + order.unsafe_load(b) * inner), src.unsafe_load(base + order.unsafe_load(a) * inner))
                        if take_right:
                            other.unsafe_store(at, order.unsafe_load(b))
                            b += 1
                        else:
                            other.unsafe_store(at, order.unsafe_load(a))
                            a += 1
                    start += 2 * width
                for i in range(n):
                    order.unsafe_store(i, other.unsafe_load(i))
                width *= 2
            for i in range(k):
                dst.unsafe_store(target_base + i * inner, src.unsafe_load(base + order.unsafe_load(i) * inner))
                idx.unsafe_store(target_base + i * inner, Int64(order.unsafe_load(i)))
            order.unsafe_free()
            other.unsafe_free()

        var workers = Team().parts(lanes * n, SMALL, lanes)

        def work(t: Int) {imm}:
            for which in range(lanes * t // workers, lanes * (t + 1) // workers):
                lane(which)

        if workers == 1:
            work(0)
        else:
            sync_parallelize(work, workers)
