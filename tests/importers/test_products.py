"""MatMul, Gemm and Einsum."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import f32, run_node

from fornaxc.errors import ModelError

RNG = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2))],
)
def test_matmul_is_numpys(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = f32(RNG.normal(size=left)), f32(RNG.normal(size=right))
    (y,) = run_node("MatMul", [a, b], opset=13)
    np.testing.assert_allclose(y, np.matmul(a, b), rtol=1e-5, atol=1e-6)


def test_matmul_over_no_elements_is_zero() -> None:
    (y,) = run_node("MatMul", [np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)], opset=13)
    np.testing.assert_array_equal(y, np.zeros((2, 3)))


def test_matmul_of_sizes_that_differ_is_invalid() -> None:
    with pytest.raises(ModelError):
        run_node("MatMul", [f32([[1, 2]]), f32([[1, 2]])], opset=13)


def test_gemm_scales_transposes_and_broadcasts() -> None:
    a, b, c = f32([[1, 2], [3, 4]]), f32([[1, 0], [0, 1], [1, 1]]), f32([[100], [200]])
    (y,) = run_node("Gemm", [a, b, c], opset=13, transA=1, transB=1, alpha=0.5, beta=2.0)
    np.testing.assert_array_equal(y, f32([[200.5, 201.5, 202], [401, 402, 403]]))


def test_gemm_without_c() -> None:
    (y,) = run_node("Gemm", [f32([[1, 2]]), f32([[3], [4]])], opset=11)
    np.testing.assert_array_equal(y, f32([[11]]))


def test_a_quantised_product_of_batches() -> None:
    """Each matrix of the batch has its own product; halves round to even."""
    a, b = (RNG.integers(0, 256, shape).astype(np.uint8) for shape in ((2, 2, 3), (2, 3, 4)))
    scales = {"a": f32(0.02), "b": f32(0.03), "y": f32(0.25)}
    zeros = {name: np.array(value, np.uint8) for name, value in (("a", 120), ("b", 7), ("y", 60))}
    operands = [a, scales["a"], zeros["a"], b, scales["b"], zeros["b"], scales["y"], zeros["y"]]
    (y,) = run_node("QLinearMatMul", operands, opset=21, constants=[1, 2, 4, 5, 6, 7])
    product = np.matmul(a.astype(np.int64) - 120, b.astype(np.int64) - 7) * (0.02 * 0.03 / 0.25)
    assert y.dtype == np.uint8 and y.shape == (2, 2, 4)
    assert (
        np.abs(y.astype(int) - np.clip(np.rint(product) + 60, 0, 255)).max() <= (np.abs(product % 1 - 0.5) < 1e-3).max()
    )


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]),
        ("bA,aA", [(2, 3), (4, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("iij,j->i", [(2, 2, 3), (3,)]),
        ("...ij,jk->...ik", [(5, 2, 3), (3, 4)]),
        ("...ij,jk", [(5, 2, 3), (3, 4)]),
        ("...ij,...ki", [(5, 2, 3), (1, 4, 2)]),
        ("...ii", [(2, 3, 3)]),
        ("i...,...->...", [(2, 3, 4), (3, 4)]),
        ("...,...->...", [(), (2, 3)]),
        ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 2)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("i,j->ji", [(2,), (3,)]),
        ("ij->", [(2, 3)]),
        ("abc->ca", [(2, 3, 4)]),
        ("i j , j k -> k i", [(2, 3), (3, 4)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("a,b,c->cab", [(2,), (3,), (4,)]),
    ],
)
def test_einsum_is_numpys(equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [f32(RNG.normal(size=s)) for s in shapes]
    (y,) = run_node("Einsum", arrays, opset=12, equation=equation)
    np.testing.assert_allclose(y, np.einsum(equation.replace(" ", ""), *arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("equation", ["ij,jk->iz", "ij->ii", "ij", "i1->i", "ij,jk,kl->il"])
def test_wrong_equations_are_invalid(equation: str) -> None:
    arrays = [f32(np.ones((2, 2)))] * 2
    with pytest.raises(ModelError):
        run_node("Einsum", arrays, opset=12, equation=equation)
