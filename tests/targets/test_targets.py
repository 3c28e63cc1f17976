"""Targets: spellings, records, refusals."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fornaxc.errors import UnsupportedError, UsageError
from fornaxc.targets import HostCpu, host_cpu, known_targets, parse_target
from fornaxc.targets.cpu_names import CPUS
from fornaxc.targets.devices import amd_accelerators, apple_chip, nvidia_accelerators, same_architecture
from fornaxc.targets.features import RELEVANT
from fornaxc.targets.gpus import AMD, NVIDIA
from fornaxc.targets.host import features_of_cpuinfo


@pytest.mark.parametrize(
    ("text", "label", "api", "device"),
    [
        ("cpu", "cpu", "", "cpu"),
        ("CPU", "cpu", "", "cpu"),
        ("cpu:x86-64-v3", "cpu:x86-64-v3", "", "cpu"),
        ("neoverse-n1", "cpu:neoverse-n1", "", "cpu"),
        ("nvidia", "nvidia:sm_90", "cuda", "gpu"),
        ("nvidia:sm_80", "nvidia:sm_80", "cuda", "gpu"),
        ("sm_120", "nvidia:sm_120", "cuda", "gpu"),
        ("amd", "amd:gfx942", "hip", "gpu"),
        ("amd:gfx950", "amd:gfx950", "hip", "gpu"),
        ("rocm:gfx1100", "amd:gfx1100", "hip", "gpu"),
        ("amd:mi300x", "amd:gfx942", "hip", "gpu"),
        ("apple:m3", "apple:m3", "metal", "gpu"),
    ],
)
def test_spellings(text: str, label: str, api: str, device: str) -> None:
    target = parse_target(text)
    assert (target.label, target.api, target.device) == (label, api, device)
    assert parse_target(target.label) == target


def test_every_known_target_parses_to_itself() -> None:
    for text in known_targets():
        assert parse_target(text).label == text


@pytest.mark.parametrize(
    ("text", "near"),
    [("nvidai", "nvidia"), ("amd:gfx943", "amd:gfx942"), ("cpu:x86_64-v3", "cpu:x86-64-v3"), ("sm_91", "nvidia:sm_90")],
)
def test_an_unknown_target_lists_the_known_ones_and_the_nearest(text: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_target(text)
    assert caught.value.code == "FX210"
    assert f"did you mean {near}" in caught.value.hint
    listed = {d["target"] for d in caught.value.details} | {a for d in caught.value.details for a in d["also"]}
    assert {"cpu", "nvidia", "amd", "apple", "amd:gfx942", "nvidia:sm_80"} <= listed


@pytest.mark.parametrize("text", ["", ":", "nvidia:", "nvidia:gfx942", "cpu:", "tpu"])
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_target(text)


@pytest.mark.parametrize(("text", "product"), [("gaudi", "Gaudi"), ("npu", "Ascend"), ("qualcomm:v73", "Qualcomm")])
def test_families_without_a_backend_say_why_and_what_to_do(text: str, product: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse_target(text)
    assert caught.value.exit == 3
    assert "MAX has no backend" in caught.value.message
    assert product in caught.value.message
    assert "compile for cpu" in caught.value.hint


def test_apple_compiles_on_a_mac_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(UnsupportedError) as caught:
        parse_target("apple").check_compilable()
    assert (caught.value.exit, caught.value.code) == (3, "FX321")
    assert "Mac" in caught.value.hint


def test_a_cpu_of_another_architecture_is_refused_before_max_aborts() -> None:
    foreign = "neoverse-n1" if host_cpu().architecture == "x86_64" else "x86-64-v3"
    with pytest.raises(UnsupportedError) as caught:
        parse_target(f"cpu:{foreign}").check_compilable()
    assert caught.value.code == "FX322"


def test_gpus_are_cross_compiled_with_a_portable_host_side() -> None:
    target = parse_target("amd")
    target.check_compilable()
    assert target.virtual_cpu in CPUS[host_cpu().architecture]
    assert target.key_parts()["virtual_cpu"] == target.virtual_cpu


def test_this_cpu_runs_its_own_record_but_not_a_larger_or_foreign_one() -> None:
    target = parse_target("cpu")
    record = target.record()
    assert target.cannot_run(record) is None
    host = record["host"]
    larger = {**record, "host": {**host, "features": [*host["features"], "avx1024"]}}
    assert "avx1024" in (target.cannot_run(larger) or "")
    foreign = {**record, "host": {**host, "architecture": "riscv64"}}
    assert "riscv64" in (target.cannot_run(foreign) or "")


def test_a_gpu_artifact_needs_its_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    from fornaxc.targets import base
    from fornaxc.targets.devices import Accelerator

    target = parse_target("nvidia")
    host = HostCpu(
        target.host.system, target.host.architecture, tuple(sorted(RELEVANT["x86_64"] | RELEVANT["aarch64"]))
    )
    monkeypatch.setattr(base, "host_cpu", lambda: host)
    monkeypatch.setattr(base, "accelerators", lambda: (Accelerator("cuda", "sm_90", "H100"),))
    assert target.cannot_run() is None
    assert "sm_80" in (parse_target("nvidia:sm_80").cannot_run() or "")
    assert parse_target("nvidia:sm_90a").cannot_run() is None
    assert "H100" in (parse_target("amd").cannot_run() or "")


def test_key_parts_differ_exactly_when_the_code_does() -> None:
    keys = [str(parse_target(t).key_parts()) for t in ("cpu", "cpu:x86-64-v3", "nvidia", "nvidia:sm_80", "amd")]
    assert len(set(keys)) == len(keys)
    assert parse_target("nvidia").key_parts() == parse_target("cuda:h100").key_parts()


def test_targets_are_values() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse_target("cpu").arch = "x"  # type: ignore[misc]


def test_features_are_those_of_every_processor() -> None:
    text = "processor : 0\nflags\t\t: fpu pni sse4_2 avx2 sha_ni\n\nprocessor : 1\nflags\t\t: fpu pni sse4_2 avx2\n"
    assert features_of_cpuinfo(text, "x86_64") == {"sse3", "sse4.2", "avx2"}
    assert features_of_cpuinfo("Features\t: fp asimd atomics asimddp", "aarch64") == {"neon", "lse", "dotprod"}
    assert features_of_cpuinfo("", "x86_64") == set()


def test_amd_gpus_of_the_kernel_topology(tmp_path: Path) -> None:
    for number, version in enumerate((0, 90402, 110000, 90010)):
        node = tmp_path / str(number)
        node.mkdir()
        (node / "properties").write_text(f"cpu_cores_count 1\ngfx_target_version {version}\n")
    assert [a.arch for a in amd_accelerators(tmp_path)] == ["gfx942", "gfx1100", "gfx90a"]


class _Driver:
    """A CUDA driver with one H200."""

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGetCount(self, count: object) -> int:
        count._obj.value = 1  # type: ignore[attr-defined]
        return 0

    def cuDeviceGet(self, device: object, number: int) -> int:
        return 0

    def cuDeviceGetAttribute(self, value: object, attribute: int, device: object) -> int:
        value._obj.value = {75: 9, 76: 0}[attribute]  # type: ignore[attr-defined]
        return 0

    def cuDeviceGetName(self, name: object, size: int, device: object) -> int:
        name.value = b"NVIDIA H200"  # type: ignore[attr-defined]
        return 0


def test_nvidia_gpus_of_the_driver() -> None:
    (found,) = nvidia_accelerators(_Driver())
    assert (found.api, found.arch, found.name) == ("cuda", "sm_90", "NVIDIA H200")


def test_architectures_and_chips() -> None:
    assert same_architecture("sm_90", "sm_90a")
    assert not same_architecture("sm_86", "sm_80")
    assert (apple_chip("Apple M3 Pro"), apple_chip("Intel(R) Core(TM)")) == ("m3", "")


def _mojo(*arguments: str) -> str:
    mojo = shutil.which("mojo", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if mojo is None:
        pytest.skip("needs the mojo command that comes with max")
    result = subprocess.run([mojo, "build", *arguments], capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_cpu_names_are_those_of_the_toolchain(architecture: str) -> None:
    triple = ("--target-triple", f"{architecture}-unknown-linux-gnu")
    listed = {line.strip() for line in _mojo(*triple, "--print-supported-cpus").splitlines()[1:] if line.strip()}
    assert set(CPUS[architecture]) == listed
    for name in sorted(CPUS[architecture])[::12]:
        effective = _mojo(*triple, "--target-cpu", name, "--print-effective-target")
        features = {f[1:] for f in effective.rpartition("--target-features ")[2].strip().split(",") if f[:1] == "+"}
        assert features & RELEVANT[architecture] == CPUS[architecture][name], name


def test_gpu_architectures_are_those_of_the_toolchain() -> None:
    names = {line.split()[0] for line in _mojo("--print-supported-accelerators").splitlines() if " - " in line}
    assert set(NVIDIA.architectures) == {n for n in names if n.startswith("sm_")}
    assert set(AMD.architectures) == {n for n in names if n.startswith("gfx")}
