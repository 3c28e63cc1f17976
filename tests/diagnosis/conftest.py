"""What tests of diagnosis share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORNAXC_CACHE_DIR", str(tmp_path / "cache"))
