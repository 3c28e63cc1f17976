"""Sorted nodes, scopes, local functions: the resolved structure computes what the model says."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx_files import floats, model, rebuilt, tensor

from fornaxc.errors import ModelError
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.importers.onnx.structure import RawGraph, raw_graph, value_info

node = helper.make_node
DOMAIN = "local"
X = np.array([-1.5, 2.0], np.float32)


def structure(proto: ModelProto) -> RawGraph:
    return raw_graph(model_from_proto(proto))


def same(proto: ModelProto, **inputs: np.ndarray) -> RawGraph:
    """The structure, after a check that it computes what the model computes."""
    inputs = inputs or {"x": X}
    raw = structure(proto)
    expected, found = (run(each, inputs) for each in (proto, rebuilt(raw, proto)))
    assert len(expected) == len(found) > 0
    for left, right in zip(expected, found, strict=True):
        np.testing.assert_array_equal(left, right)
    return raw


def run(proto: ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def fails(proto: ModelProto, code: str, *texts: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        structure(proto)
    assert caught.value.code == code
    for text in texts:
        assert text in caught.value.message
    return caught.value


def body(nodes: Sequence[NodeProto], outputs: Sequence[str], inputs: Sequence[onnx.ValueInfoProto] = ()) -> GraphProto:
    return helper.make_graph(nodes, "body", list(inputs), [floats(n, None) for n in outputs])


def passing(name: str) -> GraphProto:
    """A body that returns an outer value, with the node in between that onnxruntime asks for."""
    return body([node("Identity", [name], ["same"])], ["same"])


def branches(then: GraphProto, other: GraphProto, output: str = "y") -> NodeProto:
    return node("If", ["k"], [output], then_branch=then, else_branch=other)


def true(name: str = "k") -> TensorProto:
    return numpy_helper.from_array(np.array(True), name)


def function(
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    nodes: Sequence[NodeProto],
    attributes: Sequence[str] = (),
    defaults: Sequence[AttributeProto] = (),
) -> FunctionProto:
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_function(DOMAIN, name, inputs, outputs, nodes, imports, attributes, defaults)


def reference(proto: NodeProto, name: str, to: str, kind: int) -> NodeProto:
    """The node, whose attribute `name` is the function's attribute `to`."""
    proto.attribute.add(name=name, ref_attr_name=to, type=kind)
    return proto


def with_functions(nodes: Sequence[NodeProto], *functions: FunctionProto, **options: object) -> ModelProto:
    return model(nodes, functions=functions, domains=[DOMAIN], **options)


# --- nodes


def test_a_node_in_full() -> None:
    raw = structure(model([node("Clip", ["x", "", "m"], ["y"], domain="ai.onnx")], initializers=[tensor("m", 1.0)]))
    (clip,) = raw.nodes
    assert (clip.op_type, clip.domain, clip.name) == ("Clip", "", "Clip_0")
    assert (clip.inputs, clip.outputs) == (("x", None, "m"), ("y",))
    assert (clip.opset, clip.since_version) == (18, 13)
    assert [info.name for info in raw.inputs] == ["x"] and list(raw.initializers) == ["m"]


@pytest.mark.parametrize(("opset", "since"), [(7, 1), (11, 11), (12, 11), (13, 13), (21, 13)])
def test_since_version_follows_the_opset(opset: int, since: int) -> None:
    assert structure(model([node("Softmax", ["x"], ["y"])], opset=opset, ir_version=8)).nodes[0].since_version == since


def test_unknown_operators_have_no_schema() -> None:
    raw = structure(
        model(
            [
                node("Nonsense", ["x"], ["a"]),
                node("Foo", ["a"], ["b"], domain="d"),
                node("Bar", ["b"], ["y"], domain="e"),
            ],
            domains=["d"],
        )
    )
    assert [(n.opset, n.since_version) for n in raw.nodes] == [(18, None), (1, None), (0, None)]


def test_derived_names_are_stable_and_unique() -> None:
    raw = structure(
        model([node("Relu", ["x"], ["a"], name="Abs_1"), node("Abs", ["a"], ["b"]), node("Abs", ["b"], ["y"])])
    )
    assert [n.name for n in raw.nodes] == ["Abs_1", "Abs_1_", "Abs_2"]


