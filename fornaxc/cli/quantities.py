"""Command-line quantities: ages such as `30d` and sizes such as `10GB`. Each is the callback of an option."""

from __future__ import annotations

import re

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def age(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Seconds, from `90s`, `12h`, `30d`, `4w`."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", value.strip().lower())
    if match is None:
        raise click.BadParameter(f"{value!r} is not an age such as 12h or 30d", ctx, param)
    return float(match[1]) * _SECONDS[match[2]]


def amount(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Bytes, from `500MB`, `10G`, `0`."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", value.strip().lower())
    if match is None:
        raise click.BadParameter(f"{value!r} is not a size such as 500MB or 10G", ctx, param)
    return int(float(match[1]) * _BYTES[match[2]])
