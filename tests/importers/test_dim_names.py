"""Names of dims: different names are different sizes, and every name can be read again."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.dims import Dim, parse_dim


def dims_of(*shapes: list[str | int | None]) -> list[tuple[Dim, ...]]:
    def tensor(name: str, shape: list[str | int | None]) -> object:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    count = range(len(shapes))
    graph = helper.make_graph(
        [helper.make_node("Neg", [f"x{i}"], [f"y{i}"]) for i in count],
        "g",
        [tensor(f"x{i}", shape) for i, shape in enumerate(shapes)],
        [tensor(f"y{i}", shape) for i, shape in enumerate(shapes)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return [tuple(v.type.shape) for v in import_model(model_from_proto(model), {}).inputs]


@pytest.mark.parametrize("names", [("n d", "n_d"), ("n:d", "n/d"), ("d0", None), ("?", "d0"), ("1x", "d_1x")])
def test_different_names_are_different_sizes(names: tuple[str | None, str | None]) -> None:
    (first,), (second,) = dims_of([names[0]], [names[1]])
    assert first != second


@pytest.mark.parametrize("name", ["class", "True", "n d", "größe", "ﬁ x", "a'b", "é", "if", "1 - 2 * n +", "2*0-1"])
def test_every_name_is_one_size_that_can_be_read_again(name: str) -> None:
    ((first, second),) = dims_of([name, name])
    assert first == second
    assert parse_dim(str(first)) == first
    assert not isinstance(first, int)


def test_an_absurdly_nested_name_is_one_size() -> None:
    ((dim,),) = dims_of(["-" * 20_000 + "n"])
    assert not isinstance(dim, int)
