"""Whatever goes wrong: one message or one document, the right exit status, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest
from command_line import Cli

from fornaxc import api
from fornaxc.errors import CacheError, ModelError, ToolchainError, UnsupportedError, UsageError

ROOT = Path(__file__).parent.parent.parent


def failing(error: BaseException) -> Any:
    def compile_fails(model: object, **options: object) -> NoReturn:
        raise error

    return compile_fails


@pytest.mark.parametrize(
    "arguments",
    [
        ("bogus",),
        ("compile",),
        ("compile", "m.onnx", "--bogus"),
        ("compile", "m.onnx", "--dim", "batch"),
        ("compile", "m.onnx", "--dim", "batch=x"),
        ("compile", "m.onnx", "--dim", "=3"),
        ("compile", "m.onnx", "--timeout", "0"),
        ("compile", "m.onnx", "--timeout", "soon"),
        ("compile", "m.onnx", "--stop-after", "lunch"),
        ("verify",),
        ("verify", "m.onnx", "--seed", "-1"),
        ("run",),
        ("run", "m.fxa", "--threads", "0"),
        ("inspect",),
        ("cache", "bogus"),
        ("cache", "explain", "a"),
        ("cache", "gc", "--max-age", "old"),
        ("cache", "gc", "--max-size", "big"),
    ],
)
def test_wrong_command_lines(cli: Cli, arguments: tuple[str, ...]) -> None:
    told = cli(*arguments)
    assert (told.status, told.out) == (2, "")
    assert told.err.startswith("error [FX201]: ")
    document = cli(*arguments, "--json").document
    assert (document["status"], document["code"], document["exit"]) == ("error", "FX201", 2)
    assert document["message"]


def test_the_nearest_verb_is_named(cli: Cli) -> None:
    assert "Did you mean 'verify'?" in cli("verfy", "m.onnx").err


@pytest.mark.parametrize("cls", [UsageError, UnsupportedError, ModelError, ToolchainError, CacheError])
def test_errors_of_the_api(cli: Cli, monkeypatch: pytest.MonkeyPatch, cls: Any) -> None:
    details = [{"node": "a", "op": "Foo", "reason": "no such op"}, {"node": "b", "op": "Bar", "reason": "nor this"}]
    monkeypatch.setattr(api, "compile", failing(cls("it failed", details=details, hint="do this instead")))
    told = cli("compile", "m.onnx")
    assert (told.status, told.out) == (cls.exit, "")
    assert told.err.splitlines() == [
        f"error [{cls.code}]: it failed",
        "  node  op   reason",
        "  a     Foo  no such op",
        "  b     Bar  nor this",
        "hint: do this instead",
    ]
    asked = cli("compile", "m.onnx", "--json")
    assert asked.status == cls.exit
    assert asked.document == {
        "status": "error",
        "code": cls.code,
        "exit": cls.exit,
        "message": "it failed",
        "details": details,
        "hint": "do this instead",
    }


def test_a_single_detail_does_not_repeat_the_message(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    details = [{"path": "m.onnx", "offset": 12}]
    monkeypatch.setattr(api, "compile", failing(ModelError("m.onnx is cut short", details=details)))
    assert cli("compile", "m.onnx").err.splitlines() == ["error [FX400]: m.onnx is cut short", "  offset  12"]


def test_a_defect_is_one_message_and_a_log(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "compile", failing(ZeroDivisionError("oops")))
    told = cli("compile", "m.onnx")
    assert told.status == 5
    assert told.err.startswith("error [FX599]: internal error: ZeroDivisionError: oops\n")
    assert "Traceback" not in told.err
    document = cli("compile", "m.onnx", "--json").document
    log = Path(document["details"][0]["log"])
    assert "ZeroDivisionError: oops" in log.read_text()
    log.unlink()
    assert "Traceback" in cli("compile", "m.onnx", "-vv").err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
def test_interrupts_and_exhaustion(cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    monkeypatch.setattr(api, "compile", failing(error))
    told = cli("compile", "m.onnx")
    status, code = (130, "FX598") if isinstance(error, KeyboardInterrupt) else (5, "FX590")
    assert told.status == status
    assert f"[{code}]" in told.err
    assert "Traceback" not in told.err
    document = cli("compile", "m.onnx", "--json").document
    assert (document["code"], document["exit"]) == (code, status)


@pytest.mark.parametrize(
    ("make", "status", "code"),
    [
        (lambda p: p / "missing.onnx", 4, "FX401"),
        (lambda p: p, 4, "FX402"),
        (lambda p: _written(p / "empty.onnx", b""), 4, "FX403"),
        (lambda p: _written(p / "text.onnx", b"this is no model\n" * 20), 4, "FX405"),
    ],
)
@pytest.mark.parametrize("verb", ["compile", "verify", "inspect"])
def test_files_that_are_no_models(cli: Cli, tmp_path: Path, make: Any, status: int, code: str, verb: str) -> None:
    told = cli(verb, make(tmp_path), "--json")
    assert (told.status, told.document["code"]) == (status, code)


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [("amdd", 2, "FX210"), ("nvidia:sm_1", 2, "FX210"), ("gaudi", 3, "FX320"), ("hexagon", 3, "FX320")],
)
def test_targets_that_cannot_be(cli: Cli, tmp_path: Path, target: str, status: int, code: str) -> None:
    told = cli("compile", _written(tmp_path / "m.onnx", b"x"), "--target", target, "--json")
    assert (told.status, told.document["code"]) == (status, code)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", b"neither"])
def test_files_that_are_no_artifacts(cli: Cli, tmp_path: Path, content: bytes) -> None:
    told = cli("run", _written(tmp_path / "m.fxa", content), "--json")
    assert (told.status, told.document["exit"]) == (4, 4)


def _process(script: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(number: int, status: int) -> None:
    script = (
        "import sys, time; from fornaxc import api; from fornaxc.cli.main import main\n"
        "def waits(model, **options):\n    print('ready', file=sys.stderr, flush=True); time.sleep(30)\n"
        "api.compile = waits; sys.argv[1:] = ['compile', 'm.onnx', '--json']; main()"
    )
    with _process(script) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, "Traceback" in err) == (status, False)
    assert f'"exit": {status}' in out


def test_a_reader_that_goes_away() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "fornaxc", "targets", "--all"],
            cwd=ROOT, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")
