"""The engines that are measured beside fornaxc: each imports its library only in the process that runs it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from fornaxc.bench.engines import Engine, Fornaxc, Onnxruntime
from fornaxc.bench.plan import Run
from fornaxc.runtime import processors, use_processors

Array = np.ndarray[Any, np.dtype[Any]]
Outputs = dict[str, Array]


class OpenVino:
    """OpenVINO's CPU plugin, latency mode, computing in f32: it would choose bf16 by itself where the processor has it."""

    def begin(self) -> None:
        import openvino

        self.version = f"OpenVINO {openvino.__version__.split('-')[0]}"

    def load(self, path: str, threads: int | None) -> None:
        import openvino

        use_processors(threads)
        core = openvino.Core()
        settings = {
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": processors(),
        }
        self._request = core.compile_model(core.read_model(path), "CPU", settings).create_infer_request()

    def run(self, inputs: Mapping[str, Array]) -> tuple[Outputs, Run]:
        begun = perf_counter()
        results = self._request.infer(dict(inputs))
        executed = perf_counter()
        outputs = {port.get_any_name(): np.array(value) for port, value in results.items()}
        return outputs, Run(0.0, executed - begun, 0.0, perf_counter() - executed)

    def kernels(self) -> list[str]:
        return []


IREE_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
    "--iree-opt-data-tiling",
)


class Iree:
    """A module that `compile_iree` made, on IREE's threaded CPU device."""

    def begin(self) -> None:
        import iree.runtime  # noqa: F401

        self.version = f"IREE {version('iree-base-runtime')}"

    def load(self, path: str, threads: int | None) -> None:
        from iree import runtime

        use_processors(threads)
        runtime.flags.parse_flags(f"--task_topology_group_count={processors()}")
        module = runtime.load_vm_flatbuffer_file(path, driver="local-task")
        names = [n for n in module.vm_module.function_names if not n.startswith("__") and not n.endswith("$async")]
        self._function = module[names[0]]
        self._order, self._names = _signature(Path(path).with_suffix(".onnx"))

    def run(self, inputs: Mapping[str, Array]) -> tuple[Outputs, Run]:
        begun = perf_counter()
        results = self._function(*(inputs[name] for name in self._order))
        executed = perf_counter()
        several = results if isinstance(results, (tuple, list)) else (results,)
        outputs = {name: np.array(value.to_host()) for name, value in zip(self._names, several, strict=True)}
        return outputs, Run(0.0, executed - begun, 0.0, perf_counter() - executed)

    def kernels(self) -> list[str]:
        return []


def _signature(model: Path) -> tuple[list[str], list[str]]:
    """The names of a model's inputs and outputs in their order."""
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    return [i.name for i in graph.input if i.name not in constants], [o.name for o in graph.output]


def compile_iree(model: Path, folder: Path) -> Path:
    """Compile for this machine's CPU with the flags that make the fastest code. `Refusal` where IREE fails."""
    imported, compiled = folder / f"{model.stem}.mlir", folder / f"{model.stem}.vmfb"
    tool = [sys.executable, "-m", "iree.compiler.tools.import_onnx"]
    command([*tool, str(model), "-o", str(imported), "--opset-version", "17"])
    command([str(Path(sys.executable).with_name("iree-compile")), str(imported), "-o", str(compiled), *IREE_FLAGS])
    beside = compiled.with_suffix(".onnx")
    if not beside.exists():
        beside.symlink_to(model.resolve())
    return compiled


class OnnxruntimeCuda(Onnxruntime):
    """An ONNX file with onnxruntime on an NVIDIA GPU."""

    def load(self, path: str, threads: int | None) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 4
        self._session = ort.InferenceSession(path, options, ["CUDAExecutionProvider", "CPUExecutionProvider"])
        if "CUDAExecutionProvider" not in self._session.get_providers():
            raise RuntimeError("onnxruntime could not start its CUDA provider")
        self._outputs = [o.name for o in self._session.get_outputs()]
        self._inputs = {i.name for i in self._session.get_inputs()}


