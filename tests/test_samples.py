"""The sample files that ship."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(p for p in (ROOT / "samples").rglob("*") if p.is_file() and "__pycache__" not in p.parts)
FOLDERS = re.compile(rb"/(?:home|Users|root)/[\w.-]+|(?<![\w.])/(?:[\w.-]+/)+samples/[\w.-]+")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_sample_tells_the_folder_that_it_was_made_in(path: Path) -> None:
    content = path.read_bytes()
    assert FOLDERS.findall(content) == []
    for folder in (ROOT, Path.home()):
        assert f"{folder}/".encode() not in content or len(folder.parts) < 2
