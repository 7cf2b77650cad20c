"""Options for files with a confidence and a column that says whether the answer was correct."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

__all__ = ["GIVEN", "confidence_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

GIVEN = "calibrant.confidence_and_correct"
"""Key in the context of a command for --confidence with --correct."""

CONFLICTING = {"label": "--label", "columns": "--columns"}


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
        for name, option in CONFLICTING.items():
            if opts.get(name) is not None and opts[name] not in (confidence, correct):
                raise click.UsageError(
                    f"{option} has no effect with --confidence and --correct; leave it out.", ctx
                )
        ctx.meta[GIVEN] = True
        assert isinstance(opts, dict)
        opts.update(columns=confidence, label=correct)
        opts.setdefault("space", "probabilities")
        return super().handle_parse_result(ctx, opts, args)


def confidence_options(command: Command) -> Command:
    """Add the two options of confidences with outcomes, from language models, detectors or any black box."""
    command = click.option(
        "--correct",
        metavar="COLUMN",
        expose_value=False,
        cls=Confidence,
        is_eager=True,
        help="Column that says whether the answer was correct: 1 and 0, true and false, or yes and no.",
    )(command)
    return click.option(
        "--confidence",
        metavar="COLUMN",
        expose_value=False,
        cls=Confidence,
        is_eager=True,
        help="Column with the confidence in an answer, in place of class scores.",
    )(command)
