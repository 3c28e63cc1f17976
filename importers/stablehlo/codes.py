"""The codes of everything that can be wrong with a StableHLO file."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """One code for each kind of damage; `DESCRIPTIONS` explains them."""

    UNREADABLE_FILE = "FX404"
    OTHER_FORMAT = "FX431"
    DAMAGED = "FX432"
    OTHER_VERSION = "FX433"
    NOT_PARSED = "FX434"
    NO_FUNCTION = "FX435"
    NO_CHECK = "FX436"
    INVALID_OPERATION = "FX437"


DESCRIPTIONS: dict[Code, str] = {
    Code.UNREADABLE_FILE: "the model file cannot be read",
    Code.OTHER_FORMAT: "the file holds no StableHLO",
    Code.DAMAGED: "the MLIR bytecode or the jax.export file is cut short or damaged",
    Code.OTHER_VERSION: "the portable artifact is of a StableHLO version that the installed jaxlib does not read",
    Code.NOT_PARSED: "the StableHLO text does not parse; the message has line and column",
    Code.NO_FUNCTION: "the StableHLO module has no public function",
    Code.NO_CHECK: "a self-checking StableHLO module compares nothing",
    Code.INVALID_OPERATION: "a StableHLO operation breaks the specification",
}
