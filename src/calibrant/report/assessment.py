"""Assessment: the result of `assess`, with its output formats."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from calibrant.errors import FileFormatError
from calibrant.persistence.replacing import returned_and_written
from calibrant.presentation import as_json, from_plain, to_plain
from calibrant.report.contents import (
    BinSensitivityNumbers,
    ClassRow,
    CumulativeNumbers,
    Curve,
    DataSummary,
    DecisionNumbers,
    DecompositionRow,
    Estimate,
    Example,
    LearningNumbers,
    Origin,
    Pitfall,
    Recommendation,
    Repeatability,
    ScoreRow,
    SelectiveRow,
    SubgroupNumbers,
    TestRow,
    Verdict,
)
from calibrant.report.document import (
    ReportSection,
    framed,
    opened_page,
    report_markdown,
    report_page,
    report_text,
)
from calibrant.report.sections import read_further_numbers

__all__ = ["SCHEMA", "Assessment"]

SCHEMA = 1
"""Version of the JSON schema; `from_json` rejects later versions."""


@dataclass(frozen=True)
class Assessment:
    """Result of :func:`~calibrant.assess`: verdict, recommendation, scores, errors, tests and plots.

    ``print`` shows a summary of 80 columns, a notebook the complete report.

    Attributes
    ----------
    title : str
    data : DataSummary
    verdict : Verdict
    recommendation : Recommendation
    scores : tuple of ScoreRow
        Proper scores, accuracy and area under the ROC curve, before and after calibration, with paired differences.
    decompositions : tuple of DecompositionRow
        Log-loss and Brier score, before and after.
    errors : tuple of ScoreRow
        Calibration errors before and after: lower bounds on the L1 error, debiased, smooth and binned errors.
    slopes : tuple of Estimate
        Calibration in the large and slope, before calibration.
    tests : tuple of TestRow
        Tests of the uncalibrated predictions.
    classes : tuple of ClassRow
        Worst first.
    curves : tuple of Curve
        Reliability diagrams. First those of the predicted class (or the second of two): uncalibrated, after the chosen
        method and after a few others. Then those of single classes, worst first, uncalibrated and after the chosen method.
    cumulative : tuple of CumulativeNumbers
    bin_sensitivity : tuple of BinSensitivityNumbers
    learning : LearningNumbers or None
    pitfalls : tuple of Pitfall
    repeatability : Repeatability
    example : Example or None
        The recommended calibrator with one row of scores, if it is small enough for the page.
    selective : tuple of SelectiveRow
        Accuracy of the most confident rows.
    origin : Origin or None
        Date, SHA-256 of the data, and the command.
    subgroups : SubgroupNumbers or None
        Calibration within segments of side columns, if these were given.
    decisions : DecisionNumbers or None
        Cost of decisions and net benefit, if costs were given.
    further : dict
        Numbers that sections measure themselves, by the name of the section.
    """

    title: str
    data: DataSummary
    verdict: Verdict
    recommendation: Recommendation
    scores: tuple[ScoreRow, ...]
    decompositions: tuple[DecompositionRow, ...]
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
    example: Example | None = None
    selective: tuple[SelectiveRow, ...] = ()
    origin: Origin | None = None
    subgroups: SubgroupNumbers | None = None
    decisions: DecisionNumbers | None = None
    further: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as dictionaries, lists, strings and numbers, with the schema version as ``schema``."""
        plain = to_plain(self)
        if not self.further:
            del plain["further"]
        return {"schema": SCHEMA, **plain}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return everything as strict JSON, and write it to ``path`` if given.

        Non-finite numbers become the strings ``"Infinity"``, ``"-Infinity"`` and ``"NaN"``. An existing file is replaced
        only once the new one is complete.
        """
        return returned_and_written(as_json(self.to_dict()), path)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read an assessment from the output of :meth:`to_json`.

        Raises
        ------
        FileFormatError
            If the text is not such a report, or has a later schema version.
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
        further = plain.pop("further", {})
        if not isinstance(further, dict):
            raise FileFormatError(f"report.further must be an object, but is {further!r}.")
        return replace(from_plain(cls, plain), further=read_further_numbers(further))

    def to_markdown(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        sections: Sequence[ReportSection] | None = None,
        baseline: "Assessment | None" = None,
    ) -> str:
        """Return the report as Markdown, with tables in place of figures, and write it to ``path`` if given.

        Parameters
        ----------
        path : str or Path, optional
            File to write; an existing one is replaced only once the new one is complete.
        sections : sequence of function, optional
            Sections in their order; the default is ``calibrant.report.SECTIONS``. See :doc:`/extending` for your own.
        baseline : Assessment, optional
            An earlier report on other rows, with which a section after the recommendation compares this one.
        """
        return returned_and_written(report_markdown(self, sections, baseline), path)

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        sections: Sequence[ReportSection] | None = None,
        baseline: "Assessment | None" = None,
    ) -> str:
        """Return the report as one self-contained HTML page, and write it to ``path`` if given.

        Parameters
        ----------
        path : str or Path, optional
            File to write; an existing one is replaced only once the new one is complete.
        sections : sequence of function, optional
            Sections in their order; the default is ``calibrant.report.SECTIONS``. See :doc:`/extending` for your own.
        baseline : Assessment, optional
            An earlier report on other rows, with which a section after the recommendation compares this one.
        """
        return returned_and_written(report_page(self, sections, baseline), path)

    def open(self) -> Path:
        """Write the page to a temporary file, open it in the browser, and return its path."""
        return opened_page(self.to_html())

    def __str__(self) -> str:
        return report_text(self)

    def _repr_html_(self) -> str:
        return framed(self.to_html(), self.title)
