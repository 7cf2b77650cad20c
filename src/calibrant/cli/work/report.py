"""``calibrant report``: write a report with verdict, recommendation and evidence."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.method_choice import made
from calibrant.cli.notes import noted
from calibrant.cli.options import check_writable
from calibrant.cli.printing import printed
from calibrant.cli.score_meaning import check_declared
from calibrant.cli.translation import translated
from calibrant.cli.waiting import Waiting
from calibrant.persistence.replacing import replacing
from calibrant.report import assess
from calibrant.tables.file_set import open_source
from calibrant.tables.prediction_file import PredictionFile

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
    with Waiting("reading") as waiting, open_source(file) as source:
        predictions = PredictionFile(source, **choice)
        waiting.expected_rows = source.approximate_rows()
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
