"""What a report says of the machine and the software that it was made with."""

from __future__ import annotations

import os
import platform
import time
from typing import Any

from fornaxc.manifest import toolchain_versions
from fornaxc.targets import host_cpu


def environment() -> dict[str, Any]:
    """Versions, operating system, processor and the time now; neither the machine's name nor the user's."""
    host = host_cpu()
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": {"python": platform.python_version(), **toolchain_versions("onnx", "onnxruntime", "numpy")},
        "system": f"{platform.system()} {platform.release()}",
        "processor": _model() or host.architecture,
        "architecture": host.architecture,
        "processors": os.cpu_count() or 1,
    }


def _model() -> str:
    """The processor's name as Linux tells it; "" elsewhere."""
    try:
        with open("/proc/cpuinfo") as lines:
            named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
            return next(named, "")
    except OSError:
        return platform.processor()
