"""What the specification leaves undefined decides no case."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from fornaxc.ir.graph import Array
from fornaxc.ir.types import DType
from fornaxc.qualify.cases import Case
from fornaxc.qualify.undefined import without_undefined

FLOATS = np.array([np.nan, -np.inf, -8.9, -9.0, -0.9, 7.9, 8.0, 3.0], np.float32)
AS_I4 = np.array([1, 1, -8, 7, 0, 7, -8, 3], np.int8).astype(DType.I4.numpy)


def case(operator: str, inputs: list[Array], output: Array, **attributes: int) -> Case:
    names = [f"x{i}" for i in range(len(inputs))]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, inputs, strict=True)
    ]
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(output.dtype), output.shape)
    graph = helper.make_graph([helper.make_node(operator, names, ["y"], **attributes)], "g", infos, [result])
    return Case("c", helper.make_model(graph), [(inputs, [output])])


@pytest.mark.parametrize("operator", ["Cast", "CastLike"])
def test_floats_beyond_an_integer_type_are_zeros(operator: str) -> None:
    if operator == "Cast":
        found = without_undefined(case("Cast", [FLOATS], AS_I4, to=TensorProto.INT4))
    else:
        found = without_undefined(case("CastLike", [FLOATS, AS_I4], AS_I4))
    ((x, *rest), (y,)) = found.data[0]
    np.testing.assert_array_equal(x, np.array([0, 0, -8.9, 0, -0.9, 7.9, 0, 3.0], np.float32))
    assert y.dtype == DType.I4.numpy and y.astype(int).tolist() == [0, 0, -8, 0, 0, 7, 0, 3]
    assert len(rest) == (operator == "CastLike")


def test_the_powers_of_two_behind_the_largest_integers_do_not_fit() -> None:
    for power, dtype, code in ((63, np.int64, TensorProto.INT64), (64, np.uint64, TensorProto.UINT64)):
        x = np.array([2.0**power, 2.0 ** (power - 1), -1.0])
        ((kept,), _) = without_undefined(case("Cast", [x], np.array([7, 7, 7], dtype), to=code)).data[0]
        assert kept.tolist() == [0, x[1], -1.0 if dtype == np.int64 else 0]


def test_every_other_case_is_kept_as_it_is() -> None:
    wide = np.array([300, -1, 7], np.int32)
    narrow = case("Cast", [wide], wide.astype(np.int8), to=TensorProto.INT8)  # which wraps: it is defined
    assert without_undefined(narrow).data[0][0][0] is wide
    rounded = case("Round", [FLOATS], np.round(FLOATS))
    assert without_undefined(rounded) is rounded
