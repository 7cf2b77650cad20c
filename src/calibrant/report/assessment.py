"""Assessment: all that a report says about some predictions, and its forms."""

import html
import json
import os
from dataclasses import dataclass
from typing import Any, Self

from calibrant.errors import FileFormatError
from calibrant.report.contents import (
    BinSensitivityNumbers,
    ClassRow,
    CumulativeNumbers,
    Curve,
    DataSummary,
    Decomposition,
    Estimate,
    LearningNumbers,
    Pitfall,
    Recommendation,
    Repeatability,
    ScoreRow,
    TestRow,
    Verdict,
)
from calibrant.report.files import written
from calibrant.report.html.page import html_of
from calibrant.report.markdown import markdown_of
from calibrant.report.plain_data import from_plain, to_plain
from calibrant.report.terminal import text_of

__all__ = ["SCHEMA", "Assessment"]

SCHEMA = 1
"""Version of the fields; a reader refuses a later one."""


@dataclass(frozen=True)
class Assessment:
    """Whether probabilities can be trusted, how sure that is, and what to do.

    Made by :func:`~calibrant.assess`. ``print`` shows the gist within 80 columns, a notebook the whole page.

    Attributes
    ----------
    title : str
    data : DataSummary
    verdict : Verdict
    recommendation : Recommendation
    scores : tuple of ScoreRow
        Proper scores, accuracy, area under the ROC curve, before and after the recommended method, paired.
    decompositions : tuple of Decomposition
        Log-loss and Brier score, before and after.
    errors : tuple of ScoreRow
        Calibration errors before and after: lower bounds of the L1 error, debiased, smooth, binned ones.
    slopes : tuple of Estimate
        Calibration in the large and slope, before calibration.
    tests : tuple of TestRow
        Of the predictions as given.
    classes : tuple of ClassRow
        Worst first.
    curves : tuple of Curve
        Reliability diagrams: of the predicted class (or the second of two) for the predictions as given, the chosen
        method and a few others; then of single classes, worst first, for the first two.
    cumulative : tuple of CumulativeNumbers
    bin_sensitivity : tuple of BinSensitivityNumbers
    learning : LearningNumbers or None
    pitfalls : tuple of Pitfall
    repeatability : Repeatability
    """

    title: str
    data: DataSummary
    verdict: Verdict
    recommendation: Recommendation
    scores: tuple[ScoreRow, ...]
    decompositions: tuple[Decomposition, ...]
    errors: tuple[ScoreRow, ...]
    slopes: tuple[Estimate, ...]
    tests: tuple[TestRow, ...]
    classes: tuple[ClassRow, ...]
    curves: tuple[Curve, ...]
    cumulative: tuple[CumulativeNumbers, ...]
    bin_sensitivity: tuple[BinSensitivityNumbers, ...]
    learning: LearningNumbers | None
    pitfalls: tuple[Pitfall, ...]
    repeatability: Repeatability

    def to_dict(self) -> dict[str, Any]:
        """Return everything as dictionaries, lists, texts and numbers, with the version of the fields as ``schema``."""
        return {"schema": SCHEMA, **to_plain(self)}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return everything as strict JSON, and write it to ``path`` if given.

        Numbers that are not finite are the texts ``"Infinity"``, ``"-Infinity"`` and ``"NaN"``. A file is replaced only
        when the new one is whole.
        """
        plain = {"schema": SCHEMA, **to_plain(self, strict=True)}
        return written(f"{json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)}\n", path)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the assessment of which :meth:`to_json` gave this text.

        Raises
        ------
        FileFormatError
            If the text is not such a report, or one of a later version.
        """
        try:
            plain = json.loads(text)
        except ValueError as error:
            raise FileFormatError(f"the report is not JSON: {error}.") from error
        if not isinstance(plain, dict) or not isinstance(plain.get("schema"), int):
            raise FileFormatError("this JSON is not a report: it has no number under 'schema'.")
        schema = plain.pop("schema")
        if schema > SCHEMA:
            raise FileFormatError(
                f"the report has schema {schema}, and this version of calibrant reads up to {SCHEMA}; use a later version."
            )
        return from_plain(cls, plain)

    def to_markdown(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as Markdown, with tables and without pictures, and write it to ``path`` if given."""
        return written(markdown_of(self), path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as one HTML page that needs nothing else, and write it to ``path`` if given.

        Raises
        ------
        MissingExtraError
            If jinja2 is not installed; it comes with ``calibrant[report]``.
        """
        return written(html_of(self), path)

    def __str__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html(), quote=True)
        return (
            f'<iframe srcdoc="{page}" title="{html.escape(self.title, quote=True)}" '
            'style="width: 100%; height: 80vh; border: 0"></iframe>'
        )
