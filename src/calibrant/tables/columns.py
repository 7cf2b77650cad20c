"""Score columns of a file, requested or by default, and the class of each."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import PredictionError
from calibrant.presentation.sentences import counted, shortened
from calibrant.remedies import CHOOSE_COLUMNS

__all__ = [
    "ScoreColumns",
    "affixes_around",
    "check_column",
    "check_distinct",
    "columns_asked_for",
    "counts_rows",
    "default_columns",
    "labels_in",
    "listed",
    "shared_affixes",
    "without_common_ends",
]

SHOWN = 8  # number of names listed in a message

NEVER_SCORES = re.compile(r"|unnamed: .*|__index_level_\d+__|id|index|row", re.IGNORECASE)
"""Names of row-number columns; the first three are those of pandas."""

FEWEST_ROWS = 3  # the predictions 0 and 1 of two rows are distinct integers too


@dataclass(frozen=True)
class ScoreColumns:
    """Score columns, in the order of the file or of the request."""

    names: tuple[str, ...]  # The columns; for a file of arrays, the array of all scores
    # Classes according to the columns: their names, the match of ``*`` in a pattern, or numbers
    classes: tuple[str, ...]
    # Numeric columns that are not score columns by default, since they look like row numbers
    left_out: tuple[str, ...] = ()
    is_default: bool = False  # Whether the columns are the default ones

    @property
    def in_file(self) -> tuple[str, ...]:
        """Names of the columns in the file, one per class; numbers for the columns of an array."""
        return self.names if len(self.names) == len(self.classes) else self.classes

    @property
    def note(self) -> str | None:
        """Message to the user about skipped columns."""
        if not self.left_out:
            return None
        several = len(self.left_out) > 1
        return (
            f"{'columns' if several else 'column'} {listed(self.left_out)} {'are' if several else 'is'} ignored, "
            f"since {'they look like row numbers' if several else 'it looks like a row number'}; {CHOOSE_COLUMNS} if "
            f"{'they have' if several else 'it has'} scores."
        )


def columns_asked_for(path: Path, available: Sequence[str], columns: str) -> ScoreColumns:
    """Return the columns for a pattern such as ``p_*``, or for names separated by commas.

    >>> columns_asked_for(Path("a.csv"), ["id", "p_cat", "p_dog"], "p_*").classes
    ('cat', 'dog')
    """
    asked = [columns] if columns in available else [part.strip() for part in columns.split(",")]
    if len(asked) == 1 and asked[0] not in available and any(sign in asked[0] for sign in "*?["):
        return _of_pattern(path, available, asked[0])
    for name in asked:
        check_column(path, available, name, "score")
    check_distinct(path, asked, "the requested columns have")
    return ScoreColumns(tuple(asked), tuple(asked))


def _of_pattern(path: Path, available: Sequence[str], pattern: str) -> ScoreColumns:
    found = [name for name in available if fnmatchcase(name, pattern)]
    if not found:
        raise PredictionError(
            f"{path}: no column matches the pattern {pattern!r}; there are {listed(available)}."
        )
    before, star, after = pattern.partition("*")
    simple = star and not any(sign in before + after for sign in "*?[")
    classes = [name[len(before) : len(name) - len(after)] if simple else name for name in found]
    return ScoreColumns(tuple(found), tuple(classes))


def default_columns(
    path: Path, numeric: Sequence[str], values: Callable[[str], NDArray[np.floating]]
) -> ScoreColumns:
    """Return the score columns among the numeric ones that have no other role, without row numbers and identifiers.

    ``values`` returns the first rows of a column.

    >>> rows = {"id": np.zeros(3), "case": np.array([7.0, 9, 8]), "p": np.array([0.1, 0.5, 0.2])}
    >>> default_columns(Path("a.csv"), list(rows), rows.get)
    ScoreColumns(names=('p',), classes=('p',), left_out=('id', 'case'), is_default=True)
    """
    called_so = [name for name in numeric if NEVER_SCORES.fullmatch(name)]
    others = [name for name in numeric if name not in called_so]
    counting = [name for name in others if counts_rows(values(name))]
    # Integer logits in few rows look like row numbers too; if all columns do, they are kept.
    kept = [name for name in others if name not in counting] or others
    if not kept:
        but = f", except for {listed(called_so)}" if called_so else ""
        raise PredictionError(f"{path}: no numeric column could be a score{but}.")
    left_out = tuple(name for name in numeric if name not in kept)
    return ScoreColumns(tuple(kept), tuple(kept), left_out, is_default=True)


def counts_rows(values: NDArray[np.floating]) -> bool:
    """Return whether values are distinct integers, like row numbers or identifiers.

    >>> counts_rows(np.array([4.0, 2.0, 9.0])), counts_rows(np.array([0.0, 1.0, 0.0]))
    (True, False)
    """
    if len(values) < FEWEST_ROWS or not np.isfinite(values).all():
        return False
    return bool((values == np.round(values)).all()) and len(np.unique(values)) == len(values)


def check_column(path: Path, available: Sequence[str], name: str, role: str) -> None:
    """Reject the name of a missing column, suggesting similar names."""
    if name in available:
        return
    near = get_close_matches(name, available, 1) or [one for one in available if one.lower() == name.lower()]
    hint = f"did you mean {near[0]!r}?" if near else f"there are {listed(available)}."
    raise PredictionError(f"{path}: there is no {role} column {name!r}; {hint}")


def check_distinct(path: Path, names: Sequence[str], whose: str = "the header has") -> None:
    """Reject duplicate names."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise PredictionError(f"{path}: {whose} {name!r} twice; give every column a unique name.")
        seen.add(name)


