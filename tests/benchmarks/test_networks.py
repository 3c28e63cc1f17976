"""The networks that are built: sound, of the sizes that they say, and the cache of the decoder means what the whole text means."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from benchmarks.graphs import recurrent, transformers
from benchmarks.graphs.quantized import residual

SMALL: dict[str, Any] = {"layers": 2, "width": 16, "heads": 2}


def run(model: onnx.ModelProto, **inputs: Any) -> dict[str, Any]:
    onnx.checker.check_model(model, full_check=True)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def ids(*shape: int) -> Any:
    return np.random.default_rng(1).integers(0, 50, shape)


def test_bert_ignores_what_is_masked() -> None:
    model = transformers.bert(**SMALL, vocabulary=50, longest=8)
    tokens, mask = ids(2, 5), np.ones((2, 5), np.int64)
    mask[:, 4] = 0
    other = tokens.copy()
    other[:, 4] = (other[:, 4] + 1) % 50
    first, second = (run(model, ids=t, mask=mask)["hidden"] for t in (tokens, other))
    assert first.shape == (2, 5, 16)
    np.testing.assert_allclose(first[:, :4], second[:, :4], atol=1e-5)
    assert not np.allclose(first[:, 4], second[:, 4])


def test_one_token_after_a_cache_gives_what_the_whole_text_gives() -> None:
    whole = transformers.decoder(**SMALL, vocabulary=50, longest=8)
    step = transformers.decoder(**SMALL, vocabulary=50, past=4, longest=8)
    tokens = ids(1, 5)
    before = run(whole, ids=tokens[:, :4])
    past = {f"past_{n}": before[n] for n in before if n != "logits"}
    wanted = run(whole, ids=tokens)
    found = run(step, ids=tokens[:, 4:], **past)
    np.testing.assert_allclose(found["logits"], wanted["logits"], atol=1e-4)
    np.testing.assert_allclose(found["key_1"], wanted["key_1"], atol=1e-4)


@pytest.mark.parametrize(
    ("model", "inputs", "shape"),
    [
        (transformers.vision(**SMALL, side=32), {"pixels": np.ones((2, 3, 32, 32), np.float32)}, (2, 1000)),
        (transformers.speech(**SMALL, frames=20), {"features": np.ones((1, 80, 20), np.float32)}, (1, 10, 16)),
        (residual(32), {"pixels": np.ones((1, 3, 32, 32), np.float32)}, (1, 1000)),
        (recurrent.tagger(layers=2, hidden=8, vocabulary=50), {"ids": ids(2, 7)}, (2, 7, 32)),
    ],
)
def test_shapes(model: onnx.ModelProto, inputs: dict[str, Any], shape: tuple[int, ...]) -> None:
    (found,) = run(model, **inputs).values()
    assert found.shape == shape and np.isfinite(found).all() and found.std() > 0


def test_weights_are_seeded() -> None:
    first, second = (recurrent.tagger(layers=1, hidden=4, vocabulary=9).SerializeToString() for _ in range(2))
    assert first == second
