"""The passes in their order: one table that `--no-pass` takes its names from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from fornaxc.errors import UsageError
from fornaxc.ir.checker import check
from fornaxc.ir.dead import drop_dead
from fornaxc.ir.graph import Graph, Node
from fornaxc.passes.affine import fold_affine
from fornaxc.passes.chain_kernels import chain_kernels
from fornaxc.passes.control import simplify_control
from fornaxc.passes.cse import share_common
from fornaxc.passes.fills import fold_fills
from fornaxc.passes.find_gelu import find_gelu
from fornaxc.passes.find_layer_norm import find_layer_norm
from fornaxc.passes.find_local_norm import find_local_norm
from fornaxc.passes.find_repeat import find_repeat
from fornaxc.passes.find_rms_norm import find_rms_norm
from fornaxc.passes.find_rotation import find_rotation
from fornaxc.passes.find_silu import find_silu
from fornaxc.passes.find_softmax import find_softmax
from fornaxc.passes.fuse_attention import fuse_attention
from fornaxc.passes.fuse_conv import fuse_conv
from fornaxc.passes.fuse_linear import fuse_linear
from fornaxc.passes.fuse_quantized import fuse_quantized
from fornaxc.passes.layout import sink_transposes
from fornaxc.passes.pack_recurrence import pack_recurrence
from fornaxc.passes.scale_channels import scale_channels
from fornaxc.passes.simplify import simplify
from fornaxc.passes.subpixel import split_phases
from fornaxc.passes.volumes import flatten_volumes
from fornaxc.passes.widen_small import widen_small


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewriting of graphs. `kinds` are the device kinds that it is for; on a GPU up to a level of optimization only."""

    name: str
    function: Callable[[Graph], Graph]
    description: str
    kinds: tuple[str, ...] = ("cpu", "gpu")
    highest_on_gpu: int = 3

    def left_out(self, device_kind: str, optimization: int, disabled: Sequence[str] = ()) -> str:
        """Why the pass does not run for a device kind and a level, "" where it does. `disabled` names passes that the user does not want."""
        if self.name in disabled:
            return "left out by --no-pass"
        if device_kind not in self.kinds:
            return f"for a {' or a '.join(k.upper() for k in self.kinds)} only"
        if device_kind == "gpu" and optimization > self.highest_on_gpu:
            return f"on a GPU up to -O{self.highest_on_gpu} only"
        return ""


@dataclass(frozen=True, slots=True)
class Step:
    """A pass, and what it made of a graph: `after` is `before` itself where the pass was left out, for the reason in `left_out`."""

    step: Pass
    before: Graph
    after: Graph
    left_out: str = ""
    seconds: float = 0.0


def _tidy(graph: Graph) -> Graph:
    return drop_dead(share_common(simplify(graph)))


PASSES: tuple[Pass, ...] = (
    Pass("simplify", simplify, "drop identities; merge chains of reshapes, transposes and broadcasts"),
    Pass(
        "simplify-control",
        simplify_control,
        "the branch or the trips that constants decide in place of an if or a loop; what is carried or yielded for nothing goes",
    ),
    Pass("fold-fills", fold_fills, "arithmetic on repeated literals is done on the one number that they repeat"),
    Pass("widen-small", widen_small, "arithmetic on types below float16 and below a byte in wider ones, rounded back"),
    Pass("share-common", share_common, "compute equal operations on equal operands once"),
    Pass("find-softmax", find_softmax, "softmax and its logarithm, written out, as one operation"),
    Pass("find-layer-norm", find_layer_norm, "layer normalisation, written out, as one operation"),
    Pass("find-rms-norm", find_rms_norm, "root mean square normalisation, written out, as one operation"),
    Pass("find-gelu", find_gelu, "GELU with erf or tanh, written out, as one function"),
    Pass("find-silu", find_silu, "the logistic function and SiLU, written out, as one function"),
    Pass("find-rotation", find_rotation, "the signs of rotary position embeddings go into the table of sines"),
    Pass(
        "fuse-quantized",
        fuse_quantized,
        "products and convolutions of 8-bit integers with constant ones, between QuantizeLinear and DequantizeLinear too, as one kernel of exact sums",
        ("cpu",),
    ),
    Pass(
        "scale-channels",
        scale_channels,
        "scales of channels that no convolution before them takes in as convolutions of one tap, whose kernel serves all shapes",
        ("cpu",),
    ),
    Pass("fold-affine", fold_affine, "fold scales and offsets after a convolution into its weights and bias"),
    Pass(
        "split-phases",
        split_phases,
        "transposed convolutions whose windows do not overlap as convolutions of single pixels",
        ("cpu",),
    ),
    Pass(
        "flatten-volumes",
        flatten_volumes,
        "convolutions over volumes as ones over planes, whose kernels serve all shapes; on a GPU below -O2",
        highest_on_gpu=1,
    ),
    Pass(
        "fuse-conv",
        fuse_conv,
        "convolutions as one channels-last kernel, with bias and activation; on a GPU below -O2",
        highest_on_gpu=1,
    ),
    Pass(
        "fuse-linear",
        fuse_linear,
        "products with constant matrices as the same kernel, with bias and activation; on a GPU below -O2",
        highest_on_gpu=1,
    ),
    Pass("pack-recurrence", pack_recurrence, "pack the recurrent weights of LSTM, GRU and RNN layers", ("cpu",)),
    Pass("sink-transposes", sink_transposes, "move transposes past layout-free operations until they cancel"),
    Pass("fuse-attention", fuse_attention, "softmax(q k^T + mask) v as one kernel", ("cpu",)),
    Pass("find-channel-norm", find_layer_norm, "layer normalisation of channels, where they come last now"),
    Pass("find-local-norm", find_local_norm, "local response normalisation of channels that come last", ("cpu",)),
    Pass("find-repeat", find_repeat, "upsampling to the nearest pixel by whole factors, written as gathers", ("cpu",)),
    Pass("tidy", _tidy, "simplify, share-common and the removal of dead nodes once more"),
    Pass(
        "chain-kernels",
        chain_kernels,
        "convolutions and linear layers that follow one another, and what lies between them, as one kernel with one tensor of constants",
        ("cpu",),
    ),
)


def steps(graph: Graph, device_kind: str, disabled: Sequence[str] = (), optimization: int = 1) -> Iterator[Step]:
    """Run the passes that are for a device kind ("cpu" or "gpu") and a level (0 to 3), the graph checked after each; every pass is told of.

    Raises UsageError where `disabled` names no pass.
    """
    known = [p.name for p in PASSES]
    for name in disabled:
        if name not in known:
            raise UsageError(f"no pass is named {name!r}", code="FX211", hint=f"the passes are: {', '.join(known)}")
    sound: set[Node] = set()
    check(graph, sound)
    for step in PASSES:
        reason = step.left_out(device_kind, optimization, disabled)
        if reason:
            yield Step(step, graph, graph, reason)
            continue
        start = perf_counter()
        before, graph = graph, step.function(graph)
        seconds = perf_counter() - start
        if graph is not before:
            check(graph, sound)
        yield Step(step, before, graph, seconds=seconds)


def optimize(graph: Graph, device_kind: str, disabled: Sequence[str] = (), optimization: int = 1) -> Graph:
    """What all `steps` make of `graph`."""
    for step in steps(graph, device_kind, disabled, optimization):
        graph = step.after
    return graph
