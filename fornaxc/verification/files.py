"""The files that a verification leaves: a page for people, JUnit XML for CI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fornaxc.cache.files import discard, write_whole
from fornaxc.errors import FornaxError
from fornaxc.places import check_places
from fornaxc.verification.junit import error_junit, verify_junit
from fornaxc.verification.page import verify_page
from fornaxc.verification.report import Report


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """What to write of a verification of the model of this name; None where it is not wanted. `growth` is the page of a bisection, which
    others write."""

    model: str
    html: Path | None
    junit: Path | None
    growth: Path | None = None

    def begin(self, models: Iterable[Path | None] = (), given: Iterable[Path | None] = ()) -> None:
        """Remove what an earlier verification left there, which would pass for this one's. Raises UsageError where one can be no file, or is one
        that is read (`fornaxc.places`): before minutes of work, not after them."""
        models, given = list(models), list(given)
        written: list[Path | None] = []
        for path in (self.html, self.junit, self.growth):
            written.append(path)
            check_places(written, models, given)
            if path is not None and _holds_markup(path):
                discard(path.resolve())

    def write(self, report: Report) -> None:
        """Write them. Raises CacheError where that fails."""
        document = report.to_json()
        if self.html is not None:
            write_whole(self.html, verify_page(document, self.model).encode())
        if self.junit is not None:
            write_whole(self.junit, verify_junit(document, self.model).encode())

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Whatever ends the block, a defect and Ctrl-C included, is in the JUnit file too, so that CI shows it where it shows failures."""
        try:
            yield
        except BaseException as error:
            self.tell(error)
            raise

    def tell(self, error: BaseException) -> None:
        """Write the JUnit file of an error. Where that fails, what went wrong first is what the user must hear."""
        if self.junit is not None and (_holds_markup(self.junit) or not self.junit.exists()):
            with suppress(FornaxError):
                write_whole(self.junit, error_junit(error, self.model).encode())


def _holds_markup(path: Path) -> bool:
    """Whether a file may be a report: an option that lacks its value may name a model in its place, which must stay."""
    try:
        with path.open("rb") as file:
            return file.read(1) == b"<"
    except OSError:
        return False
