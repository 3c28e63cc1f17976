"""What all tests share: one place for the precompiled kernels, which each process that compiles would else build for itself."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or "MODULAR_CACHE_DIR" in os.environ:  # a worker has its parent's
        return
    folder = tempfile.mkdtemp(prefix="fornaxc-tests-")
    os.environ["MODULAR_CACHE_DIR"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
