"""What reports on several labels have in common: a headline on the mean loss, and the forms of the page."""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from calibrant.persistence.replacing import returned_and_written
from calibrant.presentation.document import Document
from calibrant.presentation.html import as_html, page
from calibrant.presentation.markdown import as_markdown
from calibrant.presentation.markup import element
from calibrant.presentation.plain_data import as_json, to_plain
from calibrant.presentation.text import as_text
from calibrant.presentation.values import decimals
from calibrant.report.contents import Estimate
from calibrant.report.document import framed, opened_page

__all__ = ["SeveralAssessment", "mean_estimate"]


@dataclass(frozen=True)
class SeveralAssessment(ABC):
    """Assessment of several labels of the same rows, before and after calibration on held-out rows."""

    loss: ClassVar[str]
    """Name of the mean loss in the headline."""

    title: str
    n_rows: int
    n_labels: int
    method: str
    difference: Estimate

    @property
    def headline(self) -> str:
        """One sentence: whether calibration helps."""
        words = {
            "better": f"Calibrate: {self.method} lowers the {self.loss}",
            "worse": f"Do not calibrate by {self.method}: the {self.loss} rises",
        }
        start = words.get(
            self.difference.direction, f"These rows do not show that {self.method} changes the {self.loss}"
        )
        value = decimals(self.difference.value, signed=True)
        return f"{start} ({value}, {self.difference.interval(signed=True).text()})."

    @abstractmethod
    def document(self) -> Document:
        """Return the report as a document."""

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as one self-contained HTML page, and write it to ``path`` if given."""
        document = self.document()
        main = element("main", element("h1", self.title), *map(as_html, document.sections), id="main")
        return returned_and_written(page(self.title, element("body", main)), path)

    def to_markdown(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as Markdown, and write it to ``path`` if given."""
        return returned_and_written(as_markdown(self.document()), path)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return everything as strict JSON, and write it to ``path`` if given."""
        return returned_and_written(as_json(to_plain(self)), path)

    def open(self) -> Path:
        """Write the page to a temporary file, open it in the browser, and return its path."""
        return opened_page(self.to_html())

    def __str__(self) -> str:
        return as_text(self.document())

    def _repr_html_(self) -> str:
        return framed(self.to_html(), self.title)


def mean_estimate(name: str, value: float, terms: NDArray[np.floating], level: float) -> Estimate:
    """Return a mean whose influences of independent rows are given, with a normal interval."""
    n = len(terms)
    if n < 2 or not np.isfinite(value) or not np.isfinite(terms).all():
        return Estimate(name, value, level=level)
    margin = float(-ndtri((1 - level) / 2) * np.sqrt(n / (n - 1) * float(terms @ terms)))
    return Estimate(name, value, value - margin, value + margin, level, f"{name}; rows are independent")
