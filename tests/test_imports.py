"""The rooms of the house import only what docs/architecture.md lets them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fornaxc"
HEAVY = {"max", "onnx", "onnxruntime", "jaxlib", "rich", "numpy"}


def modules() -> dict[str, Path]:
    """Every module of the package, links followed, by dotted name."""
    found = {}
    for base, folders, names in os.walk(PACKAGE, followlinks=True):
        folders[:] = [f for f in folders if f != "__pycache__"]
        for name in names:
            if name.endswith(".py"):
                path = Path(base, name)
                parts = path.relative_to(ROOT).with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(module: str, *, at_start_only: bool = False) -> Iterator[str]:
    """Absolute names that a module imports; those for type checkers left out with `at_start_only`."""
    tree = ast.parse(MODULES[module].read_text())
    nodes = _at_start(tree.body) if at_start_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            base = node.module or ""
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in MODULES else base


def _at_start(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If):
            for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            yield from _at_start(node.orelse if for_types else [*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _at_start([*node.body, *(s for h in node.handlers for s in h.body), *node.orelse])
        else:
            yield node


def room_of(module: str) -> str:
    """`fornaxc.ir` of `fornaxc.ir.ops.linear`; a file of the package itself is a room of its own."""
    return ".".join(module.split(".")[:2])


def of_room(room: str) -> list[str]:
    return sorted(m for m in MODULES if room_of(m) == room)


# room: (rooms that it may import, third-party packages that it may import, exceptions as exact modules)
RULES: dict[str, tuple[set[str], set[str], set[str]]] = {
    "fornaxc": ({"fornaxc.api", "fornaxc.runtime"}, set(), set()),
    "fornaxc.__main__": ({"fornaxc.cli"}, set(), set()),
    "fornaxc.errors": (set(), set(), set()),
    "fornaxc.phases": (set(), set(), set()),
    "fornaxc.endings": (set(), set(), set()),
    "fornaxc.ir": ({"fornaxc.errors"}, {"numpy", "ml_dtypes"}, {"fornaxc.kernels.packing"}),
    "fornaxc.kernels": ({"fornaxc.mapping"}, {"numpy", "ml_dtypes"}, set()),
    "fornaxc.passes": ({"fornaxc.ir", "fornaxc.errors"}, {"numpy", "ml_dtypes"}, {"fornaxc.kernels.packing"}),
    "fornaxc.importers": (
        {"fornaxc.ir", "fornaxc.errors", "fornaxc.mapping"},
        {"numpy", "ml_dtypes", "onnx", "google", "jaxlib"},
        set(),
    ),
    "fornaxc.export": (
        {"fornaxc", "fornaxc.ir", "fornaxc.errors"},
        {"numpy", "ml_dtypes", "onnx"},
        {"fornaxc.kernels.packing", "fornaxc.importers.onnx.types"},
    ),
    "fornaxc.lowering": (
        {"fornaxc", "fornaxc.ir", "fornaxc.errors", "fornaxc.kernels"},
        {"numpy", "ml_dtypes", "max"},
        set(),
    ),
    "fornaxc.targets": ({"fornaxc.errors"}, set(), set()),
    "fornaxc.cache": ({"fornaxc.errors"}, {"platformdirs"}, set()),
    "fornaxc.npz": ({"fornaxc.cache", "fornaxc.errors", "fornaxc.ir"}, {"numpy"}, set()),
    "fornaxc.signature": ({"fornaxc.errors", "fornaxc.ir"}, {"numpy"}, set()),
    "fornaxc.mapping": (set(), {"numpy"}, set()),
    "fornaxc.weights": ({"fornaxc.errors", "fornaxc.ir", "fornaxc.mapping"}, {"numpy"}, set()),
    "fornaxc.manifest": ({"fornaxc", "fornaxc.cache", "fornaxc.ir"}, set(), set()),
    "fornaxc.sources": ({"fornaxc.errors", "fornaxc.importers", "fornaxc.ir", "fornaxc.npz"}, set(), set()),
    "fornaxc.places": ({"fornaxc.cache", "fornaxc.errors", "fornaxc.importers"}, set(), set()),
    "fornaxc.artifact": (
        {
            "fornaxc.cache",
            "fornaxc.errors",
            "fornaxc.ir",
            "fornaxc.manifest",
            "fornaxc.sources",
            "fornaxc.targets",
            "fornaxc.weights",
        },
        set(),
        set(),
    ),
    "fornaxc.compiler": (
        {
            "fornaxc.artifact",
            "fornaxc.cache",
            "fornaxc.child",
            "fornaxc.errors",
            "fornaxc.ir",
            "fornaxc.manifest",
            "fornaxc.passes",
            "fornaxc.phases",
            "fornaxc.sources",
            "fornaxc.targets",
            "fornaxc.weights",
        },
        set(),
        {"fornaxc.lowering.kernel_package", "fornaxc.lowering.support"},
    ),
    "fornaxc.child": ({"fornaxc.cache", "fornaxc.endings", "fornaxc.errors", "fornaxc.phases"}, set(), set()),
    "fornaxc.worker": ({"fornaxc.ir", "fornaxc.lowering"}, {"max"}, set()),
    "fornaxc.timers": (set(), set(), set()),
    "fornaxc.replay": ({"fornaxc.errors", "fornaxc.ir", "fornaxc.runtime"}, set(), set()),
    "fornaxc.runtime": (
        {
            "fornaxc.artifact",
            "fornaxc.cache",
            "fornaxc.errors",
            "fornaxc.ir",
            "fornaxc.replay",
            "fornaxc.signature",
            "fornaxc.timers",
        },
        {"numpy", "max"},
        set(),
    ),
    "fornaxc.runner": ({"fornaxc.endings", "fornaxc.errors", "fornaxc.ir", "fornaxc.runtime"}, {"numpy"}, set()),
    "fornaxc.verification": (
        {
            "fornaxc.artifact",
            "fornaxc.cache",
            "fornaxc.compiler",
            "fornaxc.environment",
            "fornaxc.errors",
            "fornaxc.export",
            "fornaxc.importers",
            "fornaxc.ir",
            "fornaxc.npz",
            "fornaxc.pages",
            "fornaxc.phases",
            "fornaxc.places",
            "fornaxc.runner",
            "fornaxc.signature",
            "fornaxc.sources",
            "fornaxc.targets",
            "fornaxc.weights",
        },
        {"numpy", "ml_dtypes", "onnx", "onnxruntime", "jaxlib"},
        set(),
    ),
    "fornaxc.diagnosis": (
        {
            "fornaxc",
            "fornaxc.cache",
            "fornaxc.compiler",
            "fornaxc.errors",
            "fornaxc.export",
            "fornaxc.importers",
            "fornaxc.ir",
            "fornaxc.npz",
            "fornaxc.passes",
            "fornaxc.pages",
            "fornaxc.phases",
            "fornaxc.places",
            "fornaxc.signature",
            "fornaxc.sources",
            "fornaxc.targets",
            "fornaxc.verification",
        },
        {"numpy", "onnx"},
        {"fornaxc.qualify.programs", "fornaxc.lowering.support"},
    ),
    "fornaxc.inspection": (
        {
            "fornaxc.artifact",
            "fornaxc.cache",
            "fornaxc.compiler",
            "fornaxc.errors",
            "fornaxc.importers",
            "fornaxc.ir",
            "fornaxc.passes",
            "fornaxc.sources",
            "fornaxc.support",
            "fornaxc.weights",
        },
        {"onnx"},
        {"fornaxc.lowering.support"},
    ),
    "fornaxc.qualify": (
        {
            "fornaxc",
            "fornaxc.cache",
            "fornaxc.errors",
            "fornaxc.importers",
            "fornaxc.ir",
            "fornaxc.lowering",
            "fornaxc.manifest",
            "fornaxc.pages",
            "fornaxc.passes",
            "fornaxc.places",
            "fornaxc.runtime",
            "fornaxc.support",
            "fornaxc.targets",
            "fornaxc.weights",
            "fornaxc.worker",
        },
        {"numpy", "onnx", "max"},
        {f"fornaxc.verification.{name}" for name in ("accuracy", "compare", "double_model", "ort_runs")},
    ),
    "fornaxc.support": ({"fornaxc.errors"}, set(), set()),
    "fornaxc.comparison": (
        {
            "fornaxc.artifact",
            "fornaxc.bench",
            "fornaxc.cache",
            "fornaxc.environment",
            "fornaxc.errors",
            "fornaxc.ir",
            "fornaxc.phases",
            "fornaxc.runner",
            "fornaxc.runtime",
            "fornaxc.signature",
            "fornaxc.verification",
        },
        set(),
        set(),
    ),
    "fornaxc.environment": ({"fornaxc.manifest", "fornaxc.targets"}, set(), set()),
    "fornaxc.pages": (set(), set(), set()),
    "fornaxc.bench": (
        {
            "fornaxc.artifact",
            "fornaxc.cache",
            "fornaxc.endings",
            "fornaxc.environment",
            "fornaxc.errors",
            "fornaxc.export",
            "fornaxc.ir",
            "fornaxc.manifest",
            "fornaxc.pages",
            "fornaxc.phases",
            "fornaxc.runner",
            "fornaxc.runtime",
            "fornaxc.signature",
            "fornaxc.sources",
            "fornaxc.verification",
        },
        {"max", "onnxruntime"},
        set(),
    ),
    "fornaxc.api": (
        {
            "fornaxc.artifact",
            "fornaxc.bench",
            "fornaxc.cache",
            "fornaxc.comparison",
            "fornaxc.compiler",
            "fornaxc.diagnosis",
            "fornaxc.errors",
            "fornaxc.export",
            "fornaxc.inspection",
            "fornaxc.ir",
            "fornaxc.npz",
            "fornaxc.passes",
            "fornaxc.phases",
            "fornaxc.places",
            "fornaxc.qualify",
            "fornaxc.runner",
            "fornaxc.sources",
            "fornaxc.support",
            "fornaxc.targets",
            "fornaxc.verification",
        },
        set(),
        set(),
    ),
    "fornaxc.cli": (
        {"fornaxc", "fornaxc.api", "fornaxc.cache", "fornaxc.errors", "fornaxc.phases", "fornaxc.targets"},
        {"click", "rich", "numpy"},
        set(),
    ),
}


def test_every_room_has_a_rule() -> None:
    assert {room_of(m) for m in MODULES} == set(RULES)


def test_the_table_of_the_architecture_says_the_same() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    documented: dict[str, set[str]] = {}
    for line in text[text.index("| room |") : text.index("## The graph")].splitlines()[2:]:
        if line.startswith("|"):
            rooms, _, allowed = (re.findall(r"`([^`]+)`", column) for column in line.strip("|").split("|"))
            for room in rooms:
                documented.setdefault(room_of(_dotted(room)), set()).update(_dotted(a) for a in allowed)
    wanted = {room: (rooms | exceptions) - {"fornaxc"} for room, (rooms, _, exceptions) in RULES.items()}
    del wanted["fornaxc"], wanted["fornaxc.__main__"]
    assert documented == wanted


def _dotted(path: str) -> str:
    """`fornaxc.kernels.packing` of `fornaxc/kernels/packing.py` and of `kernels/packing.py`."""
    return "fornaxc." + path.removeprefix("fornaxc/").removesuffix(".py").strip("/").replace("/", ".")


@pytest.mark.parametrize("room", sorted(RULES))
def test_rooms_import_what_they_may(room: str) -> None:
    rooms, packages, exceptions = RULES[room]
    assert (ROOT / room.replace(".", "/")).is_dir() or of_room(room), f"{room} is gone"
    wrong = []
    for module in of_room(room):
        for name in imports(module):
            top = name.split(".")[0]
            if top == "fornaxc":
                allowed = name in exceptions or room_of(name) in {room, *rooms}
            else:
                allowed = top in sys.stdlib_module_names or top in packages
            if not allowed:
                wrong.append(f"{module} imports {name}")
    assert wrong == []


def _reached(start: str) -> set[str]:
    """Everything that importing a module runs, third-party packages by their top name."""
    reached: set[str] = set()
    pending = [start]
    while pending:
        name = pending.pop()
        if name in reached:
            continue
        reached.add(name)
        if name in MODULES:
            pending += imports(name, at_start_only=True)
            pending += [name.rpartition(".")[0]] if "." in name else []
        elif "." in name:
            pending.append(name.split(".")[0])
    return reached


@pytest.mark.parametrize(
    ("start", "forbidden"),
    [
        ("fornaxc", HEAVY),
        ("fornaxc.cli.main", HEAVY),
        ("fornaxc.cli.compile", HEAVY),
        ("fornaxc.api", HEAVY),
        ("fornaxc.compiler", HEAVY),
        ("fornaxc.cache.maintenance", HEAVY),
        ("fornaxc.cache.archive", HEAVY),
        ("fornaxc.targets", HEAVY),
        ("fornaxc.artifact", HEAVY),
        ("fornaxc.runtime", {"onnx", "onnxruntime", "jaxlib", "rich", "fornaxc.importers", "fornaxc.lowering"}),
        ("fornaxc.runner", {"onnx", "onnxruntime", "jaxlib", "rich", "fornaxc.importers", "fornaxc.lowering"}),
    ],
)
def test_what_a_start_does_not_import(start: str, forbidden: set[str]) -> None:
    assert _reached(start) & forbidden == set()


def test_the_command_starts_without_heavy_packages() -> None:
    script = (
        "import sys; from fornaxc.cli.main import run; code = run(['--help']); "
        "import fornaxc.api, fornaxc.compiler, fornaxc.cli.compile; "
        f"sys.stderr.write(' '.join(set({sorted(HEAVY)}) & sys.modules.keys())); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: fornaxc" in done.stdout


def test_running_an_artifact_needs_neither_onnx_nor_onnxruntime() -> None:
    script = (
        "import sys; sys.modules.update(onnx=None, onnxruntime=None, jaxlib=None); "
        "import fornaxc.runtime, fornaxc.runner, fornaxc.cli.run; from fornaxc import api, load"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, "")


NATIVE_INFERENCE = {
    "shape_inference",
    "infer_shapes",
    "infer_shapes_path",
    "infer_node_outputs",
    "infer_function_output_types",
    "version_converter",
    "full_check",
    "extract_model",
}
"""What runs onnx's shape inference, by module, function or argument."""


