"""Opens a StableHLO file in any of its forms and hands out its functions."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fornaxc.errors import ModelError
from fornaxc.importers.stablehlo.codes import Code
from fornaxc.importers.stablehlo.jaxexport import BYTECODE, Damaged, JaxExport, OtherVersion, read_jax_export
from fornaxc.importers.stablehlo.names import text_of
from fornaxc.importers.stablehlo.sniff import HEAD_BYTES, is_utf16, stablehlo_form

_PRODUCER = re.compile(rb"StableHLO_v(\d+)\.(\d+)\.(\d+)")
_PLACE = re.compile(r'"[^"]*":(\d+):(\d+)')
_OPERATION = re.compile(r"['\"`](\w+\.[\w.]+)['\"`]")
_ENDS_EARLY = "attempting to parse"
_VERSIONED_NAME = re.compile(rb"(?<!\w)([a-z]\w*_v\d+)\0")
_UNKNOWN_DIALECT = re.compile(r"[Dd]ialect ['`](\w+)['`] (?:is unknown|not found)")

EXPORT_AGAIN = "export the model again for a version in this range, or use a fornaxc with a matching jaxlib"
WRITE_AGAIN = "the file is incomplete or damaged; copy or export it again"
Version = tuple[int, ...]


@dataclass(slots=True)
class StablehloModule:
    """A parsed module. `functions` holds MLIR function operations by name; `public` the names of those that others may call."""

    path: Path
    form: str
    module: Any
    functions: dict[str, Any]
    public: list[str]
    export: JaxExport | None = None


def new_context() -> Any:
    """An MLIR context that knows StableHLO, CHLO, VHLO, Shardy and quantized types."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo

    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    _load_passes()
    with context:
        # no binding loads the dialect of quantized types; this pass does, whatever it runs on
        run_passes(ir.Module.parse("module {}"), "vhlo-legalize-to-stablehlo")
    return context


_loaded: list[bool] = []


def _load_passes() -> None:
    """Register StableHLO's passes, once a process."""
    from jaxlib.mlir.dialects import stablehlo

    if not _loaded:
        stablehlo.register_stablehlo_passes()
        _loaded.append(True)


def run_passes(module: Any, *pipeline: str) -> None:
    """Run MLIR passes over a module, in place."""
    from jaxlib.mlir.passmanager import PassManager

    with module.context:
        PassManager.parse(f"builtin.module({','.join(pipeline)})").run(module.operation)


