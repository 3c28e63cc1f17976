"""Which function imports which operation, by its full name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fornaxc.importers.stablehlo.types import Operand

if TYPE_CHECKING:
    from fornaxc.importers.stablehlo.context import OpContext

Handler = Callable[["OpContext"], "Operand | list[Operand]"]

_HANDLERS: dict[str, Handler] = {}
_ELEMENTWISE: set[str] = set()


def stablehlo_op(*names: str, elementwise: bool = False) -> Callable[[Handler], Handler]:
    """Register a handler. An elementwise one broadcasts scalars, so it may be applied to whole tensors where a region has scalars."""

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in _HANDLERS:
                raise ValueError(f"{name} has two handlers")
            _HANDLERS[name] = handler
            if elementwise:
                _ELEMENTWISE.add(name)
        return handler

    return register


def handler_for(name: str) -> Handler | None:
    """The handler of an operation, if there is one; CHLO operations without one go through MLIR's decompositions."""
    _load()
    if name.startswith("chlo.") and name not in _HANDLERS:
        from fornaxc.importers.stablehlo.decompose import decomposed

        return decomposed
    return _HANDLERS.get(name)


def is_elementwise(name: str) -> bool:
    return name in _ELEMENTWISE


def handled() -> list[str]:
    """Every operation that has a handler."""
    _load()
    return sorted(_HANDLERS)


def _load() -> None:
    from importlib import import_module

    import_module("fornaxc.importers.stablehlo.ops")
