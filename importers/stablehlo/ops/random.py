"""rng_bit_generator: Threefry-2x32 and Philox-4x32, bit by bit as XLA defines them; rng is refused."""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.importers.stablehlo.context import Invalid, OpContext, Refused
from fornaxc.importers.stablehlo.ops.bits import bitcast
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Operand
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, ceildiv, product, static
from fornaxc.ir.graph import Value
from fornaxc.ir.ops import Binary, Iota
from fornaxc.ir.types import DType

U32, U64 = DType.U32, DType.U64
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_PHILOX = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


@stablehlo_op("stablehlo.rng")
def rng(ctx: OpContext) -> Operand:
    raise Refused("random numbers that no state determines; use rng_bit_generator")


@stablehlo_op("stablehlo.rng_bit_generator")
def rng_bit_generator(ctx: OpContext) -> list[Operand]:
    """The state is u64 [2] (key, counter), or for Philox also [3] (key, 128-bit counter). DEFAULT is Philox, as XLA's CPU and GPU have it."""
    shape = ctx.result_info(1).shape
    ctx.refuse_unless(None not in shape, "random bits of dynamic shape")
    return _random_bits(ctx, [0 if d is None else d for d in shape])


@stablehlo_op("stablehlo.dynamic_rng_bit_generator")
def dynamic_rng_bit_generator(ctx: OpContext) -> list[Operand]:
    """The custom call by which jax writes random bits of symbolic shape, the second operand: the bits of the static form."""
    shape = ctx.dims(ctx.value(1), "the shape of random bits")
    declared = ctx.result_info(1).shape
    if len(shape) != len(declared):
        raise Invalid(f"random bits of {len(shape)} axes are declared with {len(declared)}")
    return _random_bits(ctx, [s if d is None else d for s, d in zip(shape, declared, strict=True)])


def _random_bits(ctx: OpContext, shape: Sequence[Dim]) -> list[Operand]:
    b, state, dtype = ctx.b, ctx.value(0), ctx.result_info(1).dtype
    philox = ctx.word("rng_algorithm") != "THREE_FRY"
    words = state.type.shape[0] if state.type.rank == 1 else 0
    fits = state.type.dtype is U64 and words in ((2, 3) if philox else (2,))
    ctx.refuse_unless(fits, f"a random state of type {state.type}")
    ctx.refuse_unless(dtype.bits in (8, 16, 32, 64) and dtype is not DType.BOOL, f"random bits as {dtype}")
    after, flat = (_philox if philox else _threefry)(b, state, shape, dtype.bits)
    return [after, bitcast(b, c.reshape(b, flat, shape), dtype)]


def _u64(b: GraphBuilder, x: Value, index: int) -> Value:
    return c.reshape(b, c.slice_axis(b, x, 0, index, 1), ())


def _halves(b: GraphBuilder, x: Value) -> tuple[Value, Value]:
    """The low and the high 32 bits of u64 numbers."""
    low = c.cast(b, c.with_scalar(b, "and", x, 0xFFFFFFFF), U32)
    return low, c.cast(b, c.with_scalar(b, "shr", x, 32), U32)


def _whole(b: GraphBuilder, low: Value, high: Value) -> Value:
    return b.emit(Binary("or"), c.cast(b, low, U64), c.with_scalar(b, "shl", c.cast(b, high, U64), 32))


def _threefry(b: GraphBuilder, state: Value, shape: Sequence[Dim], bits: int) -> tuple[Value, Value]:
    """One block of two words for each 64-bit result, or for two results of 32 bits, neighbours along an axis."""
    key = _halves(b, _u64(b, state, 0))
    start = _u64(b, state, 1)
    count = product(shape)
    if bits == 64:
        counters = _count_from(b, start, count)
        x = _rounds(b, key, *_halves(b, counters))
        used, flat = count, _whole(b, *x)
    else:
        axis, lengths = _split(shape)
        half = [ceildiv(n, 2) if i == axis else n for i, n in enumerate(lengths)]
        used = product(half)
        x = _rounds(b, key, *_halves(b, _count_from(b, start, used)))
        pair = c.concat(b, [c.unsqueeze(b, c.reshape(b, v, half), (axis + 1,)) for v in x], axis + 1)
        paired = c.reshape(b, pair, [n * 2 if i == axis else n for i, n in enumerate(half)])
        joined = c.slice_axis(b, paired, axis, 0, lengths[axis])
        flat = _narrowed(b, c.reshape(b, joined, (count,)), bits)
    words = [c.reshape(b, v, (1,)) for v in (_u64(b, state, 0), _moved(b, start, used))]
    return c.concat(b, words, 0), flat


