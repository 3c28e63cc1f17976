"""Opens ONNX files of any size without loading their weights."""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

from fornaxc.errors import ModelError
from fornaxc.importers.onnx.codes import Code, model_error, require_text
from fornaxc.importers.onnx.sniff import HEAD_BYTES, is_stablehlo, looks_like
from fornaxc.importers.onnx.tensors import TensorReader, TensorSource
from fornaxc.importers.onnx.wire import CutShort, Payload, Skeleton, WireError, skeleton

BEFORE_OPSETS = {"": 1}  # what a file without opset_import, which came with IR version 3, means


class OnnxModel:
    """A model file: `proto` is its ModelProto without large payloads, whose tensors `tensor` finds in the file.

    `opsets` maps each imported domain to its version; the domain "ai.onnx" is "".
    """

    def __init__(self, path: Path, proto: ModelProto, marker: str = "", payloads: Sequence[Payload] = ()) -> None:
        self.path = path
        self.proto = proto
        self.ir_version = int(proto.ir_version)
        self.opsets = opset_versions(proto.opset_import, path.name) or dict(BEFORE_OPSETS)
        self._tensors = TensorReader(path, marker, payloads)

    def tensor(self, proto: TensorProto, what: str = "") -> TensorSource:
        """The content of any TensorProto of this model; `what` names it in messages where it has no name.

        `ModelError` where the tensor is invalid or its external data is missing, too short or outside.
        """
        return self._tensors.dense(proto, what)

    def sparse_tensor(self, proto: SparseTensorProto, what: str = "") -> TensorSource:
        """The content of any SparseTensorProto of this model, made dense."""
        return self._tensors.sparse(proto, what)

    def external_files(self) -> list[str]:
        """The files of external data, sorted, relative to the model's folder. `ModelError` where one is not there."""
        found = set()
        for proto in all_tensors(self.proto):
            if proto.data_location == TensorProto.EXTERNAL:
                location = next((e.value for e in proto.external_data if e.key == "location"), "")
                require_text(proto.name)
                self._tensors.external.find(location, proto.name)
                found.add(self._tensors.external.relative(location, proto.name))
        return sorted(found)

    def files(self) -> list[Path]:
        """Every file whose content the model consists of: its own first."""
        return [self.path, *(self.path.parent / name for name in self.external_files())]


def open_model(path: str | os.PathLike[str]) -> OnnxModel:
    """Open a model file. Its size does not matter: payloads stay in the file.

    `ModelError` (`codes.Code`) where the file is missing, is not ONNX, is damaged, has no graph or has a version that
    is unknown.
    """
    path = Path(path)
    _check_file(path)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            head = buffer[:HEAD_BYTES]
            found = _skeleton(path, buffer, head)
    except OSError as error:
        raise model_error(Code.UNREADABLE_FILE, f"{path} cannot be read: {error.strerror}") from error
    if not found.has_graph:
        raise _no_graph(path, head, found.has_training)
    try:
        proto = ModelProto.FromString(found.message)
    except DecodeError as error:
        raise _not_onnx(path, head, Code.DAMAGED, "it is not a valid ModelProto") from error
    _check_model(path, proto, head, found.has_training)
    return OnnxModel(path, proto, found.marker, found.payloads)


def model_from_proto(proto: ModelProto, path: str | os.PathLike[str] = "model.onnx") -> OnnxModel:
    """A model that is in memory; external data is relative to the folder of `path`."""
    path = Path(path)
    if not proto.HasField("graph"):
        raise _no_graph(path, b"", bool(proto.training_info))
    _check_model(path, proto, b"", bool(proto.training_info))
    return OnnxModel(path, proto)


def opset_versions(imports: Sequence[onnx.OperatorSetIdProto], what: str) -> dict[str, int]:
    """The versions of imported domains, checked against what the installed onnx package knows."""
    found: dict[str, int] = {}
    for entry in imports:
        require_text(entry.domain)
        domain, version = plain_domain(entry.domain), int(entry.version)
        if found.setdefault(domain, version) != version:
            message = f"{what} imports two opsets of {domain or 'ai.onnx'}: {found[domain]} and {version}"
            raise model_error(Code.OPSET_UNCLEAR, message, domain=domain or "ai.onnx")
        newest = _newest_opset(domain)
        if newest is not None and version > newest:
            raise model_error(
                Code.OPSET_NEWER,
                f"{what} uses opset {version} of {domain or 'ai.onnx'}; onnx {onnx.__version__} knows opsets up to {newest}",
                hint=f"export the model with opset {newest} or older",
                domain=domain or "ai.onnx",
                opset=version,
                newest=newest,
            )
        if domain == "" and version < 1:
            message = f"{what} uses opset {version} of ai.onnx; opsets begin at 1"
            raise model_error(Code.OPSET_UNCLEAR, message, domain="ai.onnx", opset=version)
    return found


def plain_domain(domain: str) -> str:
    """A domain in its short form: "" for "ai.onnx"."""
    return "" if domain == "ai.onnx" else domain


