"""Run the demo: train, calibrate, print tables, plot, and write the report of one classifier."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from calibrant.demo.classifiers import Scored, scored_classifiers
from calibrant.demo.compared import Compared, compare_all
from calibrant.demo.files import LABEL, PREDICTIONS, write_predictions
from calibrant.demo.picture import draw
from calibrant.demo.table import as_text, footnotes
from calibrant.errors import MissingExtraError
from calibrant.predictions import Predictions
from calibrant.report import assess

__all__ = ["PICTURE", "REPORT", "main", "run"]

FOLDER = "calibrant-demo"
PICTURE = "reliability.png"
REPORT = "report.html"


def run(output: Path, write: Callable[[str], object] = print) -> list[Compared]:
    """Compare all methods on all classifiers of the demo, then write a report on the last one.

    Parameters
    ----------
    output : Path
        Folder for the figure, the predictions and the report; created if it does not exist.
    write : callable, default=print
        Called with each piece of text as soon as it is available.

    Returns
    -------
    list of Compared
        One per classifier, with all numbers of the tables.
    """
    every = []
    for classifier in scored_classifiers():
        compared = compare_all(classifier)
        every.append(compared)
        write(as_text(compared) + "\n\n")
    write(footnotes(every) + "\n")
    _draw(every, output / PICTURE, write)
    _report(every[-1].classifier, output, write)
    return every


def _draw(every: list[Compared], path: Path, write: Callable[[str], object]) -> None:
    try:
        draw(every, path)
    except MissingExtraError as error:
        write(f"No figure was written: {error}")
    else:
        write(f"The figure is in {path}.")


def _report(classifier: Scored, output: Path, write: Callable[[str], object]) -> None:
    """Write the held-out predictions and their report."""
    predictions, labels = classifier.held_out
    path = output / PREDICTIONS
    write_predictions(path, predictions, labels)
    title = f"{classifier.name.capitalize()} on handwritten digits"
    assessment = assess(labels, predictions, title=title)
    write(f"\n{assessment}\n")
    assessment.to_html(output / REPORT)
    write(f"The report is in {output / REPORT}. To create it from a file of predictions:")
    write(f"  {_command(path, predictions)}")


def _command(path: Path, predictions: Predictions) -> str:
    return f"calibrant report {path} --label {LABEL} --space {predictions.space.value} -o {REPORT}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m calibrant.demo",
        description="Train three classifiers on handwritten digits, calibrate them with every method, compare the "
        "methods, plot reliability diagrams and write a report.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(FOLDER),
        metavar="FOLDER",
        help="output folder for the figure and the report (default: %(default)s)",
    )
    output = parser.parse_args(arguments).output
    if output.exists() and not output.is_dir():
        parser.error(f"{output} is a file, not a folder; give a folder.")
    try:
        run(output)
    except OSError as error:
        if error.filename is None:  # not about a file, for example a closed pipe
            raise
        parser.exit(1, f"The files of the demo could not be written: {error}.\n")
