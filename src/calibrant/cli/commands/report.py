"""``calibrant report``: write a report with verdict, recommendation and evidence."""

import webbrowser
from pathlib import Path
from typing import Any

import click

from calibrant.cli.choices import make_calibrator
from calibrant.cli.console import print_notes, printed, tell
from calibrant.cli.definitions import is_stream
from calibrant.cli.files import check_writable, opened, output_file
from calibrant.cli.large_report import assessed_in_batches
from calibrant.cli.progress import Progress
from calibrant.cli.score_space import check_declared
from calibrant.persistence.replacing import replacing
from calibrant.remedies import for_command_line
from calibrant.report import Assessment, assess
from calibrant.tables.formats import known_ending

__all__ = ["chosen_output", "names_of", "report", "written"]

SCORES_IN_MEMORY = 20_000_000  # of more, a report in memory would draw a sample too

SUFFIXES = {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown"}
ENDINGS = {"html": ".html", "json": ".json", "markdown": ".md"}


def report(
    file: Path,
    output: Path | None,
    format_name: str | None,
    is_opened: bool,
    methods: str | None,
    cv: int,
    level: float,
    title: str | None,
    **choice: Any,
) -> None:
    """Write a report on the calibration of predictions."""
    path, chosen = chosen_output(file, output, format_name)
    check_writable(path, file)
    names = names_of(methods)
    options: dict[str, Any] = {"methods": names, "cv": cv, "title": title or shown_name(file)}
    with Progress("reading") as progress, opened(file, choice, progress) as predictions:
        if predictions.approximate_scores() > SCORES_IN_MEMORY:
            assessment = assessed_in_batches(predictions, level, progress, **options)
        else:
            table = predictions.read(progress.rows)
            check_declared(file, table.predictions)
            assessment = assess(
                table.labels,
                table.predictions,
                sample_weight=table.weights,
                groups=table.groups,
                level=level,
                progress=progress.update,
                **options,
            )
    print_notes(predictions.notes)
    written(assessment, chosen, path, is_opened=is_opened)


def chosen_output(file: Path, output: Path | None, format_name: str | None) -> tuple[Path, str]:
    """Return path and format of a report, by default a page next to the input.

    >>> chosen_output(Path("data/test.csv.gz"), None, None)[1], chosen_output(Path("a.csv"), Path("b.md"), None)[1]
    ('html', 'markdown')
    """
    if output is not None:
        chosen = format_name or ("html" if is_stream(output) else SUFFIXES.get(output.suffix.lower()))
        if chosen is None:
            raise click.UsageError(f"the extension of {output} is not .html, .json or .md; give --format.")
        return output, chosen
    chosen = format_name or "html"
    if is_stream(file):
        return Path(f"report{ENDINGS[chosen]}"), chosen
    name = file.name
    if any(sign in str(file) for sign in "*?["):  # a pattern, whose folder may be one, too
        return Path(f"report{ENDINGS[chosen]}"), chosen
    return file.with_name(f"{name.removesuffix(known_ending(file))}-report{ENDINGS[chosen]}"), chosen


def names_of(methods: str | None) -> list[str] | None:
    """Return the names of the methods to try, all of which exist."""
    names = None if methods is None else [name.strip() for name in methods.split(",")]
    for name in names or []:
        make_calibrator(name)
    return names


def written(assessment: Assessment, format_name: str, output: Path, *, is_opened: bool = False) -> None:
    """Write a report and print its summary."""
    text = {
        "html": assessment.to_html,
        "json": assessment.to_json,
        "markdown": assessment.to_markdown,
    }[format_name]()
    with output_file(output, ENDINGS[format_name]) as path, replacing(path) as stream:
        stream.write(text.encode())
    text = for_command_line(str(assessment)).rstrip()
    if is_stream(output):
        return
    printed(text)
    printed(f"\nThe report is in {output}.", err=True)
    if is_opened and not webbrowser.open(output.resolve().as_uri()):
        tell("Note: no browser was found; open the file yourself.")
