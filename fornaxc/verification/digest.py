"""A digest of arrays that were compared: two files of one name are not the same proof."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from fornaxc.ir.graph import Array


class ArraysDigest:
    """Of named arrays, in the order in which they are added: names, element types, shapes and every element."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, label: str, arrays: Mapping[str, Array]) -> None:
        """Count the arrays of the sample, or of the outputs, that `label` names."""
        for name in sorted(arrays):
            array = np.ascontiguousarray(arrays[name])
            head = json.dumps([label, name, array.dtype.name, np.shape(arrays[name])])
            self._hash.update(head.encode() + b"\n")
            self._hash.update(array.reshape(-1).view(np.uint8).data)

    def __str__(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"
