"""The program ``calibrant``: its commands, and one sentence with an exit code for whatever goes wrong."""

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

import calibrant as package
from calibrant.cli.exit_codes import ExitCode, explained
from calibrant.cli.notes import notes_of_warnings, said

__all__ = ["Program", "calibrant"]

DEBUG = "--debug"

COMMANDS = {
    "evaluate": "Measure calibration, with intervals and tests.",
    "fit": "Learn a calibrator and save it.",
    "apply": "Write calibrated probabilities into a file.",
    "compare": "Compare methods by cross-validation or on test rows.",
    "report": "Write a report as one HTML page, JSON or Markdown.",
    "bench": "Run a study: many data sets, classifiers and methods.",
    "methods": "List all methods with their traits.",
    "demo": "Calibrate three classifiers with every method.",
}
"""Names of the commands, each of which is loaded when it is used, and what they do."""


class Program(click.Group):
    """A group of commands that ends with a documented exit code, and with a traceback only if asked for."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> None:
        """Run, and exit."""
        arguments = list(sys.argv[1:] if args is None else args)
        debug = DEBUG in arguments
        arguments = [argument for argument in arguments if argument != DEBUG]
        extra["standalone_mode"] = False
        try:
            with notes_of_warnings(debug):
                code = super().main(arguments, prog_name, **extra)
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            said("Interrupted; nothing was left half-written.")
            code = ExitCode.INTERRUPTED
        except Exception as error:
            if debug:
                traceback.print_exc()
            code, sentence = explained(error)
            said(f"Error: {sentence}")
        sys.exit(int(code) if isinstance(code, int) else ExitCode.FINE)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"calibrant.cli.commands.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and be quiet if nobody reads what it prints."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is still to be printed when Python ends must go somewhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(ExitCode.BROKEN_PIPE)
        return result


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package.__version__, prog_name="calibrant")
@click.option(DEBUG, is_flag=True, help="Show where in the program an error arose.")
def calibrant(debug: bool) -> None:
    """Measure, repair and prove the calibration of probabilistic classifiers.

    Files of predictions are CSV, Parquet, Feather or NPZ, with one row for each
    prediction and one column of scores for each class.

    Exit codes: 0 fine, 1 a file or its data cannot be used, 2 wrong usage,
    3 an error of the program itself, 4 a limit of --fail-above is exceeded,
    130 interrupted.
    """
