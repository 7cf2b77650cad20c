"""Exit codes, and which of them an error stands for."""

import errno
import os
from enum import IntEnum

from calibrant.errors import (
    FileFormatError,
    LabelError,
    MissingExtraError,
    ParameterError,
    PredictionError,
    StudyError,
    WeightError,
)

__all__ = ["FULL", "ExitCode", "explained"]

# Other errors of values, such as those of numpy, are none that a user could do something about.
DATA_ERRORS = (FileFormatError, LabelError, ParameterError, PredictionError, StudyError, WeightError)


FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
"""What the system says of a disk, or a share of it, that is full."""


class ExitCode(IntEnum):
    """What the command line tells a script."""

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
    """Return the code and the sentence for an error; ours say all that there is to say.

    >>> explained(LabelError("all labels are the same."))
    (<ExitCode.BAD_INPUT: 1>, 'all labels are the same.')
    """
    if isinstance(error, MissingExtraError):
        return ExitCode.USAGE, str(error)
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        path = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
        if _is_ours(path):  # a temporary file beside the one to be written
            folder = os.path.dirname(path) or "."
            if isinstance(error, FileNotFoundError) and os.path.isdir(folder):
                reason = "this folder takes no new files"
            path = f"cannot write in {folder}"
        name = f"{path}: " if path else ""
        advice = "; make room, or choose another place" if error.errno in FULL else ""
        return ExitCode.BAD_INPUT, f"{name}{reason[:1].lower()}{reason[1:].rstrip('.')}{advice}."
    if isinstance(error, MemoryError):
        return (
            ExitCode.BAD_INPUT,
            "there is not enough memory for all rows; evaluate can take them in batches, --stream.",
        )
    if isinstance(error, DATA_ERRORS):
        return ExitCode.BAD_INPUT, " ".join(str(error).split())
    return (
        ExitCode.BUG,
        f"this should not have happened: {type(error).__name__}: {error}; run again with --debug and report what it says.",
    )


def _is_ours(path: str) -> bool:
    return os.path.basename(path).startswith(".calibrant-")