def test_unsorted_nodes_are_sorted_with_a_warning() -> None:
    nodes = [node("Relu", ["b"], ["y"]), node("Add", ["a", "x"], ["b"]), node("Neg", ["x"], ["a"])]
    raw = structure(model(nodes))
    assert [n.op_type for n in raw.nodes] == ["Neg", "Add", "Relu"]
    assert raw.warnings == ["the nodes are not in topological order; they were sorted"]
    assert [n.name for n in raw.nodes] == ["Neg_2", "Add_1", "Relu_0"]


def test_sorted_nodes_keep_their_order_without_a_warning() -> None:
    raw = same(model([node("Neg", ["x"], ["b"]), node("Abs", ["x"], ["a"]), node("Add", ["a", "b"], ["y"])]))
    assert [n.op_type for n in raw.nodes] == ["Neg", "Abs", "Add"] and raw.warnings == []


def test_captured_names_count_for_the_order() -> None:
    chosen = branches(body([node("Relu", ["late"], ["t"])], ["t"]), body([node("Neg", ["late"], ["e"])], ["e"]))
    raw = structure(model([chosen, node("Abs", ["x"], ["late"])], initializers=[true()]))
    assert [n.op_type for n in raw.nodes] == ["Abs", "If"] and raw.nodes[1].captures == ("late",)


def test_a_cycle_names_its_nodes() -> None:
    nodes = [
        node("Add", ["x", "b"], ["a"], name="p"),
        node("Neg", ["a"], ["b"], name="q"),
        node("Relu", ["b"], ["y"], name="r"),
    ]
    error = fails(model(nodes), "FX418", "2 nodes", "p", "q")
    assert sorted(error.details[0]["nodes"]) == ["p", "q"]
    fails(model([node("Add", ["x", "y"], ["y"], name="self")]), "FX418", "1 node ", "self")


def test_fifty_thousand_nodes_take_little_time() -> None:
    count = 50_000
    nodes = [node("Add", [f"v{i}", "x"], [f"v{i + 1}"]) for i in range(count)]
    nodes += [node("Relu", ["x"], ["v0"]), node("Neg", [f"v{count}"], ["y"])]
    proto = model(nodes)
    start = time.process_time()
    raw = structure(proto)
    assert time.process_time() - start < 5
    assert len(raw.nodes) == count + 2 and raw.nodes[0].outputs == ("v0",)


# --- names


def test_duplicate_initializers_are_named() -> None:
    proto = model([node("Relu", ["x"], ["y"])], initializers=[tensor("w", [1]), tensor("w", [2])])
    fails(proto, "FX415", "'w'")


@pytest.mark.parametrize(
    ("nodes", "initializers", "name"),
    [
        ([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], [], "y"),
        ([node("Relu", ["x"], ["x"]), node("Neg", ["x"], ["y"])], [], "x"),
        ([node("Split", ["x"], ["y", "y"], num_outputs=2)], [], "y"),
        ([node("Relu", ["x"], ["y"])], [tensor("y", [1])], "y"),
    ],
    ids=["two nodes", "an input", "one node", "an initializer"],
)
def test_a_name_defined_twice(nodes: list[NodeProto], initializers: list[TensorProto], name: str) -> None:
    fails(model(nodes, initializers=initializers), "FX416", repr(name))


def test_two_inputs_of_one_name() -> None:
    fails(model([node("Relu", ["x"], ["y"])], inputs=["x", "x"]), "FX416", "'x'")


def test_an_input_that_nothing_defines() -> None:
    error = fails(model([node("Add", ["x", "ghost"], ["y"], name="sum")]), "FX417", "Add", "'sum'", "'ghost'")
    assert error.details == [{"node": "sum", "input": "ghost"}]


def test_a_capture_that_nothing_defines() -> None:
    bad = branches(
        body([node("Relu", ["ghost"], ["t"], name="inner")], ["t"]), body([node("Neg", ["x"], ["e"])], ["e"])
    )
    fails(model([bad], initializers=[true()]), "FX417", "'inner'", "'ghost'", "If_0")


def test_an_output_that_nothing_defines() -> None:
    fails(model([node("Relu", ["x"], ["z"])]), "FX421", "'y'")


def test_a_graph_without_outputs() -> None:
    fails(model([node("Relu", ["x"], ["z"])], outputs=[]), "FX421", "without outputs")


def test_outputs_that_are_inputs_or_initializers_or_listed_twice() -> None:
    raw = structure(
        model([node("Relu", ["x"], ["y"])], outputs=["x", "w", "y", "y"], initializers=[tensor("w", [1, 2])])
    )
    assert [info.name for info in raw.outputs] == ["x", "w", "y", "y"]


