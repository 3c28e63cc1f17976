"""From a mismatch to its cause: the import, a pass, or a node as the device computes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fornaxc.cache import Cache
from fornaxc.compiler import Request
from fornaxc.diagnosis.allowed import Chosen, stated_before
from fornaxc.diagnosis.bisect import Found, bisect
from fornaxc.diagnosis.rounds import drive
from fornaxc.errors import first_line
from fornaxc.ir.graph import Array, Graph
from fornaxc.ir.interpreter import run
from fornaxc.passes.pipeline import steps
from fornaxc.passes.prepack import prepack
from fornaxc.phases import Clock, Progress
from fornaxc.qualify.programs import Options
from fornaxc.sources import Choice, format_of, import_source
from fornaxc.targets import Target, parse_target
from fornaxc.verification.compare import Row, compare_outputs
from fornaxc.verification.edge_comparison import edge_samples
from fornaxc.verification.edges import PREFIX
from fornaxc.verification.given import load_inputs, tensor_sets
from fornaxc.verification.oracle import Reference
from fornaxc.verification.oracle_of import oracle_of
from fornaxc.verification.tolerances import Tolerances, tolerances_file, tolerances_of
from fornaxc.verification.verify import Sample, generated_samples, given_sample

MODULE_SECONDS = 1800.0  # for each module of programs, unless a time-out is given
SCHEMA = 1  # of the document; raised when a field changes its meaning or goes


@dataclass(frozen=True, slots=True)
class Bisection:
    """Where a model's numbers go wrong.

    `stage` is `import` (the graph means something else than the model: `source_node` says where), `pass` (`pass_name` changed what the graph
    computes), `device` (`found` has the node) or `none`. `sample` names the sizes of the inputs, `executed_on` the device. Of an import or a
    pass, `compared` has the outputs, by the oracle or by the imported graph, and `rounding` says that they are within the default
    tolerances.
    """

    stage: str
    sample: str
    executed_on: str
    found: Found | None = None
    source_node: str = ""
    pass_name: str = ""
    notes: Sequence[str] = ()
    compared: Sequence[Row] = ()
    rounding: bool = False

    @property
    def sentence(self) -> str:
        """The cause in one sentence."""
        found = self.found
        if self.stage == "import":
            where = f"first at {self.source_node or 'a node that could not be named'}"
            if self.rounding:
                return f"the import differs from the oracle by rounding alone, which the stated tolerance does not allow, {where}"
            return f"the import differs from the oracle, {where}"
        if self.stage == "pass":
            left_out = f"it can be left out with --no-pass {self.pass_name}"
            if self.rounding:
                return f"the pass {self.pass_name} changed rounding alone, which the stated tolerance does not allow ({left_out})"
            return f"the pass {self.pass_name} changed what the graph computes ({left_out})"
        if found is None or found.kind == "none" or found.node is None:
            return (
                "the program with its values fetched did not run"
                if found and found.kind == "failed"
                else "nothing diverges"
            )
        node = f"{found.node.origin or 'a node without a name'} as {found.node.op}"
        if found.kind == "accumulated":
            return f"no node is wrong by itself; {node} adds most to the error"
        if found.kind == "fused":
            return f"{node} is wrong, only where it is fused with the nodes before it"
        return f"the first node that is wrong by itself is {node}"

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "stage": self.stage,
            "cause": self.sentence,
            "sample": self.sample,
            "executed_on": self.executed_on,
            "source_node": self.source_node,
            "pass": self.pass_name,
            "notes": list(self.notes),
            "compared": [row.to_json() for row in self.compared],
            "rounding": self.rounding,
            "found": None if self.found is None else self.found.to_json(),
        }


def bisect_model(
    path: Path,
    request: Request,
    cache: Cache,
    *,
    inputs: Path | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    tolerances: Path | None = None,
    failing: Sequence[str] = (),
    oracles: Sequence[str] = (),
    progress: Progress,
) -> Bisection:
    """Find where the numbers of a model go wrong, on the sample, of those given or of generated ones and edge sets, that is among `failing`.
    The import is judged by the first of `oracles`, by default those of `verify`, that answers from the model itself. Tolerances are those of
    `verify`; the file `tolerances` is by default the one beside the model.

    A target that cannot run here is replaced by this CPU. Raises what `verify` raises.
    """
    target = request.target
    if target.cannot_run(target.record()):
        target = parse_target("cpu")
    clock = Clock(progress)
    with clock.phase("verify"):
        graph, _ = import_source(path, request.dims, cache.digests.of_file, request.choice)
        sample = chosen_sample(path, graph, request.choice, inputs, seed, failing, oracles)
        arrays = [sample.inputs[n] for n in graph.input_names]
        judged = tolerances_of(graph, rtol, atol, tolerances or tolerances_file(path))
        stages = _Stages(sample, judged.at(sample.inputs), tolerances_of(graph).at(sample.inputs), target.label)
        imported, refused = _interpreted(graph, arrays)
        notes = [refused] if refused else []
        reference = _independent(sample.reference)
        wrong = stages.wrong("import", imported, reference.outputs, reference.oracle)
        if wrong is not None:
            node, unnamed = _first_wrong_import(path, request.dims, sample, judged)
            return replace(wrong, source_node=node, notes=unnamed)
        for done in steps(graph, target.device, request.disabled_passes, request.optimization):
            if done.left_out:
                continue
            graph = done.after
            after, _ = _interpreted(graph, arrays)
            wrong = stages.wrong("pass", after, imported, "the imported graph by numpy")
            if wrong is not None:
                return replace(wrong, pass_name=done.step.name, notes=notes)
        options = diagnosis_options(cache, request, target)
        program = prepack(graph)
        search = bisect(program, arrays, chosen=Chosen(rtol, atol, stated_before(program, judged.stated)))
        found = drive({"bisect": search}, options)["bisect"]
    return Bisection("none" if found.kind == "none" else "device", sample.label, target.label, found, notes=notes)


def diagnosis_options(cache: Cache, request: Request, target: Target) -> Options:
    """How searches run their programs: with MAX's caches in the cache's folder, within the request's time-out, at its level of optimization."""
    return Options(
        target=target.worker_job(),
        environment=cache.toolchain_environment(),
        timeout=request.timeout or MODULE_SECONDS,
        optimization=request.optimization,
    )


