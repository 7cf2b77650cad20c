"""Everything that the command line prints: control characters are escaped, and warnings become notes."""

import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from calibrant.errors import CalibrationWarning
from calibrant.presentation.sentences import LONGEST_NAME, shortened
from calibrant.presentation.text import in_one_line, visible
from calibrant.remedies import for_command_line

__all__ = [
    "StreamError",
    "flush",
    "named",
    "note",
    "notes_of_warnings",
    "print_notes",
    "printed",
    "silence",
    "tell",
]


class StreamError(Exception):
    """Stdout or stderr cannot be written any more; ``reason`` is the error of the system."""

    def __init__(self, stream: IO[str], reason: OSError) -> None:
        name = "standard error" if stream is sys.stderr else "standard output"
        super().__init__(f"{name}: {(reason.strerror or str(reason)).lower().rstrip('.')}.")
        self.stream, self.reason = stream, reason


def printed(text: str, *, err: bool = False, nl: bool = True, raw: bool = False) -> None:
    """Print text on stdout or stderr, with control characters escaped.

    ``raw`` is for text for other programs, and for tables that were escaped before colours were added.
    """
    stream = sys.stderr if err else sys.stdout
    try:
        click.echo(text if raw else visible(text), file=stream, nl=nl)
    except OSError as error:
        raise StreamError(stream, error) from error


def flush() -> None:
    """Flush stdout and stderr."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            raise StreamError(stream, error) from error


def silence(stream: IO[str]) -> None:
    """Discard the remaining output of a broken stream, so that the flush at exit does not fail."""
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)
    except (OSError, ValueError):  # not backed by a file descriptor
        pass


NAMES: dict[str, str] = {}
"""Texts that are shown under another name, such as the path of a temporary file."""


@contextmanager
def named(text: str, name: str) -> Iterator[None]:
    """Show a text under another name; not undone by an error, whose message comes later."""
    NAMES[text] = name
    yield
    del NAMES[text]


LONG_NAME = re.compile(rf"'[^'\s]{{{LONGEST_NAME},}}'")


def note(message: str) -> None:
    """Print one line on stderr."""
    tell(f"Note: {message}")


def print_notes(sentences: Iterable[str]) -> None:
    """Print each sentence as a note."""
    for sentence in sentences:
        note(sentence)


def tell(sentence: str) -> None:
    """Print a sentence on stderr, in one line that is wrapped only for terminals."""
    for text, name in NAMES.items():
        sentence = sentence.replace(text, name)
    text = LONG_NAME.sub(lambda found: shortened(found[0]), for_command_line(" ".join(sentence.split())))
    text = in_one_line(text)
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
        if "NO_COLOR" not in os.environ:
            printed(_coloured(visible(text)), err=True, raw=True)
            return
    printed(text, err=True)


def _coloured(text: str) -> str:
    """Return a message with its first word in colour: errors in red, notes dim."""
    opening, colon, rest = text.partition(":")
    looks: dict[str, dict[str, Any]] = {"Error": {"fg": "red", "bold": True}, "Note": {"dim": True}}
    return click.style(opening + colon, **looks[opening]) + rest if opening in looks else text


@contextmanager
def notes_of_warnings(debug: bool = False) -> Iterator[None]:
    """Show every warning of the library once, as a note; warnings of other packages only for debugging."""
    seen: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = str(message)
        if text in seen:
            return
        seen.add(text)
        if issubclass(category, CalibrationWarning) or debug:
            note(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield
