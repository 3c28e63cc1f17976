"""The statistics over a dataset as a part of the page of a verification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fornaxc.pages.page import cell, paragraphs, table

_ERRORS = ("mean", "p50", "p90", "p99", "p99.9", "max")


def dataset_section(document: Mapping[str, Any] | None) -> str:
    """A row for each output and oracle; nothing where no dataset was compared."""
    if document is None:
        return ""
    columns = [
        "output",
        "oracle",
        "failed",
        *(f"{k} {e}" for k in ("abs", "rel") for e in _ERRORS),
        "least cosine",
        "top 1",
        "top 5",
    ]
    counted = (
        f"{document['samples']} samples were compared, {document['failed']} of which differ. "
        "The outputs below are the failures and the worst of each."
    )
    rows = [_row(output) for output in document["outputs"]]
    return "<h2>Dataset</h2>" + paragraphs([counted]) + table(columns, rows)


def _row(output: Mapping[str, Any]) -> list[str]:
    errors = [(output[kind] or {}).get(name) for kind in ("absolute", "relative") for name in _ERRORS]
    cosine = (output["cosine"] or {}).get("min")
    shares = [output["top1"], output["top5"]]
    return [
        cell(output["name"], "w"),
        cell(output["oracle"]),
        cell(output["failed"], "fail" if output["failed"] else "n"),
        *(cell(None if e is None else f"{e:.3g}", "n") for e in errors),
        cell(None if cosine is None else f"{cosine:.9f}", "n"),
        *(cell(None if s is None else f"{100 * s:.4g} %", "n") for s in shares),
    ]
