"""Which files of external data a model may read.

A location is relative to the folder of the path that the user gave, and must not leave that folder by its text. What
it names may be a link, as model caches make them, if the link leads into that folder or into the folder that holds the
real model file (the path's link target). Everything else is refused: a model must not be able to read other files.
"""

from __future__ import annotations

import ntpath
import os
import posixpath
from pathlib import Path

from fornaxc.errors import ModelError
from fornaxc.importers.onnx.codes import Code, model_error, require_text


class ExternalFolder:
    """Finds and checks the files of external data of one model file."""

    def __init__(self, model_path: Path) -> None:
        self.folder = model_path.parent
        self._allowed = tuple(dict.fromkeys((self.folder.resolve(), model_path.resolve().parent)))
        self._sizes: dict[str, int] = {}

    def relative(self, location: str, tensor: str) -> str:
        """The normalized location. `ModelError` where its text leads out of the folder."""
        require_text(location)
        if not location:
            raise model_error(
                Code.EXTERNAL_INVALID, f"the tensor {tensor!r} has external data but no location", tensor=tensor
            )
        absolute = posixpath.isabs(location) or ntpath.isabs(location) or ntpath.splitdrive(location)[0]
        normal = posixpath.normpath(location)
        if absolute or normal == ".." or normal.startswith("../") or "\0" in location:
            raise self._outside(location, tensor, "")
        return normal

    def find(self, location: str, tensor: str) -> tuple[Path, int]:
        """The file of a location and its size in bytes. `ModelError` where it is missing or outside."""
        relative = self.relative(location, tensor)
        path = self.folder / relative
        if relative not in self._sizes:
            real = path.resolve()
            if not any(real.is_relative_to(folder) for folder in self._allowed):
                raise self._outside(location, tensor, "; it is a link that leads there")
            if not os.path.isfile(real):  # which, unlike Path's, bears a name that no file can have
                what = "is not a file" if os.path.exists(real) else "does not exist"
                raise model_error(
                    Code.EXTERNAL_MISSING,
                    f"the tensor {tensor!r} keeps its data in {location!r}, which {what} in {self.folder}",
                    hint="put the model's data file beside it, under the name that the model uses",
                    tensor=tensor,
                    location=location,
                )
            self._sizes[relative] = os.stat(real).st_size
        return path, self._sizes[relative]

    def _outside(self, location: str, tensor: str, how: str) -> ModelError:
        return model_error(
            Code.EXTERNAL_OUTSIDE,
            f"the tensor {tensor!r} keeps its data in {location!r}, outside the model's folder{how}",
            hint="external data must lie in the model's folder; save the model again with its data beside it",
            tensor=tensor,
            location=location,
        )
