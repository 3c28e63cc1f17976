"""What the command line and a Python user both call: a module a job, imported here by their names."""

from fornaxc.api.compiling import compile, import_artifact
from fornaxc.api.diagnosing import bisect, reduce
from fornaxc.api.looking import export, inspect
from fornaxc.api.measuring import bench, compare
from fornaxc.api.qualifying import qualify, support
from fornaxc.api.requests import check_is_model
from fornaxc.api.results import CompileResult, ExportResult, RunResult
from fornaxc.api.running import run
from fornaxc.api.verifying import ORACLES, report_files, verify

__all__ = [
    "ORACLES",
    "CompileResult",
    "ExportResult",
    "RunResult",
    "bench",
    "bisect",
    "check_is_model",
    "compare",
    "compile",
    "export",
    "import_artifact",
    "inspect",
    "qualify",
    "reduce",
    "report_files",
    "run",
    "support",
    "verify",
]