def _split(shape: Sequence[Dim]) -> tuple[int, Sequence[Dim]]:
    """The axis along which the two words alternate: the first even one, else the longest; a scalar counts as one element.

    Refuses a symbolic size that decides this.
    """
    if not shape:
        return 0, (1,)
    for axis, size in enumerate(shape):
        parity = size % 2
        if not isinstance(parity, int):
            raise Refused(f"Threefry bits of the size {size}, which must be known: words alternate along an even axis")
        if parity == 0 and size != 0:
            return axis, shape
    longest = max((static(d) for d in shape if isinstance(d, int)), default=0)
    for size in shape:
        if not isinstance(size, int):
            raise Refused(
                f"Threefry bits of the size {size}, which must be known: words alternate along the longest axis"
            )
    return list(shape).index(longest), shape


def _count_from(b: GraphBuilder, start: Value, count: Dim) -> Value:
    line = b.emit(Iota((count,), 0, U64))
    return c.binary(b, "add", line, start)


def _moved(b: GraphBuilder, counter: Value, blocks: Dim) -> Value:
    """The counter after this many blocks."""
    used = c.cast(b, c.reshape(b, b.dims((blocks,)), ()), U64)
    return b.emit(Binary("add"), counter, used)


def _narrowed(b: GraphBuilder, words: Value, bits: int) -> Value:
    """The low bits of u32 numbers, where fewer than 32 are wanted."""
    if bits == 32:
        return words
    return c.cast(b, c.with_scalar(b, "and", words, (1 << bits) - 1), DType.U8 if bits == 8 else DType.U16)


def _rounds(b: GraphBuilder, key: tuple[Value, Value], x0: Value, x1: Value) -> tuple[Value, Value]:
    """Threefry-2x32 with 20 rounds."""
    third = c.with_scalar(b, "xor", b.emit(Binary("xor"), *key), _PARITY)
    keys = (key[0], key[1], third)
    x0, x1 = c.binary(b, "add", x0, keys[0]), c.binary(b, "add", x1, keys[1])
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = b.emit(Binary("add"), x0, x1)
            x1 = b.emit(Binary("xor"), _rotate(b, x1, rotation), x0)
        x0 = c.binary(b, "add", x0, keys[(group + 1) % 3])
        x1 = c.with_scalar(b, "add", c.binary(b, "add", x1, keys[(group + 2) % 3]), group + 1)
    return x0, x1


def _rotate(b: GraphBuilder, x: Value, distance: int) -> Value:
    return b.emit(Binary("or"), c.with_scalar(b, "shl", x, distance), c.with_scalar(b, "shr", x, 32 - distance))


def _philox(b: GraphBuilder, state: Value, shape: Sequence[Dim], bits: int) -> tuple[Value, Value]:
    """One block of four words for each two 64-bit results or four of 32 bits.

    The counter has 128 bits; the upper half of one that the state holds in 64 bits is the key, as in XLA.
    """
    words, count = state.type.shape[0], product(shape)
    per_block = 2 if bits == 64 else 4
    blocks = ceildiv(count, per_block)
    first, low = _u64(b, state, 0), _u64(b, state, 1)
    high = _u64(b, state, 2) if words == 3 else first
    lows = _count_from(b, low, blocks)
    carry = c.cast(b, c.compare(b, "lt", lows, low), U64)
    highs = c.binary(b, "add", carry, high)
    x = _philox_rounds(b, _halves(b, first), [*_halves(b, lows), *_halves(b, highs)])
    results = [_whole(b, x[0], x[1]), _whole(b, x[2], x[3])] if bits == 64 else x
    stacked = c.concat(b, [c.reshape(b, v, (blocks, 1)) for v in results], 1)
    flat = c.slice_axis(b, c.reshape(b, stacked, (blocks * per_block,)), 0, 0, count)
    moved = _moved(b, low, blocks)
    after = [first, moved]
    if words == 3:
        after.append(b.emit(Binary("add"), high, c.cast(b, c.compare(b, "lt", moved, low), U64)))
    return c.concat(b, [c.reshape(b, v, (1,)) for v in after], 0), flat if bits == 64 else _narrowed(b, flat, bits)


def _philox_rounds(b: GraphBuilder, key: tuple[Value, Value], x: list[Value]) -> list[Value]:
    """Philox-4x32 with 10 rounds."""
    k0, k1 = key
    for _ in range(10):
        low0, high0 = _halves(b, c.with_scalar(b, "mul", c.cast(b, x[0], U64), _PHILOX[0]))
        low1, high1 = _halves(b, c.with_scalar(b, "mul", c.cast(b, x[2], U64), _PHILOX[1]))
        x = [
            c.binary(b, "xor", b.emit(Binary("xor"), high1, x[1]), k0),
            low1,
            c.binary(b, "xor", b.emit(Binary("xor"), high0, x[3]), k1),
            low0,
        ]
        k0, k1 = c.with_scalar(b, "add", k0, _WEYL[0]), c.with_scalar(b, "add", k1, _WEYL[1])
    return x
