"""Says whether a file holds StableHLO, and in which form."""

from __future__ import annotations

import re
from mmap import mmap

from fornaxc.importers.stablehlo.jaxexport import BYTECODE, is_jax_export

HEAD_BYTES = 4096
PREAMBLE_BYTES = 1 << 26  # what may stand before the module: a line for each argument's name

_PREAMBLE_LINE = re.compile(rb"[ \t]*(?:(?:#|!|//)[^\n]*)?\r?\n")
_TEXT = re.compile(
    r"\b(stablehlo|mhlo|chlo|vhlo)\.|^\s*(module\b[^.=\n{]*\{|func\.func\b|\"?builtin\.module\b)", re.MULTILINE
)
_NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


def stablehlo_form(content: bytes | mmap) -> str | None:
    """`bytecode`, `jaxexport` or `text` for a whole file's content; None where it is not StableHLO.

    Text is judged by what follows the lines that may stand before a module: comments, and aliases of places, types and
    attributes.
    """
    head = content[:HEAD_BYTES]
    if head.startswith(BYTECODE):
        return "bytecode"
    if _as_text(head) is not None:
        text = _as_text(content[(start := _after_preamble(content)) : start + HEAD_BYTES])
        return "text" if text is not None and _TEXT.search(text) else None
    return "jaxexport" if is_jax_export(content) else None


def _after_preamble(content: bytes | mmap) -> int:
    """Where the first line starts that is neither blank, a comment nor an alias (`#loc1 = loc("x")`)."""
    at = 0
    while line := _PREAMBLE_LINE.match(content, at, PREAMBLE_BYTES):
        at = line.end()
    return at


def _as_text(part: bytes) -> str | None:
    try:
        text = part.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(part) - 3:
            return None
        text = part[: error.start].decode("utf-8")
    return None if _NOT_TEXT.search(text) else text
