"""The passes in their order: one table that `--no-pass` takes its names from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fornaxc.errors import UsageError
from fornaxc.ir.checker import check
from fornaxc.ir.dead import drop_dead
from fornaxc.ir.graph import Graph, Node
from fornaxc.passes.affine import fold_affine
from fornaxc.passes.cse import share_common
from fornaxc.passes.fuse_attention import fuse_attention
from fornaxc.passes.fuse_conv import fuse_conv
from fornaxc.passes.fuse_linear import fuse_linear
from fornaxc.passes.layout import sink_transposes
from fornaxc.passes.pack_recurrence import pack_recurrence
from fornaxc.passes.simplify import simplify
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

    def applies(self, device_kind: str, optimization: int) -> bool:
        return device_kind in self.kinds and (device_kind != "gpu" or optimization <= self.highest_on_gpu)


def _tidy(graph: Graph) -> Graph:
    return drop_dead(share_common(simplify(graph)))


PASSES: tuple[Pass, ...] = (
    Pass("simplify", simplify, "drop identities; merge chains of reshapes, transposes and broadcasts"),
    Pass("widen-small", widen_small, "arithmetic on types below float16 and below a byte in wider ones, rounded back"),
    Pass("share-common", share_common, "compute equal operations on equal operands once"),
    Pass("fold-affine", fold_affine, "fold scales and offsets after a convolution into its weights and bias"),
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
    Pass("tidy", _tidy, "simplify, share-common and the removal of dead nodes once more"),
)


def optimize(graph: Graph, device_kind: str, disabled: Sequence[str] = (), optimization: int = 1) -> Graph:
    """Run the passes that are for a device kind ("cpu" or "gpu") and a level (0 to 3), the graph checked after each."""
    known = [p.name for p in PASSES]
    for name in disabled:
        if name not in known:
            raise UsageError(f"no pass is named {name!r}", code="FX211", hint=f"the passes are: {', '.join(known)}")
    sound: set[Node] = set()
    check(graph, sound)
    for step in PASSES:
        if step.applies(device_kind, optimization) and step.name not in disabled:
            before, graph = graph, step.function(graph)
            if graph is not before:
                check(graph, sound)
    return graph