@pytest.mark.parametrize(("ir_version", "overridable"), [(3, ()), (4, ("w",)), (10, ("w",))])
def test_inputs_with_an_initializer_are_constants(ir_version: int, overridable: tuple[str, ...]) -> None:
    proto = model(
        [node("Add", ["x", "w"], ["y"])],
        inputs=["w", "x"],
        initializers=[tensor("w", [1, 2])],
        ir_version=ir_version,
        opset=9,
    )
    raw = structure(proto)
    assert [info.name for info in raw.inputs] == ["x"] and list(raw.initializers) == ["w"]
    assert raw.overridable == overridable and len(raw.warnings) == len(overridable)


def test_sparse_initializers_are_initializers() -> None:
    proto = model([node("Add", ["x", "w"], ["y"])])
    values, indices = tensor("w", [5.0]), tensor("", [1], np.int64)
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))
    assert structure(proto).initializers["w"].load().tolist() == [0, 5]


def test_types_of_values() -> None:
    make = helper.make_tensor_value_info
    assert value_info(make("a", TensorProto.INT64, ["n", 3, None])).dims == ("n", 3, None)
    assert value_info(make("a", TensorProto.FLOAT, [])).dims == ()
    assert value_info(make("a", TensorProto.FLOAT, None)).dims is None
    assert value_info(onnx.ValueInfoProto(name="a")).kind == "none"
    sequence = helper.make_tensor_sequence_value_info("a", TensorProto.FLOAT, None)
    assert (value_info(sequence).kind, value_info(sequence).elem_type) == ("sequence", None)


# --- subgraphs


def test_a_branch_that_only_returns_an_outer_value() -> None:
    raw = structure(model([branches(body([], ["x"]), body([node("Neg", ["x"], ["e"])], ["e"]))], initializers=[true()]))
    then = raw.nodes[0].subgraph("then_branch")
    assert then.nodes == [] and then.outputs[0].name == "x"
    assert raw.nodes[0].captures == ("x",)


def test_an_initializer_that_only_a_subgraph_uses() -> None:
    then = body([node("Add", ["x", "outer"], ["s"]), node("Mul", ["s", "inner"], ["t"])], ["t"])
    then.initializer.append(tensor("inner", [3, 4]))
    proto = model([branches(then, passing("x"))], initializers=[true(), tensor("outer", [1, 2])])
    raw = same(proto)
    assert raw.nodes[0].subgraph("then_branch").initializers["inner"].load().tolist() == [3, 4]
    assert raw.nodes[0].captures == ("x", "outer")


def test_names_of_a_subgraph_hide_outer_names() -> None:
    then = body([node("Abs", ["x"], ["h"]), node("Neg", ["h"], ["t"])], ["t"])
    proto = model(
        [node("Relu", ["x"], ["h"]), branches(then, passing("h"), "z"), node("Add", ["h", "z"], ["y"])],
        initializers=[true()],
    )
    chosen = structure(proto).nodes[1]
    assert set(chosen.captures) == {"x", "h"}  # h: the other branch
    assert chosen.subgraph("then_branch").nodes[1].inputs == ("h",)
    del proto.graph.node[1].attribute[0]  # the else branch
    assert structure(proto).nodes[1].captures == ("x",)


def test_nested_subgraphs_capture_through_each_other() -> None:
    inner = branches(body([node("Add", ["x", "m"], ["d"])], ["d"]), passing("x"), "i")
    outer = branches(body([node("Neg", ["x"], ["m"]), inner], ["i"]), passing("x"))
    raw = same(model([outer], initializers=[true()]))
    assert set(raw.nodes[0].captures) == {"x", "k"}
    assert raw.nodes[0].subgraph("then_branch").nodes[1].name == "If_0/then_branch/If_1"


def test_loop_with_captures() -> None:
    states = [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, []), floats("s")]
    step = body([node("Identity", ["c"], ["go"]), node("Add", ["s", "w"], ["next"])], ["go", "next"], states)
    step.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    initializers = [true(), tensor("n", 3, np.int64), tensor("w", [1, 2])]
    raw = same(model([node("Loop", ["n", "k", "x"], ["y"], body=step)], initializers=initializers))
    assert raw.nodes[0].captures == ("w",)
    assert [info.name for info in raw.nodes[0].subgraph("body").inputs] == ["i", "c", "s"]


