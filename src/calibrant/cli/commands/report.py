"""``calibrant report``: write a report with verdict, recommendation and evidence."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.choices import made
from calibrant.cli.console import noted, printed
from calibrant.cli.files import check_writable, opened
from calibrant.cli.progress import Progress
from calibrant.cli.score_space import check_declared
from calibrant.cli.translation import translated
from calibrant.persistence.replacing import replacing
from calibrant.report import assess

__all__ = ["report"]

SUFFIXES = {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown"}


def report(
    file: Path,
    output: Path,
    format_name: str | None,
    methods: str | None,
    cv: int,
    level: float,
    title: str | None,
    **choice: Any,
) -> None:
    """Write a report on the calibration of predictions."""
    chosen = format_name or SUFFIXES.get(output.suffix.lower())
    if chosen is None:
        raise click.UsageError(f"the extension of {output} is not .html, .json or .md; give --format.")
    check_writable(output, file)
    names = None if methods is None else [name.strip() for name in methods.split(",")]
    for name in names or []:
        made(name)
    with Progress("reading") as waiting, opened(file, choice, waiting) as predictions:
        table = predictions.read(waiting.rows)
        check_declared(file, table.predictions)
        assessment = assess(
            table.labels,
            table.predictions,
            sample_weight=table.weights,
            groups=table.groups,
            methods=names,
            cv=cv,
            level=level,
            title=title or file.name,
            progress=waiting.update,
        )
        text = {
            "html": assessment.to_html,
            "json": assessment.to_json,
            "markdown": assessment.to_markdown,
        }[chosen]()
    noted(predictions.notes)
    with replacing(output) as stream:
        stream.write(text.encode())
    printed(translated(str(assessment)).rstrip())
    printed(f"\nThe report is in {output}.", err=True)
