"""Commands on subgroups, decisions and several labels: their options, without importing what they do."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.definitions import (
    SPACES,
    InOrder,
    drop_missing_option,
    format_options,
    level_option,
    normalise_option,
    prediction_options,
    remember_declared,
    text_options,
    worker,
)

__all__ = ["decisions", "multilabel", "multioutput", "subgroups"]


@click.command()
@prediction_options
@click.option("--by", required=True, metavar="NAMES", help="Side columns, separated by commas.")
@click.option(
    "--depth",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Largest number of side columns that are combined.",
)
@click.option(
    "--quantiles",
    type=click.IntRange(2),
    default=4,
    show_default=True,
    help="Number of quantile bins of a numeric column.",
)
@click.option(
    "--min-rows",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="Smallest number of rows of a segment.",
)
@click.option(
    "--kind",
    type=click.Choice(["auto", "confidence", "positive"]),
    default="auto",
    show_default=True,
    help="Event: the predicted class is correct, or the second of two classes occurs.",
)
@click.option("--all", "show_all", is_flag=True, help="Print all segments, not only the first 20.")
@level_option
@format_options
def subgroups(**options: Any) -> None:
    """Test calibration in subgroups of side columns, such as site, sex or age.

    P-values and intervals are adjusted for the search over all segments.
    """
    worker("questions", "subgroups", options["file"])(**options)


@click.command()
@prediction_options
@click.option(
    "--costs",
    required=True,
    metavar="MATRIX",
    help="A row per decision, a column per class: '0,9;1,0'.",
)
@click.option(
    "--calibrator", type=click.Path(path_type=Path), help="Calibrator to compare with, fitted to other rows."
)
@level_option
@format_options
def decisions(**options: Any) -> None:
    """Compute the cost of decisions under a cost matrix, and net benefit.

    Net benefit is for two classes. With a calibrator, the gain from calibration
    is printed per 1,000 rows.
    """
    worker("questions", "decisions", options["file"], options["calibrator"])(**options)


@click.group(cls=InOrder)
def multilabel() -> None:
    """Calibrate several labels that do not exclude each other.

    Files have a score column and an outcome column (1 or 0) per label.
    """


def _score_options(command: Any) -> Any:
    for option in (
        click.option(
            "--space",
            type=click.Choice(SPACES),
            required=True,
            help="Probabilities, or log-odds of each label.",
        ),
        click.option(
            "--columns", required=True, metavar="PATTERN", help="Score columns: 'p_*', or names by commas."
        ),
        click.argument("file", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


def _outcome_options(command: Any) -> Any:
    for option in (
        click.option("--missing", metavar="VALUE", help="Value of an unknown outcome, such as ? or -1."),
        click.option(
            "--labels",
            required=True,
            metavar="PATTERN",
            help="Outcome columns, in the order of the scores: 'y_*'.",
        ),
    ):
        command = option(command)
    return command


method_option = click.option(
    "--method",
    default="shared",
    show_default=True,
    help="'shared', or a method that is fitted to each label.",
)


@multilabel.command(name="evaluate")
@_score_options
@_outcome_options
@method_option
@click.option("--cv", type=click.IntRange(2), default=5, show_default=True, help="Number of folds.")
@format_options
def evaluate_labels(**options: Any) -> None:
    """Measure labels before and after calibration, by cross-validation."""
    worker("questions", "evaluate_labels", options["file"])(**options)


@multilabel.command(name="fit")
@_score_options
@_outcome_options
@method_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Output file, such as labels.npz."
)
def fit_labels(**options: Any) -> None:
    """Fit the calibrators of all labels, and save them."""
    worker("questions", "fit_labels", options["file"])(**options)


@multilabel.command(name="apply")
@_score_options
@click.option(
    "--calibrator",
    "calibrator_path",
    type=click.Path(path_type=Path),
    required=True,
    help="File saved by 'calibrant multilabel fit'.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Output file.")
def apply_labels(**options: Any) -> None:
    """Replace the scores of all labels by calibrated probabilities."""
    worker("questions", "apply_labels", options["file"], options["calibrator_path"])(**options)


@multilabel.command(name="report")
@_score_options
@_outcome_options
@method_option
@click.option("--cv", type=click.IntRange(2), default=5, show_default=True, help="Number of folds.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Output file: .html, .md or .json."
)
def report_labels(**options: Any) -> None:
    """Write a report on all labels, before and after calibration."""
    worker("questions", "report_labels", options["file"])(**options)


@click.group(cls=InOrder)
def multioutput() -> None:
    """Calibrate several class labels per row, such as colour and size.

    Files have a column per label, and score columns named after label and class,
    such as p_colour_red.
    """


def _output_options(command: Any) -> Any:
    for option in (
        *reversed(text_options),
        normalise_option,
        click.option(
            "--columns",
            metavar="PATTERN",
            help="Score columns: 'p_{label}_*', or one pattern per label, separated by ';' [named after the labels].",
        ),
        click.argument("file", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


def _labelled_options(command: Any) -> Any:
    for option in (
        click.option(
            "--method",
            default="auto",
            show_default=True,
            help="Method that is fitted to each label.",
        ),
        click.option("--missing", metavar="VALUE", help="Value of an unknown label, such as ?."),
        click.option(
            "--as-declared",
            is_flag=True,
            expose_value=False,
            callback=remember_declared,
            help="Accept logits that look like probabilities.",
        ),
        click.option("--space", type=click.Choice(SPACES), required=True, help="Space of the scores."),
        click.option("--labels", required=True, metavar="NAMES", help="Label columns: colour,size."),
    ):
        command = option(command)
    return _output_options(command)


@multioutput.command(name="evaluate")
@_labelled_options
@click.option("--cv", type=click.IntRange(2), default=5, show_default=True, help="Number of folds.")
@format_options
def evaluate_outputs(**options: Any) -> None:
    """Cross-validate a method for all labels."""
    worker("multioutput", "evaluate_outputs", options["file"])(**options)


@multioutput.command(name="fit")
@_labelled_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Output file, such as labels.npz."
)
def fit_outputs(**options: Any) -> None:
    """Fit the calibrators of all labels, and save them."""
    worker("multioutput", "fit_outputs", options["file"])(**options)


@multioutput.command(name="apply")
@_output_options
@drop_missing_option
@click.option("--space", type=click.Choice(SPACES), help="Space of the scores [as in the fit].")
@click.option(
    "--calibrator",
    "calibrator_path",
    type=click.Path(path_type=Path),
    required=True,
    help="File saved by 'calibrant multioutput fit'.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Output file.")
def apply_outputs(**options: Any) -> None:
    """Replace the scores of all labels by calibrated probabilities."""
    worker("multioutput", "apply_outputs", options["file"], options["calibrator_path"])(**options)


@multioutput.command(name="report")
@_labelled_options
@click.option("--cv", type=click.IntRange(2), default=5, show_default=True, help="Number of folds.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Output file: .html, .md or .json."
)
def report_outputs(**options: Any) -> None:
    """Write a report on all labels, before and after calibration."""
    worker("multioutput", "report_outputs", options["file"])(**options)
