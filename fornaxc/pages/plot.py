"""Plots as inline SVG: a logarithmic axis, and what is drawn along it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class LogScale:
    """Powers of ten from 10^low to 10^high, drawn from `start` to `end`; what lies beyond is drawn at the end that it is beyond."""

    low: int
    high: int
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a number is drawn; one that is not positive counts as very small."""
        exponent = math.log10(value) if value > 0 else -math.inf
        share = (min(max(exponent, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * share

    def ticks(self) -> list[int]:
        """The exponents to mark, at most a dozen."""
        return list(range(self.low, self.high + 1, max(1, math.ceil((self.high - self.low) / 12))))


def svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    """A drawing that says in words what it shows."""
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    """Words whose base line begins, ends or is centred at a point."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> str:
    """A line of a class: grid, or limit."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def bar(x: float, y: float, width: float, height: float, kind: str, title: str) -> str:
    """A rectangle of a class: one, two (the sides) or bad; `title` is shown where the pointer rests on it."""
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"><title>{escape(title)}</title></rect>'


def dot(x: float, y: float, kind: str, title: str) -> str:
    """A small circle of a class."""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(title)}</title></circle>'
