"""Accelerators that people ask for and MAX cannot compile for: why, and what to do instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fornaxc.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Beyond:
    """A family of accelerators without a backend in MAX; `instead` names what its vendor runs ONNX models with."""

    name: str
    product: str
    aliases: tuple[str, ...]
    instead: str


BEYOND: Final = (
    Beyond("gaudi", "Intel Gaudi", ("hpu", "habana"), "Intel's Gaudi software (PyTorch with the hpu device)"),
    Beyond("ascend", "Huawei Ascend", ("npu", "cann"), "Huawei's CANN (its ATC tool reads ONNX)"),
    Beyond(
        "qualcomm",
        "Qualcomm Hexagon and Cloud AI",
        ("hexagon", "qnn", "snapdragon"),
        "onnxruntime's QNN execution provider",
    ),
)


def no_backend(name: str) -> UnsupportedError | None:
    """The error for a name or alias of a family that MAX has no backend for; None for any other name."""
    for family in BEYOND:
        if name in (family.name, *family.aliases):
            return UnsupportedError(
                f"MAX has no backend for {family.product}, so fornaxc cannot compile for {family.name!r}",
                code="FX320",
                hint=f"compile for cpu, nvidia, amd or apple (`fornaxc targets`), or run the model with {family.instead}",
            )
    return None