def chosen_sample(
    path: Path,
    graph: Graph,
    choice: Choice,
    inputs: Path | None,
    seed: int,
    failing: Sequence[str],
    oracles: Sequence[str] = (),
) -> Sample:
    """The sample that failed (else the first), of those given or of generated ones, with the oracle's reference."""
    oracle = oracle_of(path, graph, choice, oracles, noise=False)
    if inputs is None:
        samples, _ = generated_samples(graph, oracle, seed)
        if any(label.startswith(PREFIX) for label in failing) and not any(s.label in failing for s in samples):
            samples += edge_samples(graph, oracle, samples[0], seed)[0]
        return next((s for s in samples if s.label in failing), samples[0])
    sets = tensor_sets(inputs)
    files = next((s for s in sets if s.label in failing), sets[0])
    return given_sample(files.label, load_inputs(graph, files)[0], oracle)


def _interpreted(graph: Graph, arrays: Sequence[Array]) -> tuple[dict[str, Array] | None, str]:
    """What numpy makes of a graph; where an operation has no numpy form, None and a note."""
    try:
        return dict(zip(graph.output_names, run(graph, arrays), strict=True)), ""
    except Exception as error:
        return None, f"the import and the passes were not compared: numpy cannot run the graph ({error})"


def _independent(reference: Reference) -> Reference:
    """The first reference that comes from the model itself; where all come from the graph it was imported as, the first."""
    every = (reference, *reference.others)
    of_graph = ("(exported graph)", "numpy-interpreter")
    return next((r for r in every if not r.oracle.endswith(of_graph)), reference)


@dataclass(frozen=True, slots=True)
class _Stages:
    """Judges the import and the passes on a sample, within what is `allowed`; `default` tells what is rounding."""

    sample: Sample
    allowed: Tolerances
    default: Tolerances
    executed_on: str

    def wrong(
        self, stage: str, outputs: Mapping[str, Array] | None, references: Mapping[str, Array] | None, whose: str
    ) -> Bisection | None:
        """The stage as the cause, where both sides are known and differ; `whose` are the references."""
        if outputs is None or references is None or not _wrong(outputs, references, self.allowed):
            return None
        rows = compare_outputs(outputs, references, self.allowed, sample=self.sample.label)
        rounding = not _wrong(outputs, references, self.default)
        compared = [replace(row, oracle=whose) for row in rows]
        return Bisection(stage, self.sample.label, self.executed_on, compared=compared, rounding=rounding)


def _wrong(outputs: Mapping[str, Array], references: Mapping[str, Array], allowed: Tolerances) -> list[Row]:
    return [r for r in compare_outputs(outputs, references, allowed) if r.verdict == "fail"]


def _first_wrong_import(
    path: Path, dims: Mapping[str, int], sample: Sample, judged: Tolerances
) -> tuple[str, Sequence[str]]:
    """The first node of an ONNX model whose import computes something else than onnxruntime, in words; where none can be named, "" and a note
    that says why."""
    if format_of(path) != "onnx":
        return "", ["no node is named: StableHLO's interpreter gives the outputs of a module, not the values inside"]
    from tempfile import TemporaryDirectory

    import onnx

    from fornaxc.importers.onnx.importer import import_onnx
    from fornaxc.verification.oracle import OnnxOracle

    with TemporaryDirectory(prefix="fornaxc-taps-") as folder:
        model = onnx.load(path)
        known = {o.name for o in model.graph.output}
        makers = {name: node for node in model.graph.node for name in node.output if name}
        model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(n) for n in makers if n not in known)
        tapped = Path(folder) / "tapped.onnx"
        try:
            onnx.save_model(model, tapped, save_as_external_data=True, location="tapped.data")
            graph = import_onnx(tapped, dims)
            reference: Reference = OnnxOracle(tapped, noise=False)(sample.inputs)
            values = run(graph, [sample.inputs[n] for n in graph.input_names])
        except Exception as error:  # sequences and optional values cannot be outputs everywhere
            return "", [f"no node is named: the model with every value as an output did not run: {first_line(error)}"]
        allowed = replace(tolerances_of(graph, judged.rtol, judged.atol), stated=judged.stated).at(sample.inputs)
        outputs = dict(zip(graph.output_names, values, strict=True))
        found = {r.name for r in _wrong(outputs, reference.outputs, allowed)}
        node = next((n for n in model.graph.node if any(o in found for o in n.output)), None)
        if node is None:
            return "", ["no node is named: with every value as an output, each is onnxruntime's"]
        return f"{node.op_type} {node.name!r}", ()
