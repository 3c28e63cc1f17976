"""From a model file to an artifact in the cache."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fornaxc.cache import Cache, Descriptor, StoredArtifact, key_of, media
from fornaxc.errors import ArtifactError, ModelError, ToolchainError, UnsupportedError, UsageError
from fornaxc.manifest import oci_manifest, sources_digest, toolchain_versions
from fornaxc.phases import PHASES, Clock, Progress, silent
from fornaxc.sources import WHOLE, Choice, import_source
from fornaxc.targets import Target

if TYPE_CHECKING:
    from fornaxc.ir.graph import Graph

SCHEMA = 1  # of the keys; raise it when their parts change meaning


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a compilation, apart from the model."""

    target: Target
    dims: Mapping[str, int] = field(default_factory=dict)
    host_fallback: bool = True
    disabled_passes: Sequence[str] = ()
    timeout: float | None = None
    stop_after: str | None = None
    dump: Path | None = None
    optimization: int = 1
    choice: Choice = WHOLE

    def options(self) -> dict[str, Any]:
        """The options that change the compiled program: on a CPU all levels of optimization are one."""
        return {
            "host_fallback": self.host_fallback,
            "disabled_passes": sorted(self.disabled_passes),
            "optimization": 1 if self.target.device == "cpu" else self.optimization,
        }


@dataclass(frozen=True, slots=True)
class Compiled:
    """An artifact in the cache (None after `stop_after`), whether it was there before, and its keys.

    `key` is that of the compiled code, `request_key` that of the model and what was asked; "" where they are not known yet.
    `code_hit` says that the compiled code was in the cache, with the artifact or without.
    """

    stored: StoredArtifact | None
    hit: bool
    key: str
    seconds: dict[str, float]
    request_key: str = ""
    code_hit: bool = False

    @property
    def artifact(self) -> StoredArtifact:
        """The stored artifact; there is none after `stop_after`."""
        if self.stored is None:
            raise ValueError("the compilation stopped before there was an artifact")
        return self.stored

    @property
    def path(self) -> Path:
        """The manifest's file in the cache: an artifact in itself, its blobs beside it."""
        blob = next(iter(self.artifact.paths.values()))
        return blob.parent / self.artifact.descriptor.digest.removeprefix("sha256:")

    @property
    def config(self) -> dict[str, Any]:
        """The config document of the artifact."""
        return self.artifact.config


def compile_model(path: Path, request: Request, cache: Cache, progress: Progress = silent) -> Compiled:
    """The artifact of a model for a target: from the cache, or compiled into it."""
    clock = Clock(progress)
    source = source_facts(path, cache)
    request_key = key_of(_request_parts(source, request, cache)) if source is not None else None
    if request_key is not None and not request.stop_after and not request.dump:
        found = _cached(cache, request_key, request)
        if found is not None:
            return Compiled(found, True, found.config["key"], clock.seconds, request_key, True)
    request.target.check_compilable()
    if request.stop_after in _WITHOUT_MAX:
        return _build(*_import(path, request, cache, clock), path, request, cache, clock)
    from fornaxc.lowering.kernel_package import kernels_ahead

    with kernels_ahead(cache.toolchain_environment()):
        return _compile_model(path, request, request_key, cache, clock)


_WITHOUT_MAX = ("import", "optimize")  # phases


def _compile_model(path: Path, request: Request, request_key: str | None, cache: Cache, clock: Clock) -> Compiled:
    if request.stop_after or request.dump:
        return _build(*_import(path, request, cache, clock), path, request, cache, clock)
    imported = None
    if request_key is None:
        imported = _import(path, request, cache, clock)
        _remember_source(cache, imported[1])
        request_key = key_of(_request_parts(imported[1], request, cache))
    with cache.lock(request_key, on_wait=lambda who: clock.progress("compile", _waiting(who))):
        found = _cached(cache, request_key, request)
        if found is not None:
            return Compiled(found, True, found.config["key"], clock.seconds, request_key, True)
        graph, facts = imported or _import(path, request, cache, clock)
        return _build(graph, facts, path, request, cache, clock)


def _waiting(who: str) -> str:
    return f"{who} is compiling the same thing; waiting for it"


def _cached(cache: Cache, request_key: str, request: Request) -> StoredArtifact | None:
    found = cache.lookup(request_key)
    if found is not None and not request.host_fallback:
        return found if not found.config["host_nodes"] else None
    return found


def source_facts(path: Path, cache: Cache) -> dict[str, Any] | None:
    """The digests of a model file and of its external data; None where the file was never imported.

    Which files hold external data is remembered by the digest of the model file.
    """
    if not path.is_file():
        return None
    digest = cache.digests.of_file(path)
    facts = cache.actions.get("source", digest)
    if facts is None:
        return None
    external = {}
    for name in facts["external"]:
        part = path.parent / name
        if not part.is_file():
            return None
        external[name] = cache.digests.of_file(part)
    return {"format": facts["format"], "digest": digest, "external": external}


