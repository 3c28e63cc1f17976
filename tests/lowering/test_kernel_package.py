"""The precompiled kernels are kept, and a damaged file is built anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from fornaxc.lowering import kernel_package

build = kernel_package.kernel_library.__wrapped__


def test_precompiled_kernels_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODULAR_CACHE_DIR", str(tmp_path / "cache"))
    built = build().library_paths()[0]
    (kept,) = (tmp_path / "cache").rglob("*.mojoc")
    assert kept.name == built.name, "the name of the module inside"
    assert build().library_paths() == [kept]
    kept.write_bytes(kept.read_bytes()[:1000])
    assert build().library_paths() != [kept]
    assert build().library_paths()[0].parent == kept.parent


def test_without_a_place_to_keep_them_they_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODULAR_CACHE_DIR", raising=False)
    assert build().library_paths()[0].suffix == ".mojoc"
