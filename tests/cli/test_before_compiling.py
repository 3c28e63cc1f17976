"""What is wrong with a request is said before anything is compiled, and what a dead compiler process leaves is said truly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx
import pytest
from command_line import Cli
from onnx import parser

from fornaxc import api, child
from fornaxc.cache import Cache
from fornaxc.cli.progress import Lines
from fornaxc.endings import ending
from fornaxc.errors import ToolchainError

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
f (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }
"""
X, Y = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that must not be compiled."""

    def compiles(*arguments: object, **options: object) -> NoReturn:
        raise AssertionError("it was compiled")

    monkeypatch.setattr(child, "compile_in_child", compiles)
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.mark.parametrize(
    ("inputs", "expected", "code"),
    [
        (None, {"y": Y}, "FX226"),
        ({"z": X}, None, "FX220"),
        ({"x": X, "z": X}, None, "FX220"),
        ({"x": X.astype(np.float64)}, None, "FX221"),
        ({"x": X[:, :2]}, None, "FX222"),
        ({"x": X[0]}, None, "FX222"),
        ({"x": X}, {"z": Y}, "FX231"),
        ({"x": X}, {"y": Y, "z": Y}, "FX231"),
        ({"x": X}, {"y": Y.astype(np.float64)}, "FX232"),
        ({"x": X}, {"y": np.zeros((3, 3), np.float32)}, "FX232"),
        ({"x": X}, {"y": np.zeros((2, 3, 1), np.float32)}, "FX232"),
    ],
)
def test_given_arrays_are_judged_first(
    cli: Cli, model: Path, tmp_path: Path, inputs: Any, expected: Any, code: str
) -> None:
    arguments: list[object] = []
    for option, arrays in (("--inputs", inputs), ("--expected", expected)):
        if arrays is not None:
            np.savez(tmp_path / f"{option[2:]}.npz", **arrays)
            arguments += [option, tmp_path / f"{option[2:]}.npz"]
    told = cli("verify", model, *arguments, "--json")
    assert (told.status, told.document["code"]) == (2, code)


def test_given_files_are_judged_first(cli: Cli, model: Path, tmp_path: Path) -> None:
    assert cli("verify", model, "--inputs", tmp_path / "none.npz", "--json").document["code"] == "FX223"
    (tmp_path / "bad.npz").write_bytes(b"PK")
    assert cli("verify", model, "--inputs", tmp_path / "bad.npz", "--json").document["code"] == "FX224"
    np.savez(tmp_path / "in.npz", x=X)
    missing = cli("verify", model, "--inputs", tmp_path / "in.npz", "--expected", tmp_path / "none.npz", "--json")
    assert missing.document["code"] == "FX223"


@pytest.mark.parametrize("option", [("-t", "cpu"), ("--dim", "n=2"), ("-O", "1"), ("--no-host-fallback",)])
def test_an_artifact_takes_no_options_of_its_compilation(cli: Cli, tmp_path: Path, option: tuple[str, ...]) -> None:
    artifact = tmp_path / "m.fxa"
    artifact.write_bytes(b"PK\x03\x04")
    told = cli("verify", artifact, *option)
    assert told.status == 2
    assert "error [FX218]" in told.err
    assert "cannot be given with an artifact" in told.err
    if option[0] in ("-t", "--dim"):
        assert cli("inspect", artifact, *option, "--json").document["code"] == "FX218"


def test_a_model_takes_no_source_model(cli: Cli, model: Path) -> None:
    assert cli("verify", model, "--model", model, "--json").document["code"] == "FX218"


def test_run_and_load_say_how_an_artifact_is_made(cli: Cli, model: Path) -> None:
    told = cli("run", model)
    assert told.status == 2
    assert "error [FX229]" in told.err
    assert f"fornaxc compile {model} -o m.fxa" in told.err
    assert cli("cache", "import", model, "--json").document["code"] == "FX229"


def test_whoever_waits_for_a_compilation_hears_for_whom(
    cli: Cli, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder is this process; it lets go once the waiting was told."""
    cache = Cache.open(tmp_path / "cache")
    monkeypatch.setattr(child, "compile_in_child", _fails)
    key = api.compile(model, stop_after="optimize", cache_dir=tmp_path / "cache").key
    told: list[str] = []
    free = threading.Event()

    def hold() -> None:
        with cache.lock(f"code-{key}"):
            free.wait(20)

    def hear(phase: str, event: str) -> None:
        told.append(event)
        if "waiting" in event:
            free.set()

    holder = threading.Thread(target=hold)
    holder.start()
    while not (cache.root / "locks" / f"code-{key}.lock").exists():
        time.sleep(0.01)
    with pytest.raises(ToolchainError, match="stands in"):
        api.compile(model, cache_dir=tmp_path / "cache", progress=hear)
    holder.join()
    assert f"process {os.getpid()} is compiling the same thing; waiting for it" in told


def _fails(*arguments: object, **options: object) -> NoReturn:
    raise ToolchainError("it stands in for a compilation")