def _request_parts(source: Mapping[str, Any], request: Request, cache: Cache) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "source": source,
        **request.choice.key_parts(cache.digests.of_file),
        "dims": dict(request.dims),
        "target": request.target.key_parts(),
        "options": request.options(),
        "toolchain": toolchain_versions("onnx", "numpy", "ml_dtypes"),
        "sources": sources_digest(),
    }


def code_key_parts(graph_digest: str, request: Request) -> dict[str, Any]:
    """The named parts of the key of a compiled program."""
    return {
        "schema": SCHEMA,
        "graph": graph_digest,
        "target": request.target.key_parts(),
        "options": request.options(),
        "toolchain": toolchain_versions(),
        "sources": sources_digest("ir", "passes", "lowering", "kernels", "worker.py"),
    }


def _import(path: Path, request: Request, cache: Cache, clock: Clock) -> tuple[Graph, dict[str, Any]]:
    """The graph of a model file, and the digests of what it was read from."""
    with clock.phase("import"):
        return import_source(path, request.dims, cache.digests.of_file, request.choice)


def _build(graph: Graph, facts: dict[str, Any], path: Path, request: Request, cache: Cache, clock: Clock) -> Compiled:
    from fornaxc.ir.printer import print_graph
    from fornaxc.ir.serialize import graph_digest
    from fornaxc.passes.pipeline import optimize

    _dump(request, "import", lambda: print_graph(graph))
    if request.stop_after == "import":
        return Compiled(None, False, "", clock.seconds)
    with clock.phase("optimize"):
        optimized = optimize(graph, request.target.device, request.disabled_passes, request.optimization)
        _dump(request, "optimize", lambda: print_graph(optimized))
        digest = graph_digest(optimized)
    parts = code_key_parts(digest, request)
    key = key_of(parts)
    if request.stop_after == "optimize":
        return Compiled(None, False, key, clock.seconds)
    return _finish(path, request, cache, clock, optimized, facts, digest, parts)


def _finish(
    path: Path,
    request: Request,
    cache: Cache,
    clock: Clock,
    graph: Graph,
    facts: dict[str, Any],
    digest: str,
    parts: dict[str, Any],
) -> Compiled:
    from fornaxc.ir.checker import check
    from fornaxc.ir.serialize import graph_to_json
    from fornaxc.manifest import artifact_config
    from fornaxc.passes.prepack import prepack
    from fornaxc.weights import weight_constants, write_weights

    program = prepack(graph)
    check(program)
    refuse_unsupported(program, request.target)
    key, asked = key_of(parts), _request_parts(facts, request, cache)
    document = json.dumps(graph_to_json(program), separators=(",", ":")).encode()
    with cache.lock(f"code-{key}", on_wait=lambda who: clock.progress("compile", _waiting(who))):
        code = None if request.stop_after or request.dump else _cached_code(cache, key)
        code_hit = code is not None
        if code is None:
            code = _compile(request, cache, clock, key, document)
    if code is None:
        return Compiled(None, False, key, clock.seconds)
    _refuse_host_nodes(code[1], request)
    with clock.phase("package"):
        layers = [code[0]]
        weights = weight_constants(program)
        if weights:
            with cache.store.temporary() as temporary:
                with temporary.open("wb") as file:
                    write_weights(file, weights)
                layers.append(cache.store.put_file(temporary, media.WEIGHTS, move=True))
        layers.append(cache.store.put_bytes(document, media.IR))
        config = artifact_config(
            program,
            key=key,
            key_parts=parts,
            request=asked,
            source=facts,
            ir_digest=digest,
            target=request.target.record(),
            options=request.options(),
            host_nodes=code[1],
            weight_types=[w.type for w in weights],
        )
        text = json.dumps(config, sort_keys=True, separators=(",", ":")).encode()
        described = cache.store.put_bytes(text, media.CONFIG)
        stored = cache.publish(key_of(asked), oci_manifest(described, layers, request.target.label, path.name))
        _remember_source(cache, facts)
        _dump(request, "package", lambda: json.dumps(config, sort_keys=True, indent=1))
    return Compiled(stored, False, key, clock.seconds, key_of(asked), code_hit)