def open_module(path: Path) -> StablehloModule:
    """The module of a file. `ModelError` where it is missing, damaged, does not parse or is of another version."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}", code=Code.UNREADABLE_FILE) from None
    form = stablehlo_form(data)
    if form is None:
        raise ModelError(
            f"{path} holds no StableHLO: neither text, MLIR bytecode nor a jax.export file",
            code=Code.OTHER_FORMAT,
            hint="write the module as text, or what jax.export's serialize() gives as it is",
        )
    export = None
    if form == "jaxexport":
        try:
            export = read_jax_export(data)
        except Damaged as damage:
            raise ModelError(
                f"{path} is a damaged jax.export file: {damage}", code=Code.DAMAGED, hint=WRITE_AGAIN
            ) from None
        except OtherVersion as other:
            raise ModelError(
                f"{path} is a jax.export file of serialization version {other}",
                code=Code.OTHER_VERSION,
                hint="export the model again with a jax that writes one of these",
            ) from None
        data = export.module
    is_bytecode = data.startswith(BYTECODE)
    module = parse_bytes(data, str(path)) if is_bytecode else parse_text(_decoded(data, str(path)), str(path))
    return module_of(module, path, form, export)


def _decoded(data: bytes, label: str) -> str:
    """The text of a file. `ModelError` with the place of the first byte that no text has: one that is not UTF-8, or a zero."""
    if is_utf16(data[:HEAD_BYTES]):
        raise ModelError(f"{label}: the text is UTF-16, not UTF-8", code=Code.NOT_PARSED, hint="save the text as UTF-8")
    mark = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    data = data[mark:]
    try:
        text, wrong = data.decode(), -1
    except UnicodeDecodeError as error:
        text, wrong = "", error.start
    zero = data.find(b"\0")
    places = [place for place in (wrong, zero) if place >= 0]
    if not places:
        return text
    at = min(places)
    line, column = data.count(b"\n", 0, at) + 1, at - data.rfind(b"\n", 0, at)
    problem = "a zero byte" if at == zero else f"the byte 0x{data[at]:02x}, which is not UTF-8"
    raise ModelError(
        f"{label}:{line}:{column}: the text has {problem}",
        code=Code.NOT_PARSED,
        details=[{"line": line, "column": column, "offset": mark + at, "problem": problem}],
        hint="save the text as UTF-8" if at == wrong else WRITE_AGAIN,
    )


def module_of(module: Any, path: Path, form: str = "text", export: JaxExport | None = None) -> StablehloModule:
    """A parsed MLIR module with its functions."""
    functions = {_name(op): op.operation for op in module.body.operations if op.operation.name == "func.func"}
    public = [name for name, op in functions.items() if not _is_private(op)]
    return StablehloModule(path, form, module, functions, public, export)


def parse_text(text: str, label: str) -> Any:
    """The module of StableHLO text. `ModelError` with line and column where it does not parse."""
    from fornaxc.importers.stablehlo.probe import survives

    if "vhlo." in text and not survives(text.encode()):
        raise ModelError(
            f"{label}: jaxlib's reader crashes on the VHLO operations of this text",
            code=Code.NOT_PARSED,
            hint="VHLO is for portable artifacts; give the module as StableHLO text, or as the artifact itself",
        )
    return parse_module_text(text, label)


def parse_module_text(text: str, label: str) -> Any:
    """As `parse_text`, in this process whatever it does to it."""
    from jaxlib.mlir import ir

    context = new_context()
    with context, _silent(context):
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            raise _parse_error(str(error), label, text) from None
    return _stable(module, label)


def parse_bytes(data: bytes, label: str) -> Any:
    """The module of MLIR bytecode. `ModelError` where it is damaged or outside the versions that jaxlib reads."""
    from fornaxc.importers.stablehlo.probe import survives

    if not survives(data):
        raise ModelError(
            f"{label}: the bytecode is damaged; jaxlib's reader crashes on it", code=Code.DAMAGED, hint=WRITE_AGAIN
        )
    return parse_module_bytes(data, label)


def parse_module_bytes(data: bytes, label: str) -> Any:
    """As `parse_bytes`, in this process whatever it does to it."""
    from jaxlib.mlir import ir

    _check_window(data, label)
    context = new_context()
    with context, _silent(context):
        try:
            module = ir.Module.parse(data)
        except ir.MLIRError as error:
            raise _bytecode_error(data, str(error), label) from None
    return _stable(module, label, _artifact_version(data))


def _stable(module: Any, label: str, version: Version | None = None) -> Any:
    """The module with VHLO operations, of `version` where that is known, brought to the newest and then to StableHLO."""
    from jaxlib.mlir import ir

    if any(op.operation.name.startswith("vhlo.") for op in module.body.operations):
        with _silent(module.context):
            try:
                run_passes(module, f"vhlo-to-version{{target={versions()[1]}}}", "vhlo-legalize-to-stablehlo")
            except ir.MLIRError as error:
                raise _not_brought_to_stablehlo(str(error), label, version) from None
    return module


def _not_brought_to_stablehlo(message: str, label: str, version: Version | None) -> ModelError:
    named = _OPERATION.search(message)
    operation, why = (named.group(1), "") if named else ("the module", f" ({_first_line(message).rstrip('.')})")
    of = "" if version is None else f" of StableHLO version {_shown(version)}"
    oldest, newest = versions()
    return ModelError(
        f"{label}: {operation}{of} cannot be brought to version {newest}{why}; this reader takes {oldest} to {newest}",
        code=Code.OTHER_VERSION,
        details=[
            {
                "artifact_version": _shown(version) if version else "",
                "oldest": oldest,
                "newest": newest,
                "op": operation,
            }
        ],
        hint=EXPORT_AGAIN,
    )


def versions() -> tuple[str, str]:
    """The oldest and the newest artifact version that jaxlib reads."""
    from jaxlib.mlir.dialects import stablehlo

    return str(stablehlo.get_minimum_version()), str(stablehlo.get_current_version())


def _artifact_version(data: bytes) -> Version | None:
    """The StableHLO version that a portable artifact says it has; None for other bytecode."""
    found = _PRODUCER.search(data[:256])
    return None if found is None else tuple(int(n) for n in found.groups())


def _shown(version: Version) -> str:
    return ".".join(map(str, version))


def _check_window(data: bytes, label: str) -> None:
    version = _artifact_version(data)
    if version is None:
        return
    oldest, newest = versions()
    if not _tuple(oldest) <= version <= _tuple(newest):
        shown = _shown(version)
        operation = _first_operation(data)
        raise ModelError(
            f"{label}: {operation}the artifact has StableHLO version {shown}; this reader takes {oldest} to {newest}",
            code=Code.OTHER_VERSION,
            details=[{"artifact_version": shown, "oldest": oldest, "newest": newest, "op": operation.strip(": ")}],
            hint=EXPORT_AGAIN,
        )


def _first_operation(data: bytes) -> str:
    """The operation that the reader does not know, or else the first, with a colon; empty where the bytes name none."""
    from jaxlib.mlir import ir

    context = new_context()
    with context, _silent(context):
        try:
            found: str | None = next(_computations(ir.Module.parse(data).operation), None)
        except ir.MLIRError as error:
            unknown = _OPERATION.search(str(error))
            found = unknown.group(1) if unknown else _first_name(data)
    return f"{found}: " if found else ""


def _computations(op: Any) -> Iterator[str]:
    """The names of the operations in functions, in the order of the module."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                if not inner.operation.name.startswith("vhlo.func_"):
                    yield inner.operation.name
                yield from _computations(inner.operation)


