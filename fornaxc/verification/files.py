"""The files that a verification leaves: a page for people, JUnit XML for CI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fornaxc.cache.files import place_for_a_file, write_whole
from fornaxc.errors import FornaxError
from fornaxc.verification.junit import error_junit, verify_junit
from fornaxc.verification.page import verify_page
from fornaxc.verification.report import Report


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """What to write of a verification of the model of this name; None where it is not wanted."""

    model: str
    html: Path | None
    junit: Path | None

    def check(self) -> None:
        """Raise UsageError where one can be no file: before minutes of work, not after them."""
        for path in (self.html, self.junit):
            if path is not None:
                place_for_a_file(path)

    def write(self, report: Report) -> None:
        """Write them. Raises CacheError where that fails."""
        document = report.to_json()
        if self.html is not None:
            write_whole(self.html, verify_page(document, self.model).encode())
        if self.junit is not None:
            write_whole(self.junit, verify_junit(document, self.model).encode())

    @contextmanager
    def telling(self) -> Iterator[None]:
        """An error that ends the block is in the JUnit file too, so that CI shows it where it shows failures."""
        try:
            yield
        except FornaxError as error:
            if self.junit is not None:
                write_whole(self.junit, error_junit(error, self.model).encode())
            raise
