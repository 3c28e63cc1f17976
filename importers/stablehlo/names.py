"""Strings in MLIR attributes as Python text. They are bytes: what is not UTF-8 in them is shown as `\\xE9`."""

from __future__ import annotations

import re
from typing import Any

_QUOTED_NAME = re.compile(r'"([^"]*)" = ')
_ESCAPE = re.compile(rb"\\([0-9A-F]{2})")


class NotText(Exception):
    """An attribute's own name that is not UTF-8, which MLIR's bindings cannot hand out."""

    def __init__(self) -> None:
        super().__init__("the name of an attribute is not UTF-8")


def text_of(attribute: Any) -> str:
    """The text of a string attribute."""
    from jaxlib.mlir import ir

    return bytes(ir.StringAttr(attribute).value_bytes).decode("utf-8", "backslashreplace")


def symbol_of(attribute: Any) -> str:
    """The name that a flat symbol reference refers to."""
    from jaxlib.mlir import ir

    printed = str(ir.FlatSymbolRefAttr(attribute))[1:]
    if not printed.startswith('"'):
        return printed
    with attribute.context:
        return text_of(ir.Attribute.parse(printed))


def attribute_names(op: Any) -> list[str]:
    """The names of an operation's attributes. `NotText` where one is not UTF-8."""
    try:
        return [entry if isinstance(entry, str) else str(entry.name) for entry in op.attributes]
    except RuntimeError:
        raise NotText from None


def entries(dictionary: Any) -> list[tuple[str, Any]]:
    """The names and attributes of a dictionary attribute. `NotText` where a name is not UTF-8: asking for it ends the process."""
    if not all(map(_is_text, _QUOTED_NAME.findall(str(dictionary)))):
        raise NotText
    return [(str(entry.name), entry.attr) for entry in dictionary]


def _is_text(printed: str) -> bool:
    """Whether what MLIR prints between quotation marks is UTF-8."""
    try:
        _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), printed.encode()).decode()
    except UnicodeDecodeError:
        return False
    return True