def test_a_subgraph_is_parsed_once_and_only_from_a_graph() -> None:
    raw = structure(model([branches(passing("x"), passing("x"))], initializers=[true()]))
    assert raw.nodes[0].subgraph("then_branch") is raw.nodes[0].subgraph("then_branch")
    with pytest.raises(ModelError, match="has no attribute 'body'"):
        raw.nodes[0].subgraph("body")
    constant = structure(model([node("Constant", [], ["y"], value_float=1.0)])).nodes[0]
    for read in (constant.subgraph, constant.tensor):
        with pytest.raises(ModelError, match="is not a"):
            read("value_float")


def test_constants_large_and_sparse() -> None:
    large = numpy_helper.from_array(np.arange(5000, dtype=np.int32))
    sparse = helper.make_sparse_tensor(tensor("", [7.0]), tensor("", [2], np.int64), [3])
    nodes = [node("Constant", [], ["a"], value=large), node("Constant", [], ["b"], sparse_value=sparse)]
    raw = structure(model(nodes, outputs=["a", "b"]))
    assert raw.nodes[0].tensor("value").load().sum() == 5000 * 4999 // 2
    assert raw.nodes[1].tensor("sparse_value").load().tolist() == [0, 0, 7]


# --- functions


def test_calls_are_replaced_by_unique_nodes() -> None:
    twice = function("Twice", ["a"], ["r"], [node("Add", ["a", "a"], ["t"], name="sum"), node("Neg", ["t"], ["r"])])
    calls = [node("Twice", ["x"], ["m"], domain=DOMAIN, name="first"), node("Twice", ["m"], ["y"], domain=DOMAIN)]
    raw = same(with_functions(calls, twice))
    assert [n.name for n in raw.nodes] == ["first/sum", "first/Neg_1", "Twice_1/sum", "Twice_1/Neg_1"]
    assert raw.nodes[1].outputs == ("m",) and raw.nodes[3].outputs == ("y",)
    inner = {name for n in raw.nodes for name in n.outputs}
    assert len(inner) == 4


def test_names_inside_do_not_meet_names_outside() -> None:
    """The function calls its input what the caller calls something else, and the new name is taken too."""
    inside = function("F", ["y"], ["x"], [node("Neg", ["y"], ["t"]), node("Abs", ["t"], ["x"])])
    nodes = [
        node("Relu", ["x"], ["t"]),
        node("Neg", ["t"], ["c/t"]),
        node("F", ["c/t"], ["y"], domain=DOMAIN, name="c"),
    ]
    raw = same(with_functions(nodes, inside))
    assert len({name for n in raw.nodes for name in n.outputs}) == len(raw.nodes)


def test_attributes_are_substituted_with_defaults() -> None:
    scale = reference(node("Constant", [], ["c"]), "value_float", "factor", AttributeProto.FLOAT)
    leaky = reference(node("LeakyRelu", ["s"], ["r"]), "alpha", "slope", AttributeProto.FLOAT)
    default = helper.make_attribute("slope", 0.25)
    scaled = function("Scaled", ["a"], ["r"], [scale, node("Mul", ["a", "c"], ["s"]), leaky], ["factor"], [default])
    for given in ({"factor": 3.0}, {"factor": 2.0, "slope": 0.5}):
        raw = same(with_functions([node("Scaled", ["x"], ["y"], domain=DOMAIN, **given)], scaled))
        attributes = raw.nodes[2].attributes
        assert attributes["alpha"].f == given.get("slope", 0.25) and not attributes["alpha"].ref_attr_name
        assert raw.nodes[0].attributes["value_float"].f == given["factor"]


def test_a_reference_to_an_attribute_that_is_not_given_is_left_out() -> None:
    leaky = reference(node("LeakyRelu", ["a"], ["r"]), "alpha", "slope", AttributeProto.FLOAT)
    proto = with_functions([node("F", ["x"], ["y"], domain=DOMAIN)], function("F", ["a"], ["r"], [leaky], ["slope"]))
    assert structure(proto).nodes[0].attributes == {}


def test_a_constant_tensor_that_is_an_attribute_of_the_function() -> None:
    constant = reference(node("Constant", [], ["c"]), "value", "table", AttributeProto.TENSOR)
    add = function("AddTable", ["a"], ["r"], [constant, node("Add", ["a", "c"], ["r"])], ["table"])
    raw = same(with_functions([node("AddTable", ["x"], ["y"], domain=DOMAIN, table=tensor("", [5, 6]))], add))
    assert raw.nodes[0].tensor("value").load().tolist() == [5, 6]


