"""Which tolerance each output has: what the command line says, what the model's file of tolerances says, or what its graph justifies."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fornaxc.errors import UsageError
from fornaxc.ir.binding import ShapeMismatch, bind_dims
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.types import DType
from fornaxc.verification.compare import Tolerance, tolerance_for
from fornaxc.verification.precision import computed_in
from fornaxc.verification.reductions import addition_counts, for_length


@dataclass(frozen=True, slots=True)
class Stated:
    """What a file says of one output. `rtol` and `atol` default to those of the element type, or to 0 where only `ulp` is stated; an `atol`
    that is stated is not scaled."""

    source: str
    rtol: float | None = None
    atol: float | None = None
    ulp: int | None = None

    def over(self, default: Tolerance) -> Tolerance:
        """The tolerance, with `default` where nothing is stated."""
        if self.rtol is None and self.atol is None:
            return Tolerance(0.0, 0.0, self.source, ulp=self.ulp)
        return _over(default, self.rtol, self.atol, self.source, self.ulp)


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Called with an output's name and element type. Of floats, `rtol` and `atol` (the command line) come before `stated` (a file), and that before
    the element type's, which knows from the graph in which type an output was `computed` and how long a chain of additions is
    behind it (`lengths`, for the sizes of one sample)."""

    rtol: float | None = None
    atol: float | None = None
    stated: Mapping[str, Stated] = field(default_factory=dict)
    computed: Mapping[str, DType] = field(default_factory=dict)
    lengths: Mapping[str, int] = field(default_factory=dict)
    graph: Graph | None = None

    def at(self, inputs: Mapping[str, Array]) -> Tolerances:
        """Those for a sample of inputs, whose sizes decide how long the chains of additions are."""
        if self.graph is None:
            return self
        names = [n for n in self.graph.input_names if n in inputs]
        types = [v.type for v in self.graph.inputs if v.name in inputs]
        try:
            sizes = bind_dims(names, types, [inputs[n].shape for n in names])
        except ShapeMismatch:
            return self
        return replace(self, lengths=addition_counts(self.graph, sizes))

    def is_chosen(self, name: str) -> bool:
        """Whether the user chose the tolerance of an output."""
        return self.rtol is not None or self.atol is not None or name in self.stated

    def __call__(self, name: str, dtype: DType) -> Tolerance:
        computed = self.computed.get(name)
        default = tolerance_for(dtype, computed)
        if name in self.lengths and dtype is DType.F32 and computed in (None, DType.F32):
            default = for_length(default, self.lengths[name])
        if dtype.is_float and (self.rtol is not None or self.atol is not None):
            return _over(default, self.rtol, self.atol, "command line")
        return self.stated[name].over(default) if name in self.stated else default


def _over(default: Tolerance, rtol: float | None, atol: float | None, source: str, ulp: int | None = None) -> Tolerance:
    """The default with what is stated in its place. An atol that is stated means just that number: it is not scaled."""
    rtol = default.rtol if rtol is None else rtol
    if atol is None:
        return Tolerance(rtol, default.atol, source, default.scaled, ulp)
    return Tolerance(rtol, atol, source, scaled=False, ulp=ulp)


def tolerances_of(
    graph: Graph, rtol: float | None = None, atol: float | None = None, file: Path | None = None
) -> Tolerances:
    """The tolerances of a model's outputs. UsageError where the file of tolerances does not suit it."""
    stated = {} if file is None else read_tolerances(file, graph.output_names)
    return Tolerances(rtol, atol, stated, computed_in(graph), graph=graph)


def tolerances_file(model: Path) -> Path | None:
    """The file of tolerances beside a model or artifact, `<stem>.tolerances.toml`, where there is one."""
    beside = model.with_name(f"{model.stem}.tolerances.toml")
    return beside if beside.is_file() else None


def read_tolerances(path: Path, outputs: Sequence[str]) -> dict[str, Stated]:
    """What a file of tolerances says, by output name. UsageError where it does not exist (FX223), cannot be read (FX234), or names an
    output that the model lacks (FX235)."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"the file of tolerances {path} does not exist", code="FX223") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _unreadable(path, str(error)) from None
    tables = document.pop("outputs", {})
    if document or not isinstance(tables, dict) or not tables:
        found = f"it has {', '.join(map(repr, document))}" if document else "it has no table [outputs.NAME]"
        raise _unreadable(path, found)
    unknown = [name for name in tables if name not in outputs]
    if unknown:
        raise UsageError(
            f"{path}: no output is named {', '.join(map(repr, unknown))}",
            code="FX235",
            hint=f"the outputs are: {', '.join(outputs)}",
        )
    return {name: _stated(path, name, table) for name, table in tables.items()}


def _stated(path: Path, name: str, table: Any) -> Stated:
    where = f"[outputs.{name}]"
    if not isinstance(table, dict):
        raise _unreadable(path, f"{where} is not a table")
    known = {"rtol", "atol", "ulp", "reason"}
    if set(table) - known:
        raise _unreadable(path, f"{where} has {', '.join(map(repr, sorted(set(table) - known)))}")
    numbers = {key: value for key, value in table.items() if key != "reason"}
    if not numbers:
        raise _unreadable(path, f"{where} states none of rtol, atol and ulp")
    for key, value in numbers.items():
        wanted = (int,) if key == "ulp" else (int, float)
        if isinstance(value, bool) or not isinstance(value, wanted) or not 0 <= value < float("inf"):
            raise _unreadable(path, f"{key} of {where} is {value!r}, not a number of 0 or more")
    reason = table.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise _unreadable(path, f"{where} has no reason")
    return Stated(f"{path.name}: {reason.strip()}", table.get("rtol"), table.get("atol"), table.get("ulp"))


def _unreadable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is not a file of tolerances: {why}",
        code="FX234",
        hint='write tables such as: [outputs.NAME] rtol = 1e-2, atol = 1e-4, ulp = 8, reason = "why"',
    )
