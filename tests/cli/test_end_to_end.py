"""The installed path with MAX itself: one small model, compiled once, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import parser

from fornaxc import api
from fornaxc.artifact import Artifact
from fornaxc.errors import ArtifactError

ROOT = Path(__file__).parent.parent.parent
MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
classify (float[batch, 5] x) => (float[batch, 5] y) {
    h = Mul(x, w)
    a = Add(h, b)
    y = Relu(a)
}
"""


@dataclass(frozen=True)
class Workshop:
    """A folder with a model, its artifact and a cache that holds it."""

    folder: Path
    environment: dict[str, str]

    @property
    def model(self) -> Path:
        return self.folder / "m.onnx"

    @property
    def artifact(self) -> Path:
        return self.folder / "m.fxa"

    def fornaxc(self, *arguments: object, status: int = 0, python: tuple[str, ...] = ()) -> Any:
        """The document of a command that ends with `status`."""
        done = subprocess.run(
            [sys.executable, *python, "-m", "fornaxc", *(str(a) for a in arguments), "--json"],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        document = json.loads(done.stdout)
        document["stderr"] = done.stderr
        return document

    def python(self, script: str) -> subprocess.CompletedProcess[str]:
        """What a Python program prints, and how it ends."""
        return subprocess.run(
            [sys.executable, "-c", script],
            env=self.environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip


def write_model(path: Path, seed: int) -> tuple[Any, Any]:
    """Write the model with random weights; returns them. It has nothing that MAX takes long to compile."""
    random = np.random.default_rng(seed)
    w, b = random.standard_normal(5, np.float32), random.standard_normal(5, np.float32)
    model = parser.parse_model(MODEL)
    for initializer in (onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(b, "b")):
        model.graph.initializer.append(initializer)
    onnx.save(model, path)
    return w, b


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    folder = tmp_path_factory.mktemp("shop")
    environment = {**os.environ, "FORNAXC_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    workshop = Workshop(folder, environment)
    write_model(workshop.model, 0)
    one, other = _compile_twice_at_once(workshop)
    assert sorted((one["cache"], other["cache"])) == ["hit", "miss"]
    assert one["key"] == other["key"]
    missed = one if one["cache"] == "miss" else other
    assert {"import", "optimize", "lower", "compile", "package"} <= missed["phases"].keys()
    assert (one["status"], one["target"], one["artifact"]) == ("ok", "cpu", str(workshop.artifact))
    return workshop


def _compile_twice_at_once(workshop: Workshop) -> list[Any]:
    """What two processes say that compile the same model at the same time, neither in the cache before."""
    with ThreadPoolExecutor() as both:
        files = (workshop.artifact, workshop.folder / "other.fxa")
        return list(both.map(lambda file: workshop.fornaxc("compile", workshop.model, "-o", file), files))


def test_the_same_model_elsewhere_is_a_hit(shop: Workshop, tmp_path: Path) -> None:
    first = shop.fornaxc("compile", shop.model)
    copy = tmp_path / "another name.onnx"
    shutil.copy(shop.model, copy)
    second = shop.fornaxc("compile", copy)
    assert (first["cache"], second["cache"]) == ("hit", "hit")
    assert (first["key"], first["artifact"]) == (second["key"], second["artifact"])


def test_a_hit_imports_nothing_heavy_and_is_fast(shop: Workshop) -> None:
    shop.fornaxc("compile", shop.model)
    told = shop.fornaxc("compile", shop.model, python=("-X", "importtime"))
    imported = {m.strip().split(".")[0] for m in re.findall(r"\|([^|]+)$", told["stderr"], re.MULTILINE)}
    assert "fornaxc" in imported
    assert imported & {"max", "onnx", "onnxruntime", "rich", "numpy", "jaxlib"} == set()
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert shop.fornaxc("compile", shop.model)["cache"] == "hit"
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.5  # 0.12 to 0.15 s where nothing else runs


def test_a_retrained_model_compiles_nothing(shop: Workshop, tmp_path: Path) -> None:
    w, b = write_model(tmp_path / "retrained.onnx", 1)
    document = shop.fornaxc("compile", tmp_path / "retrained.onnx")
    assert (document["cache"], document["code"]) == ("miss", "hit")
    assert "compile" not in document["phases"]
    x = np.ones((2, 5), np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    shop.fornaxc("run", document["artifact"], "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_allclose(outputs["y"], np.maximum(x * w + b, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 7])
def test_one_artifact_runs_every_batch_size(shop: Workshop, tmp_path: Path, batch: int) -> None:
    w, b = write_model(tmp_path / "same.onnx", 0)
    x = np.random.default_rng(batch).standard_normal((batch, 5), np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    document = shop.fornaxc("run", shop.artifact, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert document["outputs"] == [{"name": "y", "dtype": "float32", "shape": [batch, 5]}]
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_allclose(outputs["y"], np.maximum(x * w + b, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("arrays", "code"),
    [
        ({"z": np.zeros((2, 5), np.float32)}, "FX220"),
        ({"x": np.zeros((2, 5))}, "FX221"),
        ({"x": np.zeros((2, 4), np.float32)}, "FX222"),
        ({"x": np.zeros(5, np.float32)}, "FX222"),
    ],
)
def test_wrong_inputs(shop: Workshop, tmp_path: Path, arrays: dict[str, Any], code: str) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    assert shop.fornaxc("run", shop.artifact, "-i", tmp_path / "in.npz", status=2)["code"] == code


def test_verify_proves_the_model_and_the_artifact(shop: Workshop) -> None:
    before = shop.fornaxc("compile", shop.model)["artifact"]
    document = shop.fornaxc("verify", shop.model)
    assert (document["verdict"], document["executed_on"]) == ("pass", "cpu")
    assert len({tuple(output["shape"]) for output in document["outputs"]}) == 2
    assert "onnxruntime" in document["oracle"]
    ran = document["execution"]
    assert ran["kernels"] == sum(k["count"] for k in ran["kernel_map"]) > 0
    assert any(k["nodes"] for k in ran["kernel_map"])
    files = ("--html", shop.folder / "report.html", "--junit", shop.folder / "report.xml")
    assert shop.fornaxc("verify", shop.artifact, "--model", shop.model, *files)["verdict"] == "pass"
    assert "<h2>Outputs</h2>" in (shop.folder / "report.html").read_text()
    assert {c.get("name") for c in ElementTree.parse(shop.folder / "report.xml").iter("testcase")} == {
        "y batch=2 (onnxruntime)", "y batch=5 (onnxruntime)", "target cpu",
    }  # fmt: skip
    assert shop.fornaxc("verify", shop.artifact)["oracle"] == "onnxruntime (exported graph)"
    assert shop.fornaxc("compile", shop.model)["artifact"] == before, "proving changes nothing of the artifact"
    for place in (shop.artifact, before):  # the file was written before anything was proven
        found = shop.fornaxc("inspect", place)["verified"]
        assert [(r["oracle"], r["verdict"], r["known_to"]) for r in found] == [
            ("onnxruntime (exported graph)", "pass", "cache"),
            ("onnxruntime", "pass", "cache"),
        ]
    assert found[1]["tolerance"] == ["rtol 0.0002, atol 2e-06"]


def test_an_artifact_file_carries_its_proofs_into_another_cache(shop: Workshop, tmp_path: Path) -> None:
    shop.fornaxc("verify", shop.model)
    shop.fornaxc("compile", shop.model, "-o", tmp_path / "proven.fxa")
    elsewhere = ("--cache-dir", tmp_path / "elsewhere")
    imported = shop.fornaxc("cache", "import", tmp_path / "proven.fxa", *elsewhere)
    found = shop.fornaxc("compile", shop.model, *elsewhere)
    assert (found["cache"], found["artifact"]) == ("hit", imported["artifact"])
    assert (found["key"], found["request_key"]) == (imported["key"], imported["request_key"])
    (record, *_) = shop.fornaxc("inspect", tmp_path / "proven.fxa", "--cache-dir", tmp_path / "none")["verified"]
    assert (record["verdict"], record["known_to"]) == ("pass", "artifact")
    assert shop.fornaxc("inspect", imported["artifact"])["verified"][0]["verdict"] == "pass"
    write_model(tmp_path / "retrained.onnx", 2)
    assert shop.fornaxc("compile", tmp_path / "retrained.onnx", *elsewhere)["code"] == "hit"


def test_golden_outputs_that_are_wrong_fail(shop: Workshop, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.zeros((2, 5), np.float32))
    np.savez(tmp_path / "golden.npz", y=np.full((2, 5), 9, np.float32))
    arguments = ("--inputs", tmp_path / "in.npz", "--expected", tmp_path / "golden.npz")
    document = shop.fornaxc("verify", shop.model, *arguments, status=1)
    assert (document["verdict"], document["outputs"][0]["verdict"]) == ("fail", "fail")


def test_python_runs_the_artifact(shop: Workshop) -> None:
    script = (
        "import os, numpy, fornaxc\n"
        f"model = fornaxc.load({str(shop.artifact)!r})\n"
        "print(model.inputs[0].name, model(x=numpy.zeros((4, 5), numpy.float32))['y'].shape, flush=True)\n"
        "os._exit(0)"
    )
    done = shop.python(script)
    assert done.stdout == "x (4, 5)\n", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_is_told_that_it_cannot_run(shop: Workshop) -> None:
    """It would wait forever."""
    script = (
        "import os, numpy, fornaxc\n"
        "from fornaxc.errors import FornaxError\n"
        f"load, x = (lambda: fornaxc.load({str(shop.artifact)!r})), numpy.zeros((4, 5), numpy.float32)\n"
        "model = load()\n"
        "if os.fork() == 0:\n"
        "    for act in (lambda: model(x=x), load):\n"
        "        try:\n"
        "            act()\n"
        "        except FornaxError as error:\n"
        "            print(error.code, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(model(x=x)['y'].shape, flush=True)\n"
        "os._exit(0)"
    )
    done = shop.python(script)
    assert done.stdout == "FX265\nFX265\n(4, 5)\n", done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the counters are Linux's")
def test_no_thread_wakes_all_the_time_beside_a_model_that_has_run(shop: Workshop) -> None:
    script = (
        "import os, re, time, numpy, fornaxc\n"
        "from pathlib import Path\n"
        "def wakes():\n"
        "    found = [re.search('\\nvoluntary_ctxt_switches:\\t(\\\\d+)', p.read_text()) for p in Path('/proc/self/task').glob('*/status')]\n"
        "    return sum(int(m[1]) for m in found)\n"
        f"model = fornaxc.load({str(shop.artifact)!r})\n"
        "model(x=numpy.zeros((4, 5), numpy.float32))\n"
        "before = wakes()\n"
        "time.sleep(1)\n"
        "print(wakes() - before, flush=True)\n"
        "os._exit(0)"
    )
    done = shop.python(script)
    assert int(done.stdout) < 200, done.stderr


def test_results_stay_what_they_were(shop: Workshop, tmp_path: Path) -> None:
    """Those of a chain are not copied: later runs, other results and the end of the model must leave them alone."""
    steps = "a = MatMul(x, w0) b = MatMul(a, w1) y = MatMul(b, w2) c = MatMul(y, w3) z = MatMul(c, w4)"
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[n, 6] x) => (float[n, 6] y, float[n, 6] z) {{ {steps} }}'
    )
    weights = np.random.default_rng(0).standard_normal((5, 6, 6), np.float32)
    np.save(tmp_path / "w.npy", weights)
    for i, weight in enumerate(weights):
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, f"w{i}"))
    onnx.save(model, tmp_path / "m.onnx")
    shop.fornaxc("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.fxa")
    script = (
        "import gc, numpy, fornaxc\n"
        f"model, w = fornaxc.load({str(tmp_path / 'm.fxa')!r}), numpy.load({str(tmp_path / 'w.npy')!r}).astype('f8')\n"
        "given = [numpy.full((100_000 + i, 6), i, 'f4') for i in range(1, 7)]\n"
        "runs = [model(x=x) for x in given]\n"
        "assert not any(v.flags.owndata for r in runs for v in r.values())\n"
        "runs[0]['y'][:] = 7\n"
        "given.append(given[3])\n"
        "runs.append(model(x=given[3]))\n"
        "del model\n"
        "gc.collect()\n"
        "other = [numpy.full(600_000, 9, 'f4') for _ in range(9)]\n"
        "for x, r in zip(given, runs):\n"
        "    y = x @ w[0] @ w[1] @ w[2]\n"
        "    print(abs(r['y'] - y).max() < 1e-3 * abs(y).max(), abs(r['z'] - y @ w[3] @ w[4]).max() < 1e-3 * abs(y).max() * 9)\n"
    )
    done = shop.python(script)
    assert (done.stdout, done.returncode) == ("False True\n" + 6 * "True True\n", 0), done.stderr


def test_inspect_and_the_cache_know_the_artifact(shop: Workshop) -> None:
    artifact = shop.fornaxc("inspect", shop.artifact)
    assert artifact["inputs"] == [{"name": "x", "dtype": "f32", "shape": ["batch", 5]}]
    assert artifact["target"]["label"] == "cpu"
    assert shop.fornaxc("inspect", shop.model)["supported"] is True
    listed = shop.fornaxc("cache", "ls")["artifacts"]
    assert "m.onnx" in {a["source"] for a in listed}
    assert shop.fornaxc("cache", "check")["ok"] is True


def test_a_damaged_artifact_is_refused(shop: Workshop, tmp_path: Path) -> None:
    content = bytearray(shop.artifact.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "bad.fxa").write_bytes(content)
    np.savez(tmp_path / "in.npz", x=np.zeros((2, 5), np.float32))
    document = shop.fornaxc("run", tmp_path / "bad.fxa", "-i", tmp_path / "in.npz", status=4)
    assert document["code"] in ("FX451", "FX452")
    assert shop.fornaxc("cache", "import", tmp_path / "bad.fxa", status=4)["code"] in ("FX451", "FX452")
    (tmp_path / "cut.fxa").write_bytes(content[: len(content) // 3])
    assert shop.fornaxc("run", tmp_path / "cut.fxa", status=4)["code"] == "FX452"


def test_another_process_compiles_with_the_kernels_that_the_first_one_built(shop: Workshop, tmp_path: Path) -> None:
    kernels = shop.folder / "cache" / "v1" / "toolchain" / "kernels"
    before = {p: p.stat().st_mtime_ns for p in kernels.rglob("*.mojoc")}
    assert len(before) == 1
    document = shop.fornaxc("compile", shop.model, "--no-pass", "share-common", "-o", tmp_path / "m.fxa")
    assert (document["cache"], document["code"]) == ("miss", "miss")
    assert {p: p.stat().st_mtime_ns for p in kernels.rglob("*.mojoc")} == before


def test_phases_end_early_and_dump(shop: Workshop, tmp_path: Path) -> None:
    document = shop.fornaxc("compile", shop.model, "--stop-after", "optimize", "--dump", tmp_path / "ir")
    assert document["artifact"] is None
    assert set(document["phases"]) == {"import", "optimize"}
    assert {p.name for p in (tmp_path / "ir").iterdir()} == {"import.ir", "optimize.ir"}


def test_a_time_limit_ends_the_compiler_and_names_the_phase(shop: Workshop, tmp_path: Path) -> None:
    model = parser.parse_model(MODEL.replace("Relu(a)", "Sigmoid(a)"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(5, np.float32), "w"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(5, np.float32), "b"))
    onnx.save(model, tmp_path / "s.onnx")
    document = shop.fornaxc("compile", tmp_path / "s.onnx", "--timeout", "0.2", status=5)
    assert document["code"] == "FX502"
    assert document["details"][0]["phase"] in ("lower", "compile")
    assert Path(document["details"][0]["log"]).exists()


def test_bench_measures_beside_onnxruntime(shop: Workshop, tmp_path: Path) -> None:
    options = (
        "--against",
        "ort",
        "--iterations",
        4,
        "--size",
        "batch=3",
        "--threads",
        1,
        "--html",
        tmp_path / "b.html",
    )
    document = shop.fornaxc("bench", shop.model, *options)
    assert (document["status"], document["sample"], document["threads"]) == ("ok", "batch=3", 1)
    assert document["inputs"] == [{"name": "x", "dtype": "float32", "shape": [3, 5]}]
    assert [row["verdict"] for row in document["agreement"]] == ["pass"]
    for side in (document["ours"], document["against"]):
        assert side["latency"]["count"] == 4
        assert 0 < side["latency"]["lowest"] <= side["latency"]["p50"] <= side["latency"]["highest"]
        assert min(side["load_seconds"], side["first_run_seconds"], side["import_seconds"]) > 0
    assert document["ratio"]["lowest"] <= document["ratio"]["median"] <= document["ratio"]["highest"]
    assert document["kernels"]["calls"] > 0
    assert "onnxruntime" in (tmp_path / "b.html").read_text()
    assert shop.fornaxc("bench", shop.artifact, "--model", tmp_path / "no.onnx", status=4)["code"] == "FX401"


def test_compare_finds_what_a_retrained_model_changes(shop: Workshop, tmp_path: Path) -> None:
    same = shop.fornaxc("compare", shop.artifact, shop.artifact, "--iterations", 3, "--threads", 1)
    assert (same["verdict"], same["same_code"], same["samples"]) == ("pass", True, ["batch=2", "batch=5"])
    assert (same["signature"], same["manifest"], same["operations"], same["kernels"]) == ([], [], [], [])
    assert same["speed"]["a"]["latency"]["count"] == 3
    write_model(tmp_path / "retrained.onnx", 5)
    retrained = shop.fornaxc("compile", tmp_path / "retrained.onnx")["artifact"]
    other = shop.fornaxc("compare", shop.artifact, retrained, "--no-speed", status=1)
    assert (other["verdict"], other["same_code"], other["speed"]) == ("fail", True, None)
    assert [difference["part"] for difference in other["manifest"]] == ["source.digest"]
    assert {row["verdict"] for row in other["outputs"]} == {"fail"}


def test_an_artifact_that_cannot_run_here_is_compared_as_far_as_it_can(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(artifact: Artifact) -> None:
        raise ArtifactError(f"{artifact.path.name} is for a GPU", code="FX456")

    monkeypatch.setattr("fornaxc.comparison.session.check_runnable", refuse)
    monkeypatch.setenv("FORNAXC_CACHE_DIR", shop.environment["FORNAXC_CACHE_DIR"])
    found = api.compare(shop.artifact, shop.artifact)
    assert (found.verdict, found.exit, found.not_compared) == ("unproven", 0, "m.fxa is for a GPU")
    assert (found.speed, found.kernels, found.manifest) == (None, None, [])
    assert found.a.sizes["total"] == sum(size for part, size in found.a.sizes.items() if part != "total")


def test_a_run_that_cannot_write_its_outputs(shop: Workshop, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.zeros((2, 5), np.float32))
    missing = tmp_path / "missing" / "out.npz"
    assert shop.fornaxc("run", shop.artifact, "-i", tmp_path / "in.npz", "-o", missing, status=2)["code"] == "FX228"
    assert shop.fornaxc("run", shop.model, status=2)["code"] == "FX229"