def test_functions_call_functions_and_pass_attributes_on() -> None:
    inner = function(
        "Inner",
        ["a"],
        ["r"],
        [reference(node("LeakyRelu", ["a"], ["r"]), "alpha", "slope", AttributeProto.FLOAT)],
        ["slope"],
    )
    call = reference(node("Inner", ["a"], ["r"], domain=DOMAIN, name="i"), "slope", "tilt", AttributeProto.FLOAT)
    outer = function("Outer", ["a"], ["r"], [call], ["tilt"])
    raw = same(with_functions([node("Outer", ["x"], ["y"], domain=DOMAIN, name="o", tilt=0.75)], outer, inner))
    assert raw.nodes[0].name == "o/i/LeakyRelu_0" and raw.nodes[0].attributes["alpha"].f == 0.75


def test_subgraphs_in_functions_keep_captures_attributes_and_shadowing() -> None:
    """In the branch, y is its own although the caller's input of the function is called y as well."""
    tilted = reference(node("LeakyRelu", ["y"], ["e"]), "alpha", "slope", AttributeProto.FLOAT)
    then = body([node("Neg", ["a"], ["y"]), tilted], ["e"])
    choose = function("Choose", ["k", "a"], ["r"], [branches(then, passing("a"), "r")], ["slope"])
    call = node("Choose", ["flag", "y"], ["z"], domain=DOMAIN, name="c", slope=0.5)
    proto = with_functions([node("Abs", ["x"], ["y"]), call], choose, outputs=["z"], initializers=[true("flag")])
    raw = same(proto)
    assert raw.nodes[1].captures == ("y",)
    inner = raw.nodes[1].subgraph("then_branch")
    assert inner.nodes[0].inputs == ("y",) and inner.nodes[0].outputs != ("y",)
    assert inner.nodes[1].attributes["alpha"].f == 0.5


def test_a_function_called_in_a_subgraph() -> None:
    flip = function("Flip", ["a"], ["r"], [node("Neg", ["a"], ["r"])])
    then = body([node("Flip", ["x"], ["t"], domain=DOMAIN)], ["t"])
    raw = same(with_functions([branches(then, passing("x"))], flip, initializers=[true()]))
    assert raw.nodes[0].subgraph("then_branch").nodes[0].op_type == "Neg"


def test_a_graph_attribute_sees_the_names_of_the_caller() -> None:
    choose = reference(node("If", ["k"], ["r"]), "then_branch", "then", AttributeProto.GRAPH)
    choose.attribute.append(helper.make_attribute("else_branch", body([node("Neg", ["a"], ["n"])], ["n"])))
    chooser = function("Chooser", ["k", "a"], ["r"], [choose], ["then"])
    then = body([node("Add", ["x", "w"], ["a"])], ["a"])
    call = node("Chooser", ["flag", "x"], ["y"], domain=DOMAIN, then=then)
    raw = structure(with_functions([call], chooser, initializers=[true("flag"), tensor("w", [1, 2])]))
    inner = raw.nodes[0].subgraph("then_branch").nodes[0]
    assert inner.inputs == ("x", "w") and set(raw.nodes[0].captures) == {"x", "w"}


def test_omitted_inputs_and_outputs_of_a_function() -> None:
    clip = function(
        "ClipTop",
        ["a", "low", "high"],
        ["r", "unused"],
        [node("Clip", ["a", "low", "high"], ["r"]), node("Neg", ["a"], ["unused"])],
    )
    raw = structure(
        with_functions([node("ClipTop", ["x", "", "m"], ["y"], domain=DOMAIN)], clip, initializers=[tensor("m", 1.0)])
    )
    assert raw.nodes[0].inputs == ("x", None, "m") and raw.nodes[0].outputs == ("y",)


def test_an_output_of_a_function_that_is_its_input_or_another_output() -> None:
    same_twice = function("F", ["a"], ["r", "a", "r"], [node("Neg", ["a"], ["r"])])
    nodes = [node("F", ["x"], ["p", "q", "s"], domain=DOMAIN), node("Sum", ["p", "q", "s"], ["y"])]
    raw = structure(with_functions(nodes, same_twice))
    assert [(n.op_type, n.inputs, n.outputs) for n in raw.nodes[:3]] == [
        ("Neg", ("x",), ("p",)),
        ("Identity", ("x",), ("q",)),
        ("Identity", ("p",), ("s",)),
    ]


