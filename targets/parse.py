"""From what a user writes to a target."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

from fornaxc.errors import UsageError
from fornaxc.targets.base import Target
from fornaxc.targets.beyond import BEYOND, no_backend
from fornaxc.targets.cpu_names import CPUS
from fornaxc.targets.devices import accelerators
from fornaxc.targets.gpus import APPLE, GPU_FAMILIES, GpuFamily
from fornaxc.targets.host import HostCpu, host_cpu, system_name

_FAMILY_ALIASES: Final = {"cuda": "nvidia", "amdgpu": "amd", "hip": "amd", "rocm": "amd", "metal": "apple"}

_GPU_HOSTS: Final = {"x86_64": "x86-64-v3", "aarch64": "neoverse-n1"}
"""The CPU that the host's side of a GPU artifact is made for: what every server with such a GPU has."""


def parse_target(text: str) -> Target:
    """The target of a spelling such as `cpu`, `cpu:x86-64-v3`, `amd`, `nvidia:sm_80` or a bare `gfx1100`.

    Raises UsageError for an unknown one, UnsupportedError for a family that MAX has no backend for.
    """
    name, colon, arch = text.strip().lower().partition(":")
    name = _FAMILY_ALIASES.get(name, name)
    beyond = no_backend(name)
    if beyond is not None:
        raise beyond
    if not colon and name != "cpu" and name not in _families():
        name, arch = _family_of(name), name
    elif colon and not arch:
        _unknown(text)
    if name == "cpu":
        return _cpu(text, arch)
    if name not in _families():
        _unknown(text)
    return _gpu(text, _families()[name], arch)


def known_targets() -> dict[str, str]:
    """Every canonical spelling, with a description."""
    found = {"cpu": "the CPU of this machine"}
    for family in GPU_FAMILIES:
        if family is APPLE:
            found["apple"] = "the GPU of this Mac"
        found |= {f"{family.family}:{arch}": text for arch, text in family.architectures.items()}
    for architecture, names in CPUS.items():
        found |= {f"cpu:{name}": f"{architecture} CPU" for name in names}
    return found


def _families() -> dict[str, GpuFamily]:
    return {family.family: family for family in GPU_FAMILIES}


def _family_of(arch: str) -> str:
    """The family of a bare architecture; the name itself where there is none."""
    for family in GPU_FAMILIES:
        if arch in family.architectures or arch in family.aliases:
            return family.family
    return "cpu" if any(arch in names for names in CPUS.values()) else arch


def _cpu(text: str, name: str) -> Target:
    here = host_cpu()
    if name in ("", "native", "host"):
        limits = ("its artifacts run on CPUs that have all the instructions of this one",)
        return Target("cpu", "", "cpu", "", here, description="the CPU of this machine", limits=limits)
    candidates = [architecture for architecture, names in CPUS.items() if name in names]
    if not candidates:
        _unknown(text)
    architecture = candidates[0]
    host = HostCpu(here.system, architecture, tuple(sorted(CPUS[architecture][name])))
    limits = (f"compiles on {architecture} machines only",)
    return Target("cpu", name, "cpu", "", host, name, f"{architecture} CPU", limits)


def _gpu(text: str, family: GpuFamily, arch: str) -> Target:
    arch = family.aliases.get(arch, arch) or family.default
    if arch and arch not in family.architectures:
        _unknown(text)
    if family is APPLE:
        arch = arch or _this_macs_gpu()
        host = HostCpu(system_name("darwin"), "aarch64", tuple(sorted(CPUS["aarch64"]["apple-m1"])))
        cpu = "apple-m1"
    else:
        here = host_cpu()
        cpu = _GPU_HOSTS.get(here.architecture, "")
        host = HostCpu(here.system, here.architecture, tuple(sorted(CPUS[here.architecture][cpu]))) if cpu else here
    description = family.architectures.get(arch, "the GPU of this Mac")
    return Target(family.family, arch, "gpu", family.api, host, cpu, description, family.limits)


def _this_macs_gpu() -> str:
    if sys.platform != "darwin":
        return ""
    return next((found.arch for found in accelerators()), "")


def _unknown(text: str) -> NoReturn:
    """Raise the error that lists what there is and the nearest spelling."""
    from difflib import get_close_matches

    spellings = {name: name for name in known_targets()}
    for name in list(spellings):
        spellings.setdefault(name.partition(":")[2] or name, name)
    spellings |= {f.family: f.family for f in GPU_FAMILIES} | {b.name: b.name for b in BEYOND}
    matches = get_close_matches(text.strip().lower(), spellings, n=3)
    near = list(dict.fromkeys(spellings[match] for match in matches))
    known: list[dict[str, object]] = [{"target": "cpu", "also": ["cpu:<LLVM CPU name>"]}]
    known += [{"target": f.family, "also": [f"{f.family}:{arch}" for arch in f.architectures]} for f in GPU_FAMILIES]
    did_you_mean = f"did you mean {' or '.join(near)}? " if near else ""
    hint = f"{did_you_mean}`fornaxc targets` lists them with their products"
    raise UsageError(f"unknown target {text.strip()!r}", code="FX210", details=known, hint=hint)
