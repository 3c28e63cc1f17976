"""What `fornaxc verify` asks of oracles, and what it shows of their accuracy and of what ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

Command = Callable[..., Any]


def _names(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    """The names in the order given, each once; several may stand in one option, with commas between them."""
    from fornaxc.api import ORACLES

    names = [name.strip() for text in given for name in text.split(",")]
    unknown = [name for name in names if name not in ORACLES]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(ORACLES)}")
    return tuple(dict.fromkeys(names))


_oracle = click.option(
    "--oracle",
    "oracles",
    multiple=True,
    metavar="NAME[,NAME...]",
    callback=_names,
    help="Ask these in place of the default: ort, ort-noopt, onnx-reference, stablehlo-reference, numpy, golden (with --expected); "
    "may be repeated. Each that answers is compared with; where one refuses, or is known to be off-specification, the others decide.",
)
_noise = click.option(
    "--noise/--no-noise",
    default=None,
    help="Measure how far onnxruntime is from itself: optimised or not, 1 thread or 2. Default: of models below 256 MB.",
)
_float64 = click.option(
    "--float64/--no-float64",
    default=None,
    help="Evaluate the model in double precision too, and tell how far both sides are from it. Default: for outputs that miss "
    "their tolerance, and of models with up to 64 MB of weights and 4e9 multiplications.",
)


def oracle_options(command: Command) -> Command:
    """Add --oracle, --noise and --float64."""
    return _oracle(_noise(_float64(command)))


def accuracy_columns(output: Mapping[str, Any]) -> dict[str, Any]:
    """Of an output's row: the noise floor, the largest errors of both sides from float64."""
    noise = [error for error in (output.get("noise") or {}).values() if error is not None]
    double = output.get("float64") or {}
    ours, oracle = (double.get(side) or {} for side in ("ours", "oracle"))
    return {
        "noise": max(noise, key=float, default=None),
        "off_float64": ours.get("max_abs"),
        "oracle_off": oracle.get("max_abs"),
    }


def execution_facts(execution: Mapping[str, Any] | None) -> dict[str, Any]:
    """What ran, for people: counts of nodes and kernels, and what was computed with the weights."""
    if execution is None:
        return {}
    host = execution["host_nodes"]
    return {
        "nodes": f"{execution['nodes']}, {host} of them on the host" if host else str(execution["nodes"]),
        "kernels": execution["kernels"],
        "folded": f"{len(execution['folded'])} nodes that only constants decide" if execution["folded"] else None,
    }