def admit(path: Path, cache: Cache) -> Compiled:
    """Put a `.fxa` file into the cache, every byte proven, so that what it answers is a hit here too.

    Raises ArtifactError for a damaged file, CacheError where the cache cannot be written.
    """
    from fornaxc.artifact import open_artifact
    from fornaxc.cache.archive import import_archive
    from fornaxc.cache.evidence import remember

    artifact = open_artifact(path, cache)
    if artifact.cache is not None:
        raise UsageError(f"{path} lies in a cache", code="FX229", hint="`fornaxc cache export` makes a .fxa file of it")
    config, asked = artifact.config, artifact.config["request"]
    try:
        whole = key_of(config["key_parts"]) == config["key"] and asked["source"] == config["source"]
        request_key = key_of(asked)
    except (KeyError, TypeError):
        whole = False
    if not whole:
        raise ArtifactError(f"{path} is damaged: its keys are not those of their parts", code="FX451")
    descriptor = import_archive(cache.store, path)
    cache.attach(request_key, descriptor)
    mef = artifact.layer(media.MEF)
    cache.actions.put("code", config["key"], {"mef": mef.to_json(), "host_nodes": config["host_nodes"]})
    _remember_source(cache, config["source"])
    if artifact.verified:
        remember(cache, descriptor.digest, artifact.verified)
    return Compiled(cache.artifact(descriptor), False, config["key"], {}, request_key, True)


def _remember_source(cache: Cache, facts: Mapping[str, Any]) -> None:
    """Keep which files hold the external data of a model, so that the next request need not open it."""
    cache.actions.put("source", facts["digest"], {"format": facts["format"], "external": sorted(facts["external"])})


def _cached_code(cache: Cache, key: str) -> tuple[Descriptor, list[dict[str, Any]]] | None:
    found = cache.actions.get("code", key)
    if found is None:
        return None
    descriptor = Descriptor.from_json(found["mef"])
    return (descriptor, found["host_nodes"]) if cache.store.find(descriptor) is not None else None


def _compile(
    request: Request, cache: Cache, clock: Clock, key: str, document: bytes
) -> tuple[Descriptor, list[dict[str, Any]]] | None:
    """The compiled program and what of it runs on the host; None where the request stops before there is one."""
    from fornaxc.child import compile_in_child

    with cache.store.temporary() as mef, TemporaryDirectory(prefix="fornaxc-") as name:
        folder = Path(name)
        (folder / "graph.json").write_bytes(document)
        dump = request.dump / "lower.mlir" if request.dump else None
        job = {
            "graph": str(folder / "graph.json"),
            **request.target.worker_job(),
            "optimization": request.optimization,
            "mef": str(mef),
            "dump": str(dump) if dump else "",
            "stop_after": request.stop_after or "",
        }
        result = compile_in_child(
            job,
            folder,
            log=cache.root / "logs" / f"{key}.log",
            environment=cache.toolchain_environment(),
            timeout=request.timeout,
            progress=clock.progress,
        )
        clock.seconds.update(result["seconds"])
        host_nodes = result["host_nodes"]
        if request.stop_after in ("lower", "compile"):
            return None
        if mef.stat().st_size == 0:
            raise ToolchainError("MAX wrote an empty program", code="FX504")
        descriptor = cache.store.put_file(mef, media.MEF, move=True)
    cache.actions.put("code", key, {"mef": descriptor.to_json(), "host_nodes": host_nodes})
    return descriptor, host_nodes


def refuse_unsupported(program: Graph, target: Target) -> None:
    """Raise UnsupportedError that lists every node that cannot be lowered for the target."""
    from fornaxc.lowering.support import unsupported

    refused = unsupported(program, target.device)
    if refused:
        raise UnsupportedError(
            f"{len(refused)} node{'s' if len(refused) > 1 else ''} cannot be compiled for {target.label}",
            code="FX304",
            details=refused,
            hint="`fornaxc inspect MODEL` shows what is supported",
        )


def _refuse_host_nodes(host_nodes: Sequence[Mapping[str, Any]], request: Request) -> None:
    if host_nodes and not request.host_fallback:
        raise UnsupportedError(
            f"{len(host_nodes)} node(s) would run on the host of {request.target.label}",
            code="FX305",
            details=[dict(n) for n in host_nodes],
            hint="compile without --no-host-fallback to allow it",
        )


def _dump(request: Request, phase: str, text: Any) -> None:
    if request.dump is None:
        return
    name = next(p.dumps for p in PHASES if p.name == phase)
    try:
        request.dump.mkdir(parents=True, exist_ok=True)
        (request.dump / name).write_text(text())
    except OSError as error:
        raise UsageError(f"cannot write to {request.dump}: {error.strerror}", code="FX212") from error


def timestamp() -> str:
    """The time now, UTC, ISO 8601, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def model_path(model: str | Path) -> Path:
    """An existing ordinary file; nothing else is opened, since a pipe may never answer. ModelError otherwise."""
    path = Path(model)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        broken = path.is_symlink()
        what = "is a link to a file that does not exist" if broken else "does not exist"
        raise ModelError(f"{path} {what}", code="FX401", hint="check the path") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelError(f"{path} cannot be read: {reason}", code="FX404", hint="check the path") from None
    if stat.S_ISDIR(mode):
        raise ModelError(f"{path} is a folder, not a file", code="FX402", hint="give the file inside it")
    if not stat.S_ISREG(mode):
        raise ModelError(f"{path} is not an ordinary file", code="FX402", hint="give the name of a file")
    return path