def all_tensors(proto: ModelProto) -> Iterator[TensorProto]:
    """Every TensorProto of a model: in its graph, its functions and their subgraphs."""
    yield from _graph_tensors(proto.graph)
    for function in proto.functions:
        yield from _attribute_tensors(function.attribute_proto)
        yield from _node_tensors(function.node)


def _graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Sequence[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        if node.attribute:
            yield from _attribute_tensors(node.attribute)


def _attribute_tensors(attributes: Sequence[AttributeProto]) -> Iterator[TensorProto]:
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        sparse = list(attribute.sparse_tensors)
        if attribute.HasField("sparse_tensor"):
            sparse.append(attribute.sparse_tensor)
        for tensor in sparse:
            yield from (tensor.values, tensor.indices)
        if attribute.HasField("g"):
            yield from _graph_tensors(attribute.g)
        for graph in attribute.graphs:
            yield from _graph_tensors(graph)


def _check_file(path: Path) -> None:
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        broken = path.is_symlink()
        message = f"{path} is a link to a file that does not exist" if broken else f"{path} does not exist"
        raise model_error(Code.MISSING_FILE, message, hint="check the path", path=str(path)) from None
    except (OSError, ValueError) as error:
        raise model_error(Code.UNREADABLE_FILE, f"{path} cannot be read: {error}", path=str(path)) from error
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not a regular file"
        inside = sorted(p.name for p in path.glob("*.onnx"))[:3] if path.is_dir() else []
        hint = f"name a file in it: {', '.join(inside)}" if inside else "name an .onnx file"
        raise model_error(Code.NOT_A_FILE, f"{path} is {what}", hint=hint, path=str(path))
    if size == 0:
        raise model_error(Code.EMPTY_FILE, f"{path} is empty", hint="download or export it again", path=str(path))


def _skeleton(path: Path, buffer: mmap.mmap, head: bytes) -> Skeleton:
    """The skeleton; its marker is random, so that no file can hold one."""
    try:
        return skeleton(buffer, f"payload-{secrets.token_hex(16)}")
    except CutShort as error:
        raise _not_onnx(path, head, Code.CUT_SHORT, f"it is cut short: {error}") from error
    except WireError as error:
        raise _not_onnx(path, head, Code.DAMAGED, f"it is damaged: {error}") from error


def _not_onnx(path: Path, head: bytes, code: Code, problem: str) -> ModelError:
    """The error for a file that cannot be read: what it looks like if it is of another kind, else the problem."""
    if is_stablehlo(head):
        return model_error(
            Code.STABLEHLO,
            f"{path} holds StableHLO, not ONNX",
            hint="give the file the ending .mlir or .stablehlo, so that it is read as StableHLO",
            path=str(path),
        )
    label = looks_like(head)
    if label is not None:
        return model_error(Code.OTHER_FORMAT, f"{path} is not an ONNX file; it looks like {label}", path=str(path))
    return model_error(
        code,
        f"{path} cannot be read as ONNX: {problem}",
        hint="the file is incomplete or damaged; download or export it again",
        path=str(path),
    )


def _no_graph(path: Path, head: bytes, has_training: bool) -> ModelError:
    if has_training:
        return _training_only(path)
    return _not_onnx(path, head, Code.NO_GRAPH, "it holds no graph")


def _training_only(path: Path) -> ModelError:
    return model_error(
        Code.TRAINING_ONLY,
        f"{path} holds training graphs only",
        hint="fornaxc compiles inference; export the model for inference",
        path=str(path),
    )


def _check_model(path: Path, proto: ModelProto, head: bytes, has_training: bool) -> None:
    graph = proto.graph
    if not graph.output:
        if has_training:
            raise _training_only(path)
        if not (graph.node or graph.input or graph.initializer):
            raise _not_onnx(path, head, Code.NO_GRAPH, "its graph is empty")
    if proto.ir_version <= 0:
        raise _not_onnx(path, head, Code.NO_IR_VERSION, "it names no IR version")
    if proto.ir_version > onnx.IR_VERSION:
        raise model_error(
            Code.IR_VERSION_NEWER,
            f"{path} has IR version {proto.ir_version}; onnx {onnx.__version__} knows IR versions up to {onnx.IR_VERSION}",
            hint=f"export the model for IR version {onnx.IR_VERSION} or older",
            ir_version=int(proto.ir_version),
            newest=int(onnx.IR_VERSION),
        )
    if not proto.opset_import and proto.ir_version >= 3:
        raise model_error(
            Code.OPSET_UNCLEAR, f"{path} names no opset", hint="the file may be incomplete; export the model again"
        )


def _newest_opset(domain: str) -> int | None:
    """The newest opset of a domain that the onnx package defines; None for other domains."""
    if domain == "":
        return int(onnx.defs.onnx_opset_version())
    if domain == onnx.defs.ONNX_ML_DOMAIN:
        return int(onnx.defs.onnx_ml_opset_version())
    return 1 if domain in (onnx.defs.AI_ONNX_PREVIEW_DOMAIN, onnx.defs.AI_ONNX_PREVIEW_TRAINING_DOMAIN) else None
