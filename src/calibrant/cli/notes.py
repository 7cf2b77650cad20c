"""Notes on stderr: warnings of the library, one line each, and messages of commands."""

import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from calibrant.cli.printing import in_one_line, printed
from calibrant.cli.translation import translated
from calibrant.errors import CalibrationWarning
from calibrant.wording import LONGEST_NAME, shortened

__all__ = ["note", "noted", "notes_of_warnings", "said"]


LONG_NAME = re.compile(rf"'[^'\s]{{{LONGEST_NAME},}}'")


def note(message: str) -> None:
    """Print one line on stderr."""
    said(f"Note: {message}")


def noted(sentences: Iterable[str]) -> None:
    """Print each sentence as a note."""
    for sentence in sentences:
        note(sentence)


def said(sentence: str) -> None:
    """Print a sentence on stderr, in one line that is wrapped only for terminals."""
    text = LONG_NAME.sub(lambda found: shortened(found[0]), translated(" ".join(sentence.split())))
    text = in_one_line(text)
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    printed(text, err=True)


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
