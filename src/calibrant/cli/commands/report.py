"""``calibrant report``: write a report with verdict, recommendation and evidence."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.choices import make_calibrator
from calibrant.cli.commands.questions_input import by_correctness, cost_matrix, side_columns_of
from calibrant.cli.console import print_notes, printed
from calibrant.cli.files import check_writable, opened
from calibrant.cli.large_report import assessed_in_batches
from calibrant.cli.progress import Progress
from calibrant.cli.score_space import check_declared
from calibrant.persistence.replacing import replacing
from calibrant.remedies import for_command_line
from calibrant.report import Assessment, assess

__all__ = ["format_of", "names_of", "report", "written"]

SCORES_IN_MEMORY = 20_000_000  # of more, a report in memory would draw a sample too

SUFFIXES = {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown"}


def report(
    file: Path,
    output: Path,
    format_name: str | None,
    methods: str | None,
    cv: int,
    level: float,
    title: str | None,
    by: str | None = None,
    costs: str | None = None,
    **choice: Any,
) -> None:
    """Write a report on the calibration of predictions."""
    chosen = format_of(output, format_name)
    check_writable(output, file)
    names = names_of(methods)
    matrix, side = cost_matrix(costs), side_columns_of(file, by)
    options: dict[str, Any] = {"methods": names, "cv": cv, "title": title or file.name}
    with Progress("reading") as progress, opened(file, choice, progress) as predictions:
        if predictions.approximate_scores() > SCORES_IN_MEMORY and matrix is None and side is None:
            assessment = assessed_in_batches(predictions, level, progress, **options)
        else:
            table = predictions.read(progress.rows)
            check_declared(file, table.predictions)
            table = by_correctness(table)
            assessment = assess(
                table.labels,
                table.predictions,
                sample_weight=table.weights,
                groups=table.groups,
                side_columns=side,
                costs=matrix,
                level=level,
                progress=progress.update,
                **options,
            )
    print_notes(predictions.notes)
    written(assessment, chosen, output)


def format_of(output: Path, format_name: str | None) -> str:
    """Return the format of a report, from the ending of the file if it is not given."""
    chosen = format_name or SUFFIXES.get(output.suffix.lower())
    if chosen is None:
        raise click.UsageError(f"the extension of {output} is not .html, .json or .md; give --format.")
    return chosen


def names_of(methods: str | None) -> list[str] | None:
    """Return the names of the methods to try, all of which exist."""
    names = None if methods is None else [name.strip() for name in methods.split(",")]
    for name in names or []:
        make_calibrator(name)
    return names


def written(assessment: Assessment, format_name: str, output: Path) -> None:
    """Write a report and print its summary."""
    text = {
        "html": assessment.to_html,
        "json": assessment.to_json,
        "markdown": assessment.to_markdown,
    }[format_name]()
    with replacing(output) as stream:
        stream.write(text.encode())
    printed(for_command_line(str(assessment)).rstrip())
    printed(f"\nThe report is in {output}.", err=True)
