"""The digest of the kernels that a MAX graph calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fornaxc.qualify import kernel_sources


def call(*names: str) -> str:
    return "\n".join(f'%1 = mo.custom [symbol = "{name}"](%0)' for name in names)


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(kernel_sources, "_FOLDER", tmp_path)
    (tmp_path / "base.mojo").write_text("comptime N = 1")
    (tmp_path / "sum.mojo").write_text('from .base import N\n@extensibility.register("fx_sum")\n')
    (tmp_path / "copy.mojo").write_text('@extensibility.register("fx_copy")\n')
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    kernel_sources._source.cache_clear()
    kernel_sources._registry.cache_clear()


def test_only_what_is_called_and_what_that_imports_counts(kernels: Path) -> None:
    none, copies, sums = (kernel_sources.kernels_digest(t) for t in ("", call("fx_copy"), call("fx_sum")))
    assert len({none, copies, sums}) == 3
    assert kernel_sources.kernels_digest("unrelated" + call("fx_sum", "fx_sum")) == sums
    (kernels / "base.mojo").write_text("comptime N = 2")
    forget()
    assert kernel_sources.kernels_digest(call("fx_sum")) != sums
    assert kernel_sources.kernels_digest(call("fx_copy")) == copies


def test_every_kernel_of_the_project_is_found() -> None:
    forget()
    registered = set(kernel_sources._registry())
    assert {"fx_bmm", "fx_copy", "fx_conv2d"} <= registered
