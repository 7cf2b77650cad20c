"""Which columns of a file hold the scores, and which class each of them stands for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from calibrant.errors import PredictionError
from calibrant.wording import counted

__all__ = [
    "ScoreColumns",
    "check_column",
    "check_distinct",
    "columns_asked_for",
    "listed",
    "without_common_ends",
]

SHOWN = 8  # how many names a message lists


@dataclass(frozen=True)
class ScoreColumns:
    """Columns of scores, in the order of the file or of the request.

    Attributes
    ----------
    names : tuple of str
        The columns; for a file of arrays the one array that holds all scores.
    classes : tuple of str
        What the columns say of their classes: their names, what the ``*`` of a pattern stands for, or numbers.
    """

    names: tuple[str, ...]
    classes: tuple[str, ...]


def columns_asked_for(path: Path, available: Sequence[str], columns: str) -> ScoreColumns:
    """Return the columns of a pattern such as ``p_*``, or of names with commas between them.

    >>> columns_asked_for(Path("a.csv"), ["id", "p_cat", "p_dog"], "p_*")
    ScoreColumns(names=('p_cat', 'p_dog'), classes=('cat', 'dog'))
    """
    asked = [columns] if columns in available else [part.strip() for part in columns.split(",")]
    if len(asked) == 1 and asked[0] not in available and any(sign in asked[0] for sign in "*?["):
        return _of_pattern(path, available, asked[0])
    for name in asked:
        check_column(path, available, name, "score")
    check_distinct(path, asked, "the columns asked for have")
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


def check_column(path: Path, available: Sequence[str], name: str, role: str) -> None:
    """Refuse the name of a column that is not there, with names that come close."""
    if name in available:
        return
    near = get_close_matches(name, available, 1) or [one for one in available if one.lower() == name.lower()]
    hint = f"did you mean {near[0]!r}?" if near else f"there are {listed(available)}."
    raise PredictionError(f"{path}: there is no {role} column {name!r}; {hint}")


def check_distinct(path: Path, names: Sequence[str], whose: str = "the header has") -> None:
    """Refuse names of which one occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise PredictionError(f"{path}: {whose} {name!r} twice; give every column a name of its own.")
        seen.add(name)


def without_common_ends(names: Sequence[str]) -> tuple[str, ...]:
    """Return names without what all of them begin and end with.

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


def _common_start(names: Sequence[str]) -> str:
    # All names lie between the first and the last in sorted order.
    first, last = min(names), max(names)
    n_equal = next(
        (at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first)
    )
    return first[:n_equal]


def listed(names: Iterable[object], shown: int = SHOWN) -> str:
    """Return names for a message, the first few of many.

    >>> listed(["a", "b"]), listed(range(20), 2)
    ("'a' and 'b'", '0, 1 and 18 more')
    """
    texts = [repr(name) for name in names]
    if len(texts) > shown + 1:
        return f"{', '.join(texts[:shown])} and {len(texts) - shown} more"
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts) or counted(
        0, "column"
    )
