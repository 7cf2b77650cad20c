"""The report: every number and sentence as plain data first, then JSON, Markdown, HTML and text from it."""

from calibrant.report.assess import assess
from calibrant.report.assessment import Assessment

__all__ = ["Assessment", "assess"]
