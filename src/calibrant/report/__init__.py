"""Calibration reports: assess predictions, then write the result as HTML, Markdown, JSON or text."""

from calibrant.report.assess import assess
from calibrant.report.assessment import Assessment
from calibrant.report.document import SECTIONS
from calibrant.report.labels import LabelAssessment, assess_labels
from calibrant.report.outputs import OutputAssessment, assess_outputs

__all__ = [
    "SECTIONS",
    "Assessment",
    "LabelAssessment",
    "OutputAssessment",
    "assess",
    "assess_labels",
    "assess_outputs",
]