def without_common_ends(names: Sequence[str]) -> tuple[str, ...]:
    """Return names without their common prefix and suffix.

    >>> without_common_ends(["p_cat", "p_dog"]), without_common_ends(["p_0", "p_10"])
    (('cat', 'dog'), ('0', '10'))
    """
    if len(names) < 2:
        return tuple(names)
    # p_10 and p_11: what differs are the numbers, not their last digits.
    before = _common_start(names).rstrip("0123456789")
    rest = [name[len(before) :] for name in names]
    after = _common_start([name[::-1] for name in rest])[::-1].lstrip("0123456789")
    return tuple(name.removesuffix(after) if len(name) > len(after) else name for name in rest)


def labels_in(column: str, labels: Iterable[str]) -> list[str]:
    """Return the labels that are a word of a column name; numbers are not words.

    >>> labels_in("p_cat", ["cat", "at", "dog"])
    ['cat']
    """
    words = [label for label in labels if label and not label.lstrip("-").isdigit()]
    return [
        label for label in words if re.search(rf"(?<![^\W_]){re.escape(label)}(?![^\W_])", column) is not None
    ]


def affixes_around(column: str, label: str) -> Iterator[tuple[str, str]]:
    """Yield prefix and suffix of a label in a column name, for every occurrence.

    >>> list(affixes_around("prob_o", "o"))
    [('pr', 'b_o'), ('prob_', '')]
    """
    at = column.find(label)
    while at >= 0:
        yield column[:at], column[at + len(label) :]
        at = column.find(label, at + 1)


def shared_affixes(columns: Iterable[str], labels: Iterable[str]) -> tuple[str, str, list[str]]:
    """Return the prefix and suffix shared by columns of most labels, and these labels.

    The cost is the product of both numbers; unrelated columns do not matter.

    >>> shared_affixes(["p_cat", "p_dog", "age"], ["cat", "dog", "owl"])
    ('p_', '', ['cat', 'dog'])
    """
    wanted, found = list(labels), dict[tuple[str, str], list[str]]()
    for column in columns:
        for label in wanted:
            for affixes in affixes_around(column, label):
                found.setdefault(affixes, []).append(label)
    if not found:
        return "", "", []
    best = max(found, key=lambda affixes: (len(found[affixes]), -len("".join(affixes))))
    return *best, found[best]


def _common_start(names: Sequence[str]) -> str:
    # A common prefix of the first and last name in sorted order is common to all.
    first, last = min(names), max(names)
    n_equal = next(
        (at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first)
    )
    return first[:n_equal]


def listed(names: Iterable[object], shown: int = SHOWN) -> str:
    """Return names for a message, shortened if there are many.

    >>> listed(["a", "b"]), listed(range(20), 2)
    ("'a' and 'b'", '0, 1 and 18 more')
    """
    texts = [shortened(repr(name)) for name in names]
    if len(texts) > shown + 1:
        return f"{', '.join(texts[:shown])} and {len(texts) - shown} more"
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts) or counted(
        0, "column"
    )
