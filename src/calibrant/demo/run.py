"""The demo from end to end: train, calibrate, print tables, draw, and write the report of one classifier."""

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
    """Compare all methods on all classifiers of the demo, then report on the last one.

    Parameters
    ----------
    output : Path
        Folder for the picture, the predictions and the report; made if it is not there.
    write : callable, default=print
        Takes the text piece by piece, each as soon as it is known.

    Returns
    -------
    list of Compared
        One per classifier, with every number in the tables.
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
        write(f"No picture was made: {error}")
    else:
        write(f"The picture is in {path}.")


def _report(classifier: Scored, output: Path, write: Callable[[str], object]) -> None:
    """Write the predictions that the classifier was not trained on, and the report that they give."""
    predictions, labels = classifier.held_out
    path = output / PREDICTIONS
    write_predictions(path, predictions, labels)
    title = f"{classifier.name.capitalize()} on handwritten digits"
    assessment = assess(labels, predictions, title=title)
    write(f"\n{assessment}\n")
    try:
        assessment.to_html(output / REPORT)
    except MissingExtraError as error:
        write(f"No report was written: {error}")
        return
    write(f"The report is in {output / REPORT}. The same from the command line, for predictions in a file:")
    write(f"  {_command(path, predictions)}")


def _command(path: Path, predictions: Predictions) -> str:
    return f"calibrant report {path} --label {LABEL} --space {predictions.space.value} -o {REPORT}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m calibrant.demo",
        description="Train three classifiers on handwritten digits, calibrate them with every method, print "
        "what each method gains, draw reliability diagrams and write a report.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(FOLDER),
        metavar="FOLDER",
        help="where to put the picture and the report (default: %(default)s)",
    )
    output = parser.parse_args(arguments).output
    if output.exists() and not output.is_dir():
        parser.error(f"{output} is a file; give a folder.")
    try:
        run(output)
    except OSError as error:
        if error.filename is None:  # not about a file: a pipe that was closed, for example
            raise
        parser.exit(1, f"The files of the demo could not be written: {error}.\n")
