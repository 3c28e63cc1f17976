"""Known gaps: exact case ids with phase and reason. What is found must be what is listed, in both directions."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from fornaxc.errors import UsageError
from fornaxc.qualify.cases import Result

_HEAD = """# Cases that do not pass, with the phase that they end in and why. Written by
# `fornaxc qualify SUITE --target {target} --update-gaps {file}`.
"""
Gap = dict[str, str]
_GOOD = ("pass", "compiled")


def read_gaps(path: Path) -> dict[str, dict[str, Gap]]:
    """Sections (see `section_of`) to case ids to {"phase", "reason"}. UsageError for a file that is none."""
    try:
        return {name: dict(cases) for name, cases in tomllib.loads(path.read_text()).items()}
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", code="FX242", hint="--update-gaps writes it") from None
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path} is not a list of gaps: {error}", code="FX242") from None


def section_of(suite: str, inputs: str) -> str:
    """The table of a suite in the file: its name, and how its inputs are posed."""
    return f"{suite} {inputs}"


def check_gaps(path: Path, suite: str, inputs: str, results: Sequence[Result], whole: bool) -> list[str]:
    """How the results differ from what is listed, a sentence each; `whole` says that every case of the suite ran."""
    listed = read_gaps(path).get(section_of(suite, inputs), {})
    found = []
    for result in results:
        gap = listed.get(result.id)
        if result.verdict in _GOOD:
            found += [f"{result.id}: listed as a gap, but it is a {result.verdict}"] if gap is not None else []
        elif gap is None:
            found.append(f"{result.id}: {result.verdict} in {result.phase}, which is not listed: {result.reason}")
        elif (gap.get("phase"), gap.get("reason")) != (result.phase, _one_line(result.reason)):
            now = f"{result.phase}: {_one_line(result.reason)}"
            found.append(f"{result.id}: listed as {gap.get('phase')}: {gap.get('reason')}; found {now}")
    ran = {r.id for r in results}
    return found + (
        [f"{name}: listed as a gap, but there is no such case" for name in listed if name not in ran] if whole else []
    )


def update_gaps(path: Path, target: str, suite: str, inputs: str, results: Sequence[Result], whole: bool) -> None:
    """Make the file list what was found; other suites, and without `whole` the cases that did not run, stay as they are."""
    sections = read_gaps(path) if path.exists() else {}
    ran = {r.id for r in results}
    listed = {} if whole else sections.get(section_of(suite, inputs), {})
    kept = {n: g for n, g in listed.items() if n not in ran}
    new = {r.id: {"phase": r.phase, "reason": _one_line(r.reason)} for r in results if r.verdict not in _GOOD}
    sections[section_of(suite, inputs)] = {**kept, **new}
    text = _HEAD.format(target=target, file=path.name)
    for section in sorted(sections):
        text += f"\n[{json.dumps(section)}]\n"
        for name, gap in sorted(sections[section].items()):
            fields = ", ".join(f"{k} = {json.dumps(gap[k], ensure_ascii=False)}" for k in ("phase", "reason"))
            text += f"{json.dumps(name)} = {{ {fields} }}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _one_line(reason: str) -> str:
    """A reason as the file has it: one line, without what differs from run to run."""
    text = " ".join(reason.split())[:300]
    text = re.sub(r"\bg?[0-9a-f]{32}\w*", "…", text)
    return re.sub(r"0x[0-9a-f]+", "…", text)
