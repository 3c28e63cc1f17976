"""Options that several verbs share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)
"""A path that the API judges, so that a missing model is exit status 4 and not a usage error."""


class Finite(click.FloatRange):
    """A number within bounds, neither infinite nor NaN, which pass any comparison with a bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Shell completion of --target."""
    from click.shell_completion import CompletionItem

    from fornaxc.targets import known_targets

    listed = {"nvidia": "NVIDIA sm_90", "amd": "AMD gfx942", **known_targets()}
    return [CompletionItem(name, help=text) for name, text in listed.items() if name.startswith(incomplete)]


def _dims(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for value in values:
        name, equals, size = value.rpartition("=")
        if not equals or not name or not size.isdecimal():
            raise click.BadParameter(f"{value!r} is not NAME=SIZE, for example batch=8", ctx, param)
        if sizes.setdefault(name, int(size)) != int(size):
            raise click.BadParameter(f"the dim {name!r} is given two sizes: {sizes[name]} and {int(size)}", ctx, param)
    return sizes


def target(purpose: str, *, default: str | None = "cpu") -> Callable[[Command], Command]:
    """The option --target. Where it may be refused, its default is None, which means cpu."""
    return click.option(
        "-t",
        "--target",
        default=default,
        show_default=True if default else "cpu",
        metavar="TARGET",
        shell_complete=complete_target,
        help=f"{purpose}: cpu, cpu:NAME, nvidia[:sm_..], amd[:gfx..], apple. `fornaxc targets` lists them.",
    )


dims = click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZE",
    callback=_dims,
    help="Pin a symbolic dim to a size; may be repeated. Others stay symbolic.",
)
sizes = click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=SIZE",
    callback=_dims,
    help="The size of a symbolic dim in the generated inputs; may be repeated. Nothing is pinned by it.",
)
_entry = click.option("--entry", metavar="NAME", help="The function of a StableHLO module, where several are public.")
_freeze = click.option(
    "--freeze", type=FILE, metavar="PARAMS.npz", help="Arguments of a StableHLO function, by name, that become weights."
)


def choice(command: Command) -> Command:
    """Add --entry and --freeze."""
    return _entry(_freeze(command))


cache_dir = click.option(
    "--cache-dir",
    type=FILE,
    metavar="DIR",
    help="The cache's folder; default FORNAXC_CACHE_DIR, else the user's cache folder.",
)
timeout = click.option(
    "--timeout",
    type=Finite(min=0, min_open=True),
    metavar="SECONDS",
    help="Give up when MAX takes longer than this.",
)


inputs = click.option(
    "--inputs",
    type=FILE,
    metavar="PATH",
    help="Inputs by name: an .npz, safetensors or TensorProto (.pb) file, or a folder of samples (docs/cli.md); generated without this.",
)
seed = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the generated inputs.")
_rtol = click.option(
    "--rtol", type=Finite(min=0), help="Relative tolerance of outputs of floats, in place of the dtype's."
)
_atol = click.option(
    "--atol", type=Finite(min=0), help="Absolute tolerance of outputs of floats, in place of the dtype's."
)


def tolerances(command: Command) -> Command:
    """Add --rtol and --atol."""
    return _rtol(_atol(command))


tolerances_file = click.option(
    "--tolerances",
    type=FILE,
    metavar="FILE.toml",
    help="Tolerances by output, with reasons; default STEM.tolerances.toml beside what is judged, where there is one.",
)


def optimization(default: int | None) -> Callable[[Command], Command]:
    """The option -O. Where it may be refused, its default is None, which means 1."""
    return click.option(
        "-O",
        "optimization",
        type=click.IntRange(0, 3),
        default=default,
        show_default=True if default else "1",
        metavar="LEVEL",
        help="0 to 3. On a GPU, 0 and 1 take kernels that are compiled once for all shapes; 2 and 3 take MAX's own for products, convolutions "
        "and pools, tuned for each shape, which takes half a minute or more to compile for each. On a CPU all levels are the same.",
    )


disabled_passes = click.option(
    "--no-pass",
    "disabled_passes",
    multiple=True,
    metavar="NAME",
    help="Leave out an optimisation; repeatable. `fornaxc inspect MODEL --passes` lists them.",
)
host_fallback = click.option(
    "--no-host-fallback",
    "host_fallback",
    flag_value=False,
    default=True,
    is_flag=True,
    help="Refuse operators that a GPU target would place on the host.",
)
