"""What is measured of a model: compiling, loading, latency. Every figure comes from a child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

from benchmarks.catalogue import Model
from benchmarks.engines import FORNAXC, Peer, Refusal
from benchmarks.sides import Starter, latencies, loads, spread, start
from fornaxc.bench.side import Job
from fornaxc.errors import FornaxError

HITS = 5  # how often the second compile is measured
ROUNDS = 5  # how often each engine loads a model
TIMEOUT = 1800.0  # seconds that one load or block may take

Cli = Callable[[Sequence[str], Path], tuple[float, dict[str, Any]]]


def cli(words: Sequence[str], cache: Path) -> tuple[float, dict[str, Any]]:
    """Seconds of a whole `fornaxc` process with `--json`, and its document. `Refusal` where it fails."""
    begun = perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "fornaxc", *words, "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "FORNAXC_CACHE_DIR": str(cache)},
    )
    seconds = perf_counter() - begun
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise Refusal((lines or [f"fornaxc ended with status {done.returncode}"])[-1][:300]) from None
    if done.returncode:
        raise Refusal(document.get("message", f"fornaxc ended with status {done.returncode}"))
    return seconds, document


@dataclass
class Bench:
    """Where and how things are measured. `folder` keeps the files of models and a cache between runs, `compiled` what engines made of them.

    `peers` are the engines, fornaxc first; the second, where there is one, is what ratios are against.
    """

    folder: Path
    compiled: Path
    target: str
    peers: Sequence[Peer]
    fornaxc: Cli = cli
    starter: Starter = start
    rounds: int = ROUNDS
    pause: Callable[[float], None] = sleep
    _refused: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        return self.peers[1].name if len(self.peers) > 1 else ""

    def artifact(self, model: Model) -> Path:
        return self.compiled / FORNAXC / f"{model.name}.fxa"

    def loadable(self, peer: Peer, model: Model, file: Path) -> Path:
        """What an engine loads: made where it is not there yet. `Refusal` where the engine fails, the second time at once."""
        key = (peer.name, model.name)
        if key in self._refused:
            raise Refusal(self._refused[key])
        try:
            if peer.name == FORNAXC:
                path = self.artifact(model)
                if not path.exists():
                    self.compile(model, file, self.folder / "cache")
                return path
            if peer.compile is None:
                return file
            path = self.compiled / peer.name / f"{model.name}.vmfb"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                peer.compile(file, path.parent)
            return path
        except Refusal as refusal:
            self._refused[key] = str(refusal)
            raise

    def compile(self, model: Model, file: Path, cache: Path) -> tuple[float, dict[str, Any]]:
        """Compile with fornaxc and keep the artifact; seconds of the process, and what it told."""
        path = self.artifact(model)
        path.parent.mkdir(parents=True, exist_ok=True)
        return self.fornaxc([*self.words(model, file), "-o", str(path)], cache)

    def words(self, model: Model, file: Path) -> list[str]:
        """The command that compiles a model with fornaxc, without its name."""
        return ["compile", str(file), "--target", self.target, *(word for dim in model.dims for word in ("--dim", dim))]

    def jobs(self, model: Model, file: Path, threads: int | None) -> tuple[list[Job], dict[str, Any]]:
        """The job of each engine that takes the model, and {"failed": why} of the others."""
        jobs, failed = [], {}
        for peer in self.peers:
            try:
                path = self.loadable(peer, model, file)
            except Refusal as refusal:
                failed[peer.name] = {"failed": str(refusal)}
                continue
            jobs.append(Job(peer.name, path, model.inputs(), threads, TIMEOUT))
        return jobs, failed


def compiling(bench: Bench, model: Model, file: Path) -> dict[str, Any]:
    """Seconds of compiling, by engine, with all processors.

    Of fornaxc: `cold`, the whole process with an empty cache, MAX's own included; `hits`, the same command again; `phases` of the cold one;
    `artifact`, bytes. Of a peer: `cold`, from the model's file to what can run, its library imported already.
    """
    found: dict[str, Any] = {}
    for peer in bench.peers:
        try:
            found[peer.name] = _ours(bench, model, file) if peer.name == FORNAXC else _theirs(bench, peer, model, file)
        except Refusal as refusal:
            found[peer.name] = {"failed": str(refusal)}
        except FornaxError as error:
            found[peer.name] = {"failed": error.message}
    return found


def _ours(bench: Bench, model: Model, file: Path) -> dict[str, Any]:
    with TemporaryDirectory(prefix="fornaxc-cold-", dir=bench.folder) as name:
        cold, told = bench.compile(model, file, Path(name))
        hits = [bench.fornaxc(bench.words(model, file), Path(name)) for _ in range(HITS)]
        if any(again["cache"] != "hit" for _, again in hits):
            raise Refusal("the second compile was no hit")
    return {
        "cold": cold,
        "hits": spread([seconds for seconds, _ in hits]),
        "phases": told["phases"],
        "artifact": bench.artifact(model).stat().st_size,
    }


def _theirs(bench: Bench, peer: Peer, model: Model, file: Path) -> dict[str, Any]:
    begun = perf_counter()
    with TemporaryDirectory(prefix=f"{peer.name}-cold-", dir=bench.folder) as name:
        path = peer.compile(file, Path(name)) if peer.compile else file
        compiled = perf_counter() - begun if peer.compile else 0.0
        with bench.starter(Job(peer.name, path, model.inputs(), None, TIMEOUT)) as side:
            return {"cold": compiled + side.ready["load_seconds"]}


def loading(bench: Bench, model: Model, file: Path) -> dict[str, Any]:
    """`sides.loads` of every engine, with all processors."""
    jobs, failed = bench.jobs(model, file, None)
    return {**loads(jobs, bench.rounds, bench.starter), **failed}


def latency_at(bench: Bench, model: Model, file: Path, threads: int) -> dict[str, Any]:
    """`sides.latencies` of every engine, each kept to the first `threads` processors."""
    jobs, failed = bench.jobs(model, file, threads)
    return {**latencies(jobs, bench.reference, bench.starter, bench.pause), **failed}
