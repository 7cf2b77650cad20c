"""The program ``calibrant``: its commands, and error handling with one sentence and an exit code."""

import errno
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import click

import calibrant as package
from calibrant.cli.console import StreamError, flush, notes_of_warnings, printed, silence, tell
from calibrant.cli.exit_codes import FULL, ExitCode, explained
from calibrant.cli.options import ARGUMENTS, PROJECT_FILE, SuggestingGroup
from calibrant.cli.project import project_of

__all__ = ["calibrant"]

DEBUG = "--debug"

COMMANDS = {
    "evaluate": "Measure calibration, with intervals and tests.",
    "fit": "Fit a calibrator and save it.",
    "apply": "Write calibrated probabilities to a file.",
    "export": "Export a calibrator to ONNX, torch, SQL or JSON.",
    "verify": "Compare an exported file with its calibrator.",
    "compare": "Compare methods by cross-validation or on a test set.",
    "report": "Write a report as one HTML page, JSON or Markdown.",
    "subgroups": "Test calibration in subgroups of side columns.",
    "decisions": "Compute the cost of decisions and the net benefit.",
    "multilabel": "Calibrate several labels per row, each present or absent.",
    "multioutput": "Calibrate several class labels per row.",
    "bench": "Run a study: many data sets, classifiers and methods.",
    "methods": "List all methods with their traits.",
    "demo": "Calibrate three classifiers with every method.",
}
"""Commands with their short help; each is loaded on first use."""


class Program(SuggestingGroup):
    """Command group with documented exit codes, and with tracebacks only for --debug."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> None:
        """Run and exit."""
        arguments = list(sys.argv[1:] if args is None else args)
        debug = DEBUG in arguments
        arguments = [argument for argument in arguments if argument != DEBUG]
        try:
            code = self._run(arguments, prog_name, debug, extra)
        except StreamError as error:
            code = _lost(error)
        try:
            flush()
        except StreamError as error:
            code = _lost(error)
        sys.exit(code)

    def _run(self, arguments: list[str], prog_name: str | None, debug: bool, extra: dict[str, Any]) -> int:
        extra["standalone_mode"] = False
        try:
            with notes_of_warnings(debug):
                code = super().main(arguments, prog_name, **extra)
        except click.ClickException as error:
            shown = StringIO()
            error.show(shown)
            printed(shown.getvalue(), err=True, nl=False)
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            tell("Interrupted; no incomplete files were left.")
            return ExitCode.INTERRUPTED
        except StreamError:
            raise
        except Exception as error:
            if debug:
                traceback.print_exc()
            number, sentence = explained(error)
            tell(f"Error: {sentence}")
            return number
        return int(code) if isinstance(code, int) else ExitCode.FINE

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the command line; --help and --version print here."""
        project, arguments = project_of(Path.cwd(), args), list(args)
        with _streams_told():
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[ARGUMENTS] = arguments
        if project is not None:
            context.default_map = project.defaults()
            context.meta[PROJECT_FILE] = project.path
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, or print its help."""
        with _streams_told():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module("calibrant.cli.definitions"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@contextmanager
def _streams_told() -> Iterator[None]:
    """Separate errors of stdout from errors of files, which have a name; click would use its own exit code."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in (errno.EPIPE, *FULL):
            raise StreamError(sys.stdout, error) from error
        raise


def _lost(error: StreamError) -> ExitCode:
    """Exit silently if the reader has closed the pipe; report a full disk."""
    silence(error.stream)
    if error.reason.errno in FULL:
        with suppress(StreamError):
            tell(f"Error: {str(error).removesuffix('.')}; free some space, or choose another place.")
        return ExitCode.BAD_INPUT
    return ExitCode.BROKEN_PIPE


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package.__version__, prog_name="calibrant")
@click.option(DEBUG, is_flag=True, help="Show the traceback of an error.")
def calibrant(debug: bool) -> None:
    """Measure, improve and test the calibration of probabilistic classifiers.

    Files of predictions are CSV, Parquet, NPZ and others, with one row per
    prediction and one score column per class. Start with

      calibrant report predictions.csv

    Exit codes: 0 success, 1 unusable file or data, 2 wrong usage, 3 internal
    error, 4 a limit of --fail-above is exceeded, 129 hangup, 130 interrupted,
    141 broken pipe, 143 terminated.
    """