def test_unsorted_functions_are_sorted() -> None:
    unsorted = function("F", ["a"], ["r"], [node("Relu", ["t"], ["r"]), node("Neg", ["a"], ["t"])])
    raw = structure(with_functions([node("F", ["x"], ["y"], domain=DOMAIN)], unsorted))
    assert [n.op_type for n in raw.nodes] == ["Neg", "Relu"] and "'F_0'" in raw.warnings[0]


def test_a_function_uses_its_own_opset() -> None:
    softmax = function("F", ["a"], ["r"], [node("Softmax", ["a"], ["r"])])
    softmax.opset_import[0].version = 11
    raw = structure(with_functions([node("F", ["x"], ["a"], domain=DOMAIN), node("Softmax", ["a"], ["y"])], softmax))
    assert [(n.opset, n.since_version) for n in raw.nodes] == [(11, 11), (18, 13)]


def test_overloads_are_different_functions() -> None:
    first, second = (function("F", ["a"], ["r"], [node(op, ["a"], ["r"])]) for op in ("Neg", "Abs"))
    second.overload = "other"
    call = node("F", ["x"], ["y"], domain=DOMAIN, overload="other")
    assert structure(with_functions([call], first, second)).nodes[0].op_type == "Abs"


@pytest.mark.parametrize(
    ("functions", "call", "text"),
    [
        ([function("F", ["a"], ["r"], [node("F", ["a"], ["r"], domain=DOMAIN)])], {}, "calls itself"),
        (
            [
                function("F", ["a"], ["r"], [node("G", ["a"], ["r"], domain=DOMAIN)]),
                function("G", ["a"], ["r"], [node("F", ["a"], ["r"], domain=DOMAIN)]),
            ],
            {},
            "calls itself",
        ),
        ([function("F", [], ["r"], [node("Constant", [], ["r"], value_float=1.0)])], {}, "has 0 inputs, but"),
        ([function("F", ["a"], ["r"], [node("Neg", ["a"], ["r"])])], {"alpha": 1.0}, "no attribute 'alpha'"),
        ([function("F", ["a"], ["r"], [node("Neg", ["a"], ["t"])])], {}, "the output 'r', which nothing defines"),
        ([function("F", ["a"], ["r"], [node("Neg", ["a"], ["r"])])] * 2, {}, "defined twice"),
    ],
    ids=["recursive", "mutually recursive", "inputs", "attribute", "output", "twice"],
)
def test_invalid_functions(functions: list[FunctionProto], call: dict[str, float], text: str) -> None:
    fails(
        with_functions([node("F", ["x"], ["y"], domain=DOMAIN, **call)], *functions),
        "FX419",
        "'F'" if "G" not in text else "",
        text,
    )


def test_functions_that_expand_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = [function("F0", ["a"], ["r"], [node("Neg", ["a"], ["r"])])]
    for level in range(1, 9):
        chain = [node(f"F{level - 1}", [f"v{i}" if i else "a"], [f"v{i + 1}"], domain=DOMAIN) for i in range(9)]
        levels.append(function(f"F{level}", ["a"], ["v9"], chain))
    monkeypatch.setattr("fornaxc.importers.onnx.structure._MAX_INLINED", 5000)
    fails(with_functions([node("F8", ["x"], ["y"], domain=DOMAIN)], *levels), "FX419", "expand to more than")


def test_a_name_of_the_caller_is_not_seen_by_a_function() -> None:
    leak = function("F", ["a"], ["r"], [node("Add", ["a", "x"], ["r"])])
    fails(with_functions([node("F", ["x"], ["y"], domain=DOMAIN)], leak), "FX417", "'F_0/Add_0'", "'x'")


def test_invalid_attributes() -> None:
    outside = reference(node("LeakyRelu", ["x"], ["y"]), "alpha", "slope", AttributeProto.FLOAT)
    fails(model([outside]), "FX428", "'alpha'", "outside of one")
    double = node("LeakyRelu", ["x"], ["y"], alpha=1.0)
    double.attribute.append(double.attribute[0])
    fails(model([double]), "FX428", "two attributes named 'alpha'")
    leaky = reference(node("LeakyRelu", ["a"], ["r"]), "alpha", "slope", AttributeProto.FLOAT)
    call = node("F", ["x"], ["y"], domain=DOMAIN, slope=1)
    fails(with_functions([call], function("F", ["a"], ["r"], [leaky], ["slope"])), "FX428", "FLOAT", "gives INT")
