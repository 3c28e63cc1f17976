"""`fornaxc cache` on a real cache with small artifacts."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli

from fornaxc.cache import Cache, StoredArtifact, key_of, media
from fornaxc.manifest import oci_manifest


def published(cache: Cache, name: str, **parts: Any) -> StoredArtifact:
    """A small artifact whose code key has these parts."""
    config = {"format": 1, "key": key_of(parts), "key_parts": parts, "source": {"digest": f"sha256:{name}"}}
    layer = cache.store.put_bytes(f"code of {parts}".encode(), media.MEF)
    descriptor = cache.store.put_bytes(json.dumps(config).encode(), media.CONFIG)
    return cache.publish(
        key_of({"name": name}), oci_manifest(descriptor, [layer], str(parts["target"]), f"{name}.onnx")
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    cache = Cache.open(tmp_path / "cache")
    published(cache, "one", target="cpu", graph="g1")
    published(cache, "two", target="cpu", graph="g2")
    published(cache, "three", target="cpu", graph="g1")
    return cache


def test_an_empty_cache(cli: Cli, tmp_path: Path) -> None:
    assert cli("cache", "dir").out.strip() == str(tmp_path / "cache" / "v1")
    assert cli("cache", "ls").out == f"0 artifacts, 0 B in {tmp_path / 'cache' / 'v1'}\n"
    assert cli("cache", "check").status == 0
    assert not (tmp_path / "cache").exists()


def test_ls(cli: Cli, cache: Cache) -> None:
    document = cli("cache", "ls", "--json").document
    assert {a["source"] for a in document["artifacts"]} == {"one.onnx", "two.onnx", "three.onnx"}
    assert all(Path(a["path"]).is_file() for a in document["artifacts"])
    told = cli("cache", "ls").out
    assert told.splitlines()[0].split() == ["request", "key", "code", "key", "target", "size", "last", "used", "source"]
    assert "3 artifacts" in told


def test_explain(cli: Cli, cache: Cache) -> None:
    one, two, three = (key_of({"name": name}) for name in ("one", "two", "three"))
    document = cli("cache", "explain", one[:16], two, "--json").document
    assert document["same_code"] is False
    assert {d["part"]: (d["a"], d["b"]) for d in document["differences"]} == {
        "graph": ("g1", "g2"),
        "source.digest": ("sha256:one", "sha256:two"),
    }
    told = cli("cache", "explain", one, three).out
    assert "source.digest" in told
    assert told.endswith("the compiled code is the same\n")
    assert cli("cache", "explain", one, one).out == "nothing differs; the compiled code is the same\n"


def test_keys_that_name_nothing_or_too_much(cli: Cli, cache: Cache) -> None:
    unknown = cli("cache", "explain", "zz", "zz", "--json")
    assert (unknown.status, unknown.document["code"]) == (2, "FX230")
    shared = key_of({"target": "cpu", "graph": "g1"})
    ambiguous = cli("cache", "explain", shared, shared, "--json")
    assert (ambiguous.status, ambiguous.document["message"][:12]) == (2, "2 artifacts ")
    assert {d["source"] for d in ambiguous.document["details"]} == {"one.onnx", "three.onnx"}
    assert "give a request key" in ambiguous.document["hint"]


def test_either_key_names_an_artifact(cli: Cli, cache: Cache, tmp_path: Path) -> None:
    """`compile` and `cache ls` print both; whole or shortened, each is taken."""
    listed = {a["source"]: a for a in cli("cache", "ls", "--json").document["artifacts"]}["two.onnx"]
    assert listed["code_key"] == key_of({"target": "cpu", "graph": "g2"})
    for name in (listed["key"], listed["code_key"], listed["key"][:12], listed["code_key"][:12]):
        assert cli("cache", "export", name, tmp_path / "two.fxa", "--json").document["manifest"] == listed["manifest"]


def test_gc(cli: Cli, cache: Cache) -> None:
    old = time.time() - 7200
    for entry in cache.actions.entries():
        os.utime(entry.path, (old, old))
    planned = cli("cache", "gc", "--max-age", "1h", "--dry-run", "--json").document
    assert (planned["dry_run"], len(planned["removed"])) == (True, 3)
    assert "3 artifacts" in cli("cache", "ls").out
    assert "removed 3 entries" in cli("cache", "gc", "--max-age", "1h").out
    assert "0 artifacts" in cli("cache", "ls").out


def test_check_finds_damage_and_repairs_it(cli: Cli, cache: Cache) -> None:
    assert cli("cache", "check", "--json").document["ok"] is True
    blob = next(iter(cache.store.blobs()))
    blob.chmod(0o644)
    blob.write_bytes(b"x" * blob.stat().st_size)
    found = cli("cache", "check", "--json")
    assert (found.status, found.document["code"]) == (6, "FX610")
    assert str(blob) in {d["path"] for d in found.document["details"]}
    assert cli("cache", "check", "--repair").status == 0
    assert cli("cache", "check").status == 0


def test_export(cli: Cli, cache: Cache, tmp_path: Path) -> None:
    from fornaxc.cache.archive import read_archive

    key = key_of({"name": "two"})
    out = tmp_path / "two.fxa"
    assert cli("cache", "export", key[:10], out, "-q").out == f"{out}\n"
    archive = read_archive(out)
    archive.verify()
    assert archive.manifest()["annotations"][media.SOURCE] == "two.onnx"
    told = cli("cache", "export", key, tmp_path / "nowhere" / "two.fxa", "--json")
    assert (told.status, told.document["exit"]) == (2, 2)


@pytest.mark.parametrize("verb", ["ls", "check", "gc", "dir"])
def test_a_file_in_place_of_the_cache(cli: Cli, tmp_path: Path, verb: str) -> None:
    (tmp_path / "file").write_text("not a cache")
    told = cli("cache", verb, "--cache-dir", tmp_path / "file")
    assert (told.status, "FX603" in told.err) == (6, True)
