"""The second rule for floats of 16 bits: a value that is no farther from the exact result than the shipped one is not wrong.

A unit in the last place of bfloat16 is 0.8 % and of float16 0.1 %: more than the relative tolerance of a suite. Shipped outputs that were
rounded at every step are a unit or two off themselves, and an implementation that rounds once at the end cannot agree with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from fornaxc.ir.graph import Array
from fornaxc.ir.types import dtype_of
from fornaxc.qualify.cases import Case
from fornaxc.qualify.compare import Tolerance, compare
from fornaxc.verification.accuracy import accuracy
from fornaxc.verification.double_model import evaluated_in_double
from fornaxc.verification.ort_runs import OracleRefused

_UNIT = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""One unit in the last place of 1."""


def closer_than_shipped(
    case: Case, inputs: Sequence[Array], found: Sequence[Array], shipped: Sequence[Array], tolerance: Tolerance
) -> bool:
    """Whether each output of one run agrees within the tolerance, or is of 16-bit floats and as close to the exact result as the shipped one.

    The exact result is the model's in double precision, by onnx's evaluator; close are both the elements (`fornaxc.verification.accuracy`,
    with one unit in the last place as the tolerance) and the mean square error. False where that evaluator refuses.
    """
    if len(found) != len(shipped):
        return False
    differing = [i for i, (a, b) in enumerate(zip(found, shipped, strict=True)) if compare([a], [b], tolerance).reason]
    if any(found[i].dtype != shipped[i].dtype or found[i].dtype.name not in _UNIT for i in differing):
        return False
    names = [i.name for i in case.model.graph.input]
    try:
        exact = evaluated_in_double(case.model, dict(zip(names, inputs, strict=False)))
    except OracleRefused:
        return False
    outputs = [o.name for o in case.model.graph.output]
    return all(_closer(found[i], shipped[i], exact[outputs[i]], tolerance) for i in differing)


def _closer(found: Array, shipped: Array, exact: Array, tolerance: Tolerance) -> bool:
    rtol = max(tolerance.rtol, _UNIT[found.dtype.name])
    seen = accuracy(found, shipped, exact, Tolerance(rtol, tolerance.atol).of(dtype_of(found.dtype)))
    if seen.why_not or seen.ours is None or seen.oracle is None:
        return False
    return seen.ours.rms <= seen.oracle.rms
