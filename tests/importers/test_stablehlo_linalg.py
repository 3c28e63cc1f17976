"""LAPACK's routines as JAX calls them, by the properties of what they give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from fornaxc.errors import UnsupportedError
from fornaxc.importers.stablehlo.importer import import_module
from fornaxc.importers.stablehlo.reader import module_of, parse_text
from fornaxc.ir.checker import check
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.lowering.support import unsupported

Array = np.ndarray
KINDS = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
ELEMENTS = {"s": "f32", "d": "f64", "c": "complex<f32>", "z": "complex<f64>", "i": "i32"}
BOUNDS = {"s": 1e-5, "d": 1e-12, "c": 1e-5, "z": 1e-12}
REAL = {"s": "s", "d": "d", "c": "s", "z": "d"}


def tensor(letter: str, *sizes: int) -> str:
    return f"tensor<{''.join(f'{n}x' for n in sizes)}{ELEMENTS[letter]}>"


def graph_of(letter: str, routine: str, inputs: list[str], outputs: list[str], **letters: str) -> Graph:
    """A module that is one call; `letters` are the routine's options."""
    options = ", ".join(f"{name} = {ord(value)} : ui8" for name, value in letters.items())
    names = [f"%a{i}" for i in range(len(inputs))]
    results = ", ".join(f"%r#{i}" for i in range(len(outputs))) if len(outputs) > 1 else "%r"
    bound = f"%r:{len(outputs)}" if len(outputs) > 1 else "%r"
    types = ", ".join(outputs)
    text = f"""func.func @main({", ".join(f"{n}: {t}" for n, t in zip(names, inputs, strict=True))}) -> ({types}) {{
      {bound} = stablehlo.custom_call @lapack_{letter}{routine}_ffi({", ".join(names)})
        {{mhlo.backend_config = {{{options}}}}} : ({", ".join(inputs)}) -> ({types})
      return {results} : {types} }}"""
    graph = import_module(module_of(parse_text(text, "module"), Path("module")), {})
    check(graph)
    assert not unsupported(graph, "cpu") and not unsupported(graph, "gpu")
    return graph


def call(letter: str, routine: str, arrays: list[Array], outputs: list[str], **letters: str) -> list[Array]:
    """The results for these operands, which are of the letter's type; complex ones go in and come out as two parts."""
    inputs = [tensor(letter, *a.shape) for a in arrays]
    graph = graph_of(letter, routine, inputs, outputs, **letters)
    flat = [part.copy() for a in arrays for part in ((a.real, a.imag) if np.iscomplexobj(a) else (a,))]
    found = iter(run(graph, flat))
    return [next(found) + 1j * next(found) if "complex" in kind else next(found) for kind in outputs]


def normal(letter: str, *shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if letter in "cz" else x).astype(KINDS[letter])


def adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def assert_orthonormal(columns: Array, bound: float) -> None:
    assert np.abs(adjoint(columns) @ columns - np.eye(columns.shape[-1])).max() < bound


# --- LU


def factors(letter: str, a: Array) -> list[Array]:
    *lead, m, n = a.shape
    shapes = [tensor(letter, *lead, m, n), tensor("i", *lead, min(m, n)), tensor("i", *lead)]
    return call(letter, "getrf", [a], shapes)


@pytest.mark.parametrize("letter", "sdcz")
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 3, 5), (1, 1)])
def test_the_product_of_l_and_u_is_the_matrix_with_its_rows_swapped(letter: str, shape: tuple[int, ...]) -> None:
    a = normal(letter, *shape)
    both, swaps, status = factors(letter, a)
    m, n = shape[-2:]
    k = min(m, n)
    for x, lu, rows in zip(a.reshape(-1, m, n).copy(), both.reshape(-1, m, n), swaps.reshape(-1, k), strict=True):
        for i, row in enumerate(rows):
            x[[i, row - 1]] = x[[row - 1, i]]
        lower, upper = np.tril(lu, -1)[:, :k] + np.eye(m, k), np.triu(lu)[:k]
        assert np.abs(lower @ upper - x).max() < BOUNDS[letter] and np.abs(lower).max() < 1.5
    assert not status.any()


@pytest.mark.parametrize("letter", "sdcz")
def test_a_pivot_of_zero_leaves_its_column_and_is_the_status(letter: str) -> None:
    a = np.zeros((4, 3, 3), KINDS[letter])
    a[0] = np.outer([2, 1, 4], [1, 2, 4])
    a[1] = [[1, 2, 3], [2, 4, 6], [0, 1, 1]]
    a[2] = np.eye(3)
    lu, _, status = factors(letter, a)
    assert status.tolist() == [2, 3, 0, 1]
    assert lu[0].tolist() == [[4, 8, 16], [0.25, 0, 0], [0.5, 0, 0]] and not lu[3].any()
    assert np.prod(np.diagonal(lu, axis1=1, axis2=2), 1).tolist() == [0, 0, 1, 0]


def test_more_columns_than_rows_have_no_pivot_of_zero_beside_them() -> None:
    assert factors("d", np.array([[1.0, 0, 0], [0, 1, 0]]))[2] == 0


# --- QR


