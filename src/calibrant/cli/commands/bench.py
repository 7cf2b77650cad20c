"""``calibrant bench``: studies of many data sets, classifiers and methods, described by a recipe."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.bench_options import jobs_option, output_option, study_options
from calibrant.cli.lazily import worker
from calibrant.cli.options import format_options
from calibrant.cli.suggesting import SuggestingGroup

__all__ = ["bench"]


class InOrder(SuggestingGroup):
    """Commands in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names as they were defined."""
        return list(self.commands)


@click.group(cls=InOrder)
def bench() -> None:
    """Run a study that a recipe describes, and compare it with a paper.

    A recipe is a folder with a file recipe.toml, which names data sets,
    classifiers, calibrators, splits and measures, and the tables and pictures
    to be made of them.
    """


@bench.command()
@study_options
@jobs_option
@click.option(
    "--backend",
    type=click.Choice(["loky", "dask", "threading"]),
    default="loky",
    show_default=True,
    help="How joblib runs them.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Address of the scheduler of Dask.")
@click.option("--retry-failed", is_flag=True, help="Run again what failed or was too slow.")
@output_option
@click.pass_context
def run(context: click.Context, /, **options: Any) -> None:
    """Run what is not there yet, and write the report.

    This runs the Python files that the recipe names, so run only recipes that
    you trust; all other commands read them as text.

    Every result is kept as soon as it is there: a run that was stopped, in
    whatever way, goes on where it was if the same command is given again.
    """
    worker("bench", "run")(context, **options)


@bench.command()
@study_options
@jobs_option
@format_options
def status(**options: Any) -> None:
    """Tell what is there, how long the rest takes, and what failed."""
    worker("bench", "status")(**options)


@bench.command()
@study_options
@output_option
def report(**options: Any) -> None:
    """Write tables, pictures and pages of what is there."""
    worker("bench", "report")(**options)


@bench.command()
@study_options
@click.option("--failed", is_flag=True, help="What failed or was too slow.")
@click.option(
    "--where", "texts", multiple=True, metavar="LABEL=VALUE", help="Units with this label, such as data=iris."
)
@click.option("--old", is_flag=True, help="What the recipe does not ask for any more.")
@click.option("--dry-run", is_flag=True, help="Only say how many results would go.")
def forget(**options: Any) -> None:
    """Remove results from the store, so that they are run again.

    --failed and --where together choose what is both.
    """
    worker("bench", "forget")(**options)


@bench.command(name="list")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default=".")
@format_options
def list_recipes(**options: Any) -> None:
    """List the recipes in a folder."""
    worker("bench", "list_recipes")(**options)
