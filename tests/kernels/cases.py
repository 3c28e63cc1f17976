"""What the kernels are tried on: operands, and what onnxruntime makes of the same numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from fornaxc.ir.ops.attention import LAYOUTS, Attention
from fornaxc.ir.ops.nn import LocalResponseNorm
from fornaxc.ir.ops.packed import ACTIVATIONS
from fornaxc.ir.ops.quantized import Im2col, QuantizedLinear, packed_shape
from fornaxc.ir.types import DType
from fornaxc.kernels.packing import RECURRENT_ACTIVATIONS, pack_conv_weight, pack_gru_weight, pack_matrix_weight

Array = np.ndarray[Any, np.dtype[Any]]
KINDS = {name: code for code, name in enumerate(ACTIVATIONS)} | {"gelu": 7}
TYPES = {
    "float32": TensorProto.FLOAT,
    "int8": TensorProto.INT8,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
}
LEAST, GREATEST = -0.5, 0.7
ATTENTION = Attention()


@dataclass(frozen=True, slots=True)
class Case:
    """One call of a kernel, and the results wanted of it."""

    name: str
    kernel: str
    operands: list[Array]
    wanted: list[Array]
    rtol: float = 2e-4
    atol: float = 2e-5


def onnx_run(nodes: list[Any], inputs: dict[str, Array], outputs: list[str], dtype: str = "float32") -> list[Array]:
    """What onnxruntime computes from these nodes of opset 17, all of one type."""
    given = [helper.make_tensor_value_info(n, TYPES[a.dtype.name], a.shape) for n, a in inputs.items()]
    found = [helper.make_tensor_value_info(n, TYPES[dtype], None) for n in outputs]
    model = helper.make_model(helper.make_graph(nodes, "g", given, found), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(v) for v in session.run(outputs, inputs)]


def numbers(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def integers(*values: int) -> Array:
    return np.array(values, np.int64)


def _activation_nodes(kind: str) -> list[Any]:
    node = helper.make_node
    match kind:
        case "none":
            return [node("Identity", ["s"], ["y"])]
        case "relu":
            return [node("Relu", ["s"], ["y"])]
        case "clip":
            bounds = [node("Constant", [], [n], value_float=v) for n, v in (("least", LEAST), ("greatest", GREATEST))]
            return [*bounds, node("Clip", ["s", "least", "greatest"], ["y"])]
        case "silu":
            return [node("Sigmoid", ["s"], ["g"]), node("Mul", ["s", "g"], ["y"])]
        case "sigmoid":
            return [node("Sigmoid", ["s"], ["y"])]
        case "hardswish":
            return [node("HardSwish", ["s"], ["y"])]
        case "gelu":
            constants = {"root": 2**0.5, "one": 1.0, "two": 2.0}
            return [
                *(node("Constant", [], [n], value_float=v) for n, v in constants.items()),
                *(node("Div", ["s", "root"], ["d"]), node("Erf", ["d"], ["e"]), node("Add", ["e", "one"], ["a"])),
                *(node("Mul", ["s", "a"], ["m"]), node("Div", ["m", "two"], ["y"])),
            ]
    raise KeyError(kind)


def activation(kind: str, function: Callable[[Array], Array], rtol: float, atol: float) -> Case:
    """An activation of numbers from end to end, as what follows a convolution that changes nothing, against f64."""
    special = [np.nan, np.inf, -np.inf, 0.0, 1e-20, -1e-20]
    x = np.array([*special, *np.linspace(-200, 200, 1001), *np.linspace(-6, 6, 2001)], np.float32)
    with np.errstate(all="ignore"):
        wanted = function(x.astype(np.float64)).astype(np.float32)
    image = x.reshape(1, 1, -1, 1)
    geometry = (1, 1, 1, 1, 0, 0, 1, 1, 1, KINDS[kind], 0)
    one = pack_conv_weight(np.ones((1, 1, 1, 1), np.float32), 1)
    operands = [image, one, np.zeros(1, np.float32), image, integers(*geometry), np.zeros(2, np.float32)]
    return Case(f"{kind} from end to end", "conv2d", operands, [wanted.reshape(image.shape)], rtol, atol)


def conv(
    name: str,
    x: tuple[int, int, int, int],
    filters: tuple[int, int, int],
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilations: tuple[int, int] = (1, 1),
    groups: int = 1,
    activation: str = "none",
    residual: bool = False,
    poison: tuple[float, ...] = (),
) -> Case:
    """`x` is (N, C, H, W), `filters` (K, R, S); `poison` overwrites the first numbers of x."""
    channels = x[1] // groups
    k, r, s = filters
    image = numbers(x)
    image.reshape(-1)[: len(poison)] = poison
    weight = numbers((k, channels, r, s), 1) / np.float32((channels * r * s) ** 0.5)
    bias = numbers((k,), 2)
    convolve = helper.make_node(
        "Conv", ["x", "w", "b"], ["c"], group=groups, pads=pads, strides=strides, dilations=dilations
    )
    inputs = {"x": image, "w": weight, "b": bias}
    (plain,) = onnx_run([convolve], inputs, ["c"])
    added = numbers(plain.shape, 3)
    if residual:
        inputs["r"] = added
    total = helper.make_node("Add", ["c", "r"], ["s"]) if residual else helper.make_node("Identity", ["c"], ["s"])
    (wanted,) = onnx_run([convolve, total, *_activation_nodes(activation)], inputs, ["y"])
    geometry = (r, s, *strides, *pads[:2], *dilations, groups, KINDS[activation], int(residual))
    operands = [
        np.moveaxis(image, 1, 3),
        pack_conv_weight(weight, groups),
        bias,
        np.moveaxis(added, 1, 3),
        integers(*geometry),
        np.array([LEAST, GREATEST], np.float32),
    ]
    return Case(name, "conv2d", operands, [np.moveaxis(wanted, 1, 3)])


def conv_cases() -> list[Case]:
    nan, inf = float("nan"), float("inf")
    return [
        conv("odd channels, stride 2", (1, 3, 17, 15), (24, 3, 3), (2, 2), (1, 1, 1, 1), activation="relu"),
        conv("dilated", (2, 12, 9, 9), (20, 3, 3), pads=(2, 2, 2, 2), dilations=(2, 2), residual=True),
        conv("1x1", (1, 64, 11, 11), (100, 1, 1), activation="silu"),
        conv("1x1 on one pixel", (1, 130, 1, 1), (77, 1, 1), residual=True, activation="hardswish"),
        conv("3x3 on one pixel", (3, 5, 1, 1), (7, 3, 3), pads=(1, 1, 1, 1)),
        conv("one channel in and out", (2, 1, 6, 5), (1, 2, 3)),
        conv("4 groups", (1, 32, 8, 8), (64, 5, 5), pads=(2, 2, 2, 2), groups=4, activation="sigmoid"),
        conv("3 groups of odd sizes", (2, 15, 7, 6), (21, 3, 3), (1, 2), (1, 0, 0, 2), groups=3, activation="clip"),
        conv("more channels than a block", (1, 700, 13, 7), (130, 3, 3), pads=(1, 0, 0, 2), activation="hardswish"),
        conv("asymmetric pads, stride 3", (1, 4, 14, 19), (33, 3, 4), (3, 3), (0, 2, 1, 3), residual=True),
        conv("strides differ", (2, 6, 10, 11), (17, 2, 3), (3, 2), (1, 0, 2, 1), (2, 1), activation="relu"),
        conv("one dimension", (1, 16, 1, 50), (33, 1, 7), (1, 3), (0, 3, 0, 2), (1, 2)),
        conv("two threads by strips", (1, 96, 5, 5), (700, 3, 3), pads=(1, 1, 1, 1), activation="relu"),
        conv("two threads by rows", (2, 24, 40, 41), (48, 3, 3), pads=(1, 1, 1, 1), residual=True),
        conv("the first of a network, rows of taps as one run", (3, 3, 31, 45), (20, 7, 7), (2, 2), (3, 3, 2, 2)),
        conv("runs that blocks of taps cut", (1, 320, 7, 20), (16, 3, 4), pads=(1, 1, 1, 1), activation="relu"),
        conv("48 filters", (1, 8, 6, 6), (48, 1, 1)),
        conv("a window wider than the image", (1, 3, 4, 5), (5, 7, 7), pads=(3, 3, 3, 3)),
        conv("empty batch", (0, 4, 5, 5), (4, 3, 3), pads=(1, 1, 1, 1)),
        conv("NaN and infinity", (2, 5, 4, 4), (6, 1, 1), activation="relu", poison=(nan, inf, -inf)),
        conv("NaN under clip", (2, 5, 4, 4), (6, 3, 3), activation="clip", poison=(nan,)),
        conv("NaN under sigmoid", (1, 3, 4, 4), (6, 1, 1), activation="sigmoid", poison=(nan, 1e30, -1e30)),
        conv("depthwise", (1, 32, 15, 14), (32, 3, 3), pads=(1, 1, 1, 1), groups=32, activation="relu"),
        conv("depthwise, odd", (2, 37, 9, 11), (37, 3, 3), (2, 2), (1, 1, 1, 1), groups=37, residual=True),
        conv("depthwise, large window", (1, 5, 11, 12), (5, 9, 9), pads=(4, 4, 4, 4), groups=5, activation="silu"),
        conv("depthwise, dilated", (1, 7, 12, 9), (7, 3, 2), (1, 3), (2, 0, 1, 3), (3, 2), groups=7),
        conv("depthwise, two threads", (1, 96, 30, 30), (96, 5, 5), pads=(2, 2, 2, 2), groups=96, activation="clip"),
        conv("depthwise, empty batch", (0, 6, 4, 4), (6, 3, 3), groups=6),
        conv("channel multiplier", (1, 6, 8, 8), (18, 3, 3), pads=(1, 1, 1, 1), groups=6),
        conv(
            "depthwise, tiles inside and at the edges",
            (2, 21, 5, 27),
            (21, 3, 3),
            pads=(1, 1, 1, 1),
            groups=21,
            residual=True,
            activation="hardswish",
        ),
        conv("depthwise, wide strides", (1, 45, 9, 43), (45, 3, 5), (2, 2), (1, 2, 1, 2), groups=45, activation="silu"),
        conv(
            "several strips of few weights",
            (2, 3, 13, 29),
            (70, 3, 3),
            (2, 2),
            (0, 1, 1, 0),
            activation="silu",
            residual=True,
        ),
        conv("two pixels", (1, 40, 1, 2), (70, 1, 1), residual=True, activation="hardswish"),
        conv("the last tile has two pixels", (1, 9, 4, 5), (50, 3, 3), pads=(1, 1, 1, 1), activation="sigmoid"),
        conv(
            "infinity and NaN outside of the last channels",
            (1, 8, 3, 3),
            (5, 1, 1),
            activation="silu",
            poison=(inf, -inf, nan),
        ),
        conv("the last tile has four pixels, and x ends with its page", (1, 64, 4, 4), (20, 3, 3), pads=(1, 1, 1, 1)),
        conv("the last tile has three pixels, without pads", (1, 64, 5, 5), (20, 3, 3), activation="relu"),
        activation("sigmoid", lambda x: 1 / (1 + np.exp(-x)), 1e-6, 1e-37),
        activation("silu", lambda x: x / (1 + np.exp(-x)), 1e-6, 1e-35),
        activation("gelu", lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / 2**0.5)), 1e-6, 1e-6),
        conv("two pixels, threads by many strips", (1, 1000, 1, 2), (1000, 1, 1), activation="relu"),
        conv("one pixel, threads by many strips", (1, 1000, 1, 1), (1030, 1, 1), activation="gelu"),
        conv("one pixel, groups", (1, 300, 1, 1), (210, 1, 1), groups=3, residual=True),
        conv("one pixel, threads and groups", (1, 1500, 3, 3), (2100, 3, 3), groups=3),
        conv("NaN, depthwise", (1, 8, 5, 5), (8, 3, 3), groups=8, activation="relu", poison=(nan, inf)),
    ]


def bmm(name: str, batch: int, m: int, k: int, n: int, transposed: bool = False) -> Case:
    a, b = numbers((batch, m, k)), numbers((batch, n, k) if transposed else (batch, k, n), 1)
    wanted = np.matmul(a.astype(np.float64), np.swapaxes(b, 1, 2) if transposed else b).astype(np.float32)
    return Case(name, "bmm", [a, b, integers(int(transposed)), np.zeros_like(wanted)], [wanted])


def bmm_cases() -> list[Case]:
    sizes = [
        (1, 1, 1, 1),
        (3, 7, 5, 33),
        (2, 70, 64, 130),
        (1, 50, 300, 65),
        (12, 17, 64, 17),
        (1, 1, 200, 500),
        (3, 2, 40, 90),
    ]
    empty = [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (2, 3, 4, 0)]
    return [
        bmm(f"bmm {size}{' transposed' * t}".replace("/", ""), *size, bool(t))
        for size in [*sizes, *empty]
        for t in (0, 1)
    ]


def attention(
    name: str,
    sizes: tuple[int, int, int, int, int, int],
    op: Attention = ATTENTION,
    fewer: int = 0,
    mask: Array | None = None,
    fill: float = 0.0,
    poison: tuple[float, ...] = (),
    factor: float = 1.0,
) -> Case:
    """`sizes` is (batch, heads, queries, keys, channels, channels of the result); `fewer` heads of keys where they are shared; values are `factor` as large."""
    batch, heads, m, s, c, n = sizes
    q, k, v = (
        numbers((batch, heads, m, c)),
        numbers((batch, fewer or heads, s, c), 1),
        numbers((batch, fewer or heads, s, n), 2) * np.float32(factor),
    )
    k.reshape(-1)[: len(poison)] = poison
    q, k, v = (np.ascontiguousarray(a.transpose(LAYOUTS[name])) for a, name in ((q, op.q), (k, op.k), (v, op.v)))
    kind = 0 if mask is None else 1 + (mask.dtype == np.bool_)
    scale, spare = np.float32(c**-0.5 if c else 1), np.float32(0.25)
    rest = {0: [], 1: [mask], 2: [mask, np.float32(fill)]}[kind] + [spare] * op.spare
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in map(np.asarray, [q, k, v, scale, *rest])]
    with np.errstate(all="ignore"):
        wanted = op.evaluate(*wide)[0].astype(np.float32)
    names = list(LAYOUTS)
    flags = integers(*(names.index(x) for x in (op.q, op.k, op.v, op.result)), kind, int(op.spare))
    given = np.zeros((1, 1, 1, 1), np.float32) if mask is None else mask.astype(np.float32)
    extra = np.array([scale, fill, spare], np.float32)
    return Case(f"attention, {name}", "attention", [q, k, v, given, extra, flags, np.zeros_like(wanted)], [wanted])


def attention_cases() -> list[Case]:
    barred = np.where(numbers((2, 1, 7, 33), 5) > 0, np.float32(-np.inf), 0).astype(np.float32)
    seen = numbers((2, 3, 7, 33), 6) > 0
    seen[1, :, 2] = False
    sizes = (2, 3, 7, 33, 20, 18)
    found = [
        attention(f"{ql} {kl} {vl} {yl}", sizes, Attention(ql, kl, vl, yl))
        for ql in ("bhlc", "blhc")
        for kl in LAYOUTS
        for vl, yl in (("bhlc", "blhc"), ("blhc", "bhlc"))
    ]
    for m in (1, 2):
        few = (2, 4, m, 37, 24, 40)
        found += [
            attention(f"{m} queries, {kl}", few, Attention("blhc", kl, "blhc", "blhc"), fewer=2) for kl in LAYOUTS
        ]
    return [
        *found,
        attention("one of all", (1, 1, 1, 1, 1, 1)),
        attention("one key", (2, 2, 9, 1, 16, 16), Attention(k="bhcl")),
        attention("threads", (2, 3, 197, 197, 64, 64)),
        attention("threads in a head", (1, 1, 300, 500, 64, 64)),
        attention("threads, one query in the last tile", (1, 2, 97, 80, 64, 64)),
        attention("threads, two queries in the last block", (1, 1, 50, 400, 64, 64)),
        attention(
            "all barred, one query, spare",
            (1, 3, 1, 33, 20, 18),
            Attention(spare=True),
            mask=seen[1:, :, 2:3],
            fill=-np.inf,
        ),
        attention("values near the greatest number", (1, 1, 5, 40, 8, 8), factor=5e37),
        attention("many keys", (1, 2, 20, 3000, 32, 48)),
        attention("shared heads", (2, 8, 19, 30, 16, 16), fewer=2),
        attention("one head of keys", (2, 6, 19, 30, 16, 16), Attention("blhc", "blhc", "blhc", "blhc"), fewer=1),
        attention("mask added", sizes, mask=barred),
        attention("mask of the batch", sizes, mask=numbers((2, 1, 1, 33), 7)),
        attention("mask of queries", sizes, mask=numbers((1, 3, 7, 1), 8)),
        attention("mask that chooses", sizes, mask=seen, fill=-1e9),
        attention("mask that bars", sizes, mask=seen, fill=-np.inf),
        attention("mask that bars, spare", sizes, Attention(spare=True), mask=seen, fill=-np.inf),
        attention("mask, one query", (2, 3, 1, 33, 20, 18), mask=numbers((2, 1, 1, 33), 9)),
        attention("NaN and infinity", sizes, poison=(np.nan,) + (0.0,) * 40 + (np.inf,)),
        attention("NaN, spare", sizes, Attention(spare=True), poison=(np.nan,)),
        *(
            attention(f"empty {empty}".replace("/", ""), empty)
            for empty in [
                (0, 2, 3, 4, 5, 6),
                (2, 0, 3, 4, 5, 6),
                (2, 2, 0, 4, 5, 6),
                (2, 2, 3, 4, 0, 6),
                (2, 2, 3, 4, 5, 0),
            ]
        ),
        attention("no keys", (2, 2, 5, 0, 5, 6)),
        attention("no keys, one query", (2, 2, 1, 0, 5, 6)),
    ]


def pool(
    name: str,
    op: str,
    x: tuple[int, int, int, int],
    window: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilations: tuple[int, int] = (1, 1),
    ceil: bool = False,
    poison: tuple[float, ...] = (),
) -> Case:
    image = numbers(x)
    image.reshape(-1)[: len(poison)] = poison
    attributes: dict[str, Any] = {"kernel_shape": window, "strides": strides, "pads": pads, "ceil_mode": int(ceil)}
    if op == "MaxPool":
        attributes["dilations"] = dilations
    if op.startswith("Global"):
        attributes, window = {}, (0, 0)
    (wanted,) = onnx_run([helper.make_node(op, ["x"], ["y"], **attributes)], {"x": image}, ["y"])
    wanted = np.moveaxis(wanted, 1, 3)
    geometry = integers(*window, *strides, *pads[:2], *dilations, 0 if op == "MaxPool" else 2)
    return Case(name, "pool2d", [np.moveaxis(image, 1, 3), geometry, np.zeros_like(wanted)], [wanted])


def pool_cases() -> list[Case]:
    return [
        pool("max", "MaxPool", (2, 19, 9, 8), (3, 3), (2, 2), (1, 1, 1, 1)),
        pool("max, dilated", "MaxPool", (1, 5, 11, 12), (2, 3), (1, 2), (1, 2, 0, 1), (3, 2)),
        pool("max, ceil", "MaxPool", (1, 3, 10, 7), (3, 2), (3, 3), ceil=True),
        pool("max, two threads", "MaxPool", (1, 64, 40, 40), (3, 3), (2, 2), (1, 1, 1, 1)),
        pool("max, empty batch", "MaxPool", (0, 4, 6, 6), (2, 2)),
        pool("average", "AveragePool", (2, 17, 9, 8), (3, 3), (2, 2), (1, 1, 1, 1)),
        pool("average, asymmetric", "AveragePool", (1, 16, 7, 9), (2, 4), (1, 3), (0, 3, 1, 1)),
        pool("global average", "GlobalAveragePool", (3, 37, 5, 6), (5, 6)),
        pool("average, many channels", "AveragePool", (2, 75, 6, 7), (3, 3), (1, 2), (1, 1, 1, 1)),
        pool("NaN, average", "AveragePool", (1, 3, 6, 6), (3, 3), poison=(float("nan"),)),
    ]


def nan_max(name: str, channels: int) -> Case:
    """A window that holds NaN has NaN for its maximum, wherever in the window it stands."""
    x = numbers((1, 4, 4, channels))
    x[0, 1, 1, ::2] = np.nan
    x[0, 3, 3, 1] = -np.inf
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (1, 2))
    wanted = windows.max(axis=(-2, -1))
    return Case(name, "pool2d", [x, integers(2, 2, 1, 1, 0, 0, 1, 1, 0), np.zeros_like(wanted)], [wanted])


SIGMOID, TANH = RECURRENT_ACTIVATIONS["sigmoid"], RECURRENT_ACTIVATIONS["tanh"]
PARTS = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrence(
    name: str,
    op: str,
    sizes: tuple[int, int, int],
    reverse: bool = False,
    lengths: tuple[int, ...] | None = None,
    clip: float = 0.0,
    peephole: bool = False,
    coupled: bool = False,
    linear: bool = False,
    activation: str = "tanh",
    scale: float = 1.0,
) -> Case:
    """`sizes` is (time, batch, hidden); `scale` multiplies x."""
    time, batch, hidden = sizes
    parts, width = PARTS[op], 5
    x = numbers((time, batch, width)) * np.float32(scale)
    w = numbers((1, parts * hidden, width), 1)
    r = numbers((1, parts * hidden, hidden), 2) / np.float32(hidden**0.5)
    bias = numbers((1, 2 * parts * hidden), 3)
    h, c = numbers((1, batch, hidden), 4), numbers((1, batch, hidden), 5)
    inputs = {"x": x, "w": w, "r": r, "b": bias, "h": h}
    names = ["x", "w", "r", "b", "", "h"]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": "reverse" if reverse else "forward"}
    if lengths is not None:
        inputs["lengths"], names[4] = np.array(lengths, np.int32), "lengths"
    if clip:
        attributes["clip"] = clip
    outputs = ["y", "last_h"]
    p = numbers((1, 3 * hidden), 6)
    if op == "LSTM":
        inputs["c"] = c
        names.append("c")
        outputs.append("last_c")
        attributes["input_forget"] = int(coupled)
        if peephole:
            inputs["p"] = p
            names.append("p")
    elif op == "GRU":
        attributes["linear_before_reset"] = int(linear)
    else:
        attributes["activations"] = [activation.capitalize()]
    wanted = onnx_run([helper.make_node(op, names, outputs, **attributes)], inputs, outputs)
    wanted = [wanted[0][:, 0].copy(), *(v[0].copy() for v in wanted[1:])]

    input_bias, own_bias = np.split(bias[0], 2)
    projected = x @ w[0].T + input_bias
    limits = integers(*lengths) if lengths is not None else integers()
    bound, start = np.array([clip], np.float32), [int(reverse), int(lengths is not None)]
    if op == "GRU":
        flags = integers(*start, SIGMOID, TANH, int(linear))
        operands = [projected, pack_gru_weight(r[0]), own_bias, h[0], limits, flags, bound]
    elif op == "LSTM":
        flags = integers(*start, SIGMOID, TANH, TANH, int(peephole), int(coupled))
        operands = [projected + own_bias, pack_matrix_weight(r[0]), h[0], c[0], limits, p[0], flags, bound]
    else:
        flags = integers(*start, RECURRENT_ACTIVATIONS[activation])
        operands = [projected + own_bias, pack_matrix_weight(r[0]), h[0], limits, flags, bound]
    return Case(name, op.lower(), operands, wanted)


def recurrence_cases() -> list[Case]:
    found: list[Case] = []
    for op in PARTS:
        found += [
            recurrence(f"{op}, one step", op, (1, 1, 1)),
            recurrence(f"{op}, one sequence", op, (7, 1, 20)),
            recurrence(f"{op}, batch", op, (5, 9, 33)),
            recurrence(f"{op}, threads", op, (40, 13, 90)),
            recurrence(f"{op}, threads, lengths", op, (40, 13, 90), lengths=tuple(range(40, 1, -3))),
            recurrence(f"{op}, threads in a step", op, (2, 1, 640)),
            recurrence(f"{op}, threads in a step of several", op, (12, 3, 190)),
            recurrence(f"{op}, threads in a step, lengths", op, (12, 3, 190), lengths=(5, 12, 1)),
            recurrence(f"{op}, reverse", op, (6, 3, 16), reverse=True),
            recurrence(f"{op}, lengths", op, (6, 4, 18), lengths=(3, 6, 1, 5)),
            recurrence(f"{op}, reverse lengths", op, (6, 4, 18), reverse=True, lengths=(3, 6, 1, 5)),
            recurrence(f"{op}, clip", op, (4, 2, 17), clip=0.3),
            recurrence(f"{op}, large numbers", op, (4, 2, 19), scale=1e4),
        ]
    return [
        *found,
        recurrence("LSTM, peepholes", "LSTM", (5, 3, 21), peephole=True),
        recurrence("LSTM, peepholes, reverse", "LSTM", (5, 3, 21), reverse=True, peephole=True, lengths=(2, 5, 4)),
        recurrence("LSTM, coupled", "LSTM", (5, 2, 12), coupled=True),
        recurrence("GRU, linear before reset", "GRU", (6, 3, 23), linear=True),
        recurrence("GRU, linear, reverse", "GRU", (6, 3, 16), reverse=True, lengths=(2, 6, 3), linear=True),
        recurrence("RNN, relu", "RNN", (6, 3, 16), activation="relu"),
    ]


def nan_recurrence(op: str) -> Case:
    """NaN in one unit of one sequence: it spreads over that sequence a step later. onnxruntime loses it in a sigmoid."""
    case = recurrence(f"{op}, NaN", op, (4, 3, 19))
    case.operands[0][1, 2, 0] = np.nan
    y, *last = case.wanted
    y[1, 2, 0] = np.nan
    y[2:, 2] = np.nan
    for state in last:
        state[2] = np.nan
    return case


def transpose(kernel: str, shape: tuple[int, ...], perm: tuple[int, ...]) -> Case:
    dtype = {"f": np.float32, "i": np.int64, "b": np.int8, "h": np.int16}[kernel[-2]]
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    wanted = np.ascontiguousarray(x.transpose(perm))
    return Case(f"{kernel} {shape} {perm}", kernel, [x, integers(*perm), np.zeros_like(wanted)], [wanted])


def transpose_cases() -> list[Case]:
    four = [(0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (0, 2, 1, 3), (0, 1, 2, 3), (2, 0, 3, 1)]
    return [
        *(transpose("transpose_f2", s, (1, 0)) for s in [(1, 1), (5, 70), (48, 32), (300, 257), (0, 4)]),
        *(transpose("transpose_f4", s, p) for p in four for s in [(2, 3, 17, 35), (1, 32, 16, 48), (3, 1, 20, 1)]),
        transpose("transpose_f4", (2, 64, 40, 40), (0, 2, 3, 1)),
        transpose("transpose_i5", (3, 2, 4, 5, 18), (4, 1, 0, 3, 2)),
        transpose("transpose_i5", (3, 2, 4, 5, 18), (1, 0, 2, 4, 3)),
        transpose("transpose_b3", (19, 3, 33), (2, 1, 0)),
        transpose("transpose_h3", (19, 3, 33), (0, 2, 1)),
    ]


REDUCTIONS = (np.sum, np.prod, np.max, np.min)
SHAPES = [(3, 7, 1), (5, 300, 1), (1, 200000, 1), (2, 9, 33), (1, 5000, 3), (4, 1, 70), (0, 3, 2), (2, 3, 0)]


def reduction(kind: int, shape: tuple[int, int, int], dtype: str) -> Case:
    """Numbers near 1, so that products stay near it too; in f64 for numpy, so that its rounding is no part of the comparison."""
    x = numbers(shape) / 100 + 1 if dtype == "f" else np.random.default_rng(kind).integers(-9, 9, shape)
    x = x.astype(np.float32 if dtype == "f" else np.int64)
    wide = x.astype(np.float64) if dtype == "f" else x
    with np.errstate(over="ignore", under="ignore"):
        wanted = REDUCTIONS[kind](wide, axis=1, keepdims=True).astype(x.dtype)
    threads = "threads, " if x.size >= 200000 else ""
    return Case(f"reduce {kind} {dtype}, {threads}{shape}", f"reduce_{dtype}{kind}", [x], [wanted])


def special_reductions() -> list[Case]:
    """NaN wins, wherever it is; of nothing, the identity; of infinities, an infinity."""
    x = np.full((4, 70, 1), -np.inf, np.float32)
    x[1, 3], x[2, 69], x[3, 8] = np.nan, np.nan, 5
    tall = np.ascontiguousarray(x.reshape(4, 70).T.reshape(1, 70, 4))
    nothing = np.zeros((2, 0, 3), np.float32)
    found = [
        Case(
            f"reduce {kind}, special {given.shape}", f"reduce_f{kind}", [given], [wanted(given, axis=1, keepdims=True)]
        )
        for kind, wanted in ((2, np.max), (3, np.min))
        for given in (x, tall)
    ]
    for kind, identity in enumerate((0, 1, -np.inf, np.inf)):
        wanted = np.full((2, 1, 3), identity, np.float32)
        found.append(Case(f"reduce {kind}, of nothing", f"reduce_f{kind}", [nothing], [wanted]))
    return found


def softmax(name: str, x: Array, logarithm: bool) -> Case:
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        shifted = wide - wide.max(-1, keepdims=True)
        total = np.exp(shifted).sum(-1, keepdims=True)
        wanted = shifted - np.log(total) if logarithm else np.exp(shifted) / total
    kind = "log softmax" if logarithm else "softmax"
    return Case(f"{kind}, {name}", "softmax", [x, integers(logarithm)], [wanted.astype(np.float32)])


def local_norm(
    name: str, x: Array, before: int, after: int, alpha: float = 0.5, beta: float = 0.75, bias: float = 1.0
) -> Case:
    with np.errstate(all="ignore"):
        (wanted,) = LocalResponseNorm(before, after, alpha, beta, bias).evaluate(x)
    given = [x, integers(before, after), np.array([alpha, beta, bias], np.float32)]
    return Case(f"local norm, {name}", "lrn", given, [wanted])


def local_norm_cases() -> list[Case]:
    special = numbers((3, 21))
    special[0, 3], special[1, 20], special[2, 5] = np.nan, np.inf, -np.inf
    return [
        local_norm("5 of 64", numbers((9, 64)), 2, 2),
        local_norm("4 of 7", numbers((3, 7)), 1, 2, bias=2.0),
        local_norm("one", numbers((5, 17)), 0, 0),
        local_norm("wider than a row", numbers((4, 3)), 6, 5),
        local_norm("another power", numbers((6, 33)), 1, 1, beta=1.3, alpha=2.0),
        local_norm("a negative power", numbers((6, 33)), 1, 1, beta=-0.5),
        local_norm("on threads", numbers((300, 70)), 2, 2),
        local_norm("special", special, 2, 2),
        local_norm("special, another power", special, 2, 2, beta=0.6),
        local_norm("large", numbers((2, 40)) * 1e18, 1, 1, alpha=1e-4),
        local_norm("no rows", numbers((0, 5)), 1, 1),
    ]


def softmax_cases() -> list[Case]:
    special = numbers((7, 21))
    special[1, 3], special[2, 20], special[3, 5], special[4] = np.nan, np.inf, -np.inf, -np.inf
    rows = {
        **{str(s): numbers(s) for s in [(1, 1), (3, 5), (4, 16), (5, 67), (0, 3)]},
        "threads": numbers((64, 1000)),
        "large": numbers((3, 40)) * 1e4,
        "of 100": numbers((3, 65)) * 100,
        "far apart": np.float32([[0, -200, -1e38, -50]]),
        "special": special,
    }
    return [softmax(name, x, logarithm) for name, x in rows.items() for logarithm in (False, True)]


def normalization(name: str, shape: tuple[int, int], centred: bool, offset: float = 0.0) -> Case:
    x, epsilon = numbers(shape) + np.float32(offset), np.float32(1e-5)
    scale, bias = numbers(shape[1:], 1), numbers(shape[1:], 2)
    wide = x.astype(np.float64)
    if centred:
        wide = wide - wide.mean(-1, keepdims=True)
    wanted = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + epsilon) * scale + (bias if centred else 0)
    kind = "layer norm" if centred else "rms norm"
    operands = [x, scale, bias, np.array([epsilon]), integers(centred)]
    return Case(f"{kind}, {name}", "normalize", operands, [wanted.astype(np.float32)])


def normalization_cases() -> list[Case]:
    found = [normalization("far from 0", (3, 50), True, 100.0)]
    for centred in (True, False):
        found += [normalization(str(s), s, centred) for s in [(2, 1), (3, 7), (4, 64), (5, 77)]]
        found.append(normalization("threads", (100, 384), centred))
    return found


def product(name: str, a: tuple[int, int, int], b: tuple[int, int, int], dtype: str) -> Case:
    rng = np.random.default_rng([*a, *b])
    left, right = (rng.integers(-99, 99, s).astype(np.int64 if dtype == "i" else np.float64) for s in (a, b))
    return Case(f"product {dtype}, {name}", f"product_{dtype}", [left, right], [left @ right])


def product_cases() -> list[Case]:
    return [
        case
        for dtype in "id"
        for case in (
            product("one", (1, 1, 1), (1, 1, 1), dtype),
            product("tails", (2, 7, 5), (2, 5, 37), dtype),
            product("shared", (3, 2, 9), (1, 9, 16), dtype),
            product("nothing summed", (1, 3, 0), (1, 0, 5), dtype),
            product("no rows", (1, 0, 4), (1, 4, 5), dtype),
            product("threads", (1, 130, 70), (1, 70, 90), dtype),
        )
    ]


CODES = {"w": DType.I32, "f": DType.F32, "u": DType.U8, "b": DType.I8}


def quantized(name: str, m: int, k: int, n: int, x: str, y: str, relu: bool, exact: bool = False) -> Case:
    """A product of bytes; scales are powers of two, so that every result is exact and halves are many.

    Weights of 7 bits are compared with onnxruntime, where sums of u8 by s8 overflow on some processors, and all `exact` ones with the IR's own operation.
    """
    rng = np.random.default_rng([m, k, n])
    low, high = (-128, 128) if x == "b" else (0, 256)
    rows = rng.integers(low, high, (m, k)).astype(CODES[x].numpy)
    matrix = rng.integers(*((-128, 128) if exact else (-64, 64)), (k, n)).astype(np.int8)
    zero = np.array([low + 37], np.int32)
    w_zero = rng.integers(-9, 9, n).astype(np.int32) if relu else np.zeros(n, np.int32)
    scale, bias = 2.0 ** rng.integers(-9, -5, n), rng.integers(-9, 9, n) / 4
    floats = [scale.astype(np.float32), bias.astype(np.float32)]
    steps = [np.array([1], np.float32), np.array([3], np.float32)]
    dtype = CODES[y]
    panels, quads, columns, depth = packed_shape(k, n)
    filled = np.pad(matrix, ((0, quads * depth - k), (0, panels * columns - n)))
    packed = filled.reshape(quads, depth, panels, columns).transpose(2, 0, 3, 1)
    sums = (matrix.astype(np.int32) - w_zero).sum(0).astype(np.int32)
    operands = [rows, packed, zero, sums, w_zero, *floats, *steps, integers(relu, relu)]
    if exact:
        op = QuantizedLinear(n, dtype, w_zero=True, relu=relu)
        used = {DType.I32: 0, DType.F32: 2, DType.U8: 4, DType.I8: 4}[dtype]
        return Case(name, f"quantized_{x}{y}", operands, list(op.evaluate(*operands[: 5 + used])))
    node = helper.make_node
    nodes = [node("MatMulInteger", ["x", "w", "xz", "wz"], ["t"])]
    given = {"x": rows, "w": matrix, "xz": zero.astype(rows.dtype).reshape(()), "wz": w_zero.astype(np.int8)}
    if dtype is not DType.I32:
        given |= {"s": floats[0], "b": floats[1]}
        nodes += [node("Cast", ["t"], ["c"], to=TensorProto.FLOAT), node("Mul", ["c", "s"], ["d"])]
        nodes += [node("Add", ["d", "b"], ["e"]), node("Relu" if relu else "Identity", ["e"], ["f"])]
    if dtype in (DType.U8, DType.I8):
        given |= {"ys": steps[0].reshape(()), "yz": steps[1].astype(dtype.numpy).reshape(())}
        nodes.append(node("QuantizeLinear", ["f", "ys", "yz"], ["q"]))
    result = nodes[-1].output[0]
    return Case(name, f"quantized_{x}{y}", operands, onnx_run(nodes, given, [result], dtype.numpy.name))


def quantized_cases() -> list[Case]:
    shapes = [(1, 1, 1), (1, 9, 40), (2, 4, 16), (7, 13, 67), (13, 64, 80), (5, 3, 130)]
    kinds = [(x, y) for x in "ub" for y in "wfub"]
    found = [
        quantized(f"quantized {x} {y} {shape} {relu}", *shape, x, y, relu)
        for x, y in kinds
        for shape in shapes
        for relu in (True, False)
    ]
    found += [quantized(f"quantized {x} {y}, all weights", 9, 33, 50, x, y, True, exact=True) for x, y in kinds]
    for x in "ub":
        found.append(quantized(f"quantized {x}, threads, columns", 20, 300, 500, x, "f", True))
        found.append(quantized(f"quantized {x}, threads, rows", 700, 400, 70, x, "u", True))
        found.append(quantized(f"quantized {x}, no rows", 0, 5, 20, x, "f", True, exact=True))
    return found


def im2col(
    name: str,
    shape: tuple[int, int, int, int],
    window: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    low: tuple[int, int] = (0, 0),
    high: tuple[int, int] = (0, 0),
    dilations: tuple[int, int] = (1, 1),
    kind: str = "u",
) -> Case:
    """The windows of an image of bytes; the IR's own operation tells what they are."""
    dtype = CODES[kind].numpy
    limits = np.iinfo(dtype)
    x = np.random.default_rng(shape).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    fill = np.array([limits.max - 9], dtype)
    (wanted,) = Im2col(window, strides, low, high, dilations).evaluate(x, fill.reshape(()))
    geometry = integers(*window, *strides, *low, *high, *dilations)
    return Case(name, f"im2col_{kind}", [x, fill, geometry, np.zeros_like(wanted)], [wanted], 0, 0)