@pytest.mark.parametrize("letter", "sdcz")
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 3), (1, 1)])
@pytest.mark.parametrize("scale", [1, 1e-30, 1e30])
def test_q_is_unitary_and_r_has_a_real_diagonal(letter: str, shape: tuple[int, ...], scale: float) -> None:
    a = normal(letter, *shape) * KINDS[letter](scale)
    *lead, _, n = shape
    packed, taus = call(letter, "geqrf", [a], [tensor(letter, *shape), tensor(letter, *lead, n)])
    name = "ungqr" if letter in "cz" else "orgqr"
    (q,) = call(letter, name, [packed, taus], [tensor(letter, *shape)])
    r = np.triu(packed)[..., :n, :]
    assert_orthonormal(q, BOUNDS[letter])
    assert np.abs(q @ r - a).max() < BOUNDS[letter] * scale
    assert np.abs(np.diagonal(r, axis1=-2, axis2=-1).imag).max() < BOUNDS[letter] * scale


# --- symmetric eigenvectors


def eigen(letter: str, a: Array, uplo: str) -> list[Array]:
    *lead, n, _ = a.shape
    outputs = [tensor(letter, *a.shape), tensor(REAL[letter], *lead, n), tensor("i", *lead)]
    return call(letter, "heevd" if letter in "cz" else "syevd", [a], outputs, mode="V", uplo=uplo)


@pytest.mark.parametrize("letter", "sdcz")
@pytest.mark.parametrize("shape", [(6, 6), (2, 7, 7), (1, 1), (2, 2)])
@pytest.mark.parametrize("uplo", "LU")
def test_eigenvectors_of_one_triangle(letter: str, shape: tuple[int, ...], uplo: str) -> None:
    a = normal(letter, *shape)
    whole = (a + adjoint(a)).astype(a.dtype)
    triangle = np.tril(whole) if uplo == "L" else np.triu(whole)
    vectors, values, status = eigen(letter, triangle, uplo)
    assert not status.any() and (np.diff(values) >= 0).all()
    assert np.abs(values - np.linalg.eigvalsh(whole)).max() < BOUNDS[letter]
    assert_orthonormal(vectors, BOUNDS[letter])
    assert np.abs((vectors * values[..., None, :]) @ adjoint(vectors) - whole).max() < 2 * BOUNDS[letter]


@pytest.mark.parametrize("letter", "sz")
def test_eigenvectors_of_equal_eigenvalues_are_orthonormal(letter: str) -> None:
    blocks = np.stack([np.ones((5, 5)), np.eye(5), np.zeros((5, 5)), np.diag([1e30, 1, 1, 0, -1e30])])
    vectors, values, _ = eigen(letter, blocks.astype(KINDS[letter]), "L")
    assert np.allclose(values[:3], [[0, 0, 0, 0, 5], [1] * 5, [0] * 5], atol=BOUNDS[letter])
    assert values[3].tolist() == [-values[3, 4], 0, 1, 1, values[3, 4]]
    assert_orthonormal(vectors, BOUNDS[letter])


# --- singular values


def singular(letter: str, routine: str, a: Array, mode: str) -> list[Array]:
    """S, U, V^H and the status."""
    *lead, m, n = a.shape
    k = min(m, n)
    rows, columns = (k, k) if mode == "S" else (m, n)
    outputs = [tensor(letter, *a.shape), tensor(REAL[letter], *lead, k), tensor(letter, *lead, m, rows)]
    outputs += [tensor(letter, *lead, columns, n), tensor("i", *lead)]
    return call(letter, routine, [a], outputs, mode=mode)[1:]


def matrices_of_many_ranks(letter: str, m: int, n: int) -> Array:
    """Full rank, rank 2, rank 1, equal columns, zero, and elements whose squares leave the range."""
    x, u, v = normal(letter, m, n), normal(letter, m, 2), normal(letter, 2, n)
    extremes = [x * KINDS[letter](scale) for scale in (1e30, 2e9, 4e-10, 1e-30)]
    found = [x, u @ v, u[:, :1] @ v[:1], np.ones((m, n)), np.zeros((m, n)), *extremes]
    return np.stack(found).astype(KINDS[letter])


@pytest.mark.parametrize("letter", "sdcz")
@pytest.mark.parametrize("size", [(5, 3), (3, 5), (4, 4), (1, 4), (4, 1), (1, 1)])
@pytest.mark.parametrize("mode", "AS")
def test_the_product_of_u_s_and_v_is_the_matrix(letter: str, size: tuple[int, int], mode: str) -> None:
    a = matrices_of_many_ranks(letter, *size)
    s, u, vh, status = singular(letter, "gesdd", a, mode)
    k, bound = min(size), BOUNDS[letter]
    wide = np.abs(a).max((1, 2)).astype(np.float64)
    scale = np.where(wide == 0, 1, wide)[:, None, None]
    assert not status.any() and (s >= 0).all() and (np.diff(s) <= 0).all()
    expected = np.linalg.svd(a.astype(np.complex128 if letter in "cz" else np.float64), compute_uv=False)
    assert (np.abs(s - expected) / scale[:, 0]).max() < bound
    assert_orthonormal(u, bound)
    assert_orthonormal(adjoint(vh), bound)
    product = (u[..., :k].astype(np.complex128) * (s[:, None] / scale)) @ vh[:, :k]
    assert np.abs(product - a / scale).max() < bound


