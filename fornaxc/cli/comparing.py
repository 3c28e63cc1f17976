"""How the comparison of an output is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fornaxc.cli.oracles import accuracy_columns
from fornaxc.cli.text import shape


def output_row(output: Mapping[str, Any], several: bool = False) -> dict[str, Any]:
    """A row of a table, from an entry of `outputs` in a document; with `several` oracles it names the one."""
    tolerance = output["tolerance"] or {}
    rtol, atol, ulp = (tolerance.get(name) for name in ("rtol", "atol", "ulp"))
    bounds = [f"{rtol:g} rel, {atol:g} abs"] if rtol or atol else []
    bound = " or ".join([*bounds, *([f"{ulp} ulp"] if ulp else [])]) or "exact"
    worst = output.get("worst_index")
    oracle = {"oracle": output["oracle"]} if several else {}
    return {
        "output": output["name"],
        "sample": output.get("sample"),
        **oracle,
        "shape": shape(output["shape"]),
        "dtype": output["dtype"],
        "max_abs": output["max_abs"],
        "max_rel": output["max_rel"],
        "max_ulp": output["max_ulp"],
        **accuracy_columns(output),
        "worst_at": None if worst is None else shape(worst),
        "tolerance": bound if tolerance else "",
        "from": tolerance.get("source", ""),
        "verdict": verdict_text(output),
    }


def verdict_text(output: Mapping[str, Any]) -> str:
    """The verdict with the rule that decided, and the reason where there is one."""
    rule = f" ({output['rule']})" if output.get("rule") else ""
    reason = f": {output['reason']}" if output.get("reason") else ""
    return f"{output['verdict']}{rule}{reason}"
