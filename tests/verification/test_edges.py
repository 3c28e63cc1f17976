"""Edge sets of inputs: what each holds by role, what is refused, and what counts as wrong. The interpreter runs in the place of MAX."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import parser

from fornaxc.errors import ToolchainError, UsageError
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.graph import Array, Graph
from fornaxc.verification import edge_comparison
from fornaxc.verification.compare import Tolerance, differing, verdict_of
from fornaxc.verification.edge_comparison import compare_edges, edge_samples, opinions_of
from fornaxc.verification.edges import VALUE_SETS, edge_inputs, not_tried
from fornaxc.verification.float64 import InDouble
from fornaxc.verification.inputs import generate, size_choices
from fornaxc.verification.oracle import GraphOracle, OracleRefused, interpreted
from fornaxc.verification.roles import Role, input_uses, steering_inputs
from fornaxc.verification.tolerances import Tolerances
from fornaxc.verification.verify import Sample, generated_samples

HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'
ROLES = """
f (float[n, 4] x, int64[m] i, float[n, 4] kept, float[n, 4] share, bfloat16[4] h, int64[2] shape,
   float[9, 4] table, bool[n] b) =>
  (float[n, 4] y, float[m, 4] rows, float[n, 4] far, float[n, 4] mixed, bfloat16[4] g, float[p, q] r, bool[n] nb) {
    y = Exp(x)
    rows = Gather<axis = 0>(table, i)
    one = Constant<value = float {1}>()
    much = Constant<value = float {-10000}>()
    left = Sub(one, kept)
    far = Mul(left, much)
    rest = Sub(one, share)
    mixed = Mul(rest, x)
    g = Neg(h)
    r = Reshape(x, shape)
    nb = Not(b)
}
"""
RECURRENT = """
f (float[s, 2, 3] x, int32[2] ends, float[1, 16, 3] w, float[1, 16, 4] r, float[1, 32] b) => (float[s, 1, 2, 4] y) {
    y = LSTM<hidden_size = 4>(x, w, r, b, ends)
}
"""
SCATTERED = """
f (float[9, 2] data, int64[4, 2] i, float[4, 2] u) => (float[9, 2] y) { y = ScatterElements<axis = 0>(data, i, u) }
"""
NAMED = """
f (int64[n, 8] attention_mask, int64[n, 8] positions, float[n, 8] keep_prob, float[n, 8] x, float[n, 8] z, int32[n, 8] flags) =>
  (int64[n, 8] m, int64[n, 8] p, float[n, 8] y, float[n, 8] w) {
    m = Neg(attention_mask)
    p = Neg(positions)
    y = Mul(keep_prob, x)
    chosen = Cast<to = 9>(flags)
    w = Where(chosen, x, z)
}
"""
PLAIN = "f (float[n, 3] x, float[3] w) => (float[n, 3] y) { y = Mul(x, w) }"


def graph_of(text: str, folder: Path) -> Graph:
    onnx.save(parser.parse_model(HEAD + text), folder / "m.onnx")
    return import_onnx(folder / "m.onnx")


def test_roles_that_the_graph_tells(tmp_path: Path) -> None:
    graph = graph_of(ROLES, tmp_path)
    uses = {name: use.role for name, use in input_uses(graph).items()}
    assert (uses["x"], uses["i"], uses["kept"], uses["share"]) == (
        Role.VALUE, Role.INDEX, Role.MASK, Role.PROBABILITY,
    )  # fmt: skip
    assert steering_inputs(graph) == {"shape"}


def sets_of(graph: Graph, sizes: dict[str, int]) -> dict[str, dict[str, Array]]:
    """The edge sets of values by their short names."""
    edges, _ = edge_inputs(graph, sizes, 0)
    found = {label.removeprefix("edge ").split(" (")[0]: inputs for label, inputs in edges}
    return {name: found[name] for name in VALUE_SETS if name in found}


def test_lengths_are_at_least_one_and_no_more_than_there_are_steps(tmp_path: Path) -> None:
    graph = graph_of(RECURRENT, tmp_path)
    assert input_uses(graph)["ends"].role is Role.LENGTH
    lengths = {int(n) for seed in range(20) for n in generate(graph, {"s": 5}, seed)["ends"]}
    assert lengths == {1, 2, 3, 4, 5}
    sets = sets_of(graph, {"s": 5})
    assert all(np.isin(inputs["ends"], range(1, 6)).all() for inputs in sets.values())
    assert [sets[name]["ends"].tolist() for name in ("zeros", "ones", "largest")] == [[1, 1], [1, 1], [5, 5]]


def test_indices_to_scatter_at_are_different(tmp_path: Path) -> None:
    graph = graph_of(SCATTERED, tmp_path)
    assert input_uses(graph)["i"].role is Role.UNIQUE_INDEX
    for seed in range(5):
        indices = generate(graph, {}, seed)["i"]
        assert len(np.unique(indices)) == indices.size == 8 and indices.min() >= 0 and indices.max() < 9
    plain = generate(graph, {}, 0)["i"]
    for inputs in sets_of(graph, {}).values():
        assert (inputs["i"] == plain).all(), "where two are one, the order of writes decides"


def test_masks_and_probabilities_by_their_name_or_by_a_cast(tmp_path: Path) -> None:
    graph = graph_of(NAMED, tmp_path)
    uses = {name: use.role for name, use in input_uses(graph).items()}
    assert uses == {
        "attention_mask": Role.MASK, "positions": Role.VALUE, "keep_prob": Role.PROBABILITY, "x": Role.VALUE, "z": Role.VALUE,
        "flags": Role.MASK,
    }  # fmt: skip
    made = generate(graph, {"n": 5}, 0)
    for name in ("attention_mask", "flags"):
        assert set(np.unique(made[name])) == {0, 1} and (made[name][:, 0] == 1).all()
    assert made["positions"].max() > 1
    assert ((made["keep_prob"] >= 0) & (made["keep_prob"] <= 1)).all() and len(np.unique(made["keep_prob"])) > 2
    for inputs in sets_of(graph, {"n": 5}).values():
        assert all(np.isin(inputs[name], (0, 1)).all() for name in ("attention_mask", "flags"))
        assert ((inputs["keep_prob"] >= 0) & (inputs["keep_prob"] <= 1)).all()
    assert (sets_of(graph, {"n": 5})["largest"]["flags"] == 1).all()


def test_what_is_not_tried_is_named(tmp_path: Path) -> None:
    (note,) = not_tried(graph_of(PLAIN, tmp_path))
    assert note == (
        "edge sets not tried: zeros, ones, denormals, largest, infinities, nan, dims of size 1 and 0 (--edge-cases tries them)"
    )
    (note,) = not_tried(graph_of(PLAIN.replace("n", "2"), tmp_path))
    assert "dims" not in note
    assert not_tried(graph_of("f () => (float[1] y) { y = Constant<value_floats = [1.0]>() }", tmp_path)) == []


def test_generated_masks_and_probabilities(tmp_path: Path) -> None:
    made = generate(graph_of(ROLES, tmp_path), {"n": 5, "m": 2}, 0)
    assert set(np.unique(made["kept"])) == {0.0, 1.0}
    assert ((made["share"] >= 0) & (made["share"] <= 1)).all() and len(np.unique(made["share"])) > 2


def test_every_set_by_role(tmp_path: Path) -> None:
    graph = graph_of(ROLES, tmp_path)
    edges, notes = edge_inputs(graph, {"n": 3, "m": 2}, 0)
    sets = {label.removeprefix("edge ").split(" (")[0]: inputs for label, inputs in edges}
    assert list(sets) == ["zeros", "ones", "denormals", "largest", "infinities", "nan", "size 1", "empty n", "empty m"]
    assert notes == []
    zeros, ones, denormals, largest = (sets[n] for n in ("zeros", "ones", "denormals", "largest"))
    assert not zeros["x"].any() and not zeros["i"].any() and not zeros["b"].any() and not zeros["kept"].any()
    assert (ones["x"] == 1).all() and (ones["i"] == 1).all() and (ones["share"] == 1).all() and ones["b"].all()
    tiny = np.finfo(np.float32).smallest_normal
    assert ((np.abs(denormals["x"]) < tiny) & (denormals["x"] != 0)).any() and (np.abs(denormals["x"]) < tiny).all()
    assert (denormals["share"] >= 0).all()
    assert (np.abs(largest["x"]) == np.finfo(np.float32).max).all() and (largest["i"] == 8).all()
    assert (np.abs(largest["h"].astype(np.float64)) == float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)).all()
    for name, test in (("infinities", np.isinf), ("nan", np.isnan)):
        found = test(sets[name]["x"])
        assert found.any() and not found.all() and np.isfinite(sets[name]["share"]).all()
    assert all(inputs["i"].max(initial=0) < 9 and inputs["i"].min(initial=0) >= 0 for inputs in sets.values())
    plain = generate(graph, {"n": 3, "m": 2}, 0)
    assert all((sets[n]["shape"] == plain["shape"]).all() for n in ("zeros", "largest"))
    assert sets["size 1"]["x"].shape == (1, 4) and sets["empty n"]["x"].shape == (0, 4)
    assert sets["empty n"]["i"].shape == (2,) and sets["empty m"]["i"].shape == (0,)


def test_integers_that_divide_stay_as_they_are(tmp_path: Path) -> None:
    graph = graph_of("f (int64[2] a, int64[2] b) => (int64[2] y) { c = Abs(b) y = Div(a, c) }", tmp_path)
    assert steering_inputs(graph) == {"a", "b"}
    assert edge_inputs(graph, {}, 0) == ([], [])


def test_sizes_that_the_model_forbids_are_a_note(tmp_path: Path) -> None:
    graph = graph_of("f (float[1, 1, n] x, float[1, 1, 3] w) => (float[1, 1, k] y) { y = Conv(x, w) }", tmp_path)
    edges, notes = edge_inputs(graph, {"n": 5}, 0)
    assert not any("(n=1)" in label or "(n=0)" in label for label, _ in edges)
    assert [n.split(":")[0] for n in notes] == ["edge size 1 (n=1)", "edge empty n (n=0)"]


def test_two_sizes_of_each_dim_are_tried(tmp_path: Path) -> None:
    graph = graph_of(
        "f (float[a, b] x, float[c] z) => (float[b, a] y, float[c] w) { y = Transpose(x) w = Neg(z) }", tmp_path
    )
    samples, notes = generated_samples(graph, GraphOracle(graph), 0)
    shapes = [(*s.inputs["x"].shape, *s.inputs["z"].shape) for s in samples]
    assert len(shapes) == 2 and notes == [] and all(one != other for one, other in zip(*shapes, strict=True))
    assert len({*next(size_choices(graph)).values()}) == 3


class FakeRunning:
    """Runs the interpreter; `wrong` changes outputs of samples by what their first input holds, or raises."""

    graph: Graph

    def __init__(self, artifact: Path, **options: Any) -> None:
        pass

    def __enter__(self) -> FakeRunning:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def wrong(self, inputs: Mapping[str, Array], outputs: dict[str, Array]) -> dict[str, Array]:
        return outputs

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        with np.errstate(all="ignore"):
            return self.wrong(inputs, interpreted(self.graph, inputs))


def compared(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, wrong: Any = None, opinions: Any = None
) -> tuple[list[Any], list[str], list[str]]:
    oracle = GraphOracle(graph, False)
    samples, _ = generated_samples(graph, oracle, 0)
    edges, notes = edge_samples(graph, oracle, samples[0], 0)
    fake = type("Fake", (FakeRunning,), {"graph": graph, **({"wrong": wrong} if wrong else {})})
    monkeypatch.setattr(edge_comparison, "Running", fake)
    rows, told = compare_edges(
        Path("none"), edges, Tolerances(graph=graph), None, InDouble(graph, None, False), opinions or opinions_of(graph, None)
    )  # fmt: skip
    return rows, notes + told, [e.label for e in edges]


def test_what_agrees_passes_and_what_has_no_elements_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, notes, labels = compared(graph_of(PLAIN, tmp_path), monkeypatch)
    found = {row.sample: row.verdict for row in rows}
    assert list(found) == labels and notes == []
    assert found["edge empty n (n=0)"] == "empty" and found["edge nan (n=2)"] == "pass"
    assert verdict_of(rows) == "pass"


def test_a_nan_that_is_lost_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(self: object, inputs: Mapping[str, Array], outputs: dict[str, Array]) -> dict[str, Array]:
        return {n: np.nan_to_num(a, nan=0.0, posinf=np.inf, neginf=-np.inf) for n, a in outputs.items()}

    rows, _, _ = compared(graph_of(PLAIN, tmp_path), monkeypatch, flush)
    assert {(r.sample, r.rule) for r in rows if r.verdict == "fail"} == {("edge nan (n=2)", "nan")}


def test_a_program_that_dies_fails_that_set_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(self: object, inputs: Mapping[str, Array], outputs: dict[str, Array]) -> dict[str, Array]:
        if not inputs["x"].size:
            raise ToolchainError("the process that ran the model crashed", code="FX513")
        return outputs

    rows, _, labels = compared(graph_of(PLAIN, tmp_path), monkeypatch, die)
    failed = [r for r in rows if r.verdict == "fail"]
    assert [(r.sample, r.rule, r.reason) for r in failed] == [
        ("edge empty n (n=0)", "run", "the process that ran the model crashed")
    ]
    assert {r.sample for r in rows} == set(labels)


def test_sizes_that_the_program_refuses_are_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, inputs: Mapping[str, Array], outputs: dict[str, Array]) -> dict[str, Array]:
        if len(inputs["x"]) == 1:
            raise UsageError("the model needs n >= 2", code="FX222")
        return outputs

    rows, notes, _ = compared(graph_of(PLAIN, tmp_path), monkeypatch, refuse)
    assert notes == ["edge size 1 (n=1): not judged: the program refuses it: the model needs n >= 2"]
    assert verdict_of(rows) == "pass"


def test_what_the_order_of_operations_decides_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(self: object, inputs: Mapping[str, Array], outputs: dict[str, Array]) -> dict[str, Array]:
        return {"y": np.where(np.isinf(outputs["y"]), np.float32(3e38), outputs["y"])}

    def opinion(inputs: Mapping[str, Array]) -> dict[str, Array]:
        return other(None, inputs, interpreted(graph, inputs))

    def silent(inputs: Mapping[str, Array]) -> dict[str, Array]:
        raise OracleRefused("too hard")

    graph = graph_of(PLAIN, tmp_path)
    rows, _, _ = compared(graph, monkeypatch, other, [silent])
    wrong = {r.sample for r in rows if r.verdict == "fail"}
    assert "edge infinities (n=2)" in wrong
    rows, _, _ = compared(graph, monkeypatch, other, [silent, opinion])
    unjudged = {r.sample for r in rows if r.verdict == "unjudged"}
    assert unjudged == wrong and not any(r.verdict == "fail" for r in rows)
    assert all("the oracles differ there too" in r.reason for r in rows if r.sample in wrong)


def test_an_oracle_that_refuses_a_set_is_a_note(tmp_path: Path) -> None:
    graph = graph_of(PLAIN, tmp_path)
    plain = GraphOracle(graph, False)

    def careful(inputs: Mapping[str, Array]) -> Any:
        if not inputs["x"].size:
            raise OracleRefused("no elements")
        return plain(inputs)

    samples, _ = generated_samples(graph, careful, 0)
    edges, notes = edge_samples(graph, careful, samples[0], 0)
    assert notes == ["edge empty n (n=0): not judged: no oracle accepts it: no elements"]
    assert all(isinstance(e, Sample) and e.inputs["x"].size for e in edges)


@pytest.mark.parametrize(
    ("value", "reference", "apart"),
    [
        (np.float32([1, np.nan, np.inf, 2]), np.float32([1, np.nan, -np.inf, 3]), [False, False, True, True]),
        (np.float32([np.nan, 1, np.inf]), np.float32([1, np.nan, 1]), [True, True, True]),
        (np.array([1, 2**62 + 1]), np.array([1, 2**62]), [False, True]),
        (np.array([True]), np.array([False]), [True]),
        (np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32), np.zeros((0, 2), bool).tolist()),
    ],
)
def test_elements_that_differ(value: Array, reference: Array, apart: list[bool]) -> None:
    exact = value.dtype.kind != "f"
    tolerance = Tolerance(0 if exact else 1e-3, 0 if exact else 1e-5, "test")
    assert differing(value, reference, tolerance).tolist() == apart
