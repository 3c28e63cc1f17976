"""Loads and runs an artifact. Needs max and numpy; neither onnx, onnxruntime nor jaxlib."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fornaxc.artifact import Artifact, check_runnable, open_artifact
from fornaxc.cache import media
from fornaxc.errors import ToolchainError, UsageError, first_line
from fornaxc.ir.dims import parse_dim
from fornaxc.ir.graph import Array, Constraint
from fornaxc.ir.small import restored, stored
from fornaxc.ir.types import DType, TensorType
from fornaxc.replay import Replay
from fornaxc.signature import check_inputs
from fornaxc.timers import first_run

PLAIN = frozenset(t for t in DType if t.numpy.kind in "iufb" and t.numpy.isbuiltin == 1)
"""The types that numpy itself has, so that DLPack carries them."""
_started_in: set[int] = set()  # the processes in which MAX was started: this one and what it was forked from
JUDGED = 64  # sets of types and shapes of inputs that a model remembers


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of a model: its name and its type, whose dims may be symbolic."""

    name: str
    type: TensorType


class Model:
    """A loaded artifact. Call it with one numpy array per input, by name; it returns a dict of outputs by name."""

    def __init__(self, artifact: Artifact, engine: Any, device: Any, keep: Sequence[Any]) -> None:
        self.manifest = artifact.config
        self.inputs = [_tensor(t) for t in artifact.config["inputs"]]
        self.outputs = [_tensor(t) for t in artifact.config["outputs"]]
        # of an older artifact it is not known
        own = artifact.config.get("own_outputs") or [False] * len(self.outputs)
        types = [t.type.dtype for t in self.outputs]
        self._given = [(t.name, d, d in PLAIN, o) for t, d, o in zip(self.outputs, types, own, strict=True)]
        self._constraints = [
            Constraint(_dim(left), relation, _dim(right), why)
            for left, relation, right, why in artifact.config["constraints"]
        ]
        self._judged: set[Any] = set()
        self._engine = engine
        self._device = device
        self._keep = keep  # the mapped weights must outlive the engine's model

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        return self.run(inputs)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """As a call, for input names that are not identifiers.

        Raises UsageError for a wrong name, dtype or shape, ToolchainError where MAX fails.
        """
        return self.fetch(self.execute(self.prepare(inputs)))

    def prepare(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The inputs, checked, as buffers on the device, in the order of the signature: the first of the three steps of `run`."""
        arrays = self._accepted(inputs)
        return [to_buffer(a, t.type.dtype, self._device) for a, t in zip(arrays, self.inputs, strict=True)]

    def _accepted(self, inputs: Mapping[str, Any]) -> list[Array]:
        """The arrays in the order of the signature. Types and shapes that were judged once are not judged again."""
        if len(inputs) == len(self.inputs):
            given: list[Any] = [inputs.get(t.name) for t in self.inputs]
            if all(type(a) is np.ndarray for a in given) and _kind(given) in self._judged:
                return given
        arrays, _ = check_inputs({t.name: t.type for t in self.inputs}, self._constraints, inputs)
        found = list(arrays.values())
        if len(self._judged) < JUDGED:
            self._judged.add(_kind(found))
        return found

    def execute(self, buffers: Sequence[Any]) -> list[Any]:
        """Start the program, whose results a GPU may still be computing when this returns: `synchronize` waits for them."""
        check_process()
        try:
            with self._around_run():
                results: list[Any] = self._engine.execute(*buffers)
        except Exception as error:
            raise ToolchainError(f"the model failed at run time: {first_line(error)}", code="FX510") from error
        return results

    def _around_run(self) -> AbstractContextManager[None]:
        """A GPU's threads are left alone."""
        return first_run() if self.manifest["target"]["device"] == "cpu" else nullcontext()

    def fetch(self, results: Sequence[Any]) -> dict[str, Array]:
        """The results as arrays by output name, on the host: copies, but of results whose memory nothing else has."""
        return {
            name: _plain_array(_on_host(r), own) if plain else to_array(r, dtype)
            for (name, dtype, plain, own), r in zip(self._given, results, strict=True)
        }

    def capture(self, inputs: Mapping[str, Any]) -> Replay:
        """A run with inputs of these shapes, recorded on the GPU to be launched again at once: see `Replay`."""
        return Replay(self, self._engine, inputs)

    def synchronize(self) -> None:
        """Wait until the device has done all that it was given."""
        self._device.synchronize()

    def kernels(self) -> list[str]:
        """What MAX says of each kernel of the program, in the order of execution: the operations that were fused into it."""
        return [str(summary) for summary in self._engine.kernel_summaries]

    def __repr__(self) -> str:
        takes, gives = (", ".join(f"{t.name} {t.type}" for t in side) for side in (self.inputs, self.outputs))
        return f"<fornaxc model for {self.manifest['target']['label']}: {takes} -> {gives}>"


def load(path: str | Path, *, threads: int | None = None) -> Model:
    """Load an artifact on the device of its target.

    `threads` bounds the threads of CPU kernels by the processors that this process may use (Linux only; MAX's own setting
    aborts the process): it is process-wide and works for the first load only. Raises ArtifactError for a damaged artifact or one made for another MAX version or target, UsageError
    in a process forked from one that had loaded a model.
    """
    artifact = open_artifact(Path(path))
    check_runnable(artifact)
    check_process()
    _started_in.add(os.getpid())
    types, arrays = artifact.weights()
    use_processors(threads)

    from max import driver, engine

    on_gpu = artifact.config["target"]["device"] == "gpu"
    host = driver.CPU()
    device = driver.Accelerator() if on_gpu else host
    session = engine.InferenceSession(devices=[device, host] if on_gpu else [host])
    try:
        compiled = engine.read(io.BytesIO(artifact.read(media.MEF)))
        registry = {
            f"w{i}": to_buffer(a, t.dtype, device) if on_gpu or t.dtype not in PLAIN else a
            for i, (a, t) in enumerate(zip(arrays, types, strict=True))
        }
        model = session.init(compiled, weights_registry=registry)
    except Exception as error:
        raise ToolchainError(f"MAX cannot load {path}: {first_line(error)}", code="FX511") from error
    return Model(artifact, model, device, (arrays, registry, session))


def check_process() -> None:
    """UsageError in a process that was forked from one that had loaded a model: MAX's threads stayed there, and a run would wait for them forever."""
    if _started_in and os.getpid() not in _started_in:
        raise UsageError(
            "this process was forked from one that had loaded a model, and lacks the threads of MAX",
            code="FX265",
            hint="let multiprocessing start processes by 'spawn' or 'forkserver', or load no model before they are forked",
        )


def use_processors(count: int | None) -> None:
    """Keep this process to the first `count` of the processors that it may use, where the system can (Linux)."""
    if count and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _kind(arrays: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([(a.dtype, a.shape) for a in arrays])


def to_buffer(array: Array, dtype: DType, device: Any) -> Any:
    """An array of any element type as a buffer on a device; of a small one, its storage."""
    from max.driver import Buffer

    if dtype in PLAIN and dtype is not DType.BOOL:
        return Buffer.from_numpy(np.ascontiguousarray(array).reshape(array.shape)).to(device)
    contiguous = np.ascontiguousarray(stored(array, dtype)).reshape(array.shape)
    if dtype is DType.BOOL:  # MAX cannot take a rank-0 array of bool
        buffer = Buffer.from_numpy(contiguous.reshape(-1)).view(max_dtype(dtype), array.shape)
    elif dtype.is_small:
        buffer = Buffer.from_numpy(contiguous)
    else:
        buffer = Buffer.from_numpy(contiguous.view(np.uint16)).view(max_dtype(dtype), array.shape)
    return buffer.to(device)


def to_array(buffer: Any, dtype: DType, *, own: bool = False) -> Array:
    """The inverse of `to_buffer`: a copy, or the buffer's memory where it is this array's `own`, which keeps it."""
    host = _on_host(buffer)
    if dtype in PLAIN:
        return _plain_array(host, own)
    if dtype.is_small:
        return restored(np.array(host.to_numpy()), dtype)
    return np.array(host.view(max_dtype(DType.U16), tuple(host.shape)).to_numpy()).view(dtype.numpy)


def _on_host(buffer: Any) -> Any:
    if buffer.is_host:
        return buffer
    from max.driver import CPU

    return buffer.to(CPU())


def _plain_array(host: Any, own: bool) -> Array:
    """A buffer on the host as an array, by the protocol itself: what `to_numpy` asks before takes as long again after a run, which leaves no cache warm."""
    array: Array = np.from_dlpack(host)
    return array if own and array.flags.writeable else array.copy()


def max_dtype(dtype: DType) -> Any:
    """MAX's element type of the IR's."""
    from max.dtype import DType as MaxDType

    return getattr(MaxDType, _MAX_NAMES[dtype])


_MAX_NAMES = {
    DType.BOOL: "bool",
    DType.I8: "int8",
    DType.I16: "int16",
    DType.I32: "int32",
    DType.I64: "int64",
    DType.U8: "uint8",
    DType.U16: "uint16",
    DType.U32: "uint32",
    DType.U64: "uint64",
    DType.F16: "float16",
    DType.BF16: "bfloat16",
    DType.F32: "float32",
    DType.F64: "float64",
}


def _dim(value: int | str) -> Any:
    return parse_dim(value) if isinstance(value, str) else value


def _tensor(document: Mapping[str, Any]) -> Tensor:
    return Tensor(document["name"], TensorType(DType(document["dtype"]), tuple(_dim(d) for d in document["shape"])))
