"""What ONNX models become: the printed graph, in full."""

from __future__ import annotations

import pytest
from text_models import graph_of

from fornaxc.ir.printer import print_graph

CASES = {
    "arithmetic on shapes ends as a reshape to dims": (
        21,
        """(float[batch, seq, 12] x) => (float[N, 4, seq, 3] y) {
  s = Shape(x)
  i = Constant<value_ints = [0, 1]>()
  lead = Gather(s, i)
  tail = Constant<value_ints = [4, -1]>()
  to = Concat<axis = 0>(lead, tail)
  r = Reshape(x, to)
  y = Transpose<perm = [0, 2, 1, 3]>(r)
}""",
        """\
graph(%0: f32[batch, seq, 12] 'x') {
  %1 = reshape(shape=[batch, seq, 4, 3]) %0 : f32[batch, seq, 4, 3]
  %2 = transpose(perm=[0, 2, 1, 3]) %1 : f32[batch, 4, seq, 3]
  return %2 as 'y'
}
""",
    ),
    "Softmax before opset 13 works on two axes": (
        11,
        """(float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax<axis = 1>(x) }""",
        """\
graph(%0: f32[2, 3, 4] 'x') {
  %1 = reshape(shape=[2, 12]) %0 : f32[2, 12]
  %2 = softmax(axis=1, log=False) %1 : f32[2, 12]
  %3 = reshape(shape=[2, 3, 4]) %2 : f32[2, 3, 4]
  return %3 as 'y'
}
""",
    ),
    "Softmax since opset 13 works on one": (
        13,
        """(float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax<axis = 1>(x) }""",
        """\
graph(%0: f32[2, 3, 4] 'x') {
  %1 = softmax(axis=1, log=False) %0 : f32[2, 3, 4]
  return %1 as 'y'
}
""",
    ),
    "broadcasting is spelled out": (
        21,
        """(float[n, 3, 1] x, float[4] b) => (float[n, 3, 4] y) { y = Add(x, b) }""",
        """\
graph(%0: f32[n, 3, 1] 'x', %1: f32[4] 'b') {
  %2 = broadcast_to(shape=[n, 3, 4]) %0 : f32[n, 3, 4]
  %3 = reshape(shape=[1, 1, 4]) %1 : f32[1, 1, 4]
  %4 = broadcast_to(shape=[n, 3, 4]) %3 : f32[n, 3, 4]
  %5 = binary(fn=add) %2, %4 : f32[n, 3, 4]
  return %5 as 'y'
}
""",
    ),
    "automatic padding is spelled out": (
        21,
        """(float[n, 2, 7, 8] x, float[4, 1, 3, 2] w) => (float[n, 4, 4, 4] y) {
  y = Conv<auto_pad = "SAME_UPPER", strides = [2, 2], group = 2>(x, w)
}""",
        """\
graph(%0: f32[n, 2, 7, 8] 'x', %1: f32[4, 1, 3, 2] 'w') {
  %2 = conv(strides=[2, 2], low=[1, 0], high=[1, 0], dilations=[1, 1], groups=2) %0, %1 : f32[n, 4, 4, 4]
  return %2 as 'y'
}
""",
    ),
    "a branch uses a value from outside": (
        21,
        """(bool c, float[3] x) => (float[3] y) {
  y = If(c) <then_branch = t () => (float[3] a) { a = Neg(x) }, else_branch = e () => (float[3] b) { b = Identity(x) }>
}""",
        """\
graph(%0: bool[] 'c', %1: f32[3] 'x') {
  %2 = if(types=[f32[3]]) %0 : f32[3] {
    graph() {
      %3 = unary(fn=neg) %1 : f32[3]
      return %3
    }
    graph() {
      return %1
    }
  }
  return %2 as 'y'
}
""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_model_becomes_this_graph(name: str) -> None:
    opset, text, printed = CASES[name]
    assert print_graph(graph_of(text, opset)) == printed
