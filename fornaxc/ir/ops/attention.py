"""Attention as one operation of the CPU's own kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fornaxc.ir.dims import Dim
from fornaxc.ir.ops.base import Array, Op, concrete, want
from fornaxc.ir.ops.nn import Softmax
from fornaxc.ir.types import DType, TensorType

LAYOUTS = {"bhlc": (0, 1, 2, 3), "blhc": (0, 2, 1, 3), "bhcl": (0, 1, 3, 2)}
"""Where batch, heads, length and channels of a head stand; the permutations to `bhlc`, each its own inverse."""


@dataclass(frozen=True, slots=True)
class Attention(Op):
    """softmax(scale * q k^T + mask) v for each head; a row of scores with NaN or +inf, or of nothing but -inf, gives NaN.

    Operands: q, k and v in the layouts of `LAYOUTS` (k alone may be in "bhcl"), the rank-0 scale, perhaps a mask of rank 4
    [batch, heads, queries, keys] whose sizes may be 1 instead: of the same dtype it is added, of bools it says which scores stay, and a
    rank-0 operand after it is what the others become. k and v may have fewer heads: each serves as many neighbouring heads of q. f32.
    Where `spare`, a last rank-0 operand takes the place of a softmax of NaN, as exporters write it for queries that may see no key.
    """

    q: str = "bhlc"
    k: str = "bhlc"
    v: str = "bhlc"
    result: str = "bhlc"
    spare: bool = False

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        q, k, v, scale, *rest = types
        if self.spare:
            want(bool(rest) and rest.pop() == scale, "attention wants a number in place of NaN")
        want(all(t.rank == 4 and t.dtype is DType.F32 for t in (q, k, v)), "attention wants f32 of rank 4")
        want(self.k in LAYOUTS, lambda: f"attention got keys in an unknown layout {self.k!r}")
        want({self.q, self.v, self.result} <= {"bhlc", "blhc"}, "attention wants the channels of a head together")
        batch, heads, queries, channels = _arranged(q.shape, self.q)
        k_batch, k_heads, keys, k_channels = _arranged(k.shape, self.k)
        v_batch, v_heads, v_keys, width = _arranged(v.shape, self.v)
        fits = (k_batch, k_channels, v_batch, v_heads, v_keys) == (batch, channels, batch, k_heads, keys)
        want(fits, lambda: f"attention got q {q}, k {k} and v {v}, which do not fit")
        want(_shares(heads, k_heads), lambda: f"{heads} heads of queries cannot share {k_heads} heads of keys")
        want(scale == q.with_shape(()), lambda: f"the scale must be a number, not {scale}")
        if rest:
            mask, *fill = rest
            sizes = zip(mask.shape, (batch, heads, queries, keys), strict=False)
            want(mask.rank == 4 and all(m in (1, d) for m, d in sizes), lambda: f"the mask {mask} does not fit")
            wanted = [scale] if mask.dtype is DType.BOOL else []
            want(mask.dtype in (DType.BOOL, DType.F32) and fill == wanted, "a mask of bools wants a number to put in")
        return (q.with_shape(_arranged((batch, heads, queries, width), self.result)),)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        concrete(*arrays)
        q, k, v = (a.transpose(LAYOUTS[n]) for a, n in zip(arrays, (self.q, self.k, self.v), strict=False))
        scale, *rest = arrays[3:]
        spare = [rest.pop()] if self.spare else []
        shared = q.shape[1] // k.shape[1] if k.shape[1] else 1
        k, v = np.repeat(k, shared, 1), np.repeat(v, shared, 1)
        with np.errstate(all="ignore"):
            scores = q @ k.swapaxes(2, 3) * scale
            if len(rest) == 2:
                scores = np.where(rest[0], scores, rest[1])
            elif rest:
                scores = scores + rest[0]
            (weights,) = Softmax(3).evaluate(scores)
            for number in spare:
                weights = np.where(np.isnan(weights), number, weights)
            return ((weights @ v).transpose(LAYOUTS[self.result]),)


def _arranged(shape: tuple[Dim, ...], layout: str) -> tuple[Dim, ...]:
    return tuple(shape[p] for p in LAYOUTS[layout])


def _shares(heads: Dim, fewer: Dim) -> bool:
    whole = isinstance(heads, int) and isinstance(fewer, int) and fewer > 0
    return heads == fewer or (whole and int(str(heads)) % int(str(fewer)) == 0)
