"""From an error of MAX to the nodes that it is about.

MAX's operations remember the Python frames that made them, and its errors print them. So each node is lowered inside a frame
of a file that is named after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fornaxc.ir.graph import Node

_FILE = re.compile(r"<fornaxc-node-(\d+)>")


def traced(trace: list[Node], node: Node, lower: Callable[[], Any]) -> Any:
    """Call `lower` in a frame that names `node`, which is added to `trace`."""
    trace.append(node)
    return in_frame(f"<fornaxc-node-{len(trace) - 1}>", lower)


@contextmanager
def remembered_frames() -> Iterator[None]:
    """MAX's operations made in the block remember the frames that made them."""
    from max.graph import Graph

    Graph.debug.source_tracebacks = True
    try:
        yield
    finally:
        Graph.debug.source_tracebacks = False


def in_frame(file: str, work: Callable[[], Any]) -> Any:
    """Call `work` in a frame of a file of this name."""
    results: list[Any] = []
    exec(compile("results.append(work())", file, "exec"), {"results": results, "work": work})
    return results[0]


def said(error: BaseException | None) -> str:
    """What an error and its causes say."""
    return "" if error is None else f"{error}\n{said(error.__cause__)}"


def nodes_in(error: BaseException | None, trace: Sequence[Node]) -> list[Node]:
    """The nodes that an error of MAX and its causes name, those named most first."""
    found = [int(number) for number in _FILE.findall(said(error))]
    return [trace[i] for i in sorted(dict.fromkeys(found), key=lambda i: (-found.count(i), i)) if i < len(trace)]
