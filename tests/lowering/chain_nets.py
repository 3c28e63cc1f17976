"""Random networks of convolutions, pools, concatenations, shuffles and sums, and a chain's table carried out in numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import static
from fornaxc.ir.graph import Array, Graph, Value
from fornaxc.ir.ops import Conv, Pool
from fornaxc.ir.types import DType, TensorType

COLUMNS = 40


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
        match self.rng.integers(10):
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
            case _:
                if static(x.type.shape[2]) < 4:
                    return self.conv(x, 6, 3)
                return self.b.emit(Pool("max", (2, 2), (2, 2), (0, 0), (0, 0), (1, 1)), x)

    def shuffled(self, x: Value) -> Value:
        n, c, h, w = (static(d) for d in x.type.shape)
        parts = compose.reshape(self.b, x, (n, 2, c // 2, h, w))
        return compose.reshape(self.b, compose.transpose(self.b, parts, (0, 2, 1, 3, 4)), (n, c, h, w))


def random_net(seed: int, blocks: int = 6) -> tuple[Graph, Array]:
    """A network, some of whose values in between are outputs too, and an input."""
    net = Net(seed)
    size = int(net.rng.integers(5, 12))
    shape = (int(net.rng.integers(1, 3)), 3, size, size + 1)
    x = net.b.input(TensorType(DType.F32, shape), "x")
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


def carried_out(rows: Array, bounds: Array, buffers: Sequence[Array]) -> None:
    """The steps of a table on `buffers` (1-D), as `chain_run` of kernels/chain.mojo has them."""
    for row, (least, greatest) in zip(rows.reshape(-1, COLUMNS), bounds.reshape(-1, 2), strict=True):
        kind, numbers = int(row[0]), [int(v) for v in row]
        n, h, w, c, ho, wo, k = numbers[16:23]
        geometry = numbers[23:]
        y, x = numbers[1:4], numbers[4:7]
        if kind == 0:
            source = _pixels(buffers, x, n * h * w, c).reshape(n, h, w, c)
            result = _convolved(source, row, buffers, (least, greatest))
            _pixels(buffers, y, n * ho * wo, k)[:] = result.reshape(n * ho * wo, k)
        elif kind == 1:
            source = _pixels(buffers, x, n * h * w, c).reshape(n, h, w, c)
            window, strides, low, dilations = (tuple(geometry[i : i + 2]) for i in (0, 2, 4, 6))
            high = _high((ho, wo), (h, w), window, strides, dilations, low)
            pool = Pool("sum" if geometry[8] else "max", window, strides, low, high, dilations, True)
            _pixels(buffers, y, n * ho * wo, c)[:] = pool.evaluate(source)[0].reshape(n * ho * wo, c)
        elif kind == 4:
            _arithmetic(row, buffers)
        elif kind == 5:
            total = _pixels(buffers, [x[0], x[1], c], n * h, c).reshape(n, h, c).sum(1)
            _pixels(buffers, [y[0], y[1], c], n, c)[:] = total / np.float32(h if geometry[0] else 1)
        elif kind == 2:
            _pixels(buffers, y, n, c)[:] = _pixels(buffers, x, n, c)
        else:
            source = _pixels(buffers, [x[0], x[1], w], n * h, w).reshape(n, h, w)
            _pixels(buffers, [y[0], y[1], h], n * w, h)[:] = source.transpose(0, 2, 1).reshape(n * w, h)


def _arithmetic(row: Array, buffers: Sequence[Array]) -> None:
    n, p, _, c = (int(v) for v in row[16:20])
    operation, activation, *apart = (int(v) for v in row[23:31])
    x, r = (
        np.lib.stride_tricks.as_strided(buffers[at[0]][at[1] :], (n, p, c), tuple(4 * d for d in steps))
        for at, steps in ((row[4:7], apart[:3]), (row[7:10], apart[3:]))
    )
    result = (x, x + r, x - r, x * r, x / r)[operation].reshape(n * p, c) if operation else x.reshape(n * p, c)
    functions = {
        0: lambda v: v,
        1: lambda v: np.maximum(v, 0),
        3: lambda v: v / (1 + np.exp(-v)),
        4: lambda v: 1 / (1 + np.exp(-v)),
        6: np.tanh,
    }
    _pixels(buffers, row[1:4], n * p, c)[:] = functions[activation](result)


def _pixels(buffers: Sequence[Array], at: Sequence[int], count: int, width: int) -> Array:
    """A view of `width` numbers of each of `count` pixels."""
    buffer, offset, stride = at
    assert width <= stride
    assert offset + (count - 1) * stride + width <= buffers[buffer].size
    return np.lib.stride_tricks.as_strided(buffers[buffer][offset:], (count, width), (4 * stride, 4))


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


def _convolved(x: Array, row: Array, buffers: Sequence[Array], bounds: tuple[float, float]) -> Array:
    from fornaxc.ir.ops.packed import ACTIVATIONS, ConvNhwc, packed_size

    n, h, w, c, ho, wo, k = (int(v) for v in row[16:23])
    r, s, sh, sw, ph, pw, dh, dw, groups, activation, residual = (int(v) for v in row[23:34])
    high = _high((ho, wo), (h, w), (r, s), (sh, sw), (dh, dw), (ph, pw))
    op = ConvNhwc(
        k, (r, s), (sh, sw), (ph, pw), high, (dh, dw), groups, ACTIVATIONS[activation], *bounds, bool(residual)
    )
    size = packed_size(k, c // groups, r * s, groups)
    filters = _pixels(buffers, [row[7], row[8], size], 1, size)[0]
    bias = _pixels(buffers, [row[10], row[11], k], 1, k)[0]
    others = [_pixels(buffers, row[13:16], n * ho * wo, k).reshape(n, ho, wo, k)] if residual else []
    result = op.evaluate(x, filters, bias, *others)[0]
    scale, offset = (buffers[at[1]][at[2]] if at[0] else None for at in (row[34:37], row[37:40]))
    result = result if scale is None else result * scale
    return result if offset is None else result + offset
