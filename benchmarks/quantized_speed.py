"""What integer kernels give: a quantised network with the pass `fuse-quantized` and without it, each against onnxruntime in the same run.

`python benchmarks/quantized_speed.py [--threads N] [--json]` compiles the network of `graphs/quantized.py` twice. onnxruntime adds products of bytes in
16 bits where the processor has no instruction for more, which saturates with weights of 8 bits; fornaxc's sums are exact.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.graphs.quantized import residual

WAYS: dict[str, list[str]] = {"integer kernels": [], "f32 kernels": ["--no-pass", "fuse-quantized"]}


def fornaxc(*words: str, statuses: Sequence[int] = (0,)) -> str:
    """What the command prints; its messages go to this process's own."""
    done = subprocess.run([sys.executable, "-m", "fornaxc", *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in statuses:
        sys.exit(done.returncode)
    return done.stdout


def measure(model: Path, artifact: Path, threads: int) -> dict[str, Any]:
    """The document of `fornaxc bench`, whose status is 1 where outputs differ: sums that differ in the last bit may be rounded to other bytes."""
    words = ["bench", str(artifact), "--model", str(model), "--against", "ort", "--threads", str(threads)]
    document: dict[str, Any] = json.loads(fornaxc(*words, "--json", "--quiet", statuses=(0, 1)))
    return document


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = {}
    with TemporaryDirectory() as folder:
        model = Path(folder) / "quantized.onnx"
        onnx.save(residual(), model)
        for way, without in WAYS.items():
            artifact = model.with_name(f"{way.split()[0]}.fxa")
            fornaxc("compile", str(model), "--target", "cpu", "-o", str(artifact), "--quiet", *without)
            found[way] = measure(model, artifact, options.threads)
    if options.json:
        print(json.dumps(found))
        return
    print(
        f"{'':>16} {'fornaxc':>10} {'onnxruntime':>12} {'ratio':>6} {'lowest':>7} {'highest':>8} {'outputs differ by':>18}"
    )
    for way, document in found.items():
        ours, theirs = (document[side]["latency"]["p50"] * 1e3 for side in ("ours", "against"))
        ratio, (scores,) = document["ratio"], document["agreement"]
        figures = f"{ratio['median']:6.2f} {ratio['lowest']:7.2f} {ratio['highest']:8.2f} {scores['max_abs']:18.3f}"
        print(f"{way:>16} {ours:8.2f}ms {theirs:10.2f}ms {figures}")


if __name__ == "__main__":
    main(sys.argv[1:])