def names(module: str) -> Iterator[str]:
    """Every name that the code of a module spells; what is in strings is none."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        match node:
            case (
                ast.Name(id=str(name))
                | ast.Attribute(attr=str(name))
                | ast.keyword(arg=str(name))
                | ast.alias(name=str(name))
                | ast.ImportFrom(module=str(name))
            ):
                yield from name.split(".")


def test_nothing_runs_native_shape_inference() -> None:
    """It is C++ and takes a model's word: where it crashes, the process is gone, and nobody is left to say why."""
    found = {module: NATIVE_INFERENCE.intersection(names(module)) for module in MODULES}
    assert {module: sorted(spelled) for module, spelled in found.items() if spelled} == {}


@pytest.mark.parametrize("inputs", ["float x, float[2, 3] z", "float[2, 3] x, float z"])
def test_a_model_that_native_shape_inference_cannot_take_imports(inputs: str) -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> '
        f'f ({inputs}) => (float[2, 3] y) {{ y = Einsum<equation="...,...->...">(x, z) }}'
    )
    script = (
        "import onnx.parser; from fornaxc.importers.onnx.importer import import_model; "
        "from fornaxc.importers.onnx.reader import model_from_proto; "
        f"graph = import_model(model_from_proto(onnx.parser.parse_model({text!r})), {{}}); "
        "print(graph.outputs[0].type)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "f32[2, 3]\n", "")
