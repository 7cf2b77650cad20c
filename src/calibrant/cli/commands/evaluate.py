"""``calibrant evaluate``: metrics with intervals, and tests of calibration."""

from typing import Any

import click

from calibrant.cli.lazily import engine_worker
from calibrant.cli.options import engine_options, format_options, level_option, prediction_options

__all__ = ["evaluate"]

DEFAULT_METRICS = "log_loss,brier_score,accuracy,confidence_ece,classwise_ece,debiased_ece,smooth_ece"


@click.command()
@prediction_options
@click.option(
    "--metrics",
    default=DEFAULT_METRICS,
    metavar="NAMES",
    help="Metrics, separated by commas, with options after colons: confidence_ece:n_bins=30,log_loss.",
)
@click.option("--bins", type=click.IntRange(1), help="Number of bins of binned metrics.")
@level_option
@click.option(
    "--resamples",
    type=click.IntRange(1),
    help="Number of bootstrap resamples [depends on the number of rows].",
)
@click.option("--tests/--no-tests", "with_tests", default=True, help="Test calibration [yes].")
@click.option("--stream/--no-stream", default=None, help="Read the rows in batches [if the file is large].")
@click.option(
    "--fail-above",
    multiple=True,
    metavar="METRIC=VALUE",
    help="Exit with code 4 if a metric is above this value (for accuracy: below). Repeatable.",
)
@click.option(
    "--definitions", is_flag=True, help="Print the options of every metric [always in JSON and CSV]."
)
@engine_options
@format_options
@click.pass_context
def evaluate(context: click.Context, /, engine: str, address: str | None, **options: Any) -> None:
    """Measure the calibration of predictions.

    Metrics have bootstrap intervals. Metrics that are positive even for
    calibrated predictions are shown with their expected value. Files larger
    than memory are read in batches.
    """
    engine_worker("evaluate", engine, address)(context, **options)
