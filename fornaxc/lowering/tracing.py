"""From an error of MAX to the nodes that it is about.

MAX's operations remember the Python frames that made them, and its errors print them. So each node is lowered inside a frame
of a file that is named after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from fornaxc.ir.graph import Node

_FILE = re.compile(r"<fornaxc-node-(\d+)>")


def traced(trace: list[Node], node: Node, lower: Callable[[], Any]) -> Any:
    """Call `lower` in a frame that names `node`, which is added to `trace`."""
    trace.append(node)
    results: list[Any] = []
    frame = compile("results.append(lower())", f"<fornaxc-node-{len(trace) - 1}>", "exec")
    exec(frame, {"results": results, "lower": lower})
    return results[0]


def nodes_in(error: BaseException | None, trace: Sequence[Node]) -> list[Node]:
    """The nodes that an error of MAX and its causes name, those named most first."""
    text = ""
    while error is not None:
        text += f"{error}\n"
        error = error.__cause__
    found = [int(number) for number in _FILE.findall(text)]
    return [trace[i] for i in sorted(dict.fromkeys(found), key=lambda i: (-found.count(i), i)) if i < len(trace)]
