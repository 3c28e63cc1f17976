"""Random networks of linear layers, normalisations and attention over tokens [batch, length, width]."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from chain_nets import Net

from fornaxc.ir import compose
from fornaxc.ir.dims import Dim, static, substitute, symbol
from fornaxc.ir.graph import Array, Graph, Value
from fornaxc.ir.ops import Attention, LayerNorm, MatMul, RmsNorm, Softmax
from fornaxc.ir.types import DType, TensorType

MOST_TOKENS = 300


class TokenNet(Net):
    """Builds one network; `mask` is an input [batch or 1, 1, length, length] of bools, or of floats that are added. `sizes` are what symbols are for `given`."""

    def __init__(self, seed: int, batch: Dim, length: Dim, sizes: Mapping[str, int]) -> None:
        super().__init__(seed)
        self.length = length
        self.given: list[Array] = []
        shape = (batch if self.rng.integers(2) else 1, 1, length, length)
        chosen = self.rng.random([static(substitute(d, sizes)) for d in shape]) < 0.7
        if self.rng.integers(2):
            self.mask = self.b.input(TensorType(DType.BOOL, shape), "mask")
            self.given.append(chosen)
        else:
            self.mask = self.b.input(TensorType(DType.F32, shape), "mask")
            self.given.append(np.where(chosen, np.float32(0), np.float32(-np.inf if self.rng.integers(2) else -3)))

    def linear(self, x: Value, width: int) -> Value:
        y = self.b.emit(MatMul(), x, self.weight(static(x.type.shape[-1]), width))
        return compose.binary(self.b, "add", y, compose.expand(self.b, self.weight(width), y.type.shape))

    def norm(self, x: Value) -> Value:
        width = static(x.type.shape[-1])
        if self.rng.integers(3):
            return self.b.emit(LayerNorm(2, 1e-5), x, self.weight(width), self.weight(width))
        return self.b.emit(RmsNorm(2, 1e-3), x, self.weight(width))

    def heads(self, x: Value, count: int, layout: str) -> Value:
        batch, length, width = x.type.shape
        y = compose.reshape(self.b, x, (batch, length, count, static(width) // count))
        perm = {"blhc": (0, 1, 2, 3), "bhlc": (0, 2, 1, 3), "bhcl": (0, 2, 3, 1)}[layout]
        return compose.transpose(self.b, y, perm)

    def rotated(self, x: Value, axis: int) -> Value:
        """x [batch, length, heads, size], or with axes 1 and 2 changed, turned by angles, as exporters write it. `axis` is the length's."""
        size = static(x.type.shape[-1])
        shape = (1, MOST_TOKENS, 1, size) if axis == 1 else (1, 1, MOST_TOKENS, size)
        tables = (self.cut(self.weight(*shape), axis, 0, self.length) for _ in range(2))
        cos, sin = (compose.expand(self.b, table, x.type.shape) for table in tables)
        halves = [self.cut(x, 3, i, size // 2) for i in (size // 2, 0)]
        turned = compose.concat(self.b, [compose.unary(self.b, "neg", halves[0]), halves[1]], 3)
        straight = compose.binary(self.b, "mul", x, cos)
        return compose.binary(self.b, "add", straight, compose.binary(self.b, "mul", turned, sin))

    def attention(self, x: Value) -> Value:
        q, k, v, result = (str(self.rng.choice(["blhc", "bhlc"])) for _ in range(4))
        k = "bhcl" if self.rng.integers(3) == 0 else k
        shared = int(self.rng.choice([1, 2, 4]))
        operands = [self.heads(self.linear(x, 32), 4, q), self.heads(self.linear(x, 8 * shared), shared, k)]
        if k != "bhcl" and self.rng.integers(2):
            operands = [self.rotated(v, layout.index("l")) for v, layout in zip(operands, (q, k), strict=True)]
        operands.append(self.heads(self.linear(x, 4 * shared), shared, v))
        operands.append(compose.scalar(self.b, 0.3, DType.F32))
        if self.rng.integers(3):
            operands.append(self.mask)
            if self.mask.type.dtype is DType.BOOL:
                operands.append(compose.scalar(self.b, -np.inf, DType.F32))
        spare = bool(self.rng.integers(2))
        if spare:
            operands.append(compose.scalar(self.b, 0.125, DType.F32))
        y = self.b.emit(Attention(q, k, v, result, spare), *operands)
        batch, length, width = x.type.shape
        if result == "bhlc":
            y = compose.transpose(self.b, y, (0, 2, 1, 3))
        return self.linear(compose.reshape(self.b, y, (batch, length, 16)), static(width))

    def block(self, x: Value) -> Value:
        width = static(x.type.shape[-1])
        match self.rng.integers(6):
            case 0 | 1:
                return compose.binary(self.b, "add", x, self.attention(self.norm(x)))
            case 2:
                fn = str(self.rng.choice(["gelu", "gelu_tanh", "silu", "relu"]))
                return self.linear(compose.unary(self.b, fn, self.linear(self.norm(x), 24)), width)
            case 3:  # a gate
                gate = compose.unary(self.b, "sigmoid", self.linear(x, 20))
                return self.linear(compose.binary(self.b, "mul", gate, self.linear(x, 20)), width)
            case 4:  # queries, keys and values of one product
                batch, length = x.type.shape[:2]
                y = compose.reshape(self.b, self.linear(x, 24), (batch, length, 3, 2, 4))
                y = compose.transpose(self.b, y, (2, 0, 3, 1, 4))
                parts = (compose.reshape(self.b, self.cut(y, 0, i, 1), (batch, 2, length, 4)) for i in range(3))
                y = self.b.emit(Attention(), *parts, compose.scalar(self.b, 0.5, DType.F32))
                y = compose.transpose(self.b, y, (0, 2, 1, 3))
                return self.linear(compose.reshape(self.b, y, (batch, length, 8)), width)
            case _:  # a choice, and with what the first token says
                y = self.b.emit(Softmax(2, bool(self.rng.integers(2))), self.linear(x, 11))
                first = compose.expand(self.b, self.cut(x, 1, 0, 1), x.type.shape)
                return self.linear(compose.concat(self.b, [y, compose.binary(self.b, "sub", x, first)], 2), width)


def random_tokens(
    seed: int, blocks: int = 6, size: tuple[int, int, int] | None = None, *, symbolic: bool = False
) -> tuple[Graph, list[Array]]:
    """A network, some of whose values in between are outputs too, and its inputs, of `size` [batch, length, width] or small. Batch and length may be symbolic."""
    rng = np.random.default_rng(seed)
    small = int(rng.integers(1, 4)), int(rng.choice([1, 2, 5, 19])), int(rng.choice([12, 32]))
    batch, length, width = size or small
    dims: tuple[Dim, Dim] = (symbol("n"), symbol("l")) if symbolic else (batch, length)
    net = TokenNet(seed, *dims, {"n": batch, "l": length})
    x = net.b.input(TensorType(DType.F32, (*dims, width)), "x")
    y, outputs = x, []
    for _ in range(blocks):
        y = net.block(y)
        if net.rng.integers(4) == 0:
            outputs.append(y)
    outputs = list(dict.fromkeys([*outputs, y]))
    given = [*net.given, rng.standard_normal((batch, length, width)).astype(np.float32)]
    return net.b.finish(outputs, [f"y{i}" for i in range(len(outputs))]), given
