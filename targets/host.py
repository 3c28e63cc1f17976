"""The CPU of this machine: what its code may use, without naming the machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fornaxc.targets.features import AARCH64_FLAGS, AARCH64_SYSCTL, RELEVANT, X86_64_FLAGS


@dataclass(frozen=True, slots=True)
class HostCpu:
    """A CPU that code is made for. `features` are LLVM's names of instruction sets, sorted."""

    system: str
    architecture: str
    features: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"system": self.system, "architecture": self.architecture, "features": list(self.features)}

    def cannot_run(self, made_for: Mapping[str, Any]) -> str | None:
        """Why code for another CPU (as `to_json` gives it) cannot run on this one; None if it can."""
        theirs = f"{made_for['system']} on {made_for['architecture']}"
        if (made_for["system"], made_for["architecture"]) != (self.system, self.architecture):
            return f"its code is for {theirs}; this machine is {self.system} on {self.architecture}"
        missing = sorted(set(made_for["features"]) - set(self.features))
        if missing:
            return f"its code uses {', '.join(missing)}, which the CPU of this machine lacks"
        return None


@cache
def host_cpu() -> HostCpu:
    """The CPU of this machine."""
    architecture = normal_architecture(os.uname().machine)
    found = _mac_features() if sys.platform == "darwin" else _linux_features(architecture, Path("/proc/cpuinfo"))
    return HostCpu(system_name(sys.platform), architecture, tuple(sorted(found)))


def normal_architecture(machine: str) -> str:
    """LLVM's name of an architecture that the system may call otherwise."""
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower())


def system_name(platform_name: str) -> str:
    """The operating system of a `sys.platform`, as artifacts record it."""
    return {"darwin": "macos", "win32": "windows"}.get(platform_name, platform_name)


def _linux_features(architecture: str, cpuinfo: Path) -> set[str]:
    try:
        text = cpuinfo.read_text()
    except OSError:
        return set()
    return features_of_cpuinfo(text, architecture)


def features_of_cpuinfo(text: str, architecture: str) -> set[str]:
    """The relevant features that every processor of a /proc/cpuinfo has."""
    names = X86_64_FLAGS if architecture == "x86_64" else AARCH64_FLAGS
    key = "flags" if architecture == "x86_64" else "Features"
    processors = [
        {names.get(flag, flag) for flag in line.partition(":")[2].split()}
        for line in text.splitlines()
        if line.partition(":")[0].strip() == key
    ]
    return _relevant(set.intersection(*processors) if processors else (), architecture)


def _mac_features() -> set[str]:
    """Apple silicon lists its features as `hw.optional.arm.FEAT_X: 1`."""
    import subprocess

    result = subprocess.run(["sysctl", "hw.optional"], capture_output=True, text=True, check=False)
    present = {line.split(":")[0] for line in result.stdout.splitlines() if line.endswith(": 1")}
    return _relevant({"neon", *(name for key, name in AARCH64_SYSCTL.items() if key in present)}, "aarch64")


def _relevant(features: Iterable[str], architecture: str) -> set[str]:
    return set(features) & RELEVANT.get(architecture, frozenset())
