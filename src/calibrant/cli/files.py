"""Files of a command: predictions to read, and outputs that are checked before any computation."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calibrant.cli.progress import Progress
from calibrant.errors import ParameterError
from calibrant.tables.file_set import open_source
from calibrant.tables.prediction_file import PredictionFile

__all__ = ["check_writable", "opened"]


@contextmanager
def opened(path: Path, choice: dict[str, Any], progress: Progress) -> Iterator[PredictionFile]:
    """Open the file, folder or pattern of a command; ``choice`` are the options of its columns.

    Every command that reads labelled predictions gets them here.
    """
    with open_source(path) as source:
        predictions = PredictionFile(source, **choice)
        progress.expected_rows = source.approximate_rows()
        yield predictions


def check_writable(path: Path | None, *inputs: Path | None) -> None:
    """Reject an output that cannot be written or would overwrite an input, before any computation."""
    if path is None:
        return
    if path.is_dir():
        raise ParameterError(f"{path} is a folder, not a file; give a file name.")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ParameterError(f"{path}: the folder {folder.name!r} does not exist; create it first.")
    for given in inputs:
        if given is not None and _are_same(path, given):
            raise ParameterError(f"the output {path} would overwrite the input {given}; give another output.")


def _are_same(one: Path, other: Path) -> bool:
    """Return whether two paths refer to the same file, including links."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one does not exist
        return os.path.realpath(one) == os.path.realpath(other)
