"""Says from a file's first bytes whether it holds StableHLO, and in which form."""

from __future__ import annotations

import re

HEAD_BYTES = 4096
BYTECODE = b"ML\xefR"

_TEXT = re.compile(r"\b(stablehlo|mhlo|chlo|vhlo)\.|^\s*(module\b[^.=\n{]*\{|func\.func\b)", re.MULTILINE)


def stablehlo_form(head: bytes) -> str | None:
    """`bytecode`, `jaxexport` or `text` for a file that starts so; None where it is not StableHLO.

    A jax.export file is a flatbuffer around MLIR bytecode, whose magic number appears within it.
    """
    if head.startswith(BYTECODE):
        return "bytecode"
    text = _as_text(head)
    if text is not None:
        return "text" if _TEXT.search(text) else None
    offset = int.from_bytes(head[:4], "little")
    return "jaxexport" if BYTECODE in head and 4 <= offset < len(head) else None


def _as_text(head: bytes) -> str | None:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:
            return None
        text = head[: error.start].decode("utf-8")
    return None if "\0" in text else text
