"""ONNX file to `Graph`."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from pathlib import Path
from unicodedata import normalize

from fornaxc.errors import ModelError, UnsupportedError, UsageError
from fornaxc.importers.onnx.context import Refused
from fornaxc.importers.onnx.graph import Findings, GraphImporter, input_type
from fornaxc.importers.onnx.reader import OnnxModel, open_model
from fornaxc.importers.onnx.structure import RawGraph, ValueInfo, raw_graph
from fornaxc.importers.onnx.types import element_type
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.dims import Dim, parse_dim, single_symbol, symbol, symbols
from fornaxc.ir.graph import Graph, Value
from fornaxc.ir.types import TensorType

log = logging.getLogger(__name__)

_ANONYMOUS = re.compile(r"[-?\s\d]*|None|unknown|unk", re.IGNORECASE)


def import_onnx(path: Path, pins: Mapping[str, int] | None = None) -> Graph:
    """The graph of an ONNX model file.

    `pins` gives sizes to named dims. Raises `ModelError` for a damaged or invalid file, `UnsupportedError` (with one
    detail per node) for what fornaxc cannot do, `UsageError` for a pin that names no dim.
    """
    model = open_model(path)
    return import_model(model, pins or {})


def import_model(model: OnnxModel, pins: Mapping[str, int]) -> Graph:
    """As `import_onnx`, of a model that is open already."""
    raw = raw_graph(model)
    builder = GraphBuilder()
    findings = Findings()
    importer = GraphImporter(builder, raw, findings)
    for info, type in zip(raw.inputs, _input_types(raw.inputs, pins), strict=True):
        importer.values[info.name] = builder.input(type, info.name)
    builder.reserve(builder.input_symbols())
    importer.run()
    _raise_findings(model.path, findings)
    outputs = _outputs(importer, raw, model.path)
    if len(outputs) < len(raw.outputs):
        findings.warn("an output that is listed more than once is given once")
    for text in (*raw.warnings, *findings.warnings):
        log.warning("%s: %s", model.path.name, text)
    return builder.finish(list(outputs.values()), list(outputs))


def _outputs(importer: GraphImporter, raw: RawGraph, path: Path) -> dict[str, Value]:
    """The values of the outputs by name, in order; a tensor that is listed more than once is there once."""
    outputs = {}
    for info in raw.outputs:
        try:
            value = importer.lookup(info.name)
        except Refused as refusal:
            raise UnsupportedError(str(refusal), code="FX303", details=[{"output": info.name}]) from None
        if value is None:
            raise ModelError(f"{path}: nothing defines the output {info.name!r}", code="FX421")
        if not isinstance(value, Value):
            raise UnsupportedError(
                f"the output {info.name!r} is {value}, not a tensor of numbers",
                code="FX303",
                details=[{"output": info.name}],
                hint="cut it off: onnx.utils.extract_model(model, new_file, inputs, the other outputs)",
            )
        outputs[info.name] = value
    return outputs


def _raise_findings(path: Path, findings: Findings) -> None:
    if findings.invalid:
        first = findings.invalid[0]
        more = f" (and {len(findings.invalid) - 1} more)" if len(findings.invalid) > 1 else ""
        raise ModelError(
            f"{path.name}: {first['op']} node {first['node']!r} is invalid: {first['reason']}{more}",
            code="FX420",
            details=findings.invalid,
            hint="check the model with onnx.checker, or export it again",
        )
    if findings.refused:
        count = len(findings.refused)
        raise UnsupportedError(
            f"{path.name}: {count} node{'s' if count > 1 else ''} cannot be compiled",
            code="FX301",
            details=findings.refused,
            hint="each line names a node, its operator and what is missing",
        )


def _input_types(inputs: Sequence[ValueInfo], pins: Mapping[str, int]) -> list[TensorType]:
    namer = _DimNames({d for info in inputs for d in info.dims or () if isinstance(d, str)})
    types = []
    for info in inputs:
        dtype = element_type(info.elem_type) if info.elem_type is not None else None
        if dtype is None or info.dims is None:
            what = (
                "is not a tensor" if info.elem_type is None else "has no rank" if dtype else "is not of a number type"
            )
            raise UnsupportedError(
                f"the input {info.name!r} {what}",
                code="FX303",
                details=[{"input": info.name}],
                hint="fornaxc compiles models whose inputs are tensors of known rank",
            )
        types.append(TensorType(dtype, tuple(namer.dim(d) for d in info.dims)))
    types = namer.resolve(types)
    renamed = {namer.plain(name): size for name, size in pins.items()}
    known = {name for t in types for d in t.shape for name in symbols(d)}
    for name, original in zip(renamed, pins, strict=True):
        if name not in known:
            raise UsageError(
                f"no input has a dim named {original!r}",
                code="FX215",
                hint=f"the symbolic dims are: {', '.join(sorted(known)) or 'none'}",
            )
    return [input_type(t.dtype, t.shape, renamed) for t in types]


class _DimNames:
    """Gives each dim of the inputs an int, a symbol, or an expression of symbols.

    A `dim_param` that is an expression of other names ("past + 1") is kept as one where each of its names is also a dim of its own;
    otherwise the whole of it is one unknown size. A placeholder ("?", "-1", "") is a size of its own every time.
    Different names stay different sizes, whatever characters they have.
    """

    def __init__(self, given: set[str]) -> None:
        self._given = given
        self._count = 0
        self._taken: dict[str, str] = {}

    def dim(self, dim: int | str | None) -> Dim:
        if isinstance(dim, int) and dim >= 0:
            return dim
        text = "" if dim is None or isinstance(dim, int) else dim
        if _ANONYMOUS.fullmatch(text):
            while self._used(f"d{self._count}"):
                self._count += 1
            self._count += 1
            return symbol(f"d{self._count - 1}")
        try:
            parsed = parse_dim(text)
        except (ValueError, ArithmeticError, RecursionError, MemoryError):  # the last two are for deep nesting
            return symbol(self.plain(text))
        negative = isinstance(parsed, int) and parsed < 0
        return symbol(self.plain(text)) if negative else parsed

    def plain(self, name: str) -> str:
        """A dim's name as an identifier."""
        if name not in self._taken:
            text = re.sub(r"\W", "_", normalize("NFKC", name))  # as Python's parser does, which reads dims again
            text = text if text.isidentifier() and not iskeyword(text) else f"d_{text}"
            while text != name and self._used(text):
                text += "_"
            self._taken[name] = text
        return self._taken[name]

    def _used(self, text: str) -> bool:
        return text in self._given or text in self._taken.values()

    def resolve(self, types: list[TensorType]) -> list[TensorType]:
        """Expressions whose names are not all dims of their own become symbols."""
        alone = {single_symbol(d) for t in types for d in t.shape}

        def settle(dim: Dim) -> Dim:
            if isinstance(dim, int) or symbols(dim) <= alone:
                return dim
            return symbol(self.plain(str(dim)))

        return [t.with_shape(tuple(settle(d) for d in t.shape)) for t in types]
