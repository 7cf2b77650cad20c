"""Commands and their options: what the command line accepts, without importing what a command does."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from glob import has_magic
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from calibrant.cli.confidence import confidence_options

__all__ = [
    "ARGUMENTS",
    "AS_DECLARED",
    "FORMAT_NAMES",
    "PROJECT_FILE",
    "SPACES",
    "InOrder",
    "SuggestingGroup",
    "apply",
    "check_exists",
    "compare",
    "demo",
    "drop_missing_option",
    "evaluate",
    "export",
    "fit",
    "format_options",
    "is_stream",
    "level_option",
    "methods",
    "normalise_option",
    "prediction_options",
    "remember_declared",
    "report",
    "text_options",
    "verify",
    "worker",
]

SPACES = ("probabilities", "logits")


STREAM = "-"
"""Name of standard input and of standard output."""


def is_stream(path: Path | None) -> bool:
    """Return whether a path stands for standard input or standard output."""
    return path is not None and str(path) == STREAM


def check_exists(path: Path) -> None:
    """Reject an input that is missing, unless it is standard input or a pattern of file names."""
    if not path.exists() and not is_stream(path) and not has_magic(str(path)):
        raise FileNotFoundError(2, "No such file", str(path))


def worker(module: str, name: str, *inputs: Path | None) -> Callable[..., None]:
    """Return the function of a command, imported on its first call; a missing input is an error before that.

    >>> worker("methods", "methods").__module__
    'calibrant.cli.commands.methods'
    """
    for path in inputs:
        if path is not None:
            check_exists(path)
    function: Callable[..., None] = getattr(import_module(f"calibrant.cli.commands.{module}"), name)
    return function


def engine_worker(name: str, engine: str, address: str | None, *inputs: Path | None) -> Callable[..., None]:
    """Return the function of a command for rows in files of this machine, or for a cluster with files of its own."""
    if engine != "local":
        return partial(worker("cluster", name), engine=engine, address=address)
    if address is not None:
        raise click.UsageError("--address is for --engine dask or --engine spark.")
    return worker(name, name, *inputs)


class SuggestingGroup(click.Group):
    """Command group that suggests the nearest name for an unknown command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command; reject an unknown one with the nearest name."""
        name = args[0]
        known = self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = get_close_matches(name.lower(), known, 1)
        advice = f"did you mean {near[0]}?" if near else f"available: {', '.join(known)}."
        raise click.UsageError(f"unknown command {name!r}; {advice}", ctx)


AS_DECLARED = "calibrant.as_declared"
"""Key in the context of a command for --as-declared."""

ARGUMENTS = "calibrant.arguments"
"""Key in the context of a command for its command line."""

PROJECT_FILE = "calibrant.project_file"
"""Key in the context of a command for the path of its project file."""

FORMAT_NAMES = ("table", "json", "csv", "markdown", "latex")
"""Output formats of :mod:`calibrant.cli.rendering`."""

Command = TypeVar("Command", bound=Callable[..., Any])


def normalise_option(command: Command) -> Command:
    """Add the option for rounded probabilities."""
    return click.option(
        "--normalise",
        is_flag=True,
        help="Renormalise rows of probabilities whose sums are within 0.05 of one.",
    )(command)


drop_missing_option = click.option(
    "--drop-missing", is_flag=True, help="Drop rows in which a value is missing."
)

text_options = (
    click.option(
        "--separator",
        metavar="SIGN",
        help="Field separator of a CSV file: ';', '|', tab [by extension].",
    ),
    click.option("--decimal", metavar="SIGN", help="Decimal sign of a CSV file: '.' or ',' [.]."),
)
"""Options for the separator and the decimal sign of CSV files."""


def prediction_options(command: Command) -> Command:
    """Add the file of predictions and the options for its columns, as in :class:`PredictionFile`."""
    options = [
        click.argument("file", type=click.Path(path_type=Path)),
        click.option(
            "--label",
            metavar="COLUMN",
            help="Column with the true class [inferred from names or values]; for an array, a file such as labels.npy.",
        ),
        click.option(
            "--space",
            type=click.Choice(SPACES),
            help="Space of the scores [inferred from column names, or from rows that sum to one].",
        ),
        click.option(
            "--as-declared",
            is_flag=True,
            expose_value=False,
            callback=remember_declared,
            help="Accept logits that look like probabilities.",
        ),
        click.option(
            "--columns",
            metavar="PATTERN",
            help="Score columns: 'p_*', or names separated by commas [named after the classes].",
        ),
        click.option("--weight", metavar="COLUMN", help="Column with sample weights."),
        click.option(
            "--group", metavar="COLUMN", help="Column with groups of dependent rows, such as patients."
        ),
        click.option(
            "--positive",
            metavar="LABEL",
            help="Class of a single score column [the last in sorted order].",
        ),
        normalise_option,
        drop_missing_option,
        *text_options,
    ]
    for option in reversed(options):
        command = option(command)
    return confidence_options(command)


def remember_declared(context: click.Context, _: click.Parameter, given: bool) -> None:
    """Remember that logits are accepted whatever they look like."""
    context.meta[AS_DECLARED] = given


def engine_options(command: Command) -> Command:
    """Add the options for the engine that reads the rows."""
    command = click.option(
        "--address",
        metavar="URL",
        help="Scheduler of Dask or master of Spark [workers on this machine].",
    )(command)
    return click.option(
        "--engine",
        type=click.Choice(["local", "dask", "spark"]),
        default="local",
        show_default=True,
        help="Engine that reads the rows.",
    )(command)


def format_options(command: Command) -> Command:
    """Add format and file of the result."""
    command = click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        callback=_printed_if_stream,
        help="Write to a file instead of the terminal.",
    )(command)
    return click.option(
        "--format",
        "format_name",
        type=click.Choice(FORMAT_NAMES),
        default="table",
        show_default=True,
        help="Format of the result.",
    )(command)


def _printed_if_stream(_: click.Context, __: click.Parameter, given: Path | None) -> Path | None:
    """Return no file for -, which is the terminal."""
    return None if given is not None and str(given) == "-" else given


def level_option(command: Command) -> Command:
    """Add the confidence level of intervals."""
    return click.option(
        "--level",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.95,
        show_default=True,
        help="Confidence level of intervals.",
    )(command)


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
    engine_worker("evaluate", engine, address, options["file"])(context, **options)


@click.command()
@prediction_options
@click.option(
    "--method",
    default="auto",
    show_default=True,
    help="A method from 'calibrant methods', or several joined by +.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Parameter of the method. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Output file, such as calibrator.npz.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMAT_NAMES),
    default="table",
    show_default=True,
    help="Format of the printed summary.",
)
@engine_options
def fit(engine: str, address: str | None, **options: Any) -> None:
    """Fit a calibrator to held-out predictions of the classifier, and save it."""
    engine_worker("fit", engine, address, options["file"])(**options)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--calibrator",
    "calibrator_path",
    type=click.Path(path_type=Path),
    required=True,
    help="File saved by 'calibrant fit'.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Output file; may be FILE itself."
)
@click.option("--columns", metavar="PATTERN", help="Score columns [named as in the fit].")
@click.option(
    "--space",
    type=click.Choice(SPACES),
    help="Space of the scores [as in the fit].",
)
@normalise_option
@click.option("--append", is_flag=True, help="Add columns instead of replacing the scores.")
@click.option("--prefix", default="calibrated_", show_default=True, help="Prefix of added columns.")
@drop_missing_option
@text_options[0]
@text_options[1]
@engine_options
def apply(engine: str, address: str | None, **options: Any) -> None:
    """Replace the scores of a file by calibrated probabilities.

    The file format and all other columns are kept. Files larger than memory are
    processed in batches.
    """
    engine_worker("apply", engine, address, options["file"], options["calibrator_path"])(**options)


@click.command()
@click.argument("calibrator", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Output file; its extension determines the format: .onnx, .pt2, .sql or .json.",
)
@click.option(
    "--space",
    type=click.Choice(SPACES),
    help="Space of the scores that the file takes [as in the fit].",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    help="Float type of scores and probabilities [default of the format].",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    help="Name of a score column [as in the fit]; repeat for every class, in order.",
)
@click.option("--dialect", help="Dialect of a .sql file: postgres, spark, bigquery, ... [duckdb].")
@click.option(
    "--table",
    multiple=True,
    metavar="NAME",
    help="Table with the scores in a .sql file [predictions]; repeat for schema and table.",
)
@click.option(
    "--keep", multiple=True, metavar="NAME", help="Further column to select in a .sql file. Repeatable."
)
def export(**options: Any) -> None:
    """Export a saved calibrator to a file for another system.

    CALIBRATOR is a file saved by 'calibrant fit'. If the runtime of the export is
    installed, its output on test rows is compared with the calibrator.
    """
    worker("exports", "export", options["calibrator"])(**options)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    required=True,
    help="Calibrator saved by 'calibrant fit'.",
)
def verify(**options: Any) -> None:
    """Compare an exported file with the calibrator on test rows.

    Ends with exit code 1 if probabilities or predicted classes differ.
    """
    worker("exports", "verify", options["file"], options["against"])(**options)


DEFAULT_METHODS = "temperature,vector,isotonic,beta,shared-map,auto"


@click.command()
@prediction_options
@click.option(
    "--methods",
    default=DEFAULT_METHODS,
    show_default=True,
    metavar="NAMES",
    help="Methods, separated by commas.",
)
@click.option("--cv", type=click.IntRange(2), default=5, show_default=True, help="Number of folds.")
@click.option(
    "--test",
    "test_file",
    type=click.Path(path_type=Path),
    help="File with a test set, instead of cross-validation.",
)
@click.option(
    "--test-label",
    metavar="COLUMN",
    help="Column with the true class of the test set, or a file such as labels.npy [as in FILE].",
)
@click.option("--metrics", metavar="NAMES", help="Further metrics, separated by commas.")
@level_option
@format_options
def compare(**options: Any) -> None:
    """Compare calibration methods by cross-validation or on a test set.

    Differences are to the uncalibrated predictions, paired by row; negative is
    better.
    """
    worker("compare", "compare", options["file"], options["test_file"])(**options)


@click.command()
@prediction_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Output file [FILE-report.html next to the input].",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["html", "json", "markdown"]),
    help="Format of the report [from the file extension].",
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    metavar="REPORT",
    help="Earlier report in JSON to compare with.",
)
@click.option("--open", "is_opened", is_flag=True, help="Open the report in the browser.")
@click.option("--methods", metavar="NAMES", help="Methods to try, separated by commas [a default set].")
@click.option("--cv", type=click.IntRange(2), default=5, show_default=True, help="Number of folds.")
@level_option
@click.option("--title", help="Title of the page [the name of the file].")
@click.option("--by", metavar="NAMES", help="Side columns for a section on subgroups, separated by commas.")
@click.option(
    "--costs",
    metavar="MATRIX",
    help="A row per decision, a column per class, such as '0,9;1,0', for a section on decisions.",
)
@engine_options
def report(engine: str, address: str | None, **options: Any) -> None:
    """Report whether predictions are calibrated, and which method to use.

    The report is one self-contained HTML file.
    """
    if engine != "local":
        for name in ("by", "costs"):
            if options.pop(name) is not None:
                raise click.UsageError(f"--{name} is for --engine local.")
    engine_worker("report", engine, address, options["file"])(**options)


class InOrder(SuggestingGroup):
    """Group that lists commands in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of definition."""
        return list(self.commands)


@click.command()
@format_options
def methods(**options: Any) -> None:
    """List all calibration methods by name.

    A + between two names composes them: temperature+knn-kl.
    """
    worker("methods", "methods")(**options)


@click.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("calibrant-demo"),
    show_default=True,
    help="Output folder.",
)
def demo(**options: Any) -> None:
    """Train three classifiers on handwritten digits and calibrate them with every method."""
    import_module("calibrant.demo").main(["--output", str(options["output"])])
