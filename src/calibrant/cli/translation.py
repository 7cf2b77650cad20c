"""What sentences of the library say of Python, in terms of the command line."""

import re

__all__ = ["REPLACEMENTS", "translated"]

REPLACEMENTS = {
    # Of files of predictions
    "declare the space as logits if these are logits": "say --space logits if these are logits",
    "choose the columns of scores": "choose the columns of scores with --columns",
    "choose the columns": "choose the columns with --columns",
    "name the columns of scores": "name the columns of scores with --columns",
    "say which column has the labels": "say with --label which column has the labels",
    "say which array has the": "say with --columns which array has the",
    "if they were rounded, normalise the rows": "rounded? add --normalise",
    "normalise probabilities only": "--normalise is for probabilities",
    "if they are in percent, divide them by 100": "percent? divide by 100",
    "name the positive class if": "give --positive if",
    "a positive class is for one column": "--positive is for one column",
    "the positive class may be the other one": "the positive class may be the other one, see --positive",
    # Of the library
    "for logits, use Predictions.from_logits": "for logits, say --space logits",
    "for log-odds, use Predictions.from_logits": "for log-odds, say --space logits",
    "use cumulative_test or spiegelhalter_test, or say what a zero stands for by "
    "Predictions.from_probabilities(..., floor=...)": "the other tests need none",
    "; use consistency_test": "",
    "pass Predictions with classes=": "name the columns ",
    "a file that Calibrator.save wrote": "a file that 'calibrant fit' saved",
    "test rows by test=": "test rows by --test",
    "wrap it in OneVsRest": "choose another method",
    "pass groups=": "give --group",
    "sample_weight is": "the weight is",
    "pass the same kind as in fit": "say --space as in the fit",
    "pass the same columns as in fit": "choose the same columns as in the fit with --columns",
}
"""Words of the library, and those for a user of the command line."""

# The longest first, since some begin as others do; a space stands for any break between words.
_WORDS = re.compile(
    "|".join(re.escape(words).replace(r"\ ", r"\s+") for words in sorted(REPLACEMENTS, key=len, reverse=True))
)


def translated(text: str) -> str:
    """Return a sentence without names of Python that a user of the command line cannot use.

    >>> translated("one row cannot be held out; give more rows, or test rows by test=.")
    'one row cannot be held out; give more rows, or test rows by --test.'
    """
    return _WORDS.sub(lambda found: REPLACEMENTS[" ".join(found[0].split())], text)
