"""A verification as JUnit XML, which CI servers show test by test."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as xml

from fornaxc.errors import FornaxError

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 cannot hold


def verify_junit(document: Mapping[str, Any], model: str) -> str:
    """A test case an output, sample and oracle, and one for the target itself, which is skipped where the verdict is unproven.

    Where the verdict is fail though no output failed (nothing was compared), the case of the target fails.
    """
    suite = _suite(model, document)
    outputs = document["outputs"]
    for output in outputs:
        asked = output["oracle"] or document["oracle"]
        case = _case(suite, model, " ".join(part for part in (output["name"], output["sample"], f"({asked})") if part))
        if output["verdict"] == "fail":
            failure = xml.SubElement(
                case, "failure", message=_clean(output["reason"]), type=output.get("rule") or "mismatch"
            )
            failure.text = _clean(_detail(output))
        elif output["verdict"] != "pass":
            xml.SubElement(case, "skipped", message=_clean(output["reason"]))
    target = _case(suite, model, f"target {document['target']}", sum(document["phases"].values()))
    if document["verdict"] == "unproven":
        xml.SubElement(target, "skipped", message=_clean("unproven: " + "; ".join(document["notes"])))
    elif document["verdict"] == "fail" and not any(o["verdict"] == "fail" for o in outputs):
        xml.SubElement(target, "failure", message="no output was compared", type="presence")
    if document["notes"]:
        xml.SubElement(suite, "system-out").text = _clean("\n".join(document["notes"]))
    return _whole(suite)


def error_junit(error: BaseException, model: str) -> str:
    """The one test case of a verification that an error ended, or an interruption or a defect."""
    suite = _suite(model, None)
    code, lines = _told(error)
    found = xml.SubElement(_case(suite, model, "verify"), "error", message=_clean(lines[0]), type=code)
    found.text = _clean("\n".join(lines))
    return _whole(suite)


def _told(error: BaseException) -> tuple[str, list[str]]:
    """The code of an error and what it says, a line each; of what has no code, the name of its class."""
    if isinstance(error, FornaxError):
        details = [", ".join(f"{name} {value}" for name, value in detail.items()) for detail in error.details]
        return error.code, [error.message, *details, *([f"hint: {error.hint}"] if error.hint else [])]
    kind = type(error).__name__
    if isinstance(error, KeyboardInterrupt):
        return kind, ["the verification was interrupted"]
    return kind, [f"internal error: {kind}: {error}"]


def _suite(model: str, document: Mapping[str, Any] | None) -> xml.Element:
    suite = xml.Element("testsuite", name=_clean(f"fornaxc verify {model}"))
    if document is not None:
        properties = xml.SubElement(suite, "properties")
        facts = {name: document[name] for name in ("verdict", "target", "executed_on", "oracle", "key", "seed")}
        for name, value in {**facts, **document["environment"].get("versions", {})}.items():
            xml.SubElement(properties, "property", name=name, value=_clean(str(value)))
        suite.set("timestamp", _clean(str(document["environment"].get("when", "")).removesuffix("Z")))
    return suite


def _case(suite: xml.Element, model: str, name: str, seconds: float = 0.0) -> xml.Element:
    return xml.SubElement(suite, "testcase", classname=_clean(model), name=_clean(name), time=f"{seconds:.3f}")


def _detail(output: Mapping[str, Any]) -> str:
    shown = (
        "dtype",
        "shape",
        "max_abs",
        "max_rel",
        "max_ulp",
        "tolerance",
        "worst_index",
        "worst_value",
        "worst_reference",
    )
    return "\n".join([output["reason"], *(f"{name}: {output[name]}" for name in shown if output[name] is not None)])


def _whole(suite: xml.Element) -> str:
    cases = suite.findall("testcase")
    counts = {
        "tests": len(cases),
        **{f"{kind}s": sum(c.find(kind) is not None for c in cases) for kind in ("failure", "error")},
        "skipped": sum(c.find("skipped") is not None for c in cases),
        "time": f"{sum(float(c.get('time', 0)) for c in cases):.3f}",
    }
    for name, value in counts.items():
        suite.set(name, str(value))
    suites = xml.Element("testsuites")
    suites.append(suite)
    return xml.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _clean(words: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", words)
