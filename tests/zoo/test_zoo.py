"""Real models: proven on the CPU, and compiled for GPUs. Minutes each: `make test-zoo`.

The models of `zoo.toml` are downloaded. Further .onnx files are taken from the folder that FORNAXC_MODELS_DIR names; those with a `NAME.io.npz`
beside them (arrays `in::INPUT` and `out::OUTPUT`) are also compared with the outputs recorded there.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import zoo

import fornaxc

GPUS = ("amd:gfx942", "nvidia:sm_90")
_MORE = os.environ.get("FORNAXC_MODELS_DIR", "")
LOCAL = {p.stem: p for p in sorted(Path(_MORE).glob("*.onnx"))} if _MORE else {}

COARSE = {"ppocr_cls_qdq_u8s8_pc": 16 / 255, "ppocr_cls_qop_u8": 8 / 255}
"""By quantised model of FORNAXC_MODELS_DIR, how far its output may be off: a value between two steps, rounded either way, is carried through fifty layers. Its output has steps
of 1/255, and onnxruntime's two runs of the first, with its optimiser and without, are 11 of them apart."""
RECORDED = COARSE | {"llama_tiny_int4_qdq": 0.01}
"""The same of recorded outputs. Those of the language model are of onnxruntime's optimiser: 0.0085 from the outputs in double precision,
where onnxruntime without it is 4e-7 from them."""

pytestmark = pytest.mark.zoo


def model(name: str) -> Path:
    if name in LOCAL:
        return LOCAL[name]
    try:
        return zoo.fetch(name)
    except zoo.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", [*zoo.ENTRIES, *LOCAL])
def test_agrees_with_onnxruntime_on_the_cpu(name: str) -> None:
    if name in COARSE:
        report = fornaxc.verify(model(name), oracles=["ort-noopt"], atol=COARSE[name])
    else:
        report = fornaxc.verify(model(name))
    assert report.verdict == "pass", [row.to_json() for row in report.rows]
    assert report.executed_on == "cpu"


@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize("name", [*zoo.ENTRIES, *LOCAL])
def test_compiles_for_a_gpu(name: str, target: str) -> None:
    result = fornaxc.compile(model(name), target=target)
    assert result.artifact is not None
    assert result.manifest["target"]["label"] == target
    assert result.manifest["host_nodes"] == []


@pytest.mark.parametrize("name", [n for n, p in LOCAL.items() if p.with_suffix(".io.npz").exists()])
def test_agrees_with_recorded_outputs(name: str, tmp_path: Path) -> None:
    recorded = np.load(LOCAL[name].with_suffix(".io.npz"))
    for prefix, file in (("in::", "in.npz"), ("out::", "out.npz")):
        arrays = {k.removeprefix(prefix): recorded[k] for k in recorded.files if k.startswith(prefix)}
        np.savez(tmp_path / file, **arrays)
    files = {"inputs": tmp_path / "in.npz", "expected": tmp_path / "out.npz"}
    report = fornaxc.verify(LOCAL[name], **files, atol=RECORDED.get(name))
    assert report.verdict == "pass", [row.to_json() for row in report.rows]