class TorchCompile:
    """The model, converted to PyTorch by onnx2torch, with torch.compile on an NVIDIA GPU."""

    def begin(self) -> None:
        import torch

        self.version = f"PyTorch {torch.__version__}"

    def load(self, path: str, threads: int | None) -> None:
        import torch
        from onnx2torch import convert

        module = convert(path).eval().cuda()
        self._module = torch.compile(module, mode="max-autotune-no-cudagraphs")
        self._order, self._names = _signature(Path(path))

    def run(self, inputs: Mapping[str, Array]) -> tuple[Outputs, Run]:
        import torch

        begun = perf_counter()
        tensors = [torch.from_numpy(inputs[name]).cuda() for name in self._order]
        prepared = perf_counter()
        with torch.inference_mode():
            results = self._module(*tensors)
        executed = perf_counter()
        torch.cuda.synchronize()
        waited = perf_counter()
        several = results if isinstance(results, (tuple, list)) else (results,)
        outputs = {name: value.cpu().numpy() for name, value in zip(self._names, several, strict=True)}
        return outputs, Run(prepared - begun, executed - prepared, waited - executed, perf_counter() - waited)

    def kernels(self) -> list[str]:
        return []


class Refusal(Exception):
    """An engine that does not take a model; the text says why."""


def command(words: list[str], timeout: float = 1800) -> str:
    """What a command prints. `Refusal` with the first error that it tells where it fails, or with its last words."""
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True, timeout=timeout).stdout
    except subprocess.CalledProcessError as error:
        lines = [line for line in (error.stderr or error.stdout).splitlines() if line.strip()]
        told = [line[line.index("error:") :] for line in lines if "error:" in line]
        raise Refusal([*told[:1], *lines[-1:], f"{words[0]} ended with status {error.returncode}"][0][:300]) from None
    except subprocess.TimeoutExpired:
        raise Refusal(f"{Path(words[0]).name} took longer than {timeout:g} s") from None
    except OSError as error:
        raise Refusal(f"{words[0]} cannot be started: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class Peer:
    """An engine: its title in reports, the packages that it needs, and on which kinds of device it runs.

    `compile` makes what its process loads from the model's file; None where the process loads the file itself.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    engine: Callable[[], Engine]
    device: str = "cpu"
    compile: Callable[[Path, Path], Path] | None = None

    def missing(self) -> str:
        """Why it cannot be measured here; "" where it can."""
        lacking = [p for p in self.packages if not _installed(p)]
        if lacking:
            return f"not installed: {', '.join(lacking)}"
        return _no_cuda() if self.name == "onnxruntime-cuda" else ""


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def _no_cuda() -> str:
    import onnxruntime as ort

    found = "CUDAExecutionProvider" in ort.get_available_providers()
    return "" if found else "onnxruntime is installed without its CUDA provider (onnxruntime-gpu has it)"


def package_versions() -> dict[str, str]:
    """The versions of the packages of peers that are installed."""
    found = {}
    for name in ("onnxruntime", "onnxruntime-gpu", "openvino", "iree-base-compiler", "torch", "onnx2torch"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


FORNAXC = "fornaxc"
PEERS = (
    Peer(FORNAXC, "fornaxc", (), Fornaxc, device="any"),
    Peer("onnxruntime", "onnxruntime", ("onnxruntime",), Onnxruntime),
    Peer("openvino", "OpenVINO, f32", ("openvino",), OpenVino),
    Peer("iree", "IREE, best flags", ("iree.compiler", "iree.runtime"), Iree, compile=compile_iree),
    Peer("onnxruntime-cuda", "onnxruntime, CUDA", ("onnxruntime",), OnnxruntimeCuda, device="gpu"),
    Peer("torch", "torch.compile", ("torch", "onnx2torch"), TorchCompile, device="gpu"),
)
ENGINES: dict[str, Callable[[], Engine]] = {peer.name: peer.engine for peer in PEERS}
