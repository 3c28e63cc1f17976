"""What makes another key of the compiled code or of a request and what does not, and artifacts that were made for another MAX or machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fornaxc import manifest
from fornaxc.artifact import Artifact, check_runnable
from fornaxc.cache import Cache, explain, key_of
from fornaxc.compiler import Request, _request_parts, code_key_parts
from fornaxc.errors import ArtifactError
from fornaxc.sources import Choice
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
    request = Request(parse_target("amd"))
    found = changed(code_key_parts("graph", request), code_key_parts("graph", replace(request, **change)))
    assert [name for name in found if name.startswith(part)] == found != []
    assert changed(code_key_parts("graph", request), code_key_parts("other", request)) == ["graph"]


def test_on_a_cpu_all_levels_of_optimization_are_one(sources: Path) -> None:
    request = Request(parse_target("cpu"))
    assert changed(code_key_parts("graph", request), code_key_parts("graph", replace(request, optimization=3))) == []


SOURCE = {"format": "onnx", "digest": "sha256:0", "external": {"w.bin": "sha256:1"}}
ASKED = Request(parse_target("nvidia:sm_80"), {"n": 2})


@pytest.fixture
def request_parts(sources: Path) -> Callable[..., dict[str, Any]]:
    """request_parts(request, source) are the named parts of the key of a request."""
    cache = Cache.at(sources / "cache" / "v1")
    return lambda request=ASKED, source=SOURCE: _request_parts(source, request, cache)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"dims": {"n": 3}}, ["dims.n"]),
        ({"dims": {"n": 2, "m": 3}}, ["dims.m"]),
        ({"dims": {}}, ["dims.n"]),
        ({"target": parse_target("nvidia:sm_90")}, ["target.arch"]),
        ({"optimization": 2}, ["options.optimization"]),
        ({"host_fallback": False}, ["options.host_fallback"]),
        ({"disabled_passes": ["cse"]}, ["options.disabled_passes[0]"]),
        ({"choice": Choice(entry="predict")}, ["entry"]),
        ({"timeout": 1.0, "stop_after": "lower", "dump": Path("dump")}, []),
    ],
    ids=" ".join,
)
def test_an_option_is_its_own_part_of_the_request_key(
    request_parts: Callable[..., dict[str, Any]], change: dict[str, Any], parts: list[str]
) -> None:
    assert changed(request_parts(), request_parts(replace(ASKED, **change))) == parts


@pytest.mark.parametrize(
    ("change", "part"),
    [({"digest": "sha256:2"}, "source.digest"), ({"external": {"w.bin": "sha256:2"}}, "source.external.w.bin")],
)
def test_a_file_of_the_model_is_its_own_part_of_the_request_key(
    request_parts: Callable[..., dict[str, Any]], change: dict[str, Any], part: str
) -> None:
    assert changed(request_parts(), request_parts(source=SOURCE | change)) == [part]


def test_frozen_inputs_count_by_their_bytes(sources: Path, request_parts: Callable[..., dict[str, Any]]) -> None:
    keys = []
    for name, content in (("a.npz", b"1"), ("b.npz", b"1"), ("c.npz", b"2")):
        (sources / name).write_bytes(content)
        keys.append(request_parts(replace(ASKED, choice=Choice(freeze=sources / name))))
    assert changed(keys[0], keys[1]) == []
    assert changed(keys[0], keys[2]) == changed(request_parts(), keys[0]) == ["freeze"]


def test_every_source_and_version_counts_for_a_request(
    sources: Path, request_parts: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = request_parts()
    (sources / "importers" / "rule.py").write_text("one = 2\n")
    after = request_parts()
    assert changed(before, after) == ["sources"]
    monkeypatch.setattr(manifest, "installed_version", lambda package: "0.0.1")
    packages = ("max", "ml_dtypes", "numpy", "onnx")
    assert changed(after, request_parts()) == [f"toolchain.{package}" for package in packages]


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
