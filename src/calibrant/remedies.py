"""Remedies: what to do about an error, in Python and on the command line."""

import re
from typing import NamedTuple

__all__ = ["REMEDIES", "Remedy", "for_command_line"]


class Remedy(NamedTuple):
    """A phrase of messages that names a function or a parameter, and the same for the command line."""

    python: str
    command_line: str

    def __str__(self) -> str:
        """Return the phrase for Python, so that messages are written as f-strings."""
        return self.python


USE_LOGITS = Remedy("use Predictions.from_logits", "say --space logits")
DECLARE_LOGITS = Remedy("declare the space as logits", "say --space logits")
SAME_SPACE = Remedy("pass the same kind as in fit", "say --space as in the fit")
CHOOSE_COLUMNS = Remedy("choose the columns", "choose the columns with --columns")
NAME_OUTPUT_COLUMNS = Remedy(
    "pass a pattern such as 'p_{label}_*', or one per label",
    "give --columns 'p_{label}_*', or one pattern per label, separated by ';'",
)
SAME_COLUMNS = Remedy(
    "pass the same columns as in fit", "choose the same columns as in the fit with --columns"
)
NAME_COLUMNS = Remedy("pass Predictions with classes=", "name the columns ")
CHOOSE_LABELS = Remedy("say which column has the labels", "say with --label which column has the labels")
CHOOSE_LABEL_FILE = Remedy("say which file has the labels", "say with --label which file has the labels")
OTHER_SEPARATOR = Remedy("choose another one", "choose another one with --separator")
SEMICOLONS = Remedy(
    "pass the separator ';', and the decimal sign ','", "add --separator ';', and --decimal ','"
)
DECIMAL_COMMAS = Remedy("pass the decimal sign ','", "add --decimal ','")
DROP_ROWS = Remedy("remove or repair such rows", "repair such rows, or add --drop-missing")
DROP_MISSING = Remedy(
    "remove rows without a value there", "remove rows without a value there, or add --drop-missing"
)
CHOOSE_ARRAY = Remedy("say which array has the", "say with --columns which array has the")
NORMALISE = Remedy("normalise the rows", "add --normalise")
NO_NORMALISATION = Remedy("normalise probabilities only", "--normalise is for probabilities")
NAME_POSITIVE = Remedy("name the positive class if", "give --positive if")
POSITIVE_CLASS = Remedy("a positive class is for", "--positive is for")
CHECK_POSITIVE = Remedy(
    "the positive class may be the other one", "the positive class may be the other one, see --positive"
)
USE_OTHER_TEST = Remedy("; use consistency_test", "")
USE_TEST_OF_RESIDUALS = Remedy(
    "use cumulative_test or spiegelhalter_test, or set a lower limit with Predictions.from_probabilities(..., floor=...)",
    "the other tests need none",
)
GIVE_TEST_SET = Remedy("a test set by test=", "a test set with --test")
GIVE_GROUPS = Remedy("pass groups=", "give --group")
OTHER_METHOD = Remedy("wrap it in OneVsRest", "choose another method")
SAVED_FILE = Remedy("a file that Calibrator.save wrote", "a file that 'calibrant fit' saved")
SAMPLE_WEIGHT = Remedy("sample_weight is", "the weight is")

REMEDIES = tuple(value for value in list(globals().values()) if isinstance(value, Remedy))
"""All remedies."""

# Longest first, in case one is a part of another; a space matches any white space, since text is wrapped.
_PHRASES = re.compile(
    "|".join(
        re.escape(one.python).replace(r"\ ", r"\s+")
        for one in sorted(REMEDIES, key=lambda one: len(one.python), reverse=True)
    )
)
_COMMAND_LINE = {one.python: one.command_line for one in REMEDIES}


def for_command_line(text: str) -> str:
    """Return a message with every remedy in the terms of the command line.

    >>> for_command_line("cross-validation needs at least 2 rows; give more rows, or a test set by test=.")
    'cross-validation needs at least 2 rows; give more rows, or a test set with --test.'
    """
    return _PHRASES.sub(lambda found: _COMMAND_LINE[" ".join(found[0].split())], text)
