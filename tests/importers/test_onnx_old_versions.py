"""Every schema version of an operator that an opset from 6 on has in force is handled, and old ones agree with onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.importers.onnx.registry import handled, handled_versions
from fornaxc.ir.checker import check
from fornaxc.ir.interpreter import run

FIRST, LAST = 6, onnx.defs.onnx_opset_version()


def test_an_operator_is_handled_in_all_of_its_versions() -> None:
    missing = []
    for name in sorted({name for domain, name, _ in handled() if domain == ""}):
        versions = set()
        for opset in range(FIRST, LAST + 1):
            try:
                schema = onnx.defs.get_schema(name, opset, "")
            except onnx.defs.SchemaError:
                continue
            if not schema.deprecated:
                versions.add(schema.since_version)
        missing += [f"{name}-{version}" for version in sorted(versions - set(handled_versions("", name)))]
    assert not missing


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
CASES: list[tuple[str, str, range, dict[str, Any]]] = [
    ("Add", "Add(x, c)", range(7, 22), {"c": np.ones((3, 1), np.float32)}),
    ("BatchOfPowers", "Pow(x, c)", range(7, 22), {"c": np.array([2], np.float32)}),
    ("ClipAttributes", "Clip<min=-3.0, max=4.0>(x)", range(7, 11), {}),
    ("Clip", "Clip(x, lo, hi)", range(11, 22), {"lo": np.float32(-3), "hi": np.float32(4)}),
    ("SliceAttributes", "Slice<starts=[1, -3], ends=[9, -1], axes=[1, -1]>(x)", range(7, 10), {}),
    (
        "SliceInputs",
        "Slice(x, s, e, a, t)",
        range(10, 22),
        {"s": np.array([-1, 0]), "e": np.array([-9, 9]), "a": np.array([1, 2]), "t": np.array([-1, 2])},
    ),
    ("SqueezeAttribute", "Squeeze<axes=[0]>(u)", range(7, 13), {}),
    ("FlattenBefore11", "Flatten<axis=2>(x)", range(7, 22), {}),
    ("PadAttributes", 'Pad<mode="edge", pads=[0, 1, 0, 0, 0, 2]>(x)', range(7, 11), {}),
    ("PadValue", "Pad<value=3.0, pads=[0, 1, 0, 0, 0, 2]>(x)", range(7, 11), {}),
    ("PadInputs", "Pad(x, p, v)", range(11, 22), {"p": np.array([0, 1, 0, 0, 0, 2]), "v": np.float32(3)}),
    ("Split", "Split<axis=1>(x)", range(7, 18), {}),
    ("Gather", "Gather<axis=1>(x, i)", range(7, 22), {"i": np.array([[0, 2]])}),
    ("Tile", "Tile(x, r)", range(7, 22), {"r": np.array([1, 2, 1])}),
    ("Expand", "Expand(x, r)", range(8, 22), {"r": np.array([5, 1, 1, 4])}),
    ("TopKAttribute", "TopK<k=2, axis=1>(x)", range(7, 10), {}),
    ("TopKInput", "TopK<axis=1>(x, k)", range(10, 22), {"k": np.array([2])}),
    ("Concat", "Concat<axis=1>(x, c, x)", range(7, 22), {"c": np.ones((2, 2, 4), np.float32)}),
    ("Mean", "Mean(x, c, x)", range(8, 22), {"c": np.ones((3, 1), np.float32)}),
    ("Max", "Max(x, c)", range(8, 22), {"c": np.ones((3, 1), np.float32)}),
    (
        "Scatter",
        "Scatter<axis=1>(x, i, u)",
        range(9, 11),
        {"i": np.array([[[0]], [[2]]]), "u": np.ones((2, 1, 1), np.float32)},
    ),
    ("DepthToSpace", "DepthToSpace<blocksize=2>(v)", range(7, 22), {}),
    ("SpaceToDepth", "SpaceToDepth<blocksize=2>(w)", range(7, 22), {}),
    ("Where", "Where(c, x, n)", range(9, 22), {"c": X > 0, "n": np.float32(0)}),
    (
        "OneHot",
        "OneHot<axis=0>(i, d, p)",
        range(9, 22),
        {"i": np.array([0, 2]), "d": np.array([3]), "p": np.array([0, 1], np.float32)},
    ),
    ("CumSum", "CumSum<reverse=1>(x, a)", range(11, 22), {"a": np.int64(1)}),
    (
        "Quantize",
        "QuantizeLinear(x, s, z)",
        range(10, 22),
        {"s": np.float32(0.5), "z": np.uint8(9)},
    ),
    ("Mod", "Mod<fmod=1>(x, c)", range(10, 22), {"c": np.array([3], np.float32)}),
    ("Reverse", "ReverseSequence<time_axis=1, batch_axis=0>(x, n)", range(10, 22), {"n": np.array([3, 2])}),
    ("Trilu", "Trilu<upper=0>(x, k)", range(14, 22), {"k": np.int64(-1)}),
    ("GatherND", "GatherND(x, i)", range(11, 22), {"i": np.array([[1, -1]])}),
    ("Compress", "Compress<axis=2>(x, c)", range(9, 22), {"c": np.array([True, False, True])}),
    ("NonZero", "NonZero(x)", range(9, 22), {}),
    ("EyeLike", "EyeLike<k=1>(m)", range(9, 22), {}),
]
VIEWS = {"u": (1, 6, 4), "v": (1, 4, 2, 3), "w": (1, 1, 4, 6), "m": (4, 6)}


@pytest.mark.parametrize(("name", "expression", "opsets", "constants"), CASES, ids=[case[0] for case in CASES])
def test_old_versions_agree_with_onnxruntime(
    name: str, expression: str, opsets: range, constants: dict[str, Any]
) -> None:
    """One opset for each version of the operator's schema."""
    operator = expression.split("(", maxsplit=1)[0].split("<", maxsplit=1)[0]
    view = next((v for v in VIEWS if f"({v})" in expression), "x")
    shape = VIEWS.get(view, X.shape)
    x = X.reshape(-1)[: int(np.prod(shape))].reshape(shape)
    outputs = {"Split": 3, "TopK": 2}.get(operator, 1)
    results = ", ".join(f"y{i}" for i in range(outputs))
    declared = ", ".join(f"float y{i}" for i in range(outputs))
    seen = set()
    for opset in opsets:
        since = onnx.defs.get_schema(operator, opset, "").since_version
        if since in seen:
            continue
        seen.add(since)
        size = ", ".join(str(d) for d in shape)
        text = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[{size}] {view}) => ({declared}) {{ {results} = {expression} }}'
        model = onnx.parser.parse_model(text)
        for output in model.graph.output:
            output.ClearField("type")
        model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        wanted = session.run(None, {view: x} if session.get_inputs() else {})
        graph = import_model(model_from_proto(model), {})
        check(graph)
        for found, want in zip(run(graph, [x]), wanted, strict=True):
            assert found.dtype == want.dtype
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6, err_msg=f"{operator}-{since}")
