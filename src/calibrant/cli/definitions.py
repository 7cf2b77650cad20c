"""Commands and their options: what the command line accepts, without importing what a command does."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from calibrant.cli.options import (
    PATH,
    InOrder,
    as_declared_option,
    calibrator_option,
    columns_option,
    cv_option,
    drop_missing_option,
    engine_options,
    engine_worker,
    file_argument,
    format_option,
    format_options,
    level_option,
    method_option,
    normalise_option,
    output_option,
    prediction_options,
    space_option,
    text_options,
    together,
    worker,
)

__all__ = [
    "apply",
    "bench",
    "compare",
    "decisions",
    "demo",
    "evaluate",
    "export",
    "fit",
    "methods",
    "multilabel",
    "multioutput",
    "report",
    "subgroups",
    "verify",
]

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
@method_option("auto", "A method from 'calibrant methods', or several joined by +.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Parameter of the method. Repeatable."
)
@output_option("Output file, such as calibrator.npz.")
@format_option("Format of the printed summary.")
@engine_options
def fit(engine: str, address: str | None, **options: Any) -> None:
    """Fit a calibrator to held-out predictions of the classifier, and save it."""
    engine_worker("fit", engine, address, options["file"])(**options)


@click.command()
@file_argument
@calibrator_option("fit")
@output_option("Output file; may be FILE itself.")
@columns_option("Score columns [named as in the fit].")
@space_option("Space of the scores [as in the fit].")
@normalise_option
@click.option("--append", is_flag=True, help="Add columns instead of replacing the scores.")
@click.option("--prefix", default="calibrated_", show_default=True, help="Prefix of added columns.")
@drop_missing_option
@text_options
@engine_options
def apply(engine: str, address: str | None, **options: Any) -> None:
    """Replace the scores of a file by calibrated probabilities.

    The file format and all other columns are kept. Files larger than memory are
    processed in batches.
    """
    engine_worker("apply", engine, address, options["file"], options["calibrator_path"])(**options)


@click.command()
@click.argument("calibrator", type=PATH)
@output_option("Output file; its extension determines the format: .onnx, .pt2, .sql or .json.")
@space_option("Space of the scores that the file takes [as in the fit].")
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
    worker("apply", "export", options["calibrator"])(**options)


@click.command()
@file_argument
@click.option("--against", type=PATH, required=True, help="Calibrator saved by 'calibrant fit'.")
def verify(**options: Any) -> None:
    """Compare an exported file with the calibrator on test rows.

    Ends with exit code 1 if probabilities or predicted classes differ.
    """
    worker("apply", "verify", options["file"], options["against"])(**options)


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
@cv_option
@click.option("--test", "test_file", type=PATH, help="File with a test set, instead of cross-validation.")
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
@click.option("-o", "--output", type=PATH, help="Output file [FILE-report.html next to the input].")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["html", "json", "markdown"]),
    help="Format of the report [from the file extension].",
)
@click.option("--baseline", type=PATH, metavar="REPORT", help="Earlier report in JSON to compare with.")
@click.option("--open", "is_opened", is_flag=True, help="Open the report in the browser.")
@click.option("--methods", metavar="NAMES", help="Methods to try, separated by commas [a default set].")
@cv_option
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


# Subgroups and decisions


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
    "--costs", required=True, metavar="MATRIX", help="A row per decision, a column per class: '0,9;1,0'."
)
@click.option("--calibrator", type=PATH, help="Calibrator to compare with, fitted to other rows.")
@level_option
@format_options
def decisions(**options: Any) -> None:
    """Compute the cost of decisions under a cost matrix, and net benefit.

    Net benefit is for two classes. With a calibrator, the gain from calibration
    is printed per 1,000 rows.
    """
    worker("questions", "decisions", options["file"], options["calibrator"])(**options)


# Several labels per row

output_report_option = output_option("Output file: .html, .md or .json.")


@click.group(cls=InOrder)
def multilabel() -> None:
    """Calibrate several labels that do not exclude each other.

    Files have a score column and an outcome column (1 or 0) per label.
    """


_score_options = together(
    file_argument,
    columns_option("Score columns: 'p_*', or names by commas.", required=True),
    space_option("Probabilities, or log-odds of each label.", required=True),
)
_outcome_options = together(
    _score_options,
    click.option(
        "--labels",
        required=True,
        metavar="PATTERN",
        help="Outcome columns, in the order of the scores: 'y_*'.",
    ),
    click.option("--missing", metavar="VALUE", help="Value of an unknown outcome, such as ? or -1."),
    method_option("shared", "'shared', or a method that is fitted to each label."),
)


@multilabel.command(name="evaluate")
@_outcome_options
@cv_option
@format_options
def evaluate_labels(**options: Any) -> None:
    """Measure labels before and after calibration, by cross-validation."""
    worker("labels", "evaluate_labels", options["file"])(**options)


@multilabel.command(name="fit")
@_outcome_options
@output_option("Output file, such as labels.npz.")
def fit_labels(**options: Any) -> None:
    """Fit the calibrators of all labels, and save them."""
    worker("labels", "fit_labels", options["file"])(**options)


@multilabel.command(name="apply")
@_score_options
@calibrator_option("multilabel fit")
@output_option("Output file.")
def apply_labels(**options: Any) -> None:
    """Replace the scores of all labels by calibrated probabilities."""
    worker("labels", "apply_labels", options["file"], options["calibrator_path"])(**options)


@multilabel.command(name="report")
@_outcome_options
@cv_option
@output_report_option
def report_labels(**options: Any) -> None:
    """Write a report on all labels, before and after calibration."""
    worker("labels", "report_labels", options["file"])(**options)


@click.group(cls=InOrder)
def multioutput() -> None:
    """Calibrate several class labels per row, such as colour and size.

    Files have a column per label, and score columns named after label and class,
    such as p_colour_red.
    """


_output_options = together(
    file_argument,
    columns_option(
        "Score columns: 'p_{label}_*', or one pattern per label, separated by ';' [named after the labels]."
    ),
    normalise_option,
    text_options,
)
_labelled_options = together(
    _output_options,
    click.option("--labels", required=True, metavar="NAMES", help="Label columns: colour,size."),
    space_option("Space of the scores.", required=True),
    as_declared_option,
    click.option("--missing", metavar="VALUE", help="Value of an unknown label, such as ?."),
    method_option("auto", "Method that is fitted to each label."),
)


@multioutput.command(name="evaluate")
@_labelled_options
@cv_option
@format_options
def evaluate_outputs(**options: Any) -> None:
    """Cross-validate a method for all labels."""
    worker("labels", "evaluate_outputs", options["file"])(**options)


@multioutput.command(name="fit")
@_labelled_options
@output_option("Output file, such as labels.npz.")
def fit_outputs(**options: Any) -> None:
    """Fit the calibrators of all labels, and save them."""
    worker("labels", "fit_outputs", options["file"])(**options)


@multioutput.command(name="apply")
@_output_options
@drop_missing_option
@space_option("Space of the scores [as in the fit].")
@calibrator_option("multioutput fit")
@output_option("Output file.")
def apply_outputs(**options: Any) -> None:
    """Replace the scores of all labels by calibrated probabilities."""
    worker("labels", "apply_outputs", options["file"], options["calibrator_path"])(**options)


@multioutput.command(name="report")
@_labelled_options
@cv_option
@output_report_option
def report_outputs(**options: Any) -> None:
    """Write a report on all labels, before and after calibration."""
    worker("labels", "report_outputs", options["file"])(**options)


# Studies

_study_options = together(
    click.argument("recipe", type=PATH),
    click.option("--form", metavar="NAME", help="Form of the recipe, such as a small one [complete]."),
    click.option(
        "--data", type=PATH, metavar="FOLDER", help="Data folder [CALIBRANT_DATA, or next to the recipe]."
    ),
    click.option("--store", type=PATH, metavar="FILE", help="File of all results [named after the recipe]."),
)
_jobs_option = click.option(
    "--jobs", type=click.IntRange(-1), default=1, show_default=True, help="Processes; -1 for all processors."
)
_folder_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Folder for the report [named after the recipe].",
)


@click.group(cls=InOrder)
def bench() -> None:
    """Run a study from a recipe, and compare it with a paper.

    A recipe is a folder with a file recipe.toml, which lists data sets,
    classifiers, calibrators, splits and metrics, and the tables and figures
    of the report.
    """


@bench.command(name="run")
@_study_options
@_jobs_option
@click.option(
    "--backend",
    type=click.Choice(["loky", "dask", "threading"]),
    default="loky",
    show_default=True,
    help="Backend of joblib.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Address of the Dask scheduler.")
@click.option("--retry-failed", is_flag=True, help="Run units again that failed or were too slow.")
@_folder_option
@click.pass_context
def run_study(context: click.Context, /, **options: Any) -> None:
    """Run all missing units, and write the report.

    This runs the Python files of the recipe, so run only recipes that you
    trust; all other commands read them as text.

    Results are saved as soon as they are available. To resume a run that was
    stopped or killed, give the same command again.
    """
    worker("bench", "run")(context, **options)


@bench.command(name="status")
@_study_options
@_jobs_option
@format_options
def study_status(**options: Any) -> None:
    """Show finished units, remaining time and failures."""
    worker("bench", "status")(**options)


@bench.command(name="report")
@_study_options
@_folder_option
def study_report(**options: Any) -> None:
    """Write tables, figures and pages from the available results."""
    worker("bench", "report")(**options)


_units_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@bench.command(name="export")
@_study_options
@_units_argument
def export_units(**options: Any) -> None:
    """Write finished units to FILE, a compressed table (*.csv.xz).

    Another machine continues the study after "bench import".
    """
    worker("bench", "export")(**options)


@bench.command(name="import")
@_study_options
@_units_argument
def import_units(**options: Any) -> None:
    """Add the units of FILE to the store, so that they are not run again.

    Units of other data, options or versions are left out.
    """
    worker("bench", "import_file")(**options)


@bench.command(name="forget")
@_study_options
@click.option("--failed", is_flag=True, help="Units that failed or were too slow.")
@click.option(
    "--where", "texts", multiple=True, metavar="LABEL=VALUE", help="Units with this label, such as data=iris."
)
@click.option("--old", is_flag=True, help="Results that are no longer in the recipe.")
@click.option("--dry-run", is_flag=True, help="Only print how many results would be removed.")
def forget_results(**options: Any) -> None:
    """Remove results from the store, so that they are run again.

    --failed and --where together select units that match both.
    """
    worker("bench", "forget")(**options)


@bench.command(name="list")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default=".")
@format_options
def list_recipes(**options: Any) -> None:
    """List the recipes in a folder."""
    worker("bench", "list_recipes")(**options)
