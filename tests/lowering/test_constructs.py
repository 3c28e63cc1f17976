"""Constructs of ONNX that compilers get wrong, as they are compiled: imported, optimized and run on MAX.

The values are worked out from the specification by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, numpy_helper
from suite import Suite, assert_close

from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.interpreter import run
from fornaxc.passes.pipeline import optimize
from fornaxc.passes.prepack import prepack

SUITE = Suite()
SLOW = {"resize_cubic"}
EPSILON = 2.0**-40
"""1 + EPSILON is a float64 and no float32."""


def f32(values: object) -> Array:
    return np.array(values, np.float32)


def f64(values: object) -> Array:
    return np.array(values, np.float64)


def i64(values: object) -> Array:
    return np.array(values, np.int64)


def u8(values: object) -> Array:
    return np.array(values, np.uint8)


def program_of(text: str, opset: int, constants: dict[str, Array | TensorProto]) -> Graph:
    """What is lowered for the CPU of a model "(inputs) => (outputs) { nodes }", with its functions after it."""
    model = onnx.parser.parse_model(f'<ir_version: 11, opset_import: ["" : {opset}, "local" : 1]> g {text}')
    for name, held in constants.items():
        model.graph.initializer.append(held if isinstance(held, TensorProto) else numpy_helper.from_array(held, name))
    return prepack(optimize(import_model(model_from_proto(model), {}), "cpu"))


def add(
    name: str,
    text: str,
    inputs: Sequence[Array],
    expected: Sequence[Array],
    opset: int = 18,
    tolerance: float = 0.0,
    **constants: Any,
) -> None:
    SUITE.add_graph(name, program_of(text, opset, constants), inputs, expected, tolerance)


def add_elementwise_and_products() -> None:
    add(
        "difference_of_itself_and_more",
        "(float[4] x) => (float[4] y) { more = Add(x, one)\n y = Sub(x, more) }",
        [f32([0, 0.5, -3, 1000])],
        [f32([-1, -1, -1, -1])],
        one=f32(1),
    )
    add(
        "einsum_implicit",
        '(float[2, 2] a, float[2, 2] b) => (float[2, 2] y) { y = Einsum<equation="jk,ij">(a, b) }',
        [f32([[1, 2], [3, 4]]), f32([[5, 6], [7, 8]])],
        [f32([[23, 34], [31, 46]])],
    )
    add(
        "einsum_implicit_ellipsis",  # is ...jk
        '(float[2, 2, 1] a, float[3, 2] b) => (float[2, 1, 3] y) { y = Einsum<equation="...ij,ki">(a, b) }',
        [f32([[[1], [2]], [[3], [4]]]), f32([[1, 0], [0, 1], [1, 1]])],
        [f32([[[1, 2, 3]], [[3, 4, 7]]])],
    )
    add(
        "einsum_diagonal",
        '(float[2, 2] x) => (float[2] y) { y = Einsum<equation="ii->i">(x) }',
        [f32([[1, 2], [3, 4]])],
        [f32([1, 4])],
    )
    add(
        "einsum_ellipsis_on_one_side",
        '(float[2, 1, 2] a, float[2, 2] b) => (float[2, 1, 2] y) { y = Einsum<equation="...ij,jk->...ik">(a, b) }',
        [f32([[[1, 2]], [[3, 4]]]), f32([[1, 0], [2, 1]])],
        [f32([[[5, 2]], [[11, 4]]])],
    )
    add(
        "einsum_three_operands",
        "(float[1, 2] a, float[2, 2] b, float[2, 1] c) => (float[1, 1] y)"
        ' { y = Einsum<equation="ab,bc,cd->ad">(a, b, c) }',
        [f32([[1, 2]]), f32([[1, 0], [0, 3]]), f32([[1], [1]])],
        [f32([[7]])],
    )
    add(
        "quantised_product_of_batches",  # of [[1, -1]] by [[2], [4]], and of [[0, 0.5]] by [[1], [6]]
        "(uint8[2, 1, 2] a, uint8[2, 2, 1] b) => (uint8[2, 1, 1] y)"
        " { y = QLinearMatMul(a, half, ten, b, one, two, quarter, hundred) }",
        [u8([[[12, 8]], [[10, 11]]]), u8([[[4], [6]], [[3], [8]]])],
        [u8([[[92]], [[112]]])],
        opset=21,
        half=f32(0.5),
        ten=u8(10),
        one=f32(1),
        two=u8(2),
        quarter=f32(0.25),
        hundred=u8(100),
    )


def add_double_precision() -> None:
    near = 1 + EPSILON
    add(
        "float64_product",
        "(double[1, 2] a, double[2, 2] b) => (double[1, 2] y) { y = MatMul(a, b) }",
        [f64([[near, 2]]), f64([[1, 3], [1, -1]])],
        [f64([[3 + EPSILON, 1 + 3 * EPSILON]])],
        tolerance=1e-14,
    )
    add(
        "float64_sum",
        "(double[2, 2] x) => (double[2, 1] y) { y = ReduceSum(x, axes) }",
        [f64([[near, 1], [-1, EPSILON]])],
        [f64([[2 + EPSILON], [-1 + EPSILON]])],
        tolerance=1e-14,
        axes=i64([1]),
    )
    add(
        "float64_convolution",
        "(double[1, 1, 3] x) => (double[1, 1, 2] y) { y = Conv(x, w) }",
        [f64([[[near, 1, 2]]])],
        [f64([[[2 + 3 * EPSILON, 1]]])],
        tolerance=1e-14,
        w=f64([[[3, -1]]]),
    )
    add(
        "float64_softmax",  # the logistic function is 1/2 + d/4 near 0
        "(double[1, 2] x) => (double[1, 2] y) { y = Softmax(x) }",
        [f64([[1, 1 + 2.0**-30]])],
        [f64([[0.5 - 2.0**-32, 0.5 + 2.0**-32]])],
        tolerance=1e-12,
    )


def add_windows() -> None:
    add(
        "average_of_elements_that_exist",
        """(float[1, 1, 5] x) => (float[1, 1, 3] padded, float[1, 1, 3] ragged) {
            padded = AveragePool<kernel_shape=[2], strides=[2], pads=[1, 1], ceil_mode=1, count_include_pad=0>(x)
            ragged = AveragePool<kernel_shape=[2], strides=[2], ceil_mode=1, count_include_pad=0>(x)
        }""",
        [f32([[[1, 2, 4, 8, 16]]])],
        [f32([[[1, 3, 12]]]), f32([[[1.5, 6, 16]]])],
    )
    add(
        "transposed_convolution_of_the_same_size",  # 1 10 102 20 203 30 300, and a 0 with output_padding, cut to 6
        """(float[1, 1, 3] x) => (float[1, 1, 6] plain, float[1, 1, 6] longer) {
            plain = ConvTranspose<auto_pad="SAME_UPPER", strides=[2]>(x, w)
            longer = ConvTranspose<auto_pad="SAME_UPPER", strides=[2], output_padding=[1]>(x, w)
        }""",
        [f32([[[1, 2, 3]]])],
        [f32([[[1, 10, 102, 20, 203, 30]]]), f32([[[10, 102, 20, 203, 30, 300]]])],
        w=f32([[[1, 10, 100]]]),
    )
    ends = np.zeros(128)
    ends[0], ends[-1] = 2, 1
    add(
        "grouped_convolution_with_a_long_kernel",
        "(float[1, 2, 129] x) => (float[1, 2, 2] y) { y = Conv<group=2>(x, w) }",
        [f32([[np.arange(129), np.arange(129)]])],
        [f32([[[8128, 8256], [127, 130]]])],
        w=f32([[np.ones(128)], [ends]]),
    )


def add_resampling() -> None:
    square = np.arange(16).reshape(4, 4)
    rows = [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3]
    add(
        "resize_nearest_floor",
        "(float[1, 1, 4, 4] x) => (float[1, 1, 12, 12] y)"
        ' { y = Resize<mode="nearest", nearest_mode="floor">(x, , scales) }',
        [f32([[square]])],
        [f32([[square[rows][:, rows]]])],
        scales=f32([1, 1, 3, 3]),
    )
    add(
        "resize_shrinking_with_aligned_corners",  # the middle one lies at 1.5
        "(float[1, 1, 2, 4] x) => (float[1, 1, 2, 3] y)"
        ' { y = Resize<mode="linear", coordinate_transformation_mode="align_corners">(x, , , sizes) }',
        [f32([[[[0, 1, 4, 9], [3, 2, 0, 1]]]])],
        [f32([[[[0, 2.5, 9], [3, 1, 1]]]])],
        sizes=i64([1, 1, 2, 3]),
    )
    add(
        "resize_cubic",  # the weights at 1.5 are -3, 19, 19 and -3 over 32
        '(float[1, 1, 1, 4] x) => (float[1, 1, 1, 1] y) { y = Resize<mode="cubic">(x, , , sizes) }',
        [f32([[[[1, 10, 100, 1000]]]])],
        [f32([[[[-913 / 32]]]])],
        sizes=i64([1, 1, 1, 1]),
    )
    add(
        "sampling_the_nearest",
        """(float[1, 1, 2, 3] x, float[1, 1, 5, 2] grid) => (float[1, 1, 1, 5] corners, float[1, 1, 1, 5] centres) {
            corners = GridSample<mode="nearest", align_corners=1>(x, grid)
            centres = GridSample<mode="nearest">(x, grid)
        }""",
        [f32([[[[0, 1, 2], [3, 4, 5]]]]), f32([[[[-0.9, 0.9], [0.9, -0.9], [0.4, -0.2], [2, 0.1], [0.9, 0.6]]]])],
        [f32([[[[3, 2, 1, 0, 5]]]]), f32([[[[3, 2, 2, 0, 5]]]])],
        opset=20,
    )


def add_layers() -> None:
    tenths = f32([[[1, 2], [3, 4]], [[2, 2], [5, 1]]]) / 10
    add(
        "softmax_of_all_trailing_axes",
        "(float[2, 2, 2] x) => (float[2, 2, 2] y) { y = Softmax<axis=1>(x) }",
        [np.log(tenths)],
        [tenths],
        opset=11,
    )
    add(
        "weighted_loss",
        "(float[2, 2] scores, int64[2] labels) => (float loss)"
        " { loss = SoftmaxCrossEntropyLoss(scores, labels, weights) }",
        [np.log(f32([[0.25, 0.75], [0.5, 0.5]])), i64([0, 1])],
        [f32((1 * np.log(4) + 3 * np.log(2)) / 4)],
        weights=f32([1, 3]),
    )
    past = f64([1, 2])
    first = (np.tanh([1.5, 0.25]) + past) / 2  # gates: update 1/2, reset 3/4 and 1/4
    second = (np.tanh(first[::-1] / 2) + first) / 2  # gates: 1/2
    add(
        "gru_linear_before_reset",
        "(float[2, 1, 1] x, float[1, 1, 2] past) => (float[2, 1, 1, 2] y)"
        " { y = GRU<hidden_size=2, linear_before_reset=1>(x, w, r, , , past) }",
        [f32([[[1]], [[0]]]), f32([[past]])],
        [f32([[[first]], [[second]]])],
        w=f32([[[0], [0], [np.log(3)], [-np.log(3)], [0], [0]]]),
        r=f32([[[0, 0], [0, 0], [0, 0], [0, 0], [0, 1], [1, 0]]]),
    )
    cell = 0.25 * 1 + 0.75 * np.tanh(1)  # gates: forget 1/4, input 3/4
    add(
        "lstm_peepholes",
        "(float[1, 1, 1] x, float[1, 1, 1] c) => (float[1, 1, 1] hidden, float[1, 1, 1] cell)"
        " { , hidden, cell = LSTM<hidden_size=1>(x, w, r, , , none, c, p) }",
        [f32([[[1]]]), f32([[[1]]])],
        [f32([[[np.tanh(cell) / (1 + np.exp(-2 * cell))]]]), f32([[[cell]]])],
        w=f32([[[0], [0], [0], [1]]]),
        r=f32(np.zeros((1, 4, 1))),
        none=f32([[[0]]]),
        p=f32([[np.log(3), 2, -np.log(3)]]),
    )
    heads = [f32([[[[1, 0], [1, 0]]]]), f32([[[[0, 7], [np.log(3), 7], [5, 7]]]]), f32([[[[4, 8], [8, 0], [99, 99]]]])]
    types = "float[1, 1, 2, 2] q, float[1, 1, 3, 2] k, float[1, 1, 3, 2] v"
    add(
        "causal_attention_of_fewer_queries",  # the second query has the weights 1/4 and 3/4
        f"({types}) => (float[1, 1, 2, 2] y) {{ y = Attention<is_causal=1, scale=1.0>(q, k, v) }}",
        heads,
        [f32([[[[4, 8], [7, 2]]]])],
        opset=23,
    )
    add(
        "attention_to_nothing",
        f"({types}, bool[2, 3] mask) => (float[1, 1, 2, 2] y)"
        " { y = Attention<is_causal=1, scale=1.0>(q, k, v, mask) }",
        [*heads, np.array([[False, True, True], [True, True, True]])],
        [f32([[[[0, 0], [7, 2]]]])],
        opset=23,
    )


def add_small_types() -> None:
    beyond = [f32([1.8131605, 1e6, np.inf, -np.inf, np.nan])]
    for kind, saturated, other in (
        ("E4M3FN", [1.875, 448, 448, -448, np.nan], [1.875, np.nan, np.nan, np.nan, np.nan]),
        ("E5M2", [1.75, 57344, 57344, -57344, np.nan], [1.75, np.inf, np.inf, -np.inf, np.nan]),
    ):
        small = TensorProto.DataType.Value(f"FLOAT8{kind}")
        add(
            f"float8_{kind.lower()}",
            f"""(float[5] x) => (float[5] saturated, float[5] other) {{
                s = Cast<to={small}>(x)
                saturated = Cast<to=1>(s)
                o = Cast<to={small}, saturate=0>(x)
                other = Cast<to=1>(o)
            }}""",
            beyond,
            [f32(saturated), f32(other)],
            opset=19,
        )
    add(
        "int4_initializer",  # the low nibble is the first
        """(float[3] x) => (float[3] y, float[3] z) {
            whole = Cast<to=1>(w)
            y = Mul(x, whole)
            halves = DequantizeLinear(w, half)
            z = Add(x, halves)
        }""",
        [f32([1, 2, 4])],
        [f32([1, -2, -32]), f32([1.5, 1.5, 0])],
        opset=21,
        w=TensorProto(name="w", data_type=TensorProto.INT4, dims=[3], raw_data=bytes([0xF1, 0x08])),
        half=f32(0.5),
    )
    add(
        "bfloat16_initializer",
        "(float[3] x) => (float[3] y) { wide = Cast<to=1>(w)\n y = Add(x, wide) }",
        [f32([1, 2, 4])],
        [f32([2, 0, 7.140625])],
        w=TensorProto(
            name="w", data_type=TensorProto.BFLOAT16, dims=[3], raw_data=bytes([0x80, 0x3F, 0x00, 0xC0, 0x49, 0x40])
        ),
    )


def add_indexing() -> None:
    add(
        "slice_with_a_negative_step",
        "(float[10] x) => (float[3] y) { y = Slice(x, s, e, a, t) }",
        [f32(np.arange(10))],
        [f32([9, 6, 3])],
        s=i64([9]),
        e=i64([0]),
        a=i64([0]),
        t=i64([-3]),
    )
    add(
        "slice_of_two_axes",
        "(float[3, 4] x) => (float[2, 2] y) { y = Slice(x, s, e, a, t) }",
        [f32(np.arange(12).reshape(3, 4))],
        [f32([[10, 9], [2, 1]])],
        s=i64([-1, 2]),
        e=i64([-100, -4]),
        a=i64([0, 1]),
        t=i64([-2, -1]),
    )
    add(
        "negative_pads",
        """(float[1, 1, 4, 4] x, float[4] line) => (float[1, 1, 4, 4] y, float[5] z) {
            y = Pad(x, all, seven)
            z = Pad(line, some)
        }""",
        [f32(np.ones((1, 1, 4, 4))), f32([1, 2, 3, 4])],
        [f32(np.full((1, 1, 4, 4), 7)), f32([2, 3, 4, 0, 0])],
        all=i64([0, 0, 4, 1, 0, 0, -4, -1]),
        some=i64([-1, 2]),
        seven=f32(7),
    )
    add(
        "scatter_with_fewer_indices",
        "(float[3, 3] x, int64[2, 2] i, float[2, 2] u) => (float[3, 3] y) { y = Scatter<axis=1>(x, i, u) }",
        [f32(np.zeros((3, 3))), i64([[2, 0], [1, 2]]), f32([[1, 2], [3, 4]])],
        [f32([[2, 0, 1], [0, 3, 4], [0, 0, 0]])],
        opset=10,
    )
    table = f32([[0, 1, 2], [3, 4, 5]])
    for name, node, index, found in (
        ("gather", "Gather<axis=1>", [-1, 0], [[2, 0], [5, 3]]),
        ("gather_elements", "GatherElements<axis=1>", [[-1], [-3]], [[2], [3]]),
        ("gather_nd", "GatherND", [[-1, -2], [0, -1]], [4, 2]),
    ):
        places, result = i64(index), f32(found)
        types = f"(float[2, 3] x, int64{list(places.shape)} i) => (float{list(result.shape)} y)"
        add(f"{name}_from_the_end", f"{types} {{ y = {node}(x, i) }}", [table, places], [result])
    add(
        "scatter_nd_from_the_end",
        "(float[4] x, int64[2, 1] i, float[2] u) => (float[4] y) { y = ScatterND(x, i, u) }",
        [f32(np.zeros(4)), i64([[-1], [1]]), f32([7, 9])],
        [f32([0, 9, 0, 7])],
    )
    add(
        "one_hot_from_the_end",
        "(int64[4] i) => (float[4, 3] y) { y = OneHot(i, depth, values) }",
        [i64([0, -1, 3, -4])],
        [f32([[5, 2, 2], [2, 2, 5], [2, 2, 2], [2, 2, 2]])],
        depth=i64(3),
        values=f32([2, 5]),
    )
    add(
        "smallest_with_ties",
        "(float[6] x) => (float[3] v, int64[3] i) { v, i = TopK<largest=0>(x, k) }",
        [f32([3, 1, 2, 1, 1, 0])],
        [f32([0, 1, 1]), i64([5, 1, 3])],
        k=i64([3]),
    )


def add_shapes_and_sums() -> None:
    add(
        "depth_to_rows",
        '(float[1, 8, 1, 1] x) => (float[1, 2, 2, 2] y) { y = DepthToSpace<blocksize=2, mode="CRD">(x) }',
        [f32(np.arange(8).reshape(1, 8, 1, 1))],
        [f32([[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]])],
    )
    add(
        "reshapes_of_nothing",
        """(float[0, 8, 2] x) => (float[0, 0, 4] y) {
            t = Reshape<allowzero=1>(x, first)
            y = Reshape<allowzero=1>(t, second)
        }""",
        [f32(np.zeros((0, 8, 2)))],
        [f32(np.zeros((0, 0, 4)))],
        first=i64([4, 2, -1]),
        second=i64([0, 0, 4]),
    )
    add(
        "sum_of_what_follows",
        "(float[2, 3] x) => (float[2, 3] y) { y = CumSum<exclusive=1, reverse=1>(x, axis) }",
        [f32([[1, 2, 3], [4, 5, 6]])],
        [f32([[5, 3, 0], [11, 6, 0]])],
        axis=i64(1),
    )
    add(
        "squares_without_axes",
        "(float[1, 2] x) => (float[1, 2] y) { y = ReduceSumSquare<noop_with_empty_axes=1>(x) }",
        [f32([[-3, 4]])],
        [f32([[9, 16]])],
    )


def add_structure() -> None:
    x = f32([1, 2])
    add(
        "outputs_of_every_kind",
        "(float[2] x) => (float[2] x, float[2] k, float[2] y, float[2] z) { y = Neg(x)\n z = Identity(y) }",
        [x],
        [x, f32([3, 4]), -x, -x],
        k=f32([3, 4]),
    )
    add(
        "constant_from_an_attribute_of_the_function",
        """(float[2] x) => (float[2] y) { y = local.scaled<factor=3.0>(x) }
        <domain: "local", opset_import: ["" : 18]>
        scaled<factor>(a) => (b) { k = Constant<value_float: float = @factor>()\n b = Mul(a, k) }""",
        [x],
        [f32([3, 6])],
    )
    for answer, found in ((True, [1, 2]), (False, [6, 7])):
        add(
            f"branch_with_an_outer_value_{answer}",
            """(bool c, float[2] x) => (float[2] y) {
                y = If (c) <
                    then_branch = outer () => (float[2] p) { p = Identity(x) },
                    else_branch = own () => (float[2] q) { q = Add(x, five) }
                >
            }""",
            [np.array(answer), x],
            [f32(found)],
            five=f32([5]),
        )
    add(
        "loop_that_hides_an_outer_name",
        """(int64 trips, float[2] x, float[2] v) => (float[2] y, float[2] z) {
            y = Loop (trips, yes, x) <
                body = step (int64 i, bool go, float[2] v) => (bool more, float[2] w) {
                    more = Identity(go)
                    w = Add(v, one)
                }
            >
            z = Identity(v)
        }""",
        [i64(2), x, f32([8, 9])],
        [f32([3, 4]), f32([8, 9])],
        yes=np.array(True),
        one=f32(1),
    )
    add(
        "nodes_in_any_order",
        "(float[2] x) => (float[2] y) { y = Sub(a, b)\n b = Mul(a, a)\n a = Add(x, x) }",
        [x],
        [f32([-2, -12])],
    )


add_elementwise_and_products()
add_double_precision()
add_windows()
add_resampling()
add_layers()
add_small_types()
add_indexing()
add_shapes_and_sums()
add_structure()


@pytest.mark.parametrize("case", SUITE.cases)
def test_the_interpreter(case: str) -> None:
    _, program, inputs = SUITE.cases[case]
    for found, wanted in zip(run(program, inputs), SUITE.expected[case], strict=True):
        assert_close(found, wanted, SUITE.tolerances[case])


@pytest.mark.parametrize("name", SUITE.parameters(*(SUITE.cases.keys() - SLOW)))
def test_max(name: str) -> None:
    SUITE.verify(name)
