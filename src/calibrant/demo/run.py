"""Run the demo: train, calibrate, print tables, plot, and write the report of one classifier."""

import argparse
import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.demo.classifiers import Scored, scored_classifiers
from calibrant.demo.compared import UNCALIBRATED, Compared, as_text, compare_all, footnotes
from calibrant.errors import MissingExtraError
from calibrant.persistence.replacing import replacing
from calibrant.plots import ReliabilityDisplay
from calibrant.plots.style import BAR, DIAGONAL, FAINT, INTERVAL, OVER, UNDER
from calibrant.predictions import Predictions
from calibrant.report import assess

__all__ = ["LABEL", "PICTURE", "PREDICTIONS", "REPORT", "SHOWN", "draw", "main", "run", "write_predictions"]


PREDICTIONS = "predictions.csv"
LABEL = "digit"


def write_predictions(path: Path, predictions: Predictions, labels: NDArray[np.intp]) -> None:
    """Write the true class of every row and its scores, one column per class, as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([LABEL, *range(predictions.n_classes)])
        writer.writerows(
            [label, *row] for label, row in zip(labels.tolist(), predictions.scores.tolist(), strict=True)
        )
        text.detach()  # the caller closes the stream


# Chosen in advance: choosing the best on the test set would be optimistic.
SHOWN = (UNCALIBRATED, "temperature", "auto")


def draw(every: Sequence[Compared], path: Path, methods: Sequence[str] = SHOWN) -> None:
    """Draw one row per classifier and one column per method, and write it as PNG.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    figure = Figure(figsize=(3.7 * len(methods) + 0.5, 4.4 * len(every) + 1.3), dpi=110)
    FigureCanvasAgg(figure)
    inches = figure.get_figheight()
    grid = figure.add_gridspec(
        len(every),
        len(methods),
        left=0.08,
        right=0.98,
        bottom=1.25 / inches,
        top=1 - 1.05 / inches,
        wspace=0.2,
        hspace=0.26,
    )
    for row, compared in enumerate(every):
        for column, method in enumerate(methods):
            cell = grid[row, column].subgridspec(2, 1, height_ratios=[4, 1], hspace=0.08)
            diagram = figure.add_subplot(cell[0])
            counts = figure.add_subplot(cell[1], sharex=diagram)
            _draw_panel(compared, method, (diagram, counts))
            if column > 0:
                diagram.tick_params(labelleft=False)
                diagram.set_ylabel("")
                counts.set_ylabel("")
            if row < len(every) - 1:
                counts.set_xlabel("")
    n_rows = every[0].comparison.n_test_rows
    figure.suptitle(
        f"Are nine in ten predictions with 90 % confidence correct? Handwritten digits, {n_rows} test rows",
        fontsize=14,
        y=1 - 0.18 / inches,
        va="top",
    )
    _draw_legend(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _draw_panel(compared: Compared, method: str, axes: tuple[Any, Any]) -> None:
    result = compared.comparison.result(method)
    display = ReliabilityDisplay.from_predictions(
        compared.classifier.test_labels, result.predictions, kind="confidence"
    )
    display.plot(axes, legend=False, caption=False)
    axes[0].set_title(
        f"{compared.classifier.name}, {method}\n"
        f"confidence-ECE {result.scores['confidence_ece']:.3f}, log-loss {result.scores['log_loss']:.3f}",
        fontsize=11,
    )


def _draw_legend(figure: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure.legend(
        handles=[
            Patch(facecolor=BAR, label="accuracy"),
            Line2D([], [], color=INTERVAL, marker="o", markersize=4, label="95 % interval of the accuracy"),
            Patch(**OVER, label="gap: confidence too high"),
            Patch(**UNDER, label="gap: confidence too low"),
            Patch(facecolor=FAINT, label="bin with fewer than ten rows"),
            Line2D([], [], label="perfectly calibrated", **DIAGONAL),
        ],
        loc="lower center",
        ncols=3,
        frameon=False,
        fontsize=11,
    )


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
