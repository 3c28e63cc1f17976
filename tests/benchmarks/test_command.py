"""`python -m benchmarks`: what it refuses, and what it lists."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.engines import PEERS, Peer
from benchmarks.runner import available

MODELS = [
    "light_resnet50",
    "squeezenet",
    "shufflenet",
    "densenet121",
    "inception_v1",
    "detector",
    "magika",
    "ppocrv4_det",
    "ppocrv4_rec",
    "silero_vad",
    "bert_tiny",
    "bert_base",
    "gpt2_prefill",
    "gpt2_decode",
    "vit_tiny",
    "whisper_encoder",
    "lstm_bidir",
]


def test_the_list() -> None:
    found = CliRunner().invoke(main, ["--list"])
    assert found.exit_code == 0
    named = [line.split(":")[0] for line in found.output.splitlines()]
    assert [name for name in named if name in MODELS] == MODELS


def test_only_some() -> None:
    found = CliRunner().invoke(main, ["--list", "--models", "gpt2_*"])
    assert "gpt2_decode" in found.output and "squeezenet" not in found.output


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["--models", "nothing"], 2, "no model is named 'nothing'"),
        (["--threads", "a"], 2, "numbers with commas"),
        (["--threads", "0"], 2, "at least one thread"),
        (["--target", "nonsense"], 2, "nonsense"),
        (["--measures", "luck"], 2, "luck"),
    ],
)
def test_what_is_wrong(words: list[str], status: int, told: str) -> None:
    found = CliRunner().invoke(main, words)
    assert found.exit_code == status and told in found.output


def test_a_target_without_its_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fornaxc.targets.base.accelerators", lambda: ())
    found = CliRunner().invoke(main, ["--target", "nvidia:sm_90"])
    assert found.exit_code == 3
    assert "nvidia:sm_90 cannot run on this machine" in found.output and "sm_90" in found.output


def test_engines_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Peer("absent", "Absent", ("no_such_package_here",), PEERS[0].engine)
    monkeypatch.setattr("benchmarks.runner.PEERS", (*PEERS[:2], absent))
    found, lacking = available("cpu")
    assert [p.name for p in found] == ["fornaxc", "onnxruntime"]
    assert lacking == {"Absent": "not installed: no_such_package_here"}


def test_each_kind_of_device_has_its_peers() -> None:
    on_gpu = {p.name for p in available("gpu")[0]}
    assert "onnxruntime" not in on_gpu and "fornaxc" in on_gpu
