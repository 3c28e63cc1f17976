"""Which inputs of a model only steer it: they carry shapes, axes, starts, repeats and the like, which real models hold as constants."""

from __future__ import annotations

import onnx

_SLOTS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
"""The operands that steer an operator, by position. All reductions have their axes at 1."""

_REDUCTIONS = (1,)

_SHAPE_ARITHMETIC = frozenset(
    {
        "Add",
        "Cast",
        "CastLike",
        "Concat",
        "Div",
        "Equal",
        "Gather",
        "Identity",
        "Less",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Sub",
        "Unsqueeze",
        "Where",
    }
)
"""Through these a value is still what steers: an input that only they read on its way to such an operand steers too."""


def steering_inputs(graph: onnx.GraphProto) -> list[str]:
    """The names of the graph's inputs that steer, in order. Data never does: what reaches a steering operand by its shape does not count."""
    producers: dict[str, onnx.NodeProto] = {}
    wanted: list[str] = []
    _collect(graph, producers, wanted)
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if not name or name in found:
            continue
        found.add(name)
        producer = producers.get(name)
        if producer is None:
            continue
        if producer.op_type in _SHAPE_ARITHMETIC:
            wanted += producer.input
        elif producer.op_type == "If":
            place = list(producer.output).index(name)
            wanted += [a.g.output[place].name for a in producer.attribute if a.HasField("g")]
    return [i.name for i in graph.input if i.name in found]


def _collect(graph: onnx.GraphProto, producers: dict[str, onnx.NodeProto], wanted: list[str]) -> None:
    for node in graph.node:
        producers.update((name, node) for name in node.output)
        slots = _REDUCTIONS if node.op_type.startswith("Reduce") else _SLOTS.get(node.op_type, ())
        wanted += [node.input[i] for i in slots if i < len(node.input)]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _collect(inner, producers, wanted)
