"""``calibrant evaluate``: metrics with intervals, and tests of calibration."""

from typing import Any

import click

from calibrant.cli.lazily import worker
from calibrant.cli.options import format_options, level_option, prediction_options

__all__ = ["evaluate"]

DEFAULT_METRICS = "log_loss,brier_score,accuracy,confidence_ece,classwise_ece,debiased_ece,smooth_ece"


@click.command()
@prediction_options
@click.option(
    "--metrics",
    default=DEFAULT_METRICS,
    metavar="NAMES",
    help="Metrics with commas between, options after colons: confidence_ece:n_bins=30,log_loss.",
)
@click.option("--bins", type=click.IntRange(1), help="Number of bins of the metrics that have bins.")
@level_option
@click.option(
    "--resamples", type=click.IntRange(1), help="Resamples of the bootstrap [by the number of rows]."
)
@click.option("--tests/--no-tests", "with_tests", default=True, help="Test calibration as well [yes].")
@click.option("--stream/--no-stream", default=None, help="Take the rows in batches [if the file is large].")
@click.option(
    "--fail-above",
    multiple=True,
    metavar="METRIC=VALUE",
    help="Exit with 4 if a metric is above a value; for accuracy, below it. Can be repeated.",
)
@click.option("--definitions", is_flag=True, help="Say how every metric is set [JSON and CSV always do].")
@format_options
@click.pass_context
def evaluate(context: click.Context, /, **options: Any) -> None:
    """Measure how well calibrated predictions are.

    Metrics come with bootstrap intervals, errors that noise alone makes positive
    with what noise gives, and tests with p-values. Files larger than memory are
    read in batches.
    """
    worker("evaluate", "evaluate")(context, **options)
