"""What makes another key of the compiled code and what does not, and artifacts that were made for another MAX or machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fornaxc import manifest
from fornaxc.artifact import Artifact, check_runnable
from fornaxc.cache import explain, key_of
from fornaxc.compiler import Request, code_key_parts
from fornaxc.errors import ArtifactError
from fornaxc.targets import parse_target

ROOMS = ("ir", "passes", "lowering", "kernels")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in the place of fornaxc's own, with a kernel."""
    for room in (*ROOMS, "importers"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "rule.py").write_text("one = 1\n")
    (tmp_path / "kernels" / "gemm.mojo").write_text("fn gemm(): pass\n")
    (tmp_path / "worker.py").write_text("")
    monkeypatch.setattr(manifest, "__file__", str(tmp_path / "manifest.py"))
    return tmp_path


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The parts that differ; the keys differ exactly if there are any."""
    parts = [difference.path for difference in explain(before, after)]
    assert (key_of(before) != key_of(after)) == bool(parts)
    return parts


def test_a_changed_kernel_is_another_key(sources: Path) -> None:
    request = Request(parse_target("cpu"))
    before = code_key_parts("graph", request)
    assert changed(before, code_key_parts("graph", request)) == []
    (sources / "kernels" / "gemm.mojo").write_text("fn gemm(): past\n")
    assert changed(before, code_key_parts("graph", request)) == ["sources"]


def test_what_the_code_does_not_depend_on_is_the_same_key(sources: Path) -> None:
    request = Request(parse_target("cpu"))
    before = code_key_parts("graph", request)
    (sources / "importers" / "rule.py").write_text("one = 2\n")
    (sources / "kernels" / "notes.txt").write_text("notes")
    (sources / "kernels" / "__pycache__").mkdir()
    (sources / "kernels" / "__pycache__" / "old.py").write_text("")
    later = replace(request, timeout=1.0, stop_after="lower", dump=sources)
    assert changed(before, code_key_parts("graph", later)) == []


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"optimization": 0}, "options.optimization"),
        ({"host_fallback": False}, "options.host_fallback"),
        ({"disabled_passes": ["cse"]}, "options.disabled_passes"),
    ],
)
def test_an_option_of_the_code_is_another_key(sources: Path, change: dict[str, Any], part: str) -> None:
    request = Request(parse_target("cpu"))
    found = changed(code_key_parts("graph", request), code_key_parts("graph", replace(request, **change)))
    assert [name for name in found if name.startswith(part)] == found != []
    assert changed(code_key_parts("graph", request), code_key_parts("other", request)) == ["graph"]


def made(**changes: Any) -> Artifact:
    """An artifact for this machine, with some parts of its config replaced; it has no blobs."""
    target = parse_target("cpu")
    config = {"toolchain": manifest.toolchain_versions(), "target": target.record()}
    return Artifact(Path("model.fxa"), "sha256:0", {}, {**config, **changes}, _no_blob)


def _no_blob(digest: str) -> tuple[Path, int, int]:
    raise AssertionError("the file was opened before its versions were looked at")


def test_an_artifact_for_here_is_taken() -> None:
    check_runnable(made())


def test_an_artifact_of_another_max_names_both_versions() -> None:
    with pytest.raises(ArtifactError) as caught:
        check_runnable(made(toolchain={"max": "0.0.1"}))
    here = manifest.toolchain_versions()["max"]
    assert caught.value.code == "FX455"
    assert "MAX 0.0.1" in caught.value.message and f"MAX {here}" in caught.value.message
    assert caught.value.details == [{"compiled_with": "0.0.1", "installed": here}]


def test_an_artifact_for_another_target_names_it_and_what_is_here() -> None:
    amd = parse_target("amd")
    with pytest.raises(ArtifactError) as caught:
        check_runnable(made(target=amd.record()))
    assert caught.value.code == "FX456"
    assert amd.label in caught.value.message and "gfx942" in caught.value.message
    other = parse_target("cpu").record()
    other["host"] = {**other["host"], "architecture": "riscv64"}
    with pytest.raises(ArtifactError, match="riscv64"):
        check_runnable(made(target=other))
