"""The table of models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.catalogue import Given, Model, Unavailable

if TYPE_CHECKING:
    import onnx

ZOO = Path(__file__).parents[1] / "tests/zoo"
IMAGE = Given((1, 3, 224, 224))

# files of packages that the zoo does not list
FETCHED = {
    "ppocrv4_det": {
        "registry": "pypi",
        "package": "rapidocr-onnxruntime",
        "version": "1.4.4",
        "path": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "sha256": "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    },
    "ppocrv4_rec": {
        "registry": "pypi",
        "package": "rapidocr-onnxruntime",
        "version": "1.4.4",
        "path": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "sha256": "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    },
    "silero_vad": {
        "registry": "pypi",
        "package": "silero-vad",
        "version": "6.2.3",
        "path": "silero_vad/data/silero_vad.onnx",
        "sha256": "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    },
}


def _zoo(entry: str, folder: Path) -> Path:
    """A model of the zoo, or one that its tools fetch."""
    sys.path.insert(0, str(ZOO))
    try:
        import zoo
    finally:
        sys.path.remove(str(ZOO))
    known = zoo.ENTRIES | FETCHED
    try:
        fetched: Path = zoo.fetch(entry, known.get(entry, {"registry": "light"}))
    except zoo.Unavailable as reason:
        raise Unavailable(str(reason)) from None
    return fetched


def _built(build: Callable[[], onnx.ModelProto], folder: Path) -> Path:
    import onnx

    path = folder / "built.partial"
    onnx.save(build(), path)
    return path


def light(name: str, network: str, input_name: str) -> Model:
    """An image network of the onnx package with seeded random weights."""
    origin = f"{network} of the onnx package, seeded random weights"
    return Model(name, origin, {input_name: IMAGE}, partial(_zoo, f"light_{network}"))


def fetched(
    name: str, entry: str, origin: str, given: dict[str, Given], *, pinned: bool = True, dims: Sequence[str] = ()
) -> Model:
    return Model(name, origin, given, partial(_zoo, entry), pinned, dims)


def built(name: str, origin: str, given: dict[str, Given], build: Callable[[], onnx.ModelProto]) -> Model:
    return Model(name, f"{origin}, seeded random weights", given, partial(_built, build))


def _ids(batch: int, length: int, below: int) -> Given:
    return Given((batch, length), "int64", below=below)


def table() -> list[Model]:
    """All models, in the order of the report."""
    from benchmarks.graphs import recurrent, transformers
    from benchmarks.graphs.detector import detector

    decoder = partial(transformers.decoder, layers=12, width=768, heads=12, vocabulary=50_257)
    past = {f"past_{kind}_{layer}": Given((1, 12, 128, 64)) for layer in range(12) for kind in ("key", "value")}
    return [
        light("light_resnet50", "resnet50", "gpu_0/data_0"),
        light("squeezenet", "squeezenet", "data_0"),
        light("shufflenet", "shufflenet", "gpu_0/data_0"),
        light("densenet121", "densenet121", "data_0"),
        light("inception_v1", "inception_v1", "data_0"),
        built("detector", "a detector of YOLOv8n's structure and size", {"pixels": Given((1, 3, 640, 640))}, detector),
        fetched(
            "magika",
            "magika_v3_3",
            "file types, of the magika package",
            {"bytes": Given((4, 2048), "int32", below=257)},
        ),
        fetched(
            "ppocrv4_det", "ppocrv4_det", "text detection, of rapidocr-onnxruntime", {"x": Given((1, 3, 320, 320))}
        ),
        fetched(
            "ppocrv4_rec", "ppocrv4_rec", "text recognition, of rapidocr-onnxruntime", {"x": Given((2, 3, 48, 320))}
        ),
        fetched(
            "silero_vad",
            "silero_vad",
            "voice activity, of the silero-vad package",
            {
                "input": Given((2, 576)),
                "state": Given((2, 2, 128), value=0),
                "sr": Given((), "int64", value=16_000, fixed=True),
            },
            pinned=False,  # its branch for the other rate cannot have these sizes
            dims=("d0=2", "d1=576"),
        ),
        built(
            "bert_tiny",
            "2-layer BERT of width 128, 2 x 16 tokens",
            {"ids": _ids(2, 16, 30_522), "mask": Given((2, 16), "int64", value=1)},
            partial(transformers.bert, layers=2, width=128, heads=2),
        ),
        built(
            "bert_base",
            "12-layer BERT of width 768, 1 x 128 tokens",
            {"ids": _ids(1, 128, 30_522), "mask": Given((1, 128), "int64", value=1)},
            partial(transformers.bert, layers=12, width=768, heads=12),
        ),
        built("gpt2_prefill", "12-layer decoder of GPT-2's size, 128 tokens", {"ids": _ids(1, 128, 50_257)}, decoder),
        built(
            "gpt2_decode",
            "12-layer decoder of GPT-2's size, one token after 128",
            {"ids": _ids(1, 1, 50_257), **past},
            partial(decoder, past=128),
        ),
        built(
            "vit_tiny",
            "12-layer vision transformer of width 192, 224 x 224",
            {"pixels": IMAGE},
            partial(transformers.vision, layers=12, width=192, heads=3),
        ),
        built(
            "whisper_encoder",
            "4-layer speech encoder of width 384, 30 s",
            {"features": Given((1, 80, 3000))},
            partial(transformers.speech, layers=4, width=384, heads=6),
        ),
        built(
            "lstm_bidir",
            "2-layer bidirectional LSTM of 256, 2 x 64 tokens",
            {"ids": _ids(2, 64, 10_000)},
            partial(recurrent.tagger, layers=2, hidden=256, vocabulary=10_000),
        ),
    ]
