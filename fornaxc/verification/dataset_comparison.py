"""Compares an artifact with its oracles over a dataset: references first, kept on disk, then the runs, one sample in memory at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fornaxc.runner import Running, load_tensors, save_tensors
from fornaxc.verification.compare import Row
from fornaxc.verification.dataset import Dataset
from fornaxc.verification.digest import ArraysDigest
from fornaxc.verification.float64 import InDouble
from fornaxc.verification.oracle import Oracle, Reference
from fornaxc.verification.statistics import OutputStatistics, Summary
from fornaxc.verification.tolerances import Tolerances
from fornaxc.verification.verify import Sample, compare_sample, given_sample

SHOWN = 20  # rows of failures that the report holds
NAMED = 40  # further failing samples that a note names
_NUMBERED = re.compile(r"(.*)\[(\d+)\]", re.DOTALL)


class JudgedDataset:
    """A dataset with the references of its samples, which lie in a folder that lives as long as this."""

    def __init__(self, dataset: Dataset, oracle: Oracle) -> None:
        """Asks the oracle about every sample. Raises UsageError where it accepts one not."""
        self.dataset = dataset
        self._place = TemporaryDirectory(prefix="fornaxc-dataset-")
        self._folder = Path(self._place.name)
        self._said: list[list[Reference]] = []
        notes: dict[str, None] = {}
        digest = ArraysDigest()
        for number, (label, inputs) in enumerate(dataset.read()):
            reference = given_sample(label, inputs, oracle).reference
            notes.update(dict.fromkeys(reference.notes))
            digest.add(label, inputs)
            references = [reference, *reference.others]
            for place, one in enumerate(references):
                save_tensors(self._folder / f"{number}-{place}", one.outputs)
            self._said.append([replace(r, outputs={}, others=()) for r in references])
        self.notes = list(notes)
        self.digest = str(digest)
        self.oracles = list(dict.fromkeys(r.oracle for said in self._said for r in said))

    @property
    def label(self) -> str:
        return f"{self.dataset.label}: {self.dataset.count} samples"

    def samples(self) -> Iterator[Sample]:
        """Every sample with its references, read when it is asked for."""
        for number, (label, inputs) in enumerate(self.dataset.read()):
            references = [
                replace(said, outputs=load_tensors(self._folder / f"{number}-{place}"))
                for place, said in enumerate(self._said[number])
            ]
            yield Sample(label, inputs, replace(references[0], others=tuple(references[1:])))


def compare_dataset(
    artifact: Path, judged: JudgedDataset, tolerances: Tolerances, timeout: float | None, doubled: InDouble
) -> tuple[list[Row], list[str], Summary]:
    """Run the artifact on every sample and compare: the rows that failed, the first `SHOWN` of them, and of each output and oracle the row
    with the largest error; MAX's summaries of its kernels; the statistics."""
    statistics: dict[tuple[str, str], OutputStatistics] = {}
    worst: dict[tuple[str, str], Row] = {}
    failures: list[Row] = []
    rules: set[str] = set()
    failing: list[str] = []
    count = 0
    with Running(artifact, timeout=timeout) as run:
        for sample in judged.samples():
            outputs = run(sample.inputs)
            rows = compare_sample(sample, outputs, tolerances)
            if any(row.verdict == "fail" for row in rows):
                rows = compare_sample(sample, outputs, tolerances, doubled)
            references = {r.oracle: r.outputs for r in (sample.reference, *sample.reference.others)}
            rules.update(row.rule for row in rows)
            for row in rows:
                place = (row.name, row.oracle)
                kept = statistics.setdefault(place, OutputStatistics(*place))
                kept.add(outputs.get(row.name), references[row.oracle].get(row.name), row.verdict == "fail")
                if row.verdict == "fail":
                    failures.append(row)
                elif _error(row) >= _error(worst.get(place)):
                    worst[place] = row
            del failures[SHOWN:]
            count += 1
            failing += [sample.label] if any(row.verdict == "fail" for row in rows) else []
        kernels = run.kernels
    summary = Summary(count, tuple(failing), tuple(statistics.values()), frozenset(rules))
    return [*failures, *worst.values()], kernels, summary


def not_shown(summary: Summary, rows: Sequence[Row]) -> list[str]:
    """A note that names the failing samples of which no row is shown."""
    shown = {row.sample for row in rows if row.verdict == "fail"}
    left = [name for name in summary.failing if name not in shown]
    return [f"{len(left)} more samples fail, without a row: {_compact(left)}"] if left else []


def _compact(names: Sequence[str]) -> str:
    """Names with neighbours of one file as one, `d.npz[20..34]`, the first `NAMED` of them."""
    found: list[tuple[str, int, int] | str] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            found.append(name)
            continue
        file, number = match[1], int(match[2])
        last = found[-1] if found else ""
        if isinstance(last, tuple) and last[0] == file and last[2] == number - 1:
            found[-1] = (file, last[1], number)
        else:
            found.append((file, number, number))
    texts = [
        f if isinstance(f, str) else f"{f[0]}[{f[1]}]" if f[1] == f[2] else f"{f[0]}[{f[1]}..{f[2]}]" for f in found
    ]
    return ", ".join(texts[:NAMED]) + (", … (all are in --json)" if len(texts) > NAMED else "")


def _error(row: Row | None) -> float:
    """By which rows that did not fail are ordered: one that compared nothing before none, and after all others."""
    if row is None:
        return -2.0
    return -1.0 if row.max_abs is None else row.max_abs
