"""The accelerators of this machine, found without MAX: sysfs for AMD, the driver library for NVIDIA, sysctl for Apple."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A GPU: MAX's name of its interface, its architecture (`gfx942`, `sm_90`, `m3`) and its product name, "" if unknown."""

    api: str
    arch: str
    name: str = ""


@cache
def accelerators() -> tuple[Accelerator, ...]:
    """The GPUs that programs on this machine can use."""
    if sys.platform == "darwin":
        return tuple(mac_accelerators())
    return (*amd_accelerators(_KFD_NODES), *nvidia_accelerators())


def same_architecture(found: str, wanted: str) -> bool:
    """Whether code for `wanted` is code for the GPU `found`: equal, but for NVIDIA's `a` of architecture-specific code."""
    return found == wanted or (wanted.startswith("sm_") and found == wanted.removesuffix("a"))


def amd_accelerators(nodes: Path) -> list[Accelerator]:
    """The GPUs among the nodes of the kernel's topology; CPUs there have version 0."""
    found = []
    for properties in sorted(nodes.glob("*/properties")):
        try:
            match = re.search(r"^gfx_target_version (\d+)$", properties.read_text(), re.MULTILINE)
        except OSError:
            continue
        version = int(match[1]) if match else 0
        if version:
            major, minor, stepping = version // 10000, version // 100 % 100, version % 100
            found.append(Accelerator("hip", f"gfx{major}{minor:x}{stepping:x}"))
    return found


def nvidia_accelerators(library: Any = None) -> list[Accelerator]:
    """The GPUs that the CUDA driver shows; none where there is no driver. `library` stands in for it."""
    import ctypes

    try:
        cuda = library or ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return []
    found = []
    for number in range(count.value):
        device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        name = ctypes.create_string_buffer(128)
        failed = (
            cuda.cuDeviceGet(ctypes.byref(device), number)
            or cuda.cuDeviceGetAttribute(ctypes.byref(major), _CAPABILITY_MAJOR, device)
            or cuda.cuDeviceGetAttribute(ctypes.byref(minor), _CAPABILITY_MINOR, device)
            or cuda.cuDeviceGetName(name, len(name), device)
        )
        if not failed:
            found.append(Accelerator("cuda", f"sm_{major.value}{minor.value}", name.value.decode(errors="replace")))
    return found


def mac_accelerators() -> list[Accelerator]:
    """The GPU of a Mac with Apple silicon."""
    import subprocess

    command = ["sysctl", "-n", "machdep.cpu.brand_string"]
    name = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    chip = apple_chip(name)
    return [Accelerator("metal", chip, name)] if chip else []


def apple_chip(brand: str) -> str:
    """`m3` of "Apple M3 Pro"; "" for what is not Apple silicon."""
    match = re.match(r"Apple (M\d+)\b", brand)
    return match[1].lower() if match else ""
