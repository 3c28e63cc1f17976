"""TfIdfVectorizer on numbers against onnxruntime, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from against_onnxruntime import assert_agrees, computed, one_node

from fornaxc.errors import ModelError, UnsupportedError

RNG = np.random.default_rng(11)
POOL = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 1, 1, 2]  # 2, 3, 5; 4 5, 6 7; 8 6 7, 1 1 2
STARTS = [0, 3, 7]
COLUMNS = [6, 0, 1, 2, 3, 4, 5]


def attributes(**changes: Any) -> dict[str, Any]:
    """Three single numbers, two pairs and two triples."""
    return {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 3,
        "max_skip_count": 0,
        "ngram_counts": STARTS,
        "ngram_indexes": COLUMNS,
        "pool_int64s": POOL,
        **changes,
    }


@pytest.mark.parametrize("skips", [0, 1, 5])
@pytest.mark.parametrize(("least", "most"), [(1, 1), (1, 2), (2, 2), (1, 3), (3, 3)])
@pytest.mark.parametrize("shape", [(12,), (3, 9), (2, 1)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_counts(skips: int, least: int, most: int, shape: tuple[int, ...], symbolic: bool) -> None:
    x = RNG.integers(1, 9, shape).astype(np.int64)
    how = attributes(max_skip_count=skips, min_gram_length=least, max_gram_length=most)
    assert_agrees("TfIdfVectorizer", [x], domain="", symbolic=symbolic, **how)


@pytest.mark.parametrize("mode", ["IDF", "TFIDF"])
@pytest.mark.parametrize("weights", [None, [1.5] * 7])
def test_weights(mode: str, weights: Sequence[float] | None) -> None:
    x = RNG.integers(1, 9, (4, 10)).astype(np.int32)
    given = {} if weights is None else {"weights": weights}
    assert_agrees("TfIdfVectorizer", [x], domain="", **attributes(mode=mode, max_skip_count=2, **given))
    ordered = attributes(mode=mode, ngram_indexes=list(range(7)), weights=[float(i) for i in range(7)])
    assert_agrees("TfIdfVectorizer", [x], domain="", **ordered)


def test_ngrams_that_share_a_column_are_added() -> None:
    x = np.array([[2, 3, 5, 4, 5, 2], [3, 3, 3, 5, 6, 7]], np.int64)
    assert_agrees("TfIdfVectorizer", [x], domain="", **attributes(ngram_indexes=[0, 0, 2, 2, 0, 4, 4]))


def test_weights_whose_order_the_tools_read_differently_are_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        computed(*_model(mode="TFIDF", weights=[float(i) for i in range(7)]))
    assert "another order" in caught.value.details[0]["reason"]


@pytest.mark.parametrize(
    "changes",
    [
        {"ngram_counts": [0, 4, 7]},
        {"ngram_indexes": COLUMNS[:-1]},
        {"mode": "DF"},
        {"min_gram_length": 0},
        {"mode": "IDF", "weights": [1.0]},
    ],
)
def test_pools_that_are_broken(changes: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        computed(*_model(**changes))


def _model(**changes: Any) -> Any:
    return one_node("TfIdfVectorizer", [np.zeros((2, 3), np.int64)], domain="", **attributes(**changes))
