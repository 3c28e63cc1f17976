"""Goes through what is to be measured, keeps the results, and goes on after a stop where it stood."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import growth
from benchmarks.catalogue import Model, Unavailable
from benchmarks.engines import PEERS, Peer, Refusal, package_versions
from benchmarks.measures import Bench, compiling, latency_at, loading
from benchmarks.results import Results
from fornaxc.errors import FornaxError

HERE = Path(__file__).parent
_MODEL_SOURCES = [HERE / "catalogue.py", HERE / "models.py", *sorted((HERE / "graphs").glob("*.py"))]
MEASURES = ("compile", "load", "latency", "growth")
Work = Callable[[], Mapping[str, Any]]
Tell = Callable[[str], None]


def header(target: str) -> dict[str, Any]:
    """What results must agree in to stand in one table: the machine and the versions of all software."""
    from fornaxc.environment import environment
    from fornaxc.manifest import sources_digest

    told = environment()
    return {
        "target": target,
        "processor": told["processor"],
        "processors": told["processors"],
        "system": told["system"],
        "versions": {**told["versions"], **package_versions()},
        "sources": sources_digest()[:12],
        "models": _digest(_MODEL_SOURCES),
    }


def place(folder: Path, told: Mapping[str, Any], peers: Sequence[Peer]) -> Bench:
    """The folders for what a header says: results of other software or of other models never meet."""
    stamp = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]
    models = folder / f"models-{told['models']}"
    bench = Bench(models, folder / f"compiled-{stamp}", told["target"], peers)
    for made in (bench.folder, bench.compiled):
        made.mkdir(parents=True, exist_ok=True)
    return bench


def _digest(files: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def available(device: str) -> tuple[list[Peer], dict[str, str]]:
    """The engines for a kind of device ("cpu" or "gpu") that are installed, and why the others are not measured."""
    wanted = [peer for peer in PEERS if peer.device in ("any", device)]
    lacking = {peer.title: peer.missing() for peer in wanted}
    return [p for p in wanted if not lacking[p.title]], {title: why for title, why in lacking.items() if why}


def of_model(
    bench: Bench, model: Model, file: Path, measures: Sequence[str], threads: Sequence[int]
) -> Iterator[tuple[str, Work]]:
    """The measurements of one model by their names in the results."""
    if "compile" in measures:
        yield f"{model.name}/compile", partial(compiling, bench, model, file)
    if "load" in measures:
        yield f"{model.name}/load", partial(loading, bench, model, file)
    if "latency" in measures:
        for count in threads:
            yield f"{model.name}/latency/{count}", partial(latency_at, bench, model, file, count)


def measure(
    bench: Bench,
    models: Sequence[Model],
    measures: Sequence[str],
    threads: Sequence[int],
    results: Results,
    tell: Tell,
    notes: Callable[[], list[str]] = list,
) -> None:
    """Measure what is not in the results yet. A model that cannot be had is noted there and told; the rest goes on.

    `notes` says what a reader must know of the machine at the time, such as that it is busy.
    """
    for model in models:
        try:
            file = model.file(bench.folder)
        except Unavailable as reason:
            tell(f"{model.name}: left out: {reason}")
            results.skip(model.name, str(reason))
            continue
        results.skipped.pop(model.name, None)
        for name, work in of_model(bench, model, file, measures, threads):
            _one(name, work, results, tell, notes)
    if "growth" in measures:
        for name, work in growth.units(bench, max(threads)).items():
            _one(name, work, results, tell, notes)


def _one(name: str, work: Work, results: Results, tell: Tell, notes: Callable[[], list[str]]) -> None:
    if name in results:
        tell(f"{name}: measured before")
        return
    told = notes()
    begun = time.perf_counter()
    try:
        found = work()
    except (Refusal, FornaxError) as reason:
        tell(f"{name}: failed: {reason}")
        results.skip(name, str(reason))
        return
    results.skipped.pop(name, None)
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    results.add(name, {"when": when, "notes": told, "engines": found})
    failed = [f"{engine}: {e['failed']}" for engine, e in found.items() if isinstance(e, Mapping) and "failed" in e]
    tell("; ".join([f"{name}: {time.perf_counter() - begun:.0f} s", *failed]))
