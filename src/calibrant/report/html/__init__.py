"""The report as one HTML page that needs nothing from outside: charts, tables, template, style and script."""

from calibrant.report.html.page import html_of

__all__ = ["html_of"]
