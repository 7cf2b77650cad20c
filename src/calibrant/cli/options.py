"""Options that several commands share, and the groups of commands, without importing what a command does."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from glob import has_magic
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = [
    "ARGUMENTS",
    "AS_DECLARED",
    "CORRECTNESS",
    "FORMAT_NAMES",
    "PATH",
    "PROJECT_FILE",
    "SPACES",
    "InOrder",
    "SuggestingGroup",
    "as_declared_option",
    "calibrator_option",
    "check_exists",
    "columns_option",
    "cv_option",
    "drop_missing_option",
    "engine_options",
    "engine_worker",
    "file_argument",
    "format_option",
    "format_options",
    "is_stream",
    "level_option",
    "method_option",
    "normalise_option",
    "output_option",
    "prediction_options",
    "space_option",
    "text_options",
    "together",
    "worker",
]

SPACES = ("probabilities", "logits")

STREAM = "-"
"""Name of standard input and of standard output."""

AS_DECLARED = "calibrant.as_declared"
"""Key in the context of a command for --as-declared."""

ARGUMENTS = "calibrant.arguments"
"""Key in the context of a command for its command line."""

PROJECT_FILE = "calibrant.project_file"
"""Key in the context of a command for the path of its project file."""

CORRECTNESS = "calibrant.confidence_and_correct"
"""Key in the context of a command for --confidence with --correct."""

FORMAT_NAMES = ("table", "json", "csv", "markdown", "latex")
"""Output formats of :mod:`calibrant.cli.rendering`."""

PATH = click.Path(path_type=Path)

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]
"""Decorator that adds one or more options to a command."""


# Inputs, and the functions of commands


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


class InOrder(SuggestingGroup):
    """Group that lists commands in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of definition."""
        return list(self.commands)


# Options


def together(*options: Option) -> Callable[[Command], Command]:
    """Return a decorator that adds options in the order of the help."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


file_argument = click.argument("file", type=PATH)
cv_option = click.option(
    "--cv", type=click.IntRange(2), default=5, show_default=True, help="Number of folds."
)
drop_missing_option = click.option(
    "--drop-missing", is_flag=True, help="Drop rows in which a value is missing."
)
normalise_option = click.option(
    "--normalise", is_flag=True, help="Renormalise rows of probabilities whose sums are within 0.05 of one."
)
level_option = click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Confidence level of intervals.",
)
text_options = together(
    click.option(
        "--separator", metavar="SIGN", help="Field separator of a CSV file: ';', '|', tab [by extension]."
    ),
    click.option("--decimal", metavar="SIGN", help="Decimal sign of a CSV file: '.' or ',' [.]."),
)


def _remember_declared(context: click.Context, _: click.Parameter, given: bool) -> None:
    """Remember that logits are accepted whatever they look like."""
    context.meta[AS_DECLARED] = given


as_declared_option = click.option(
    "--as-declared",
    is_flag=True,
    expose_value=False,
    callback=_remember_declared,
    help="Accept logits that look like probabilities.",
)


def columns_option(about: str, *, required: bool = False) -> Option:
    """Return the option for score columns."""
    return click.option("--columns", metavar="PATTERN", required=required, help=about)


def space_option(about: str, *, required: bool = False) -> Option:
    """Return the option for the space of the scores."""
    return click.option("--space", type=click.Choice(SPACES), required=required, help=about)


def method_option(default: str, about: str) -> Option:
    """Return the option for one method."""
    return click.option("--method", default=default, show_default=True, help=about)


def calibrator_option(command: str) -> Option:
    """Return the option for a saved calibrator, which another command writes."""
    about = f"File saved by 'calibrant {command}'."
    return click.option("--calibrator", "calibrator_path", type=PATH, required=True, help=about)


def output_option(about: str) -> Option:
    """Return the option for a required output file."""
    return click.option("-o", "--output", type=PATH, required=True, help=about)


def format_option(about: str) -> Option:
    """Return the option for the format of a result."""
    return click.option(
        "--format",
        "format_name",
        type=click.Choice(FORMAT_NAMES),
        default="table",
        show_default=True,
        help=about,
    )


def _printed_if_stream(_: click.Context, __: click.Parameter, given: Path | None) -> Path | None:
    """Return no file for -, which is the terminal."""
    return None if is_stream(given) else given


format_options = together(
    format_option("Format of the result."),
    click.option(
        "-o",
        "--output",
        type=PATH,
        callback=_printed_if_stream,
        help="Write to a file instead of the terminal.",
    ),
)
engine_options = together(
    click.option(
        "--engine",
        type=click.Choice(["local", "dask", "spark"]),
        default="local",
        show_default=True,
        help="Engine that reads the rows.",
    ),
    click.option(
        "--address", metavar="URL", help="Scheduler of Dask or master of Spark [workers on this machine]."
    ),
)


class Confidence(click.Option):
    """Option that stands for the score column of one event in [0, 1], and with --correct for its label."""

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Set columns, label and space from the two options."""
        confidence, correct = opts.get("confidence"), opts.get("correct")
        if confidence is None and correct is None:
            return super().handle_parse_result(ctx, opts, args)
        if confidence is None or correct is None:
            raise click.UsageError(
                "--confidence and --correct go together; give the names of both columns.", ctx
            )
        for name in ("label", "columns"):
            if opts.get(name) is not None and opts[name] not in (confidence, correct):
                raise click.UsageError(
                    f"--{name} has no effect with --confidence and --correct; leave it out.", ctx
                )
        ctx.meta[CORRECTNESS] = True
        assert isinstance(opts, dict)
        opts.update(columns=confidence, label=correct)
        opts.setdefault("space", "probabilities")
        return super().handle_parse_result(ctx, opts, args)


confidence_option = partial(click.option, metavar="COLUMN", expose_value=False, cls=Confidence, is_eager=True)

prediction_options = together(
    confidence_option(
        "--confidence", help="Column with the confidence in an answer, in place of class scores."
    ),
    confidence_option(
        "--correct",
        help="Column that says whether the answer was correct: 1 and 0, true and false, or yes and no.",
    ),
    file_argument,
    click.option(
        "--label",
        metavar="COLUMN",
        help="Column with the true class [inferred from names or values]; for an array, a file such as labels.npy.",
    ),
    space_option("Space of the scores [inferred from column names, or from rows that sum to one]."),
    as_declared_option,
    columns_option("Score columns: 'p_*', or names separated by commas [named after the classes]."),
    click.option("--weight", metavar="COLUMN", help="Column with sample weights."),
    click.option("--group", metavar="COLUMN", help="Column with groups of dependent rows, such as patients."),
    click.option(
        "--positive", metavar="LABEL", help="Class of a single score column [the last in sorted order]."
    ),
    normalise_option,
    drop_missing_option,
    text_options,
)
"""The file of predictions and the options for its columns, as in :class:`PredictionFile`."""
