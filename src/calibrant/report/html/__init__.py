"""The report as one self-contained HTML page: charts, tables, template, style and script."""

from calibrant.report.html.page import html_of

__all__ = ["html_of"]
