"""The codes of everything that can be wrong with an ONNX file."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from fornaxc.errors import ModelError


class Code(StrEnum):
    """One code for each kind of damage; `DESCRIPTIONS` explains them."""

    MISSING_FILE = "FX401"
    NOT_A_FILE = "FX402"
    EMPTY_FILE = "FX403"
    UNREADABLE_FILE = "FX404"
    OTHER_FORMAT = "FX405"
    STABLEHLO = "FX406"
    CUT_SHORT = "FX407"
    DAMAGED = "FX408"
    NO_GRAPH = "FX409"
    IR_VERSION_NEWER = "FX410"
    OPSET_NEWER = "FX411"
    OPSET_UNCLEAR = "FX413"
    TRAINING_ONLY = "FX414"
    DUPLICATE_INITIALIZER = "FX415"
    DUPLICATE_VALUE = "FX416"
    UNDEFINED_INPUT = "FX417"
    CYCLE = "FX418"
    INVALID_FUNCTION = "FX419"
    INVALID_NODE = "FX420"
    UNDEFINED_OUTPUT = "FX421"
    TENSOR_LENGTH = "FX422"
    INVALID_TENSOR = "FX423"
    EXTERNAL_OUTSIDE = "FX424"
    EXTERNAL_MISSING = "FX425"
    EXTERNAL_LENGTH = "FX426"
    EXTERNAL_INVALID = "FX427"
    INVALID_ATTRIBUTE = "FX428"
    NO_IR_VERSION = "FX429"


DESCRIPTIONS: dict[Code, str] = {
    Code.MISSING_FILE: "the model file does not exist",
    Code.NOT_A_FILE: "the path is a folder or a device, not a model file",
    Code.EMPTY_FILE: "the model file is empty",
    Code.UNREADABLE_FILE: "the model file cannot be read",
    Code.OTHER_FORMAT: "the file is not ONNX; the message says what it looks like",
    Code.STABLEHLO: "the file holds StableHLO, not ONNX",
    Code.CUT_SHORT: "the model file ends before its content does",
    Code.DAMAGED: "the model file is not valid protobuf",
    Code.NO_GRAPH: "the model file holds no graph",
    Code.IR_VERSION_NEWER: "the file's IR version is newer than the installed onnx package knows",
    Code.OPSET_NEWER: "an opset is newer than the installed onnx package knows",
    Code.OPSET_UNCLEAR: "the file names no ONNX opset, one below 1, or two for one domain",
    Code.TRAINING_ONLY: "the file holds training graphs and nothing to infer with",
    Code.DUPLICATE_INITIALIZER: "two initializers of a graph have the same name",
    Code.DUPLICATE_VALUE: "a graph defines a name twice",
    Code.UNDEFINED_INPUT: "a node uses a name that nothing defines",
    Code.CYCLE: "nodes depend on each other in a circle",
    Code.INVALID_FUNCTION: "a local function is recursive, or called with what it does not declare",
    Code.INVALID_NODE: "a node breaks the ONNX specification",
    Code.UNDEFINED_OUTPUT: "a graph's output is a name that nothing defines",
    Code.TENSOR_LENGTH: "a tensor's data does not fit its shape",
    Code.INVALID_TENSOR: "a tensor has no known element type, a negative dim or more than one payload",
    Code.EXTERNAL_OUTSIDE: "external data lies outside the model's folder",
    Code.EXTERNAL_MISSING: "a file of external data does not exist",
    Code.EXTERNAL_LENGTH: "a file of external data is too short, or its entry has the wrong length",
    Code.EXTERNAL_INVALID: "an entry of external data lacks a location, or its numbers are not numbers",
    Code.INVALID_ATTRIBUTE: "an attribute appears twice, has the wrong kind, or refers to a function where there is none",
    Code.NO_IR_VERSION: "the file names no IR version",
}


def model_error(code: Code, message: str, *, hint: str = "", **detail: Any) -> ModelError:
    """A `ModelError` with one detail, which holds the given names."""
    return ModelError(message, code=code.value, details=[detail] if detail else (), hint=hint)


def require_text(*values: object) -> None:
    """`ModelError` where a string field is not UTF-8, which protobuf then gives as bytes."""
    for value in values:
        if isinstance(value, bytes):
            raise model_error(Code.DAMAGED, f"the model is damaged: it has the name {value!r}, which is not UTF-8 text")