@pytest.mark.parametrize("routine", ["gesdd", "gesvd"])
def test_singular_values_alone(routine: str) -> None:
    a = matrices_of_many_ranks("d", 4, 6)[:5]
    s = singular("d", routine, a, "N")[0]
    assert np.abs(s - np.linalg.svd(a, compute_uv=False)).max() < 1e-12


def test_singular_values_of_many_magnitudes() -> None:
    n = 24
    left, right = (np.linalg.qr(normal("d", n, n + i))[0] for i in (0, 1))
    for scale in (np.logspace(0, -12, n), np.logspace(0, -40, n)):
        a = left * scale @ right[:, :n]
        s, u, vh, _ = singular("d", "gesdd", a, "S")
        assert np.abs(s - scale).max() < 1e-14 and np.abs((u * s) @ vh - a).max() < 1e-14
        assert_orthonormal(u, 1e-13)
        assert_orthonormal(vh.T, 1e-13)


def test_what_is_not_finite_has_a_status() -> None:
    a = np.stack([np.eye(3), np.diag([1, np.nan, 1]), np.diag([1, np.inf, 1])])
    assert singular("d", "gesdd", a, "S")[3].tolist() == [0, 1, 1]
    assert eigen("d", a, "L")[2].tolist() == [0, 1, 1]


def test_the_program_does_not_grow_with_the_matrix() -> None:
    def sizes(n: int) -> tuple[int, int]:
        shape = tensor("s", n, n)
        graph = graph_of("s", "gesdd", [shape], [shape, tensor("s", n), shape, shape, tensor("i")], mode="A")
        held = [graph.constants, *(r.constants for node in graph.walk() for r in node.regions)]
        return sum(1 for _ in graph.walk()), sum(int(str(v.type.elements)) for group in held for v in group)

    (few, small), (more, large) = sizes(100), sizes(200)
    assert few == more < 300 and large <= 2 * small


# --- tridiagonal systems


@pytest.mark.parametrize("letter", "sdcz")
@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_tridiagonal_systems(letter: str, lead: tuple[int, ...], n: int) -> None:
    below, diagonal, above = (normal(letter, *lead, n, i)[..., 0] for i in (1, 2, 3))
    right = normal(letter, *lead, n, 2)
    line, status = tensor(letter, *lead, n), tensor("i", *lead)
    outputs = [line, line, line, tensor(letter, *lead, n, 2), status]
    *_, x, info = call(letter, "gtsv", [below, diagonal, above, right], outputs)
    left = diagonal[..., None] * np.eye(n) + below[..., None] * np.eye(n, k=-1) + above[..., None] * np.eye(n, k=1)
    assert not info.any() and np.abs(left @ x - right).max() < 10 * BOUNDS[letter]


def test_a_tridiagonal_system_without_a_solution_has_a_status() -> None:
    zero, diagonal = np.zeros((2, 3)), np.array([[1.0, 0, 1], [1, 2, 3]])
    line = tensor("d", 2, 3)
    outputs = [line, line, line, tensor("d", 2, 3, 1), tensor("i", 2)]
    assert call("d", "gtsv", [zero, diagonal, zero, np.ones((2, 3, 1))], outputs)[4].tolist() == [2, 0]


# --- what is refused


def refusal(letter: str, routine: str, inputs: list[str], outputs: list[str]) -> str:
    with pytest.raises(UnsupportedError) as caught:
        graph_of(letter, routine, inputs, outputs)
    return str(caught.value.details[0]["reason"])


@pytest.mark.parametrize(
    ("routine", "why"),
    [("geev", "not symmetric"), ("gees", "Schur"), ("gehrd", "Hessenberg"), ("sytrd", "tridiagonal")],
)
def test_a_routine_that_is_not_known_is_refused_by_name(routine: str, why: str) -> None:
    reason = refusal("d", routine, [tensor("d", 3, 3)], [tensor("d", 3, 3)])
    assert f"lapack_d{routine}_ffi" in reason and why in reason and "through LAPACK" in reason


@pytest.mark.parametrize("routine", ["getrf", "geqrf", "syevd", "gesdd"])
def test_a_matrix_of_symbolic_size_is_refused(routine: str) -> None:
    reason = refusal("d", routine, ["tensor<?x?xf64>"], ["tensor<?x?xf64>"] * 5)
    assert routine in reason and "symbolic size" in reason


def test_any_number_of_matrices() -> None:
    a = "tensor<?x4x3xf64>"
    outputs = [a, "tensor<?x3xf64>", a, "tensor<?x3x3xf64>", "tensor<?xi32>"]
    graph = graph_of("d", "gesdd", [a], outputs, mode="S")
    for count in (0, 1, 5):
        x = normal("d", count, 4, 3)
        _, s, u, vh, status = run(graph, [x])
        assert status.shape == (count,) and np.allclose((u * s[:, None]) @ vh, x)
