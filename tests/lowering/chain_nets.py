"""Random networks of convolutions, pools, concatenations, shuffles and sums, and a chain's table carried out in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, static, substitute, symbol
from fornaxc.ir.graph import Array, Graph, Value
from fornaxc.ir.ops import (
    Attention,
    Conv,
    ConvNhwc,
    Gather,
    LayerNorm,
    LocalResponseNorm,
    Pad,
    Pool,
    RmsNorm,
    Slice,
    Softmax,
    Unary,
)
from fornaxc.ir.ops.attention import LAYOUTS
from fornaxc.ir.ops.packed import ACTIVATIONS, packed_size
from fornaxc.ir.types import DType, TensorType
from fornaxc.lowering.chain_steps import Table

COLUMNS, NUMBERS = 44, 3


class Net:
    """Builds one network; images are [N, C, H, W]."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = GraphBuilder()

    def weight(self, *shape: int) -> Value:
        array = (self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        return self.b.weight(TensorType(DType.F32, shape), lambda: array)

    def conv(self, x: Value, filters: int, size: int, stride: int = 1, groups: int = 1) -> Value:
        channels = static(x.type.shape[1])
        pad = (size // 2, size // 2)
        w = self.weight(filters, channels // groups, size, size)
        y = self.b.emit(Conv((stride, stride), pad, pad, (1, 1), groups), x, w)
        bias = compose.reshape(self.b, self.weight(filters), (1, filters, 1, 1))
        return compose.binary(self.b, "add", y, bias)

    def relu(self, x: Value) -> Value:
        return compose.unary(self.b, "relu", x)

    def block(self, x: Value) -> Value:
        channels = static(x.type.shape[1])
        match self.rng.integers(20):
            case 0:  # as in DenseNet
                for _ in range(self.rng.integers(1, 4)):
                    y = self.relu(self.conv(self.relu(self.conv(x, 8, 1)), 4, 3))
                    x = compose.concat(self.b, [x, y] if self.rng.integers(2) else [y, x], 1)
                return x
            case 1:  # with a residual
                return self.relu(
                    compose.binary(self.b, "add", self.conv(self.relu(self.conv(x, 8, 1)), channels, 3), x)
                )
            case 2:  # as in Inception
                pool = self.b.emit(Pool("max", (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)), x)
                return compose.concat(self.b, [self.conv(x, 5, 1), self.relu(self.conv(x, 16, 3)), pool], 1)
            case 3:  # channels shuffled after groups
                return self.conv(self.shuffled(self.relu(self.conv(x, 2 * channels, 1))), 12, 1)
            case 4:
                return self.relu(self.conv(x, channels, 3, groups=channels))
            case 5:  # a gate for each channel
                gate = self.relu(self.conv(compose.reduce(self.b, "mean", x, (2, 3)), 4, 1))
                return compose.binary(self.b, "mul", x, compose.unary(self.b, "sigmoid", self.conv(gate, channels, 1)))
            case 6:  # numbers after an activation
                y = compose.with_scalar(self.b, "mul", compose.unary(self.b, "tanh", self.conv(x, channels, 3)), 0.5)
                return compose.with_scalar(self.b, "add", y, 0.25)
            case 8:  # a scale that the convolution itself decides
                y = self.conv(x, channels, 3)
                total = compose.reduce(self.b, "mean", self.conv(y, 1, 1), (2, 3))
                return self.conv(compose.binary(self.b, "mul", y, total), channels, 1) if self.rng.integers(2) else y
            case 7:  # a mean that counts no padding
                y = self.b.emit(Pool("sum", (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)), x)
                ones = compose.full_like(self.b, 1.0, x)
                count = self.b.emit(Pool("sum", (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)), ones)
                return self.conv(compose.binary(self.b, "div", y, count), channels, 1)
            case 9:  # what the whole image says, beside each pixel
                mean = self.conv(compose.reduce(self.b, "mean", x, (2, 3)), 3, 1)
                n, _, *image = x.type.shape
                return self.conv(compose.concat(self.b, [compose.expand(self.b, mean, (n, 3, *image)), x], 1), 8, 1)
            case 10:  # a weight of one number a channel that no convolution takes in
                scale = compose.reshape(self.b, self.weight(channels), (1, channels, 1, 1))
                return self.conv(compose.binary(self.b, "mul", self.relu(x), scale), 8, 1)
            case 11:  # split, and joined with what follows from a part, as in YOLO
                y = self.relu(self.conv(x, 12, 1))
                parts = [self.cut(y, 1, 0, 6), self.cut(y, 1, 6, 6)]
                for _ in range(self.rng.integers(1, 3)):
                    z = self.relu(self.conv(parts[-1], 6, 3))
                    parts.append(compose.binary(self.b, "add", parts[-1], z) if self.rng.integers(2) else z)
                return self.conv(compose.concat(self.b, parts if self.rng.integers(3) else parts[1:], 1), 10, 1)
            case 12:  # a part of the image, forwards or backwards
                axis = int(self.rng.integers(1, 4))
                size = static(x.type.shape[axis])
                if axis > 1 and size > 2 and self.rng.integers(2):
                    return self.conv(self.cut(x, axis, size - 1, (size + 1) // 2, -2), 8, 1)
                return self.conv(self.cut(x, axis, size // 3, size - size // 3), 8, 1)
            case 13:  # beside what is smaller, upsampled
                small = self.b.emit(Pool("max", (1, 1), (2, 2), (0, 0), (0, 0), (1, 1)), x)
                small = self.doubled(self.conv(small, 5, 1) if self.rng.integers(2) else small)
                for axis in (2, 3):
                    small = self.cut(small, axis, 0, static(x.type.shape[axis]))
                return self.conv(compose.concat(self.b, [x, small], 1), 8, 1)
            case 14:  # a frame, perhaps with gaps between pixels
                low, high = ((0, 0, *(int(self.rng.integers(3)) for _ in range(2))) for _ in range(2))
                interior = (0, 0, 1, 0) if self.rng.integers(2) else ()
                fill = compose.scalar(self.b, 0.5, DType.F32)
                y = self.b.emit(Pad(low, high, "constant", interior), x, fill)
                return self.b.emit(Pool("max", (2, 2), (2, 2), (0, 0), (0, 0), (1, 1)), self.conv(y, 8, 3))
            case 15:  # channels that become pixels
                n, _, h, w = x.type.shape
                y = self.conv(x, 8, 1)
                parts = compose.reshape(self.b, y, (n, 2, 2, 2, h, w))
                moved = compose.transpose(self.b, parts, (0, 3, 4, 1, 5, 2))
                y = compose.reshape(self.b, moved, (n, 2, 2 * static(h), 2 * static(w)))
                return self.b.emit(Pool("max", (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)), self.conv(y, 8, 3))
            case 16:  # local response normalisation
                size = int(self.rng.integers(1, 6))
                around = ((size - 1) // 2, 0, 0), (size // 2, 0, 0)
                squares = self.b.emit(
                    Pool("sum", (size, 1, 1), (1, 1, 1), *around, (1, 1, 1)), compose.binary(self.b, "mul", x, x)
                )
                base = compose.with_scalar(self.b, "add", compose.with_scalar(self.b, "mul", squares, 0.2), 1.5)
                power = compose.with_scalar(self.b, "pow", base, float(self.rng.choice([0.75, 0.6])))
                return self.conv(compose.binary(self.b, "div", x, power), 8, 1)
            case 18:  # a transposed convolution whose windows do not overlap
                zero = compose.scalar(self.b, 0.0, DType.F32)
                sides = (0, 0, 1, 1)
                y = self.b.emit(Pad(sides, sides, "constant", sides), x, zero)
                y = self.b.emit(Conv((1, 1), (0, 0), (0, 0), (1, 1), 1), y, self.weight(6, channels, 2, 2))
                return self.b.emit(Pool("max", (2, 2), (2, 2), (0, 0), (0, 0), (1, 1)), self.conv(self.relu(y), 8, 3))
            case 17:  # attention over the pixels
                n, _, h, w = x.type.shape
                flat = (n, static(h) * static(w))
                moved = (compose.transpose(self.b, self.conv(x, width, 1), (0, 2, 3, 1)) for width in (12, 12, 8))
                q, k, v = (compose.reshape(self.b, y, (*flat, 2, static(y.type.shape[3]) // 2)) for y in moved)
                scale = compose.scalar(self.b, 0.4, DType.F32)
                y = self.b.emit(Attention("blhc", "blhc", "blhc", "blhc"), q, k, v, scale)
                y = compose.reshape(self.b, y, (*flat, 8))
                y = self.b.emit(LayerNorm(2, 1e-5), y, self.weight(8), self.weight(8))
                y = compose.reshape(self.b, compose.unary(self.b, "gelu", y), (n, h, w, 8))
                return self.conv(compose.transpose(self.b, y, (0, 3, 1, 2)), channels, 3)
            case _:
                if static(x.type.shape[2]) < 4:
                    return self.conv(x, 6, 3)
                return self.b.emit(Pool("max", (2, 2), (2, 2), (0, 0), (0, 0), (1, 1)), x)

    def cut(self, x: Value, axis: int, start: int, size: Dim, step: int = 1) -> Value:
        rank = len(x.type.shape)
        sizes = tuple(size if i == axis else d for i, d in enumerate(x.type.shape))
        starts, steps = (
            [given if i == axis else plain for i in range(rank)] for given, plain in ((start, 0), (step, 1))
        )
        return self.b.emit(Slice(tuple(starts), sizes, tuple(steps)), x)

    def doubled(self, x: Value) -> Value:
        """To the nearest pixel, as the importers write it."""
        for axis in (2, 3):
            rows = np.repeat(np.arange(static(x.type.shape[axis])), 2)
            x = self.b.emit(Gather(axis), x, self.b.literal(rows))
        return x

    def shuffled(self, x: Value) -> Value:
        n, c, h, w = x.type.shape[0], *(static(d) for d in x.type.shape[1:])
        parts = compose.reshape(self.b, x, (n, 2, c // 2, h, w))
        return compose.reshape(self.b, compose.transpose(self.b, parts, (0, 2, 1, 3, 4)), (n, c, h, w))


def random_net(seed: int, blocks: int = 6, *, symbolic: bool = False, size: int = 0) -> tuple[Graph, Array]:
    """A network, some of whose values in between are outputs too, and an input of `size`, or a small one. The number of images is symbolic where that is asked for."""
    net = Net(seed)
    size = size or int(net.rng.integers(5, 12))
    shape = (int(net.rng.integers(1, 3)), 3, size, size + 1)
    x = net.b.input(TensorType(DType.F32, (symbol("n"), *shape[1:]) if symbolic else shape), "x")
    y = net.relu(net.conv(x, int(net.rng.choice([8, 20])), 3, stride=int(net.rng.integers(1, 3))))
    outputs = []
    for _ in range(blocks):
        y = net.block(y)
        if net.rng.integers(4) == 0:
            outputs.append(y)
    outputs = list(dict.fromkeys([*outputs, y]))
    return net.b.finish(outputs, [f"y{i}" for i in range(len(outputs))]), net.rng.standard_normal(shape).astype(
        np.float32
    )


def carried_out(table: Table, buffers: Sequence[Array], sizes: Mapping[str, int]) -> None:
    """The steps of a table on `buffers` (1-D), as `chain_steps` of kernels/chain.mojo has them. `sizes` are those of symbols."""
    rows, terms = table.rows.copy(), [static(substitute(d, sizes)) for d in table.terms]
    for at, term, factor in table.patches:
        rows[at] += terms[term] * factor
    for row, numbers in zip(rows.reshape(-1, COLUMNS), table.floats.reshape(-1, NUMBERS), strict=True):
        _carry_out(row, numbers, buffers)


@dataclass(frozen=True)
class At:
    """A place: a buffer, where it begins there, and how far its pixels are apart."""

    buffer: int
    offset: int
    stride: int


def _carry_out(row: Array, floats: Array, buffers: Sequence[Array]) -> None:
    kind, numbers = int(row[0]), [int(v) for v in row]
    y, x, w, b, r = (At(*numbers[i : i + 3]) for i in range(1, 16, 3))
    n, h, wide, c, ho, wo, k = numbers[16:23]
    geometry = numbers[23:34]
    match kind:
        case 0:
            source = _pixels(buffers, x, n * h * wide, c).reshape(n, h, wide, c)
            others = [_pixels(buffers, r, n * ho * wo, k).reshape(n, ho, wo, k)] if geometry[10] else []
            size = packed_size(k, c // geometry[8], geometry[0] * geometry[1], geometry[8])
            filters, bias = _pixels(buffers, At(w.buffer, w.offset, size), 1, size)[0], _line(buffers, b, k)
            result = _convolution(geometry, (floats[0], floats[1]), (h, wide), (ho, wo), k).evaluate(
                source, filters, bias, *others
            )[0]
            for flag, factor in ((34, np.multiply), (37, np.add)):
                if numbers[flag]:
                    result = factor(result, buffers[numbers[flag + 1]][numbers[flag + 2]])
            _pixels(buffers, y, n * ho * wo, k)[:] = result.reshape(n * ho * wo, k)
        case 1:
            source = _pixels(buffers, x, n * h * wide, c).reshape(n, h, wide, c)
            window, strides, low, dilations = (tuple(geometry[i : i + 2]) for i in (0, 2, 4, 6))
            high = _high((ho, wo), (h, wide), window, strides, dilations, low)
            pool = Pool("sum" if geometry[8] else "max", window, strides, low, high, dilations, True)
            _pixels(buffers, y, n * ho * wo, c)[:] = pool.evaluate(source)[0].reshape(n * ho * wo, c)
        case 2:
            loops = (n, h, wide, ho, wo, c)
            _strided(buffers, y, loops, (*geometry[:5], 1))[:] = _strided(
                buffers, x, loops, (*geometry[5:10], 1)
            ).copy()
        case 3:
            source = _pixels(buffers, At(x.buffer, x.offset, wide), n * h, wide).reshape(n, h, wide)
            target = _pixels(buffers, At(y.buffer, y.offset, h), n * wide, h)
            target[:] = source.transpose(0, 2, 1).reshape(n * wide, h)
        case 4:
            operands = (
                _spread(buffers, at, (n, h, wide, c), steps) for at, steps in ((x, geometry[2:6]), (w, geometry[6:10]))
            )
            found = _arithmetic(geometry[0], geometry[1], *operands)
            _pixels(buffers, y, n * h * wide, c)[:] = found.reshape(n * h * wide, c)
        case 5:
            total = _pixels(buffers, At(x.buffer, x.offset, c), n * h, c).reshape(n, h, c).sum(1)
            _pixels(buffers, At(y.buffer, y.offset, c), n, c)[:] = total / np.float32(h if geometry[0] else 1)
        case 6:
            alpha, beta, bias = (float(v) for v in floats)
            norm = LocalResponseNorm(geometry[0], geometry[1], alpha, beta, bias)
            _pixels(buffers, y, n * h, c)[:] = norm.evaluate(_pixels(buffers, x, n * h, c))[0]
        case 7:
            source = _line(buffers, x, n * h).reshape(n, h)
            norm = LayerNorm(1, float(floats[0])) if geometry[0] else RmsNorm(1, float(floats[0]))
            weights = [_line(buffers, at, h) for at in ((w, b) if geometry[0] else (w,))]
            _line(buffers, y, n * h)[:] = norm.evaluate(source, *weights)[0].reshape(-1)
        case 8:
            source = _line(buffers, x, n * h).reshape(n, h)
            _line(buffers, y, n * h)[:] = Softmax(1, bool(geometry[0])).evaluate(source)[0].reshape(-1)
        case 9:
            _attend(numbers, buffers)


def _attend(row: Sequence[int], buffers: Sequence[Array]) -> None:
    y, q, k, v, mask = (At(*row[i : i + 3]) for i in range(1, 16, 3))
    batch, heads, queries, channels, shared, keys, width = row[16:23]
    names, (*_, kind, spare), apart = list(LAYOUTS), row[23:29], row[29:33]
    layouts = [names[code] for code in row[23:27]]

    def laid(at: At, shape: tuple[int, ...], layout: str) -> Array:
        sizes = tuple([shape[i] for i in LAYOUTS[layout]])
        return _line(buffers, at, int(np.prod(sizes))).reshape(sizes)

    arrays = [
        laid(q, (batch, heads, queries, channels), layouts[0]),
        laid(k, (batch, shared, keys, channels), layouts[1]),
        laid(v, (batch, shared, keys, width), layouts[2]),
    ]
    scale, fill, nan = (buffers[row[i + 1]][row[i + 2]] if row[i] else np.float32(0) for i in (34, 37, 40))
    assert row[34]
    arrays.append(scale)
    if kind:
        scores = _spread(buffers, mask, (batch, heads, queries, keys), apart)
        arrays += [scores] if kind == 1 else [scores != 0, fill]
    found = Attention(*layouts, bool(spare)).evaluate(*arrays, *([nan] if spare else []))
    _line(buffers, y, batch * heads * queries * width)[:] = found[0].reshape(-1)


def _strided(buffers: Sequence[Array], at: At, shape: Sequence[int], steps: Sequence[int]) -> Array:
    """A view of an array whose elements are so far apart on each axis."""
    far = [(size - 1) * step for size, step in zip(shape, steps, strict=True)]
    assert at.offset + sum(d for d in far if d < 0) >= 0
    assert at.offset + sum(d for d in far if d > 0) < buffers[at.buffer].size
    return np.lib.stride_tricks.as_strided(buffers[at.buffer][at.offset :], shape, [4 * step for step in steps])


def _pixels(buffers: Sequence[Array], at: At, count: int, width: int) -> Array:
    """A view of `width` numbers of each of `count` pixels."""
    assert width <= at.stride or count <= 1
    assert at.offset + (count - 1) * at.stride + width <= buffers[at.buffer].size
    return np.lib.stride_tricks.as_strided(buffers[at.buffer][at.offset :], (count, width), (4 * at.stride, 4))


def _line(buffers: Sequence[Array], at: At, size: int) -> Array:
    return buffers[at.buffer][at.offset : at.offset + size]


def _spread(buffers: Sequence[Array], at: At, shape: Sequence[int], apart: Sequence[int]) -> Array:
    return np.lib.stride_tricks.as_strided(buffers[at.buffer][at.offset :], shape, [4 * d for d in apart])


def _arithmetic(operation: int, activation: int, x: Array, r: Array) -> Array:
    with np.errstate(all="ignore"):
        result = (lambda: x, lambda: x + r, lambda: x - r, lambda: x * r, lambda: x / r)[operation]()
        match activation:
            case 1:
                return np.maximum(result, 0)
            case 3:
                return np.asarray(result / (1 + np.exp(-result)))
            case 4:
                return np.asarray(1 / (1 + np.exp(-result)))
            case 6:
                return np.tanh(result)
            case 7 | 8:
                return Unary("gelu" if activation == 7 else "gelu_tanh").evaluate(result)[0]
    return result


def _convolution(
    geometry: Sequence[int], bounds: tuple[float, float], size: tuple[int, int], out: tuple[int, int], filters: int
) -> ConvNhwc:
    r, s, sh, sw, ph, pw, dh, dw, groups, activation, residual = geometry
    high = _high(out, size, (r, s), (sh, sw), (dh, dw), (ph, pw))
    window, name = ((r, s), (sh, sw), (ph, pw), high, (dh, dw)), ACTIVATIONS[activation]
    return ConvNhwc(filters, *window, groups, name, *bounds, bool(residual))


def _high(
    out: Sequence[int],
    size: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    low: Sequence[int],
) -> tuple[int, int]:
    """The padding after each axis that gives results of size `out`."""
    axes = zip(out, size, window, strides, dilations, low, strict=True)
    high = [max(0, (o - 1) * s + (r - 1) * d + 1 - n - lo) for o, n, r, s, d, lo in axes]
    return high[0], high[1]
