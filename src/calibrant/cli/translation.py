"""Translate messages of the library from Python terms to options of the command line."""

import re

__all__ = ["REPLACEMENTS", "translated"]

REPLACEMENTS = {
    # Messages on files of predictions
    "declare the space as logits if these are logits": "say --space logits if these are logits",
    "choose the columns of scores": "choose the columns of scores with --columns",
    "choose the columns": "choose the columns with --columns",
    "name the columns of scores": "name the columns of scores with --columns",
    "say which column has the labels": "say with --label which column has the labels",
    "say which file has the labels": "say with --label which file has the labels",
    "pass the separator ';', and the decimal sign ','": "add --separator ';', and --decimal ','",
    "pass the decimal sign ','": "add --decimal ','",
    "; choose another one": "; choose another one with --separator",
    "remove or repair such rows": "repair such rows, or add --drop-missing",
    "remove rows without a value there": "remove rows without a value there, or add --drop-missing",
    "say which array has the": "say with --columns which array has the",
    "if they were rounded, normalise the rows": "rounded? add --normalise",
    "normalise probabilities only": "--normalise is for probabilities",
    "if they are in percent, divide them by 100": "percent? divide by 100",
    "name the positive class if": "give --positive if",
    "a positive class is for one score column": "--positive is for one score column",
    "the positive class may be the other one": "the positive class may be the other one, see --positive",
    # Messages of the library
    "for logits, use Predictions.from_logits": "for logits, say --space logits",
    "for log-odds, use Predictions.from_logits": "for log-odds, say --space logits",
    "use cumulative_test or spiegelhalter_test, or set a lower limit with "
    "Predictions.from_probabilities(..., floor=...)": "the other tests need none",
    "; use consistency_test": "",
    "pass Predictions with classes=": "name the columns ",
    "a file that Calibrator.save wrote": "a file that 'calibrant fit' saved",
    "a test set by test=": "a test set with --test",
    "wrap it in OneVsRest": "choose another method",
    "pass groups=": "give --group",
    "sample_weight is": "the weight is",
    "pass the same kind as in fit": "say --space as in the fit",
    "pass the same columns as in fit": "choose the same columns as in the fit with --columns",
}
"""Phrases of the library, and their replacements for users of the command line."""

# Longest first, since some phrases are prefixes of others; a space matches any white space.
_WORDS = re.compile(
    "|".join(re.escape(words).replace(r"\ ", r"\s+") for words in sorted(REPLACEMENTS, key=len, reverse=True))
)


def translated(text: str) -> str:
    """Return a sentence with Python names replaced by options of the command line.

    >>> translated("cross-validation needs at least 2 rows; give more rows, or a test set by test=.")
    'cross-validation needs at least 2 rows; give more rows, or a test set with --test.'
    """
    return _WORDS.sub(lambda found: REPLACEMENTS[" ".join(found[0].split())], text)
