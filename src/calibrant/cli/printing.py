"""The one place where the command line prints: control characters become visible, a lost reader an error."""

import os
import re
import sys
from typing import IO

import click

__all__ = ["CONTROL", "StreamError", "flush", "in_one_line", "printed", "silence", "visible"]

# All but line ends and tabs; marks that turn the direction of text round; halves of characters, which cannot be printed.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class StreamError(Exception):
    """Stdout or stderr takes nothing any more; ``reason`` is what the system says."""

    def __init__(self, stream: IO[str], reason: OSError) -> None:
        name = "standard error" if stream is sys.stderr else "standard output"
        super().__init__(f"{name}: {(reason.strerror or str(reason)).lower().rstrip('.')}.")
        self.stream, self.reason = stream, reason


def visible(text: str) -> str:
    r"""Return text in which control characters are written as Python writes them, so that a terminal obeys none.

    >>> visible("\x1b[31mcat\x9b")
    '\\x1b[31mcat\\x9b'
    """
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def in_one_line(text: str) -> str:
    r"""Return text for a cell or a sentence, in which line ends and tabs are visible too.

    >>> in_one_line("cat\n\x07")
    'cat\\n\\x07'
    """
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def printed(text: str, *, err: bool = False, nl: bool = True, raw: bool = False) -> None:
    """Print text on stdout, or on stderr; nothing in it can steer the terminal.

    ``raw`` is for text that is for another program, and for tables that have been made visible before they got colours.
    """
    stream = sys.stderr if err else sys.stdout
    try:
        click.echo(text if raw else visible(text), file=stream, nl=nl)
    except OSError as error:
        raise StreamError(stream, error) from error


def flush() -> None:
    """Write what is still in memory."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            raise StreamError(stream, error) from error


def silence(stream: IO[str]) -> None:
    """Let go nowhere what is still to be written to a stream that nobody reads or that is full, as when Python ends."""
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)
    except (OSError, ValueError):  # no file behind it
        pass