@pytest.mark.parametrize(
    ("number", "words", "hint"),
    [
        (signal.SIGTERM, "was terminated from outside (SIGTERM)", "stopped it"),
        (signal.SIGKILL, "was killed (SIGKILL)", "memory runs out"),
        (signal.SIGSEGV, "crashed (SIGSEGV)", "MAX crashed"),
    ],
)
def test_a_dead_worker_is_not_done_and_its_end_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    words: str,
    hint: str,
) -> None:
    script = f"import os, sys; os.write(int(sys.argv[1]), b'compile\\n'); os.kill(os.getpid(), {int(number)})"
    real = subprocess.Popen

    def start(command: list[str], **options: Any) -> Any:
        return real([sys.executable, "-c", script, command[-1]], **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(ToolchainError, match=r"phase compile") as caught:
        child.compile_in_child({}, tmp_path, log=tmp_path / "log", progress=Lines())
    assert (caught.value.code, words in caught.value.message) == ("FX503", True)
    assert hint in caught.value.hint
    assert capsys.readouterr().err.splitlines()[-1].startswith("compile: failed after ")


def test_endings_without_a_signal() -> None:
    assert ending(3, "MAX crashed") == ("ended with status 3 and no result", "MAX crashed")
    assert ending(-200, "MAX crashed")[0] == "crashed (signal 200)"


@pytest.mark.parametrize("arguments", [(), ("cache",)])
def test_nothing_asked_is_help_and_no_error(cli: Cli, arguments: tuple[str, ...]) -> None:
    told = cli(*arguments)
    assert (told.status, told.err) == (0, "")
    assert told.out == cli(*arguments, "--help").out


def test_long_lists_of_an_error_are_shortened_for_people(cli: Cli, model: Path) -> None:
    told = cli("compile", model, "-t", "amdd").err
    assert "nvidia:sm_52" in told
    assert "in all)" in told
    assert len(told.splitlines()) < 10
    listed = cli("compile", model, "-t", "amdd", "--json").document["details"]
    assert "nvidia:sm_90" in next(d["also"] for d in listed if d["target"] == "nvidia")


def test_reused_code_is_not_said_to_be_compiled(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = api.CompileResult("cpu", "k" * 64, "miss", tmp_path / "m", {"package": 1.0}, {}, "r" * 64, "hit")
    monkeypatch.setattr(api, "compile", lambda model, **options: result)
    told = cli("compile", "m.onnx").out
    assert "its compiled code was in the cache" in told
    assert "compiled in" not in told
    assert [line.split("  ")[1] for line in told.splitlines()[1:]] == ["artifact", "request key", "code key"]


def test_results_are_short_in_a_console(model: Path, tmp_path: Path) -> None:
    result = api.CompileResult("cpu", "k" * 64, "hit", tmp_path / "m", {"import": 1.0}, {"inputs": []}, "r" * 64, "hit")
    assert "manifest" not in repr(result)
    assert len(repr(result)) < 300
    assert all(word in str(api.verify.__doc__) for word in ("seed", "rtol", "timeout", "verdict", "Raises"))


def test_a_loaded_model_shows_what_it_takes_and_judges_its_inputs() -> None:
    from types import SimpleNamespace

    from fornaxc.errors import UsageError
    from fornaxc.runtime import Model

    tensors = [{"name": name, "dtype": "f32", "shape": ["batch", 3]} for name in "xy"]
    config = {"inputs": tensors[:1], "outputs": tensors[1:], "constraints": [], "target": {"label": "cpu"}}
    artifact: Any = SimpleNamespace(config=config)
    model = Model(artifact, None, None, ())
    assert repr(model) == "<fornaxc model for cpu: x f32[batch, 3] -> y f32[batch, 3]>"
    for arrays, code in (({"z": X}, "FX220"), ({"x": X.astype(np.float64)}, "FX221"), ({"x": X[:, :2]}, "FX222")):
        with pytest.raises(UsageError) as caught:
            model.run(arrays)
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("api_name", "platform", "settings"),
    [
        (
            "hip",
            "linux",
            ["set_virtual_device_api hip", "set_virtual_device_target_arch a", "set_virtual_device_count 1"],
        ),
        ("metal", "linux", []),
        ("", "linux", []),
    ],
)
def test_virtual_devices_are_set_where_max_has_them(
    monkeypatch: pytest.MonkeyPatch, api_name: str, platform: str, settings: list[str]
) -> None:
    from types import SimpleNamespace

    from fornaxc.worker import configure_devices

    told: list[str] = []

    class Driver:
        def __getattr__(self, name: str) -> Any:
            return lambda value: told.append(f"{name} {value}")

    monkeypatch.setitem(sys.modules, "max", SimpleNamespace(driver=Driver()))
    monkeypatch.setattr(sys, "platform", platform)
    configure_devices({"api": api_name, "arch": "a", "cpu": ""})
    assert told == settings
