"""The GPU architectures that MAX 26.7.0 has code generation for, as `mojo build --print-supported-accelerators` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fornaxc.targets.base import Api, Family


@dataclass(frozen=True, slots=True)
class GpuFamily:
    """A vendor's GPUs: the architecture that the bare name stands for, all of them with products, other spellings."""

    family: Family
    api: Api
    default: str
    architectures: dict[str, str]
    aliases: dict[str, str]
    limits: tuple[str, ...] = ()


NVIDIA: Final = GpuFamily(
    "nvidia",
    "cuda",
    "sm_90",
    {
        "sm_52": "Maxwell: GTX 970",
        "sm_60": "Pascal: Tesla P100",
        "sm_61": "Pascal: GTX 1060, GTX 1080 Ti",
        "sm_75": "Turing: RTX 2060, T4",
        "sm_80": "Ampere: A100",
        "sm_86": "Ampere: A10, RTX 3090",
        "sm_87": "Ampere: Jetson Orin",
        "sm_89": "Ada Lovelace: L4, L40S, RTX 4090",
        "sm_90": "Hopper: H100, H200",
        "sm_90a": "Hopper, architecture-specific instructions",
        "sm_100": "Blackwell: B100, B200",
        "sm_100a": "Blackwell, architecture-specific instructions",
        "sm_103": "Blackwell: B300",
        "sm_103a": "Blackwell: B300, architecture-specific instructions",
        "sm_110": "Blackwell: Jetson Thor",
        "sm_110a": "Blackwell: Jetson Thor, architecture-specific instructions",
        "sm_120": "Blackwell: RTX 5090",
        "sm_120a": "Blackwell: RTX 5090, architecture-specific instructions",
        "sm_121": "Blackwell: DGX Spark",
        "sm_121a": "Blackwell: DGX Spark, architecture-specific instructions",
    },
    {"a100": "sm_80", "a10": "sm_86", "l4": "sm_89", "h100": "sm_90", "h200": "sm_90", "b200": "sm_100"},
)

AMD: Final = GpuFamily(
    "amd",
    "hip",
    "gfx942",
    {
        "gfx90a": "CDNA2: MI210, MI250X",
        "gfx942": "CDNA3: MI300X, MI325X",
        "gfx950": "CDNA4: MI350X, MI355X",
        "gfx1030": "RDNA2: Radeon RX 6800, 6900",
        "gfx1033": "RDNA2: Van Gogh",
        "gfx1100": "RDNA3: Radeon RX 7900",
        "gfx1101": "RDNA3: Radeon RX 7700, 7800",
        "gfx1102": "RDNA3: Radeon RX 7600",
        "gfx1103": "RDNA3: Radeon 780M",
        "gfx1150": "RDNA3.5: Radeon 880M, 890M",
        "gfx1151": "RDNA3.5: Radeon 8060S",
        "gfx1152": "RDNA3.5: Radeon 860M",
        "gfx1200": "RDNA4: Radeon RX 9060",
        "gfx1201": "RDNA4: Radeon RX 9070",
        "gfx1250": "CDNA5: MI455X",
    },
    {"mi250x": "gfx90a", "mi300x": "gfx942", "mi325x": "gfx942", "mi355x": "gfx950", "mi455x": "gfx1250"},
)

APPLE: Final = GpuFamily(
    "apple",
    "metal",
    "",
    {f"m{number}": f"Apple M{number}" for number in range(1, 6)},
    {},
    ("compiles on a Mac only: MAX has no virtual Metal device",),
)

GPU_FAMILIES: Final = (NVIDIA, AMD, APPLE)
