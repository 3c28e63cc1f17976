"""Says what a file that is not ONNX looks like, from its first bytes."""

from __future__ import annotations

import re

HEAD_BYTES = 4096

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive (a PyTorch checkpoint, a Keras or a numpy archive?)"),
    (0, b"\x80\x02", "a Python pickle"),
    (0, b"\x80\x04", "a Python pickle"),
    (0, b"\x89HDF\r\n", "an HDF5 file (Keras?)"),
    (0, b"\x1f\x8b", "gzip-compressed data"),
    (0, b"\x93NUMPY", "a numpy array"),
    (0, b"GGUF", "a GGUF file"),
    (0, b"\x7fELF", "an ELF program or library"),
    (0, b"MZ", "a Windows program"),
    (0, b"%PDF", "a PDF document"),
    (4, b"TFL3", "a TensorFlow Lite model"),
    (4, b"ORTM", "a model in onnxruntime's own ORT format"),
    (8, b'{"', "a safetensors file"),
)
_TEXT: tuple[tuple[str, str], ...] = (
    (r"version https://git-lfs", "a Git LFS pointer; fetch the real file with `git lfs pull`"),
    (r"<\s*ir_version\s*:", "ONNX's text syntax; convert it with onnx.parser.parse_model"),
    (r"ir_version\s*:", "a model in protobuf's text format; convert it with google.protobuf.text_format"),
    (r"(?i)<!doctype html|<html", "an HTML page (a download that failed?)"),
    (r"<\?xml", "an XML document"),
    (r'\s*[{\[]\s*["{\[\]}]', "a JSON document"),
)
_STABLEHLO = re.compile(r"\b(stablehlo|mhlo|chlo|vhlo)\.|^\s*(module\b[^.=\n{]*\{|func\.func\b)", re.MULTILINE)


def is_stablehlo(head: bytes) -> bool:
    """Whether a file that starts so holds StableHLO, as text or as a portable artifact (MLIR bytecode)."""
    if head.startswith(b"ML\xefR"):
        return True
    text = _text(head)
    return text is not None and bool(_STABLEHLO.search(text))


def looks_like(head: bytes) -> str | None:
    """What a file that starts so is, None where nothing is recognised."""
    for offset, magic, label in _MAGIC:
        if head.startswith(magic, offset):
            return label
    text = _text(head)
    if text is None:
        return None
    for pattern, label in _TEXT:
        if re.match(pattern, text.lstrip("\ufeff")):
            return label
    line = text.strip().splitlines()[0] if text.strip() else ""
    return f"a text file that starts with {line[:60]!r}"


def _text(head: bytes) -> str | None:
    """The head as text; None where it is binary."""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:
            return None
        text = head[: error.start].decode("utf-8")
    return text if not re.search(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]", text) else None
