"""What is told of durations, and how sides take turns."""

from __future__ import annotations

import numpy as np
import pytest

from fornaxc.bench.plan import PAUSE, Run, interleave, plan
from fornaxc.bench.statistics import latency, percentile, ratio


def test_percentiles_are_those_of_numpy() -> None:
    values = np.random.default_rng(0).random(37).tolist()
    for share in (0.0, 0.5, 0.9, 0.95, 0.99, 1.0):
        assert percentile(values, share) == pytest.approx(np.percentile(values, 100 * share))
    found = latency(values)
    assert (found.count, found.lowest, found.highest) == (37, min(values), max(values))
    assert found.mean == pytest.approx(np.mean(values))
    assert found.lowest <= found.p50 <= found.p90 <= found.p95 <= found.p99 <= found.highest
    assert latency([2.0]).p99 == 2.0


def test_the_ratio_is_of_neighbouring_blocks() -> None:
    """A machine that slows down for a while slows both sides: the ratio stays."""
    found = ratio([[1, 1, 9], [10, 10, 10], [2]], [[2, 2, 2], [20, 20, 90], [1]])
    assert found.blocks == (0.5, 0.5, 2.0)
    assert (found.median, found.lowest, found.highest) == (0.5, 0.5, 2.0)


@pytest.mark.parametrize(
    ("iterations", "warmup", "seconds", "blocks", "rest"),
    [
        (25, None, 0.001, (9, 8, 8), 3),
        (1, None, 0.001, (1,), 3),
        (40, 0, 2.0, (10, 10, 10, 10), 0),
        (None, None, 1e-6, (10,) * 10, 3),
        (None, None, 0.2, (9, 8, 8), 3),
        (None, None, 60.0, (2, 2, 2), 1),
    ],
)
def test_a_plan(iterations: int | None, warmup: int | None, seconds: float, blocks: tuple[int, ...], rest: int) -> None:
    made = plan(iterations, warmup, seconds)
    assert (made.blocks, made.warmup, made.iterations) == (blocks, rest, sum(blocks))


class Recorder:
    """A side that tells what was asked of it."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told

    def block(self, warmup: int, runs: int) -> list[Run]:
        self.told.append(f"{self.name}{warmup}+{runs}")
        return [Run(0.0, 1.0, 0.5, 0.25)] * runs


def test_sides_take_turns_with_a_pause_before_each_block() -> None:
    told: list[str] = []
    done: list[int] = []
    sides = [Recorder("A", told), Recorder("B", told)]
    times = interleave(sides, plan(5, 2, 0.001), done.append, lambda seconds: told.append(f"rest {seconds}"))
    rest = f"rest {PAUSE}"
    assert told == [rest, "A2+2", rest, "B2+2", rest, "A2+2", rest, "B2+2", rest, "A2+1", rest, "B2+1"]
    assert done == [1, 2, 3]
    assert [[len(block) for block in side] for side in times] == [[2, 2, 1], [2, 2, 1]]
    assert times[0][0][0].whole == 1.75
