"""Reads a module from the standard input in a process of its own: jaxlib's reader can crash on damaged bytes, and on VHLO.

The parent learns from the exit status whether the module can be read in its own process.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Any

TIMEOUT = 300.0  # seconds


def survives(data: bytes) -> bool:
    """Whether a process that reads this bytecode or text, and looks at everything in it, ends by itself."""
    command = [sys.executable, "-m", "fornaxc.importers.stablehlo.probe"]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode >= 0


def _walk(operation: Any) -> None:
    """Look at the names, attributes, types and places of an operation and of those in it."""
    str(operation.location)
    for entry in operation.attributes:
        name = entry if isinstance(entry, str) else entry.name
        if operation.name != "stablehlo.constant":  # large, and not all kinds of numbers have a Python form
            str(operation.attributes[name])
    for value in (*operation.operands, *operation.results):
        str(value.type)
    for region in operation.regions:
        for block in region.blocks:
            for argument in block.arguments:
                str(argument.location)
            for inner in block.operations:
                _walk(inner.operation)


def main() -> None:
    """Exits with 0 whether or not the module is valid; a crash of the reader gives another status."""
    from fornaxc.errors import FornaxError
    from fornaxc.importers.stablehlo.jaxexport import BYTECODE
    from fornaxc.importers.stablehlo.reader import parse_module_bytes, parse_module_text

    data = sys.stdin.buffer.read()
    with contextlib.suppress(FornaxError, TypeError):
        read = (
            parse_module_bytes(data, "module")
            if data.startswith(BYTECODE)
            else parse_module_text(data.decode(), "module")
        )
        _walk(read.operation)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
