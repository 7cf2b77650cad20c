"""The demo from end to end: train, calibrate, print tables, draw."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from calibrant.demo.classifiers import scored_classifiers
from calibrant.demo.comparison import Comparison, compare
from calibrant.demo.picture import draw
from calibrant.demo.table import as_text, footnotes
from calibrant.errors import MissingExtraError

__all__ = ["PICTURE", "main", "run"]

FOLDER = "calibrant-demo"
PICTURE = "reliability.png"


def run(output: Path, write: Callable[[str], object] = print) -> list[Comparison]:
    """Compare all methods on all classifiers of the demo.

    Parameters
    ----------
    output : Path
        Folder for the picture; made if it is not there.
    write : callable, default=print
        Takes the text piece by piece, each as soon as it is known.

    Returns
    -------
    list of Comparison
        One per classifier, with every number in the tables.
    """
    comparisons = []
    for classifier in scored_classifiers():
        comparison = compare(classifier)
        comparisons.append(comparison)
        write(as_text(comparison) + "\n\n")
    write(footnotes(comparisons) + "\n")
    path = output / PICTURE
    try:
        draw(comparisons, path)
    except MissingExtraError as error:
        write(f"No picture was made: {error}")
    else:
        write(f"The picture is in {path}.")
    return comparisons


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m calibrant.demo",
        description="Train three classifiers on handwritten digits, calibrate them with every method, print "
        "what each method gains and draw reliability diagrams.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(FOLDER),
        metavar="FOLDER",
        help="where to put the picture (default: %(default)s)",
    )
    output = parser.parse_args(arguments).output
    if output.exists() and not output.is_dir():
        parser.error(f"{output} is a file; give a folder.")
    try:
        run(output)
    except OSError as error:
        if error.filename is None:  # not about a file: a pipe that was closed, for example
            raise
        parser.exit(1, f"The picture could not be written: {error}.\n")
