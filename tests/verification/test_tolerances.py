"""Where a tolerance comes from: the command line, a file beside the model, the additions behind an output."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from fornaxc.errors import UsageError
from fornaxc.importers.onnx.importer import import_onnx
from fornaxc.ir.graph import Graph
from fornaxc.ir.types import DType
from fornaxc.verification.compare import Tolerance, compare_outputs, differing, verdict_of
from fornaxc.verification.reductions import UNIT, addition_counts
from fornaxc.verification.tolerances import (
    Stated,
    Tolerances,
    read_tolerances,
    tolerances_file,
    tolerances_of,
)

MODEL = """
<ir_version: 8, opset_import: ["" : 18]>
f (float[n, 8] x, float[8, 40] w, float[2, 40, 3, 3] k) => (float[n, 8] plain, float[n, 40] product, float[n, 40] two,
                                                            float[1, 2, s, 4] conv, int64[n] index, float[n] after) {
    plain = Exp(x)
    product = MatMul(plain, w)
    two = Softmax<axis = -1>(product)
    shape = Constant<value_ints = [1, 40, -1, 6]>()
    image = Reshape(two, shape)
    conv = Conv(image, k)
    index = ArgMax<axis = 1, keepdims = 0>(two)
    after = Cast<to = 1>(index)
}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    return import_onnx(tmp_path / "m.onnx")


def test_additions_on_a_path_add_up_and_end_at_integers(graph: Graph) -> None:
    found = addition_counts(graph, {"n": 12})
    assert found == {
        "plain": 0, "product": 8, "two": 48, "conv": 48 + 40 * 9, "index": 0, "after": 0,
    }  # fmt: skip


def test_a_long_chain_has_a_wider_tolerance_and_a_short_one_a_narrower() -> None:
    found = [Tolerances(lengths={"y": n})("y", DType.F32) for n in (0, 10**4, 10**6)]
    assert [t.atol for t in found] == [2e-6, UNIT * 100, UNIT * 1000]
    assert [t.rtol for t in found] == pytest.approx([2e-4, 100 * UNIT * 100, 1e-3])
    assert found[1].source == "f32 behind 10000 additions in a row"


def test_additions_of_random_numbers_in_two_orders_stay_within() -> None:
    rng = np.random.default_rng(0)
    for count in (100, 10**4, 10**6):
        terms = rng.standard_normal((64 if count < 10**6 else 4, count)).astype(np.float32)
        one, other = np.cumsum(terms, 1, dtype=np.float32)[:, -1], terms[:, ::-1].astype(np.float64).sum(1)
        rows = compare_outputs({"y": one}, {"y": other.astype(np.float32)}, Tolerances(lengths={"y": count}))
        assert verdict_of(rows) == "pass"


def test_other_types_do_not_depend_on_the_length() -> None:
    for dtype, computed in ((DType.F64, {}), (DType.F16, {}), (DType.F32, {"y": DType.F16}), (DType.I32, {})):
        assert Tolerances(computed=computed, lengths={"y": 10**7})("y", dtype) == Tolerances(computed=computed)(
            "y", dtype
        )


def test_sizes_of_a_sample_decide(graph: Graph) -> None:
    found = tolerances_of(graph).at({"x": np.zeros((3, 8)), "w": np.zeros((8, 40)), "k": np.zeros((2, 40, 3, 3))})
    assert found.lengths["product"] == 8


FILE = """
[outputs.product]
rtol = 1e-2
ulp = 3
reason = "weights of four bits"
[outputs.index]
ulp = 1
reason = "ties"
"""


