"""The precompiled kernels are kept, and a damaged file is built anew."""

from __future__ import annotations

import errno
import fcntl
import time
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


def _is_building(folder: Path) -> bool:
    for path in folder.glob("*.lock"):
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def _wait_until_building(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while not _is_building(folder):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_who_comes_while_they_are_built_waits_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODULAR_CACHE_DIR", str(tmp_path))
    with kernel_package.kernels_ahead({"MODULAR_CACHE_DIR": str(tmp_path)}):
        _wait_until_building(tmp_path)
        assert build().library_paths()[0].is_relative_to(tmp_path)
    monkeypatch.setattr(kernel_package.subprocess, "Popen", None)
    with kernel_package.kernels_ahead({"MODULAR_CACHE_DIR": str(tmp_path)}):
        pass


def test_nobody_builds_them_for_what_has_failed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), kernel_package.kernels_ahead({"MODULAR_CACHE_DIR": str(tmp_path)}):
        _wait_until_building(tmp_path)
        raise ValueError("no")
    assert not _is_building(tmp_path)
    assert not list(tmp_path.rglob("*.mojoc"))


def test_without_room_for_a_process_they_are_built_when_they_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object, **options: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(kernel_package.subprocess, "Popen", refused)
    with kernel_package.kernels_ahead({"MODULAR_CACHE_DIR": str(tmp_path)}):
        assert not _is_building(tmp_path)