def im2col_cases() -> list[Case]:
    return [
        im2col("windows", (2, 9, 7, 5), (3, 2)),
        im2col("windows of one pixel, strides", (1, 5, 8, 64), (1, 1), (2, 3), kind="b"),
        im2col("windows, padded", (2, 5, 6, 3), (3, 3), (2, 2), (1, 1), (1, 2)),
        im2col("windows, dilated", (1, 6, 9, 4), (3, 2), (1, 2), (2, 3), (1, 0), (2, 3), "b"),
        im2col("windows larger than the image", (1, 2, 3, 70), (4, 5), (1, 1), (2, 4), (3, 1)),
        im2col("windows beyond the image", (1, 2, 2, 3), (2, 2), (1, 1), (4, 4), (4, 4), (2, 2)),
        im2col("windows, threads", (3, 60, 50, 17), (3, 3), (1, 1), (1, 1), (1, 1)),
        im2col("windows of no image", (0, 5, 6, 3), (3, 3), kind="b"),
        im2col("no windows", (2, 3, 3, 4), (5, 5)),
    ]


def reduction_cases() -> list[Case]:
    return [reduction(k, s, t) for k in range(4) for s in SHAPES for t in "fi"]


def all_cases() -> list[Case]:
    return [
        *conv_cases(),
        *attention_cases(),
        *bmm_cases(),
        *pool_cases(),
        nan_max("NaN, max", 3),
        nan_max("NaN, max, many channels", 75),
        *recurrence_cases(),
        *map(nan_recurrence, PARTS),
        *transpose_cases(),
        *reduction_cases(),
        *special_reductions(),
        *softmax_cases(),
        *local_norm_cases(),
        *normalization_cases(),
        *product_cases(),
        *quantized_cases(),
        *im2col_cases(),
    ]
