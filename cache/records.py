"""Small JSON documents on disk that know when they are damaged: each carries its name and a checksum."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any, Final

from fornaxc.cache.files import replacing, write_all

log: Final = logging.getLogger("fornaxc.cache")

Document = dict[str, Any]


def read_record(path: Path, name: str) -> Document | None:
    """The document at `path`; None if there is none, or, with a warning, if it is damaged or is not that of `name`."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("%s cannot be read and is ignored: %s", path, error.strerror or error)
        return None
    try:
        record = json.loads(raw)
        document = record["document"]
        intact = isinstance(document, dict) and record["sha256"] == _checksum(name, document)
    except (ValueError, TypeError, KeyError, RecursionError):
        intact = False
    if not intact:
        log.warning("%s is damaged and is ignored", path)
        return None
    result: Document = document
    return result


def write_record(path: Path, name: str, document: Document, temporary_folder: Path, *, durable: bool = True) -> None:
    """Replace the document at `path` in one step. Raises OSError, and TypeError or ValueError for what JSON cannot say."""
    record = {"document": document, "sha256": _checksum(name, document)}
    raw = json.dumps(record, sort_keys=True, indent=1, allow_nan=False).encode("ascii") + b"\n"
    os.makedirs(path.parent, exist_ok=True)
    os.makedirs(temporary_folder, exist_ok=True)
    with replacing(path, temporary_folder, durable=durable) as fd:
        write_all(fd, raw)


def _checksum(name: str, document: Document) -> str:
    spelled = json.dumps([name, document], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(spelled.encode("ascii")).hexdigest()
