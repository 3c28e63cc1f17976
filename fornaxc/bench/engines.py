"""What runs in the process of a side: fornaxc's runtime, or onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any, Protocol

from fornaxc.bench.plan import Run
from fornaxc.ir.graph import Array


class Engine(Protocol):
    """`begin` imports what is needed, `load` opens the file; then it runs."""

    version: str

    def begin(self) -> None: ...

    def load(self, path: str, threads: int | None) -> None: ...

    def run(self, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], Run]: ...

    def kernels(self) -> list[str]: ...


class Fornaxc:
    """An artifact on the device of its target."""

    def begin(self) -> None:
        from max import driver, engine  # noqa: F401

        from fornaxc.manifest import installed_version

        self.version = f"MAX {installed_version('max')}"

    def load(self, path: str, threads: int | None) -> None:
        from fornaxc.runtime import load

        self._model = load(path, threads=threads)

    def run(self, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], Run]:
        begun = perf_counter()
        buffers = self._model.prepare(inputs)
        prepared = perf_counter()
        results = self._model.execute(buffers)
        executed = perf_counter()
        self._model.synchronize()
        waited = perf_counter()
        outputs = self._model.fetch(results)
        return outputs, Run(prepared - begun, executed - prepared, waited - executed, perf_counter() - waited)

    def kernels(self) -> list[str]:
        return self._model.kernels()


class Onnxruntime:
    """An ONNX file with onnxruntime on the CPU, all its optimisations on."""

    def begin(self) -> None:
        import onnxruntime as ort

        self.version = f"onnxruntime {ort.__version__}"

    def load(self, path: str, threads: int | None) -> None:
        import onnxruntime as ort

        from fornaxc.runtime import processors, use_processors

        use_processors(threads)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = processors()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        self._session = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
        self._outputs = [o.name for o in self._session.get_outputs()]
        self._inputs = {i.name for i in self._session.get_inputs()}

    def run(self, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], Run]:
        from fornaxc.verification.ort_values import from_ort, to_ort

        begun = perf_counter()
        feeds = {name: to_ort(array) for name, array in inputs.items() if name in self._inputs}
        prepared = perf_counter()
        results = self._session.run_with_ort_values(self._outputs, feeds)
        executed = perf_counter()
        outputs = {name: from_ort(value) for name, value in zip(self._outputs, results, strict=True)}
        return outputs, Run(prepared - begun, executed - prepared, 0.0, perf_counter() - executed)

    def kernels(self) -> list[str]:
        return []


ENGINES: dict[str, type[Any]] = {"fornaxc": Fornaxc, "onnxruntime": Onnxruntime}
