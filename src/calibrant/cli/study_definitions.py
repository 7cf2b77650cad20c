"""The command ``calibrant bench`` and its options: what they accept, without importing what they do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from calibrant.cli.definitions import InOrder, format_options, worker

__all__ = ["bench"]

Command = TypeVar("Command", bound=Callable[..., Any])

jobs_option = click.option(
    "--jobs", type=click.IntRange(-1), default=1, show_default=True, help="Processes; -1 for all processors."
)


def study_options(command: Command) -> Command:
    """Add the recipe, its data folder and its results file."""
    options = [
        click.argument("recipe", type=click.Path(path_type=Path)),
        click.option("--form", metavar="NAME", help="Form of the recipe, such as a small one [complete]."),
        click.option(
            "--data",
            type=click.Path(path_type=Path),
            metavar="FOLDER",
            help="Data folder [CALIBRANT_DATA, or next to the recipe].",
        ),
        click.option(
            "--store",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="File of all results [named after the recipe].",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def output_option(command: Command) -> Command:
    """Add the output folder of the report."""
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="FOLDER",
        help="Folder for the report [named after the recipe].",
    )(command)


@click.group(cls=InOrder)
def bench() -> None:
    """Run a study from a recipe, and compare it with a paper.

    A recipe is a folder with a file recipe.toml, which lists data sets,
    classifiers, calibrators, splits and metrics, and the tables and figures
    of the report.
    """


@bench.command()
@study_options
@jobs_option
@click.option(
    "--backend",
    type=click.Choice(["loky", "dask", "threading"]),
    default="loky",
    show_default=True,
    help="Backend of joblib.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Address of the Dask scheduler.")
@click.option("--retry-failed", is_flag=True, help="Run units again that failed or were too slow.")
@output_option
@click.pass_context
def run(context: click.Context, /, **options: Any) -> None:
    """Run all missing units, and write the report.

    This runs the Python files of the recipe, so run only recipes that you
    trust; all other commands read them as text.

    Results are saved as soon as they are available. To resume a run that was
    stopped or killed, give the same command again.
    """
    worker("bench", "run")(context, **options)


@bench.command()
@study_options
@jobs_option
@format_options
def status(**options: Any) -> None:
    """Show finished units, remaining time and failures."""
    worker("bench", "status")(**options)


@bench.command(name="report")
@study_options
@output_option
def bench_report(**options: Any) -> None:
    """Write tables, figures and pages from the available results."""
    worker("bench", "report")(**options)


units_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@bench.command(name="export")
@study_options
@units_argument
def export_units(**options: Any) -> None:
    """Write finished units to FILE, a compressed table (*.csv.xz).

    Another machine continues the study after "bench import".
    """
    worker("bench", "export")(**options)


@bench.command(name="import")
@study_options
@units_argument
def import_units(**options: Any) -> None:
    """Add the units of FILE to the store, so that they are not run again.

    Units of other data, options or versions are left out.
    """
    worker("bench", "import_file")(**options)


@bench.command()
@study_options
@click.option("--failed", is_flag=True, help="Units that failed or were too slow.")
@click.option(
    "--where", "texts", multiple=True, metavar="LABEL=VALUE", help="Units with this label, such as data=iris."
)
@click.option("--old", is_flag=True, help="Results that are no longer in the recipe.")
@click.option("--dry-run", is_flag=True, help="Only print how many results would be removed.")
def forget(**options: Any) -> None:
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
