"""Symbolic dims: canonical arithmetic, exact division, printing and parsing."""

import itertools

import pytest

from fornaxc.ir.dims import (
    at_most,
    ceildiv,
    dim_max,
    dim_min,
    is_nonnegative,
    may_be_equal,
    parse_dim,
    product,
    static,
    substitute,
    symbol,
    symbols,
)

n, m = symbol("n"), symbol("m")


def test_equal_polynomials_are_equal() -> None:
    assert (n + 1) * (n - 1) == n * n - 1
    assert n * m - m * n == 0
    assert 2 * n - n == n
    assert isinstance(n - n + 3, int)


def test_division_keeps_floor_semantics() -> None:
    assert (n * 12) // n == 12
    assert (4 * n + 3) // 4 == n
    assert (n * m * 3 + 6 * n) // (3 * n) == m + 2
    for dim in ((n + 5) // 2, ceildiv(n, 3), (7 * n - 4) // 3, (2 * n - 1) % 2):
        assert isinstance(substitute(dim, {"n": 9}), int)


@pytest.mark.parametrize("a", range(6))
def test_arithmetic_agrees_with_integers(a: int) -> None:
    for b, c in itertools.product(range(1, 5), range(-3, 4)):
        values = {"n": a, "m": b}
        assert substitute((n * c + m) // b, values) == (a * c + b) // b
        assert substitute((n + c) // m, values) == (a + c) // b
        assert substitute((n + c) % 3, values) == (a + c) % 3
        assert substitute(dim_min(n + c, m), values) == min(a + c, b)
        assert substitute(dim_max(n * 2 + c, m), values) == max(a * 2 + c, b)
        assert substitute(ceildiv(n, b), values) == -(-a // b)


@pytest.mark.parametrize(
    "dim",
    [n, n + 1, 3 * n * m - 2, (n + 5) // 2 * m, dim_max(n, m) * 2, dim_min(n, 4) // 3 + 1, -n + 7, m * ((n + 1) // 2)],
)
def test_printed_form_parses_back(dim: object) -> None:
    assert parse_dim(str(dim)) == dim


def test_min_and_max_simplify_where_the_order_is_known() -> None:
    assert dim_min(n, n + 3) == n
    assert dim_max(0, n) == n
    assert symbols(dim_min(n, 4)) == {"n"}


def test_errors() -> None:
    with pytest.raises(ZeroDivisionError):
        n // 0
    with pytest.raises(ValueError, match="identifier"):
        symbol("a b")
    for text in ("n +", "f(n)", "n / 2", "'a'", "n.m"):
        with pytest.raises(ValueError, match="dim expression"):
            parse_dim(text)


def test_product() -> None:
    assert product([]) == 1
    assert product([n, 2, 3]) == 6 * n


def test_bounds_that_one_side_implies_disappear() -> None:
    assert dim_min(n // 2, n) == n // 2
    assert dim_min(dim_min(5, n), n) == dim_min(n, 5)
    assert dim_max(dim_min(n, m), n) == n
    assert dim_max(dim_max(n, m), m) == dim_max(n, m)
    assert dim_min(dim_max(n, m), m) == m
    assert dim_min(n, m) not in (n, m)


def test_quotients_lose_common_factors() -> None:
    assert (n * m * 6) // (m * 4) == (n * 3) // 2
    assert (n * n) // (n * m) == n // m
    assert (n * 2 + 4) // (m * 2) == (n + 2) // m


def test_dividends_lose_what_is_negative() -> None:
    """A division that rounds to zero then gives the same."""
    assert (-n) // 2 == -((n + 1) // 2) == -ceildiv(n, 2)
    assert (n - 3) // 2 == (n + 1) // 2 - 2
    assert (n - m) // 3 == (n + 2 * m) // 3 - m
    assert (-n) // m == -((n + m - 1) // m)
    assert (-3) // m == -((m + 2) // m)
    assert n // -2 == (-n) // 2
    assert (3 * n) // 2 - n == n // 2


@pytest.mark.parametrize(
    "dim",
    [
        n - n // 2,
        n % 3,
        2 - n % 3,
        2 * ((n + 1) // 2) - n,
        n * m - m * (n // 2),
        n - m * (n // m),
        m - 1 - n % m,
        dim_max(n, 3) - dim_max(n, 3) // 2,
    ],
)
def test_what_quotients_and_remainders_are_at_least(dim: object) -> None:
    assert is_nonnegative(dim)
    assert not is_nonnegative(dim - n - 1)


def test_a_quotient_is_at_most_its_dividend() -> None:
    assert at_most(n // m, n) and dim_min(n // m, n + 1) == n // m
    assert not at_most(n // m, m)


def test_static_dims_are_numbers() -> None:
    assert static(3) == 3
    with pytest.raises(ValueError, match="the dim n is symbolic"):
        static(parse_dim("n"))


@pytest.mark.parametrize(
    ("left", "right", "may"),
    [
        (3, 5, False),
        (4, 4, True),
        (n, 2 * n, False),
        (n, n + 1, False),
        (n, n // 2, False),
        (n * m, n * m + n, False),
        (n // 2 + n // 3, n, False),
        ((n + 1) // 2, n, True),
        (2 * (n // 2), n, True),
        (n, m, True),
        (2 * n, m, True),
        (n, 7, True),
        (n, 0, False),
        (n * n, n, True),
        (n - 1, 0, True),
        (dim_max(n, m), n, True),
        (dim_max(n, m) + 1, n + m, True),
    ],
)
def test_sizes_that_are_never_equal(left: int, right: int, may: bool) -> None:
    assert may_be_equal(left, right) is may_be_equal(right, left) is may
    sizes = itertools.product(range(1, 8), repeat=2)
    seen = any(substitute(left - right, {"n": a, "m": b}) == 0 for a, b in sizes)
    assert seen is may