def test_a_file_beside_the_model_states_tolerances(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "m.tolerances.toml"
    assert tolerances_file(tmp_path / "m.onnx") is None
    path.write_text(FILE)
    assert tolerances_file(tmp_path / "m.onnx") == path
    found = tolerances_of(graph, file=path)
    product, index = found("product", DType.F32), found("index", DType.I64)
    assert (product.rtol, product.atol, product.ulp) == (1e-2, 1e-5, 3)
    assert product.source == "m.tolerances.toml: weights of four bits"
    assert (index.rtol, index.atol, index.ulp) == (0, 0, 1)
    assert found("two", DType.F32).source.startswith("default")
    assert tolerances_of(graph, rtol=0.5, file=path)("product", DType.F32).source == "command line"


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("[outputs.other]\natol = 1\nreason = 'r'", "FX235", "'other'"),
        ("[outputs.two]\natol = 1", "FX234", "no reason"),
        ("[outputs.two]\nreason = 'r'", "FX234", "none of rtol"),
        ("[outputs.two]\natol = -1\nreason = 'r'", "FX234", "atol"),
        ("[outputs.two]\nrtol = nan\nreason = 'r'", "FX234", "rtol"),
        ("[outputs.two]\nulp = 1.5\nreason = 'r'", "FX234", "ulp"),
        ("[outputs.two]\nrtol = true\nreason = 'r'", "FX234", "rtol"),
        ("[outputs.two]\nrtoll = 1\nreason = 'r'", "FX234", "'rtoll'"),
        ("[two]\natol = 1\nreason = 'r'", "FX234", "'two'"),
        ("outputs = 3", "FX234", "no table"),
        ("", "FX234", "no table"),
        ("[", "FX234", "not a file of tolerances"),
        (None, "FX223", "does not exist"),
    ],
)
def test_files_of_tolerances_that_are_wrong(tmp_path: Path, text: str | None, code: str, says: str) -> None:
    path = tmp_path / "t.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=says.replace("[", r"\[")) as caught:
        read_tolerances(path, ["two"])
    assert caught.value.code == code


def test_ulps_are_enough_where_the_error_is_beyond_the_bounds() -> None:
    reference = np.array([1.0, -3e30, np.nan], np.float32)
    value = np.nextafter(np.nextafter(reference, np.float32(np.inf)), np.float32(np.inf))
    stated = {ulp: Tolerances(stated={"y": Stated("file", ulp=ulp)}) for ulp in (1, 2)}
    [near], [far] = (compare_outputs({"y": value}, {"y": reference}, stated[ulp]) for ulp in (2, 1))
    assert (near.verdict, far.verdict, near.max_ulp) == ("pass", "fail", 2)
    assert far.reason == "2 of 3 elements differ by more than the tolerance"
    assert near.to_json()["tolerance"] == {"rtol": 0.0, "atol": 0.0, "ulp": 2, "source": "file"}
    assert str(near.tolerance) == "rtol 0, atol 0, ulp 2"


def test_integers_may_differ_by_stated_ulps() -> None:
    stated = Tolerances(stated={"y": Stated("file", ulp=1)})
    rows = [compare_outputs({"y": np.array([5])}, {"y": np.array([5 + d])}, stated)[0] for d in (0, 1, 2)]
    assert [r.verdict for r in rows] == ["pass", "pass", "fail"] and math.isfinite(rows[2].max_abs or 0)


# -- the scale of atol

FILLS = {"least float": -3.4028235e38, "-1e9": -1e9, "-1e4": -1e4}


@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
def test_a_fill_excuses_no_wrong_number_beside_it(fill: float) -> None:
    reference = np.where(np.arange(12) % 3, np.linspace(-0.9, 0.9, 12), fill).astype(np.float32)
    right, wrong = reference * np.float32(1 - 1e-6), reference.copy()
    wrong[1] += np.float32(0.5)
    rows = [compare_outputs({"y": value}, {"y": reference})[0] for value in (right, wrong)]
    assert [row.verdict for row in rows] == ["pass", "fail"]
    assert rows[1].reason.startswith("1 of 12") and rows[1].worst_index == (1,)
    assert not differing(right, reference, Tolerance(0, 1e-5, "")).any()
    assert np.flatnonzero(differing(wrong, reference, Tolerance(0, 1e-5, ""))).tolist() == [1]


def test_a_wrong_fill_is_judged_by_its_own_magnitude() -> None:
    reference = np.array([-1e9, 0.5, -1e9], np.float32)
    for fill, verdict in ((-1.00001e9, "pass"), (-1.01e9, "fail"), (0.0, "fail")):
        (row,) = compare_outputs({"y": np.array([fill, 0.5, -1e9], np.float32)}, {"y": reference})
        assert row.verdict == verdict


def test_zeros_beside_a_fill_are_judged_as_zeros() -> None:
    reference = np.array([0, 0, -1e9], np.float32)
    (row,) = compare_outputs({"y": np.array([0, 0.1, -1e9], np.float32)}, {"y": reference})
    assert row.verdict == "fail"


def test_the_scale_is_the_largest_of_the_kind() -> None:
    tolerance = Tolerance(0.0, 1.0, "default")
    for magnitudes, scales in (
        ([0.0, 0.5, 0.25], [1, 1, 1]),
        ([0.0, 9.0, 0.25], [9, 9, 9]),
        ([1e-3, 9e3, 0.0], [9e3, 9e3, 9e3]),
        ([9.0, 8e4, 2.0], [8e4, 8e4, 8e4]),
        ([9.0, 9e4, 2.0], [9, 9e4, 9]),
        ([1e5, 1e9, 1e13, 3.0], [1e5, 1e9, 1e13, 3]),
        ([1e5, 2e5, 3e8], [3e8, 3e8, 3e8]),
        ([1e9, 2e9], [2e9, 2e9]),
        ([1e300, 1e5, 0.0], [1e300, 1e5, 1]),
    ):
        for shape in ((-1,), (1, -1, 1)):
            found = tolerance.bounds(np.array(magnitudes).reshape(shape))
            assert np.broadcast_to(found, np.array(magnitudes).reshape(shape).shape).ravel().tolist() == scales


def test_smooth_magnitudes_have_one_scale() -> None:
    for exponent in (2, 6, 20):
        magnitudes = np.logspace(-3, exponent, 500)
        assert np.unique(Tolerance(0.0, 1.0, "default").bounds(magnitudes)).tolist() == [magnitudes[-1]]


def test_a_stated_atol_is_not_scaled(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "m.tolerances.toml"
    path.write_text('[outputs.two]\natol = 1e-3\nreason = "r"\n[outputs.conv]\nrtol = 1e-3\nreason = "r"\n')
    magnitudes = np.array([100.0, 1.0])
    of_file, of_command = tolerances_of(graph, file=path), tolerances_of(graph, atol=1e-3, rtol=0.0)
    assert of_command("two", DType.F32).bounds(magnitudes).tolist() == [1e-3, 1e-3]
    assert of_file("two", DType.F32).bounds(np.zeros(2) + 100.0).tolist() == pytest.approx([1e-3 + 0.1] * 2)
    assert of_file("conv", DType.F32).bounds(magnitudes)[1] == pytest.approx(1e-5 * 100 + 1e-3)
    rtol_alone = tolerances_of(graph, rtol=0.0)("two", DType.F32)
    assert rtol_alone.bounds(magnitudes)[1] == pytest.approx(1e-5 * 100) and rtol_alone.source == "command line"
    reference = {"two": np.array([1000.0, 1.0], np.float32)}
    for off, verdict in ((0.0005, "pass"), (0.01, "fail")):
        value = {"two": reference["two"] + np.array([0, off], np.float32)}
        assert verdict_of(compare_outputs(value, reference, of_command)) == verdict


def test_large_numbers_that_differ_are_no_fill() -> None:
    """What cancels to 0 beside numbers as large as its terms may be off by their rounding."""
    tolerance = Tolerance(1e-5, 1e-5, "default")
    near = np.array([123456.0, 0.0, 150000.0])
    assert tolerance.bounds(near)[1] == pytest.approx(1.5)
    assert tolerance.bounds(np.array([1e9, 0.0, 1e9, 2.0]))[1] == pytest.approx(2e-5)
