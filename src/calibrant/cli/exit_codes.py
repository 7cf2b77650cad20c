"""Exit codes, and the exit code of each error."""

import errno
import os
from enum import IntEnum

from calibrant.errors import (
    ExportError,
    FileFormatError,
    LabelError,
    MissingExtraError,
    NoGraphError,
    ParameterError,
    PartitionError,
    PredictionError,
    StudyError,
    WeightError,
)

__all__ = ["FULL", "ExitCode", "explained"]

# Other ValueErrors, such as those of numpy, are not user errors.
DATA_ERRORS = (
    ExportError,
    FileFormatError,
    LabelError,
    NoGraphError,
    ParameterError,
    PartitionError,
    PredictionError,
    StudyError,
    WeightError,
)


FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
"""Error numbers for a full disk or an exceeded quota."""


class ExitCode(IntEnum):
    """Exit codes of the command line."""

    FINE = 0
    BAD_INPUT = 1
    USAGE = 2
    BUG = 3
    LIMIT_EXCEEDED = 4
    HUNG_UP = 129
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


def explained(error: Exception) -> tuple[ExitCode, str]:
    """Return the exit code and the message for an error; messages of our own errors are used unchanged.

    >>> explained(LabelError("all labels are the same."))
    (<ExitCode.BAD_INPUT: 1>, 'all labels are the same.')
    """
    if isinstance(error, MissingExtraError):
        return ExitCode.USAGE, str(error)
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        path = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
        folder = os.path.dirname(path) or "."
        if (
            isinstance(error, FileNotFoundError)
            and reason == os.strerror(errno.ENOENT)
            and os.path.isdir(folder)
        ):
            path, reason = (
                f"cannot write in {folder}",
                "this folder is not writable",
            )  # inputs are looked for before
        name = f"{path}: " if path else ""
        advice = "; free some space, or choose another place" if error.errno in FULL else ""
        return ExitCode.BAD_INPUT, f"{name}{reason[:1].lower()}{reason[1:].rstrip('.')}{advice}."
    if isinstance(error, MemoryError):
        return (
            ExitCode.BAD_INPUT,
            "there is not enough memory for all rows; evaluate can read them in batches with --stream.",
        )
    if isinstance(error, DATA_ERRORS):
        return ExitCode.BAD_INPUT, " ".join(str(error).split())
    return (
        ExitCode.BUG,
        f"internal error: {type(error).__name__}: {error}; run again with --debug and report the output.",
    )
