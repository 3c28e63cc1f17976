"""Says whether a file holds StableHLO, and in which form."""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from mmap import mmap

from fornaxc.importers.stablehlo.jaxexport import BYTECODE, is_jax_export

HEAD_BYTES = 4096
PREAMBLE_BYTES = 1 << 26  # what may stand before the module: a line for each argument's name

_PREAMBLE_LINE = re.compile(rb"[ \t]*(?:(?:#|!|//)[^\n]*)?\r?\n")
_TEXT = re.compile(
    r"\b(stablehlo|mhlo|chlo|vhlo)\.|^\s*(module\b[^.=\n{]*\{|func\.func\b|\"?builtin\.module\b)", re.MULTILINE
)
_UTF16_MARKS = (BOM_UTF16_LE, BOM_UTF16_BE)
_NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


def stablehlo_form(content: bytes | mmap) -> str | None:
    """`bytecode`, `jaxexport` or `text` for a whole file's content; None where it is not StableHLO.

    Text is judged by what follows the lines that may stand before a module (comments, and aliases of places, types and
    attributes), up to the first byte that is no text: the reader says what is wrong with that one.
    """
    head = content[:HEAD_BYTES]
    if head.startswith(BYTECODE):
        return "bytecode"
    start = _after_preamble(content)
    if _TEXT.search(_leading_text(content[start : start + HEAD_BYTES])) or is_utf16(head):
        return "text"
    return "jaxexport" if is_jax_export(content) else None


def is_utf16(head: bytes) -> bool:
    """Whether a file starts as StableHLO text in UTF-16 does, which some shells write."""
    return head.startswith(_UTF16_MARKS) and _TEXT.search(head.decode("utf-16", "ignore")) is not None


def _after_preamble(content: bytes | mmap) -> int:
    """Where the first line starts that is neither blank, a comment nor an alias (`#loc1 = loc("x")`)."""
    at = len(BOM_UTF8) if content[: len(BOM_UTF8)] == BOM_UTF8 else 0
    while line := _PREAMBLE_LINE.match(content, at, PREAMBLE_BYTES):
        at = line.end()
    return at


def _leading_text(part: bytes) -> str:
    """What stands before the first byte that is not UTF-8, or a control character."""
    try:
        text = part.decode("utf-8")
    except UnicodeDecodeError as error:
        text = part[: error.start].decode("utf-8")
    return _NOT_TEXT.split(text, maxsplit=1)[0]
