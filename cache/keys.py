"""Keys: the sha256 of the canonical JSON of named parts, and what makes two of them differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

ABSENT: Final = "(absent)"


@dataclass(frozen=True, slots=True)
class Difference:
    """One part that two keys do not share. `path` is dotted, `[i]` for list items; `ABSENT` where a side lacks it."""

    path: str
    old: Any
    new: Any


def canonical_json(value: Any) -> bytes:
    """The one spelling of `value`: sorted keys, no spaces, ASCII only.

    Accepts None, bool, int, str, lists, tuples and mappings with str keys. Anything else, floats among them (they have
    more than one spelling: pass `float.hex()`), raises TypeError.
    """
    return json.dumps(_plain(value, "parts"), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def key_of(parts: Mapping[str, Any]) -> str:
    """The key of `parts`: 64 lower-case hexadecimal digits."""
    return hashlib.sha256(canonical_json(parts)).hexdigest()


def explain(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """The parts that differ, sorted by name; empty exactly if the two keys are equal."""
    return list(_differences("", _plain(old, "old"), _plain(new, "new")))


def _plain(value: Any, path: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"{path}: a name in a key must be a string, not {name!r}")
        return {str.__str__(name): _plain(item, f"{path}.{name}") for name, item in value.items()}
    raise TypeError(f"{path}: a {type(value).__name__} has no canonical spelling in a key")


def _differences(path: str, old: Any, new: Any) -> list[Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        result: list[Difference] = []
        for name in sorted(old.keys() | new.keys()):
            inner = f"{path}.{name}" if path else name
            if name in old and name in new:
                result += _differences(inner, old[name], new[name])
            else:
                result.append(Difference(inner, old.get(name, ABSENT), new.get(name, ABSENT)))
        return result
    if isinstance(old, list) and isinstance(new, list):
        shared = min(len(old), len(new))
        result = [d for i in range(shared) for d in _differences(f"{path}[{i}]", old[i], new[i])]
        result += [Difference(f"{path}[{i}]", old[i], ABSENT) for i in range(shared, len(old))]
        result += [Difference(f"{path}[{i}]", ABSENT, new[i]) for i in range(shared, len(new))]
        return result
    return [] if canonical_json(old) == canonical_json(new) else [Difference(path, old, new)]
