"""What a target is."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fornaxc.errors import UnsupportedError
from fornaxc.targets.devices import accelerators, same_architecture
from fornaxc.targets.host import HostCpu, host_cpu

Family = Literal["cpu", "nvidia", "amd", "apple"]
Device = Literal["cpu", "gpu"]
Api = Literal["", "cuda", "hip", "metal"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a model is compiled for.

    `arch` is an LLVM CPU name or a GPU architecture, "" for the machine at hand. `api` is MAX's name of the GPU's
    interface, "" for a CPU. `host` is the CPU that the code on the host's side is for, and `virtual_cpu` what MAX calls
    it, "" for the CPU of this machine. `limits` says in sentences what the target cannot do.
    """

    family: Family
    arch: str
    device: Device
    api: Api
    host: HostCpu
    virtual_cpu: str = ""
    description: str = ""
    limits: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The canonical spelling: `cpu`, `cpu:x86-64-v3`, `amd:gfx942`."""
        return f"{self.family}:{self.arch}" if self.arch else self.family

    def key_parts(self) -> dict[str, Any]:
        """What of the target decides the compiled code."""
        return {
            "family": self.family,
            "arch": self.arch,
            "api": self.api,
            "virtual_cpu": self.virtual_cpu,
            "host": self.host.to_json(),
        }

    def record(self) -> dict[str, Any]:
        """The target as an artifact's manifest holds it; `cannot_run` reads it."""
        return {"label": self.label, "device": self.device, **self.key_parts()}

    def worker_job(self) -> dict[str, str]:
        """The target as `fornaxc.worker` takes it, "" where MAX's own choice is meant."""
        arch = self.arch if self.device == "gpu" else ""
        return {"device_kind": self.device, "api": self.api, "arch": arch, "cpu": self.virtual_cpu}

    def check_compilable(self) -> None:
        """Raise UnsupportedError where MAX on this machine cannot compile for the target."""
        here = host_cpu()
        if self.api == "metal" and sys.platform != "darwin":
            raise UnsupportedError(
                f"{self.label} compiles on a Mac only: MAX has no virtual Metal device, so it needs the GPU itself",
                code="FX321",
                hint="run fornaxc on a Mac with Apple silicon, or compile for cpu, nvidia or amd here",
            )
        if self.host.architecture != here.architecture:
            raise UnsupportedError(
                f"{self.label} needs {self.host.architecture} code, and MAX makes CPU code for the architecture that it "
                f"runs on only: here {here.architecture}",
                code="FX322",
                hint=f"run fornaxc on a machine whose CPU is {self.host.architecture}",
            )

    def cannot_run(self, record: Mapping[str, Any] | None = None) -> str | None:
        """Why an artifact with this `record` (default: this target's) cannot run on this machine; None if it can."""
        made_for = self.record() if record is None else record
        reason = host_cpu().cannot_run(made_for["host"])
        if reason or made_for["device"] == "cpu":
            return reason
        found = accelerators()
        if any(f.api == made_for["api"] and same_architecture(f.arch, made_for["arch"]) for f in found):
            return None
        here = ", ".join(f"{f.arch} ({f.name})" if f.name else f.arch for f in found) or "none"
        return f"it needs a GPU of architecture {made_for['arch'] or made_for['family']}; GPUs here: {here}"
