"""Operators whose results are random: an artifact must give what the oracle gives, so they are refused by name."""

from __future__ import annotations

from fornaxc.importers.onnx.context import NodeContext, Refused
from fornaxc.importers.onnx.registry import onnx_op
from fornaxc.ir.graph import Value


def _refuse(ctx: NodeContext) -> Value:
    raise Refused("its result is random")


for _name, _versions in (
    ("Bernoulli", (15, 22)),
    ("Multinomial", (7, 22)),
    ("RandomNormal", (1, 22)),
    ("RandomNormalLike", (1, 22)),
    ("RandomUniform", (1, 22)),
    ("RandomUniformLike", (1, 22)),
):
    onnx_op(_name, *_versions)(_refuse)
