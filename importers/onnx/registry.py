"""Which function imports which operator, keyed by the exact schema version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from fornaxc.ir.graph import Value

if TYPE_CHECKING:
    from fornaxc.importers.onnx.context import NodeContext


@dataclass(frozen=True, slots=True)
class TensorList:
    """A value of an ONNX sequence type. Its length is known at compile time; it leaves no trace in the IR."""

    elements: tuple[Value, ...]

    def __str__(self) -> str:
        return f"a sequence of {len(self.elements)} tensors"


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value that is no tensor of numbers, such as labels that are strings. Only what does not use it can be compiled."""

    what: str

    def __str__(self) -> str:
        return self.what


Item = Value | TensorList | Foreign
Result = Item | Sequence[Item]
Handler = Callable[["NodeContext"], Result]

_HANDLERS: dict[tuple[str, str, int], Handler] = {}


def onnx_op(name: str, *since: int, domain: str = "") -> Callable[[Handler], Handler]:
    """Register a handler for an operator at exactly these schema versions (`since_version` of onnx.defs)."""

    def register(handler: Handler) -> Handler:
        for version in since:
            key = (domain, name, version)
            if key in _HANDLERS:
                raise ValueError(f"{key} has two handlers")
            _HANDLERS[key] = handler
        return handler

    return register


def handler_for(domain: str, name: str, since: int) -> Handler | None:
    """The handler of an operator's schema version, if there is one."""
    _load()
    return _HANDLERS.get((domain, name, since))


def handled_versions(domain: str, name: str) -> list[int]:
    """The schema versions of an operator that have a handler."""
    _load()
    return sorted(version for d, n, version in _HANDLERS if (d, n) == (domain, name))


def handled() -> list[tuple[str, str, int]]:
    """Every (domain, operator, schema version) that has a handler."""
    _load()
    return sorted(_HANDLERS)


@cache
def _load() -> None:
    from importlib import import_module

    import_module("fornaxc.importers.onnx.ops")
