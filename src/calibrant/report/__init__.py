"""Calibration reports: assess predictions, then write the result as HTML, Markdown, JSON or text."""

from calibrant.report.assess import assess
from calibrant.report.assessment import Assessment
from calibrant.report.document import SECTIONS

__all__ = ["SECTIONS", "Assessment", "assess"]