def _first_name(data: bytes) -> str | None:
    """The first operation among the strings of an artifact that does not parse; they name it without the dialect."""
    names = (found.group(1).decode() for found in _VERSIONED_NAME.finditer(data))
    return next((f"vhlo.{name}" for name in names if not name.startswith("func_")), None)


def _tuple(version: str) -> Version:
    return tuple(int(n) for n in version.split("."))


def _parse_error(message: str, label: str, source: str) -> ModelError:
    place = _PLACE.search(message)
    lines = [line for line in message.splitlines() if "error:" in line]
    text = (lines[0] if lines else message).split("error:")[-1]
    text = _PLACE.sub("", text).strip(" :")
    line, column = (int(n) for n in place.groups()) if place else (0, 0)
    where = f"{label}:{line}:{column}" if place else label
    hint = "the text must be StableHLO as jaxlib's parser reads it"
    if "unregistered dialect" in text:
        named = (
            _OPERATION.findall(source.splitlines()[line - 1][:column]) if line else []
        )  # the column is past the name
        text = _of_another_dialect(named[-1] if named else "here")
        hint = how_to_convert(named[-1].partition(".")[0] if named else "")
    elif missing := _UNKNOWN_DIALECT.search(text):
        named = _OPERATION.findall(text.split("for custom op")[-1])
        text = _of_another_dialect(named[-1] if named else f"of {missing.group(1)}")
        hint = how_to_convert(missing.group(1))
    return ModelError(
        f"{where}: {text}",
        code=Code.NOT_PARSED,
        details=[{"line": line, "column": column, "problem": text}],
        hint=hint,
    )


def _of_another_dialect(operation: str) -> str:
    return f"the operation {operation} is of a dialect that is not StableHLO's"


def how_to_convert(dialect: str) -> str:
    """What to do with a module that has operations of another dialect than StableHLO's."""
    tools = {"mhlo": "`mlir-hlo-opt --hlo-legalize-to-stablehlo`"}
    return f"convert the module to StableHLO first, with {tools.get(dialect, 'the tool that made it')}"


def _bytecode_error(data: bytes, message: str, label: str) -> ModelError:
    text = _first_line(message)
    operation = _OPERATION.search(message)
    version = _artifact_version(data)
    details = [{"problem": text}]
    if foreign := _UNKNOWN_DIALECT.search(message):
        text = f"the module has operations of the dialect {foreign.group(1)}, which is not StableHLO"
        return ModelError(
            f"{label}: {text}",
            code=Code.NOT_PARSED,
            details=[{"problem": text}],
            hint=how_to_convert(foreign.group(1)),
        )
    hint = WRITE_AGAIN
    if version and operation and _ENDS_EARLY not in message:
        oldest, newest = versions()
        text = f"{operation.group(1)} is not known ({text}); the artifact is {_shown(version)}, this reader takes {oldest} to {newest}"
        hint = EXPORT_AGAIN
    elif _ENDS_EARLY in message:
        text = f"the bytecode is cut short or damaged ({text})"
    else:
        text = f"the bytecode is damaged ({text})"
    return ModelError(f"{label}: {text}", code=Code.DAMAGED, details=details, hint=hint)


def _first_line(message: str) -> str:
    lines = [line for line in message.splitlines() if "error:" in line] or [message]
    return _PLACE.sub("", lines[0].split("error:")[-1]).strip(" :")


@contextmanager
def _silent(context: Any) -> Iterator[None]:
    """Keep diagnostics off the standard error stream; the exceptions carry them."""
    handler = context.attach_diagnostic_handler(lambda diagnostic: False)
    try:
        yield
    finally:
        handler.detach()


def _name(op: Any) -> str:
    return text_of(op.operation.attributes["sym_name"])


def _is_private(op: Any) -> bool:
    attributes = op.attributes
    return "sym_visibility" in attributes and "private" in str(attributes["sym_visibility"])
