"""How the statistics over a dataset are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fornaxc.cli.text import table


def dataset_text(document: Mapping[str, Any] | None) -> list[str]:
    """The lines for people: a table with a row for each output and oracle; none where no dataset was compared."""
    if document is None:
        return []
    heading = f"over {document['samples']} samples, {document['failed']} of which differ:"
    return [heading, table([_row(output) for output in document["outputs"]], indent=2), ""]


def _row(output: Mapping[str, Any]) -> dict[str, Any]:
    absolute, relative, cosine = (output[name] or {} for name in ("absolute", "relative", "cosine"))
    return {
        "output": output["name"],
        "oracle": output["oracle"],
        "failed": output["failed"],
        "mean_abs": absolute.get("mean"),
        "p50_abs": absolute.get("p50"),
        "p99_abs": absolute.get("p99"),
        "max_abs": absolute.get("max"),
        "mean_rel": relative.get("mean"),
        "p99_rel": relative.get("p99"),
        "max_rel": relative.get("max"),
        "least_cosine": None if cosine.get("min") is None else f"{cosine['min']:.9f}",
        "top_1": _share(output["top1"]),
        "top_5": _share(output["top5"]),
    }


def _share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.4g} %"
