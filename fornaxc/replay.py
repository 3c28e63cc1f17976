"""A run of a model recorded on a GPU, whose kernels are then launched as one device graph: no host work between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from fornaxc.errors import ToolchainError, UnsupportedError, UsageError, first_line
from fornaxc.ir.graph import Array

if TYPE_CHECKING:
    from fornaxc.runtime import Model

_KEYS = count(1)  # MAX tells recorded runs of a process apart by number


class Replay:
    """A recorded run: called as the model is, for inputs of the shapes that it was recorded with alone.

    It keeps the buffers of its inputs, outputs and intermediate values on the device until `release`. One call at a time.
    """

    def __init__(self, model: Model, engine: Any, inputs: Mapping[str, Any]) -> None:
        """Record a run of `model`, whose MAX model is `engine`, after one that is not: that one allocates what is needed once.

        Raises UsageError as `Model.run` does, UnsupportedError where there is nothing to record, ToolchainError where MAX cannot record it.
        """
        if model.manifest["target"]["device"] != "gpu":
            raise UnsupportedError(
                "a program on the CPU has no device graph to record", code="FX312", hint="call the model itself"
            )
        if not model.inputs:
            raise UnsupportedError(
                "a model without inputs cannot be recorded", code="FX312", hint="call the model itself"
            )
        self._model, self._engine, self._key = model, engine, next(_KEYS)
        self._buffers = model.prepare(inputs)
        self._results: list[Any] = []
        model.execute(self._buffers)
        model.synchronize()
        self._results = _guarded(lambda: engine.capture(self._key, *self._buffers), "recorded")

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        return self.run(inputs)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Copy the inputs to the device, launch the recorded kernels, copy the outputs back.

        Raises UsageError for a wrong name, dtype or shape, and after `release`; ToolchainError where MAX fails.
        """
        if not self._buffers:
            raise UsageError("this recorded run was released", code="FX264", hint="record another with Model.capture")
        given = self._model.prepare(inputs)
        self._check_shapes(given)
        for kept, new in zip(self._buffers, given, strict=True):
            kept.inplace_copy_from(new)
        _guarded(lambda: self._engine.replay(self._key, *self._buffers), "replayed")
        self._model.synchronize()
        return self._model.fetch(self._results)

    def release(self) -> None:
        """Give the device's memory back; nothing can be replayed any more."""
        self._results = []  # MAX frees the buffers once nobody holds them
        if self._buffers:
            self._engine.release_captured_graph(self._key)
            self._buffers = []

    def _check_shapes(self, given: Sequence[Any]) -> None:
        for tensor, kept, new in zip(self._model.inputs, self._buffers, given, strict=True):
            if tuple(kept.shape) != tuple(new.shape):
                raise UsageError(
                    f"input {tensor.name!r} has the shape {list(new.shape)}; the run was recorded with {list(kept.shape)}",
                    code="FX222",
                    hint="record one run for each set of shapes, or call the model itself",
                )


def _guarded(step: Callable[[], Any], what: str) -> Any:
    try:
        return step()
    except Exception as error:
        raise ToolchainError(
            f"the run cannot be {what}: {first_line(error)}",
            code="FX514",
            hint="call the model itself: programs whose host reads the device's values cannot be recorded",
        ) from error
