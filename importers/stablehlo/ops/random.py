"""rng_bit_generator: Threefry-2x32 and Philox-4x32, bit by bit as XLA defines them; rng is refused."""

from __future__ import annotations

import numpy as np

from fornaxc.importers.stablehlo.context import OpContext, Refused
from fornaxc.importers.stablehlo.ops.bits import bitcast
from fornaxc.importers.stablehlo.registry import stablehlo_op
from fornaxc.importers.stablehlo.types import Operand
from fornaxc.ir import compose as c
from fornaxc.ir.builder import GraphBuilder
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
    """The state is u64 [2] (key, counter) or [3] (key, 128-bit counter); DEFAULT is Philox for 3 words, else Threefry."""
    info = ctx.result_info(1)
    ctx.refuse_unless(None not in info.shape, "random bits of dynamic shape")
    shape = tuple(0 if d is None else d for d in info.shape)
    state = ctx.value(0)
    words = state.type.shape[0]
    ctx.refuse_unless(state.type.dtype is U64 and words in (2, 3), f"a random state of type {state.type}")
    algorithm = ctx.word("rng_algorithm")
    if algorithm == "DEFAULT":
        algorithm = "PHILOX" if words == 3 else "THREE_FRY"
    bits = info.dtype.bits
    ctx.refuse_unless(bits in (8, 16, 32, 64) and info.dtype is not DType.BOOL, f"random bits as {info.dtype}")
    count = int(np.prod(shape, dtype=np.int64))
    if algorithm == "THREE_FRY":
        after, flat = _threefry(ctx.b, state, shape, bits)
    else:
        after, flat = _philox(ctx.b, state, count, bits)
    values = c.reshape(ctx.b, flat, shape)
    return [after, bitcast(ctx.b, values, info.dtype)]


def _u64(b: GraphBuilder, x: Value, index: int) -> Value:
    return c.reshape(b, c.slice_axis(b, x, 0, index, 1), ())


def _halves(b: GraphBuilder, x: Value) -> tuple[Value, Value]:
    """The low and the high 32 bits of u64 numbers."""
    low = c.cast(b, c.with_scalar(b, "and", x, 0xFFFFFFFF), U32)
    return low, c.cast(b, c.with_scalar(b, "shr", x, 32), U32)


def _whole(b: GraphBuilder, low: Value, high: Value) -> Value:
    return b.emit(Binary("or"), c.cast(b, low, U64), c.with_scalar(b, "shl", c.cast(b, high, U64), 32))


def _threefry(b: GraphBuilder, state: Value, shape: tuple[int, ...], bits: int) -> tuple[Value, Value]:
    """One block of two words for each 64-bit result, or for two results of 32 bits: the first and the second half of an axis."""
    key = _halves(b, _u64(b, state, 0))
    start = _u64(b, state, 1)
    count = int(np.prod(shape, dtype=np.int64))
    if bits == 64:
        counters = _count_from(b, start, count)
        x = _rounds(b, key, *_halves(b, counters))
        used, flat = count, _whole(b, *x)
    else:
        axis, lengths = _split(shape)
        half = [(n + 1) // 2 if i == axis else n for i, n in enumerate(lengths)]
        blocks = int(np.prod(half, dtype=np.int64))
        x = _rounds(b, key, *_halves(b, _count_from(b, start, blocks)))
        pair = [c.reshape(b, v, half) for v in x]
        joined = c.slice_axis(b, c.concat(b, pair, axis), axis, 0, lengths[axis])
        used, flat = blocks, c.reshape(b, joined, (count,))
        if bits < 32:
            flat = c.cast(b, c.with_scalar(b, "and", flat, (1 << bits) - 1), DType.U8 if bits == 8 else DType.U16)
    moved = b.emit(Binary("add"), start, c.scalar(b, used, U64))
    words = [c.reshape(b, _u64(b, state, 0), (1,)), c.reshape(b, moved, (1,))]
    return c.concat(b, words, 0), flat


def _split(shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The axis whose halves the two words fill: the first even one, else the longest; a scalar counts as one element."""
    if not shape:
        return 0, (1,)
    even = [i for i, n in enumerate(shape) if n % 2 == 0 and n]
    return (even[0] if even else int(np.argmax(shape))), shape


def _count_from(b: GraphBuilder, start: Value, count: int) -> Value:
    line = b.emit(Iota((count,), 0, U64))
    return c.binary(b, "add", line, start)


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


def _philox(b: GraphBuilder, state: Value, count: int, bits: int) -> tuple[Value, Value]:
    """One block of four words for each two 64-bit results or four of 32 bits; the counter has 128 bits."""
    words = state.type.shape[0]
    per_block = 2 if bits == 64 else 4
    blocks = -(-count // per_block)
    key = _halves(b, _u64(b, state, 0))
    low = _u64(b, state, 1)
    high = _u64(b, state, 2) if words == 3 else c.scalar(b, 0, U64)
    lows = _count_from(b, low, blocks)
    carry = c.cast(b, c.compare(b, "lt", lows, low), U64)
    highs = c.binary(b, "add", carry, high)
    x = [*_halves(b, lows), *_halves(b, highs)]
    x = _philox_rounds(b, key, x)
    results = [_whole(b, x[0], x[1]), _whole(b, x[2], x[3])] if bits == 64 else x
    stacked = c.concat(b, [c.reshape(b, v, (blocks, 1)) for v in results], 1)
    flat = c.slice_axis(b, c.reshape(b, stacked, (blocks * per_block,)), 0, 0, count)
    if bits < 32:
        flat = c.cast(b, c.with_scalar(b, "and", flat, (1 << bits) - 1), DType.U8 if bits == 8 else DType.U16)
    moved = b.emit(Binary("add"), low, c.scalar(b, blocks, U64))
    over = c.cast(b, c.compare(b, "lt", moved, low), U64)
    after = [_u64(b, state, 0), moved]
    if words == 3:
        after.append(b.emit(Binary("add"), high, over))
    return c.concat(b, [c.reshape(b, v, (1,)) for v in after], 0), flat


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
