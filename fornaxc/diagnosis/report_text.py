"""The text of a report about a reduced case, ready to be sent: no name and, where it says so, no number of the user's model."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fornaxc import __version__
from fornaxc.diagnosis.reduce import Reduced
from fornaxc.ir.printer import print_graph


def options_text(
    target: str,
    optimization: int,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float | None = None,
) -> str:
    """The options of the command line that are not the default ones, each after a space."""
    options = {
        "--target": None if target == "cpu" else target,
        "-O": None if optimization == 1 else optimization,
        "--rtol": rtol,
        "--atol": atol,
        "--timeout": None if timeout is None else f"{timeout:.12g}",
    }
    return "".join(f" {name} {value}" for name, value in options.items() if value is not None)


def report_text(
    reduced: Reduced,
    check: str,
    device: str,
    model: Path,
    reproduced: bool,
    options: str = "",
    stopped_after: float | None = None,
) -> str:
    """Markdown: how to see the failure, the program, its inputs, the versions, and which numbers the files hold.

    `options` are those of the command line with which the failure is seen (`options_text`); `stopped_after` so many seconds was a command of the
    user's that takes too long."""
    case = reduced.case
    commands = {
        "verify": f"fornaxc verify {model.name} --inputs {model.with_suffix('.npz').name}{options}",
        "compile": f"fornaxc compile {model.name}{options}",
    }
    inputs = "\n".join(
        f"- `{name}`: {array.dtype} {list(array.shape)}"
        for name, array in zip(case.graph.input_names, case.inputs, strict=True)
    )
    own = "a command of the reporter's own" + (
        "" if stopped_after is None else f", stopped after {stopped_after:.12g} s"
    )
    shown = check if check in commands else own
    return f"""# {reduced.signature[:1].upper()}{reduced.signature[1:]}

A program of {reduced.nodes} node{"s" if reduced.nodes != 1 else ""}, reduced from one of {reduced.nodes_before}, fails {shown}{f" on {device}" if check in commands else ""}.

    {commands.get(check, f"COMMAND {model.name}")}

{"The file by itself fails in this way." if reproduced else "The file by itself was not seen to fail: importing it may give another program."}

## Program

```
{print_graph(case.graph).rstrip()}
```

## Inputs

{inputs or "none"}

{_numbers(reduced)}

## Versions

{_versions()}
"""


def _numbers(reduced: Reduced) -> str:
    kept = [what for what, own in (("weights", reduced.own_weights), ("inputs", reduced.own_inputs)) if own]
    if not kept:
        return (
            "Weights and inputs are seeded random numbers, integers in the range of the model's; short literals of the program and the attributes of "
            "operations are as they were. No name of the original model is in the files."
        )
    return (
        f"**The {' and '.join(kept)} are the original model's, or computed from them**, as the failure was not seen with seeded ones. No name of the "
        "original model is in the files."
    )


def _versions() -> str:
    found = {
        "fornaxc": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    for name in ("max", "numpy", "onnx", "onnxruntime"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return "\n".join(f"- {name} {number}" for name, number in found.items())
