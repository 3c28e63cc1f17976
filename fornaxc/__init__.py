"""fornaxc: an ahead-of-time compiler from ONNX and StableHLO models to MAX artifacts.

Everything public is imported on first use, so that `import fornaxc` stays cheap and a run-time-only
machine needs neither onnx nor onnxruntime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fornaxc.api import compile, verify
    from fornaxc.runtime import load

__all__ = ["__version__", "compile", "load", "verify"]

_HOME = {"compile": "fornaxc.api", "verify": "fornaxc.api", "load": "fornaxc.runtime"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fornaxc' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
