"""All printing of the command line: control characters are escaped, and closed pipes are reported."""

import os
import re
import sys
from typing import IO

import click

__all__ = ["CONTROL", "StreamError", "flush", "in_one_line", "printed", "silence", "visible"]

# Control characters except line ends and tabs; marks of text direction; surrogates, which cannot be printed.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class StreamError(Exception):
    """Stdout or stderr cannot be written any more; ``reason`` is the error of the system."""

    def __init__(self, stream: IO[str], reason: OSError) -> None:
        name = "standard error" if stream is sys.stderr else "standard output"
        super().__init__(f"{name}: {(reason.strerror or str(reason)).lower().rstrip('.')}.")
        self.stream, self.reason = stream, reason


def visible(text: str) -> str:
    r"""Escape control characters as in Python literals, so that a terminal does not interpret them.

    >>> visible("\x1b[31mcat\x9b")
    '\\x1b[31mcat\\x9b'
    """
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def in_one_line(text: str) -> str:
    r"""Escape control characters, including line ends and tabs, for a cell or a sentence.

    >>> in_one_line("cat\n\x07")
    'cat\\n\\x07'
    """
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


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
