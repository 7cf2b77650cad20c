"""``calibrant bench``: run studies of many data sets, classifiers and methods from a recipe."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.bench_options import jobs_option, output_option, study_options
from calibrant.cli.lazily import worker
from calibrant.cli.options import format_options
from calibrant.cli.suggesting import SuggestingGroup

__all__ = ["bench"]


class InOrder(SuggestingGroup):
    """Group that lists commands in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of definition."""
        return list(self.commands)


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


@bench.command()
@study_options
@output_option
def report(**options: Any) -> None:
    """Write tables, figures and pages from the available results."""
    worker("bench", "report")(**options)


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
