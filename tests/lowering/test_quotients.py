"""Dims in MAX's algebra."""

from __future__ import annotations

import pytest

from fornaxc.ir.dims import Call
from fornaxc.lowering.context import LoweringContext


@pytest.mark.parametrize("divisor", [1, 2, 3])
@pytest.mark.parametrize("dividend", range(-7, 8))
def test_quotients_round_down(dividend: int, divisor: int) -> None:
    assert int(LoweringContext("cpu")._atom(Call("floordiv", dividend, divisor))) == dividend // divisor
