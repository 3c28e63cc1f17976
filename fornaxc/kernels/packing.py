"""The layouts of weights that the Mojo kernels read, in numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fornaxc.mapping import contiguous, release_pages

Array = np.ndarray[Any, np.dtype[Any]]

PANEL = 16  # filters that lie together, see kernels/conv.mojo
PART_BYTES = 1 << 26  # of weights that are packed at a time
RECURRENT_ACTIVATIONS = {"relu": 1, "sigmoid": 4, "tanh": 6}  # codes of `activate` in conv.mojo


def is_depthwise(shape: tuple[int, ...], groups: int) -> bool:
    """Whether filters of this shape [K, C/groups, R, S] are one per channel."""
    return groups > 1 and shape[1] == 1 and shape[0] == groups


def pack_conv_weight(w: Array, groups: int) -> Array:
    """Filters [K, C/groups, R, S] as one dimension of panels.

    Per group the filters are padded with zeros to a multiple of 16 and cut into panels of 16; a panel is [R, S, C/groups, 16], so that
    one tap and channel of a whole panel lies together, and the next behind it. Depthwise filters are [R, S, K].
    """
    return np.concatenate(list(conv_weight_parts(w, groups)))


def conv_weight_parts(w: Array, groups: int) -> Iterator[Array]:
    """What `pack_conv_weight` gives, whole panels at a time: no more than `PART_BYTES` where a panel is not larger itself."""
    k, c, r, s = w.shape
    if w.size == 0:
        yield np.zeros(0, w.dtype)
        return
    if is_depthwise(w.shape, groups):
        yield np.ascontiguousarray(w[:, 0].transpose(1, 2, 0)).reshape(-1)
        return
    per_group = k // groups
    together = max(1, PART_BYTES // (PANEL * c * r * s * w.itemsize)) * PANEL
    for end in range(per_group, k + 1, per_group):
        for first in range(end - per_group, end, together):
            yield _panels(contiguous(w[first : min(first + together, end)]))
            release_pages(w)


def _panels(filters: Array) -> Array:
    k, c, r, s = filters.shape
    count = -(-k // PANEL)
    result = np.zeros((count, r, s, c, PANEL), filters.dtype)
    for i in range(count):
        cut = filters[i * PANEL : (i + 1) * PANEL]  # fewer at the end of a group
        result[i, ..., : cut.shape[0]] = cut.transpose(2, 3, 1, 0)
    return result.reshape(-1)


def unpack_conv_weight(packed: Array, shape: tuple[int, ...], groups: int) -> Array:
    """The inverse of `pack_conv_weight`, for filters of `shape` [K, C/groups, R, S]."""
    k, c, r, s = shape
    if 0 in shape:
        return np.zeros(shape, packed.dtype)
    if is_depthwise(shape, groups):
        return np.ascontiguousarray(packed.reshape(r, s, k).transpose(2, 0, 1)[:, None])
    filled = packed.reshape(groups, -1, r, s, c, PANEL).transpose(0, 1, 5, 4, 2, 3)
    return filled.reshape(groups, -1, c, r, s)[:, : k // groups].reshape(shape)


def pack_matrix_weight(w: Array) -> Array:
    """A matrix [K, C] that multiplies rows of C numbers: the filters of a 1 x 1 convolution."""
    return pack_conv_weight(w[:, :, None, None], 1)


def pack_gru_weight(r: Array) -> Array:
    """Recurrent weights [3*hidden, hidden], gates z r h: those of z and r as one matrix, then those of h."""
    split = r.shape[0] // 3 * 2
    return np.concatenate([pack_matrix_weight(r[:split]), pack_matrix_weight(r[split:])])
