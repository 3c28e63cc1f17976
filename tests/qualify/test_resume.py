"""What makes a qualification run a program anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from fornaxc import manifest
from fornaxc.qualify.run import Plan, _version
from fornaxc.targets import parse_target


@pytest.mark.parametrize(
    "source",
    ["runtime.py", "worker.py", "ir/small.py", "qualify/module.py", "qualify/programs.py", "qualify/arrays.py"],
)
def test_a_change_of_what_compiles_feeds_or_runs_programs_is_seen(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(parse_target("cpu"), tmp_path)
    before = _version(plan)
    assert _version(plan) == before
    changed = Path(manifest.__file__).parent / source
    assert changed.is_file()
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + (b"#" if path == changed else b""))
    assert _version(plan) != before
