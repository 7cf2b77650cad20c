"""Predictions in a file: read completely, batch by batch, or once for all sums over rows."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import AnyArray
from calibrant.errors import CalibrationWarning, FileFormatError, LabelError, ParameterError, PredictionError
from calibrant.labelled_predictions import LabelledPredictions, shift_warning
from calibrant.labels import encode_labels
from calibrant.notices import warn_user
from calibrant.predictions import Predictions
from calibrant.remedies import CHECK_POSITIVE
from calibrant.space import Space
from calibrant.tables.class_matching import ClassMatch, Label, match_classes
from calibrant.tables.columns import ScoreColumns, columns_asked_for
from calibrant.tables.file_set import open_source
from calibrant.tables.formats.csv import Dialect
from calibrant.tables.roles import label_of
from calibrant.tables.score_checks import ScoreParser
from calibrant.tables.source import Batch, Names, Source, as_integers, dropped_sentence

__all__ = [
    "CodedRows",
    "PredictionFile",
    "Table",
    "chosen_columns",
    "read_predictions",
    "read_side_columns",
    "rows_per_batch",
]

LARGEST_BATCH = 2**15  # rows
SCORES_PER_BATCH = 2**22
FEWEST_RIGHT = 0.4  # accuracy for two classes below which the scores may be those of the other class


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a file: predictions with true classes, and optionally weights and groups.

    Attributes
    ----------
    predictions : Predictions
    labels : ndarray of shape (n,)
        True classes, as text or integers.
    weights : ndarray of shape (n,) or None
    groups : ndarray of shape (n,) or None
    """

    predictions: Predictions
    labels: NDArray[Any]
    weights: NDArray[np.float64] | None = None
    groups: NDArray[Any] | None = None

    def labelled(self) -> LabelledPredictions:
        """Return the rows as `LabelledPredictions`, without rows of weight zero."""
        return LabelledPredictions.parse(self.predictions, self.labels, self.weights)


@dataclass(frozen=True, eq=False)
class CodedRows:
    """A batch of rows with column numbers as labels."""

    n_rows: int  # Number of rows, including those of weight zero
    data: LabelledPredictions | None  # The rows of positive weight; None if there are none
    groups: Names | None  # Groups of the rows in ``data``


class _MatchChangedError(Exception):
    """Labels of later rows change which column is which class."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """A batch of rows whose labels are not matched to columns yet."""

    predictions: Predictions
    labels: Names
    weights: NDArray[np.float64] | None
    groups: Names | None


class PredictionFile:
    """A file of predictions with labels, with selected columns.

    Parameters
    ----------
    source : Source
    columns : str or ScoreColumns, optional
        The score columns.
    space, label, weight, group, normalise, positive, drop_missing
        As in :func:`read_predictions`.

    Attributes
    ----------
    columns : ScoreColumns
    match : ClassMatch
        Match between labels and columns; computing it takes a pass over the labels.
    notes : list of str
        Messages to the user, complete once all rows have been read.
    """

    def __init__(
        self,
        source: Source,
        *,
        space: str,
        label: str | None = None,
        columns: str | ScoreColumns | None = None,
        weight: str | None = None,
        group: str | None = None,
        normalise: bool = False,
        positive: str | None = None,
        drop_missing: bool = False,
    ) -> None:
        self.source, self.space = source, Space(space)
        self._positive, self._drops = positive, drop_missing
        self.label = label_of(source, label)
        self.weight = None if weight is None else source.column(weight, "weight")
        self.group = None if group is None else source.column(group, "group")
        taken = [name for name in (self.label, self.weight, self.group) if name is not None]
        self.columns = (
            columns if isinstance(columns, ScoreColumns) else source.score_columns(columns, taken, self.space)
        )
        self.match: ClassMatch | None = None
        self._normalise = normalise
        self._start()

    @property
    def notes(self) -> list[str]:
        """Messages to the user."""
        found = [self.columns.note, None if self.match is None else self.match.note, self._parser.note]
        if self._n_guessed and self._n_right < FEWEST_RIGHT * self._n_guessed:
            share = 100 * self._n_right / self._n_guessed
            found.append(f"only {share:.1f} % of the predicted classes are correct, so {CHECK_POSITIVE}.")
        if self._n_dropped:
            found.append(dropped_sentence(self._n_dropped))
        return [sentence for sentence in found if sentence is not None]

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.source.path

    def batches(self, n_rows: int | None = None) -> Iterator[Table]:
        """Yield all rows in batches, with memory for one batch.

        The labels are read first in a separate pass, since a batch may not contain all classes.
        """
        if self.match is None:
            self._match_all_labels(n_rows)
        assert self.match is not None
        for _, rows in self._read(n_rows):
            yield self._table(rows, self.match)

    def visit(
        self, visitor: Callable[[], Callable[[CodedRows], object]], n_rows: int | None = None
    ) -> Callable[[CodedRows], object]:
        """Pass all rows to the function that ``visitor`` makes, in one reading of the file if possible, and return it.

        Classes are matched to columns with the labels of the first batch. If labels of later batches change the match, as
        can happen if columns are not named after their classes, a new visitor gets all rows from the start.
        """
        if self.match is None:
            try:
                return self._visited(visitor(), n_rows)
            except _MatchChangedError:
                self._match_all_labels(n_rows)
        return self._visited(visitor(), n_rows)

    def read(self, progress: Callable[[int], object] | None = None) -> Table:
        """Return all rows at once; ``progress`` is called with the number of rows after every batch."""
        occurring: dict[Label, str] = {}
        parts: list[_Rows] = []
        done = 0
        for batch, rows in self._read(None):
            parts.append(rows)
            _add_places(occurring, batch, rows.labels)
            done += batch.n_rows
            if progress is not None:
                progress(done)
        self.match = self._matched(occurring)
        scores = np.concatenate([part.predictions.scores for part in parts])
        scores.setflags(write=False)
        table = Table(
            Predictions(scores, self.space),
            np.concatenate([part.labels.array for part in parts]),
            None if self.weight is None else np.concatenate([part.weights for part in parts]),
            None
            if self.group is None
            else np.concatenate([part.groups.array for part in parts if part.groups is not None]),
        )
        if table.groups is not None and (numbers := as_integers(table.groups)) is not None:
            table = replace(table, groups=numbers)  # in numerical order
        return self._named(table, self.match)

    def approximate_scores(self) -> int:
        """Return the approximate number of scores in the file."""
        return self.source.approximate_rows() * len(self.columns.classes)

    def close(self) -> None:
        """Close the file."""
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        """Reset the counters of the notes."""
        self._parser = ScoreParser(self.columns, self.space, self._normalise)
        self._n_guessed = self._n_right = self._n_dropped = 0

    def _read(self, n_rows: int | None) -> Iterator[tuple[Batch, _Rows]]:
        self._start()
        needed = self._needed
        texts = [name for name in (self.label, self.group) if name is not None]
        numbers = [name for name in needed if name not in texts]
        for batch in self._batches(n_rows, needed, numbers):
            yield (
                batch,
                _Rows(
                    self._parser(batch),
                    batch.names(self.label),
                    None if self.weight is None else batch.weights(self.weight),
                    None if self.group is None else batch.names(self.group),
                ),
            )

    def _match_all_labels(self, n_rows: int | None) -> None:
        """Match the classes in a pass over the labels alone."""
        occurring: dict[Label, str] = {}
        # Which rows are dropped depends on all columns.
        needed = self._needed if self._drops else [self.label]
        for batch in self._batches(n_rows, needed, []):
            _add_places(occurring, batch, batch.names(self.label))
        self.match = self._matched(occurring)

    @property
    def _needed(self) -> list[str]:
        others = [name for name in (self.label, self.weight, self.group) if name is not None]
        return list(dict.fromkeys([*self.columns.names, *others]))

    def side_columns(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return further columns of the rows that :meth:`read` returns, (n,) each, in another pass."""
        needed = self._needed
        return columns_of(self._batches(None, needed, [], names), names)

    def _batches(
        self, n_rows: int | None, needed: list[str], numbers: list[str], further: Sequence[str] = ()
    ) -> Iterator[Batch]:
        """Yield the batches of the source, without rows that have a missing value if these are to be dropped."""
        n_kept = n_dropped = 0
        read = list(dict.fromkeys([*needed, *further]))
        for batch in self.source.batches(n_rows or rows_per_batch(self.columns), read, numbers):
            if not self._drops:
                yield batch
                continue
            missing = np.zeros(batch.n_rows, bool)
            for name in needed:
                missing |= (
                    batch.missing_names(name)
                    if name in (self.label, self.group)
                    else batch.missing_numbers(name)
                )
            n_dropped += int(missing.sum())
            n_kept += int((~missing).sum())
            self._n_dropped = n_dropped
            if not missing.all():
                yield batch.take(~missing) if missing.any() else batch
        if self._drops and n_kept == 0:
            raise FileFormatError(
                f"{self.path}: every row has a missing value; at least one complete row is needed."
            )

    def _matched(self, occurring: dict[Label, str]) -> ClassMatch:
        return match_classes(self.path, self.columns, occurring, space=self.space, positive=self._positive)

    def _visited(
        self, visitor: Callable[[CodedRows], object], n_rows: int | None
    ) -> Callable[[CodedRows], object]:
        occurring: dict[Label, str] = {}
        match = self.match
        is_first = True
        for batch, rows in self._read(n_rows):
            if self.match is None and _add_places(occurring, batch, rows.labels):
                try:
                    found = self._matched(occurring)
                except (LabelError, ParameterError, PredictionError):  # there may be more labels
                    raise _MatchChangedError from None
                if match is not None and not match.is_same(found):
                    raise _MatchChangedError
                match = found
            assert match is not None
            coded = self._coded(rows, match)
            if is_first and coded.data is not None and coded.data.shift_of_labels:
                warn_user(shift_warning(coded.data.n_classes, coded.data.shift_of_labels), CalibrationWarning)
            visitor(coded)
            is_first = False
        self.match = match
        return visitor

    def _coded(self, rows: _Rows, match: ClassMatch) -> CodedRows:
        """Return rows with column numbers as labels, without those of weight zero."""
        values = as_integers(rows.labels.values) if match.integers else rows.labels.values
        columns, classes = encode_labels(values, rows.predictions.n_classes, match.classes)
        labels = columns[rows.labels.codes]
        predictions = replace(rows.predictions, classes=match.classes)
        if match.by_order and len(self.columns.classes) == 1:
            self._n_guessed += len(labels)
            self._n_right += int((predictions.predicted == labels).sum())
        data: LabelledPredictions | None = LabelledPredictions(predictions, labels, classes, rows.weights)
        groups = rows.groups
        if rows.weights is not None and not (counts := rows.weights > 0).all():
            data = data.take(counts) if data is not None and counts.any() else None
            groups = None if groups is None else Names(groups.codes[counts], groups.values)
        return CodedRows(predictions.n_rows, data, groups)

    def _table(self, rows: _Rows, match: ClassMatch) -> Table:
        groups = None if rows.groups is None else rows.groups.array
        return self._named(Table(rows.predictions, rows.labels.array, rows.weights, groups), match)

    def _named(self, table: Table, match: ClassMatch) -> Table:
        """Return rows with named columns, and with integer labels if all labels are integers."""
        labels = as_integers(table.labels) if match.integers else table.labels
        assert labels is not None
        if match.by_order and len(self.columns.classes) == 1:
            self._n_guessed += len(labels)
            self._n_right += int((match.classes[table.predictions.predicted] == labels).sum())
        return replace(table, predictions=replace(table.predictions, classes=match.classes), labels=labels)


def read_predictions(
    path: str | os.PathLike[str],
    *,
    space: str,
    label: str | None = None,
    columns: str | None = None,
    weight: str | None = None,
    group: str | None = None,
    normalise: bool = False,
    positive: str | None = None,
    drop_missing: bool = False,
    dialect: Dialect | None = None,
) -> Table:
    r"""Read predictions and labels from a CSV, Parquet, Feather, NPZ, NPY, Excel or JSON Lines file, or from torch tensors.

    Parameters
    ----------
    path : path-like
        File; its extension determines the format.
    space : {"probabilities", "logits"}
        Space of the scores; it is never guessed.
    label, weight, group : str, optional
        Names of columns, or of arrays of an NPZ file. The default ``label`` is the only column named label, labels,
        y, y_true or target.
    columns : str, optional
        Score columns: a pattern such as ``p_*``, or names separated by commas. By default all other numeric columns,
        except row numbers. A single column is the score of the positive class of two. In an NPZ file the array of scores.
    normalise : bool
        Renormalise rows of probabilities whose sums are within 0.05 of one, as after rounding.
    positive : str, optional
        Class of a single score column; by default the last in sorted order.
    drop_missing : bool
        Drop rows in which a score, the label, the weight or the group is missing.
    dialect : Dialect, optional
        Signs between cells and before decimals of a CSV file, such as ``Dialect(b";", b",")``.

    Returns
    -------
    Table

    Notes
    -----
    Columns are matched to labels by name, possibly with a common prefix and suffix. If no name matches, integers 0..K-1 are
    column numbers. The cost is the time to read the file and the memory of the scores.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "predictions.csv")
    ...     _ = path.write_text("animal,p_cat,p_dog\ncat,0.9,0.1\ndog,0.4,0.6\n")
    ...     table = read_predictions(path, label="animal", space="probabilities")
    >>> table.predictions
    Predictions(2 rows, 2 classes, probabilities, float64)
    >>> table.labels.tolist(), table.predictions.classes.tolist()
    (['cat', 'dog'], ['cat', 'dog'])
    """
    with open_source(path, dialect) as source:
        return PredictionFile(
            source,
            space=space,
            label=label,
            columns=columns,
            weight=weight,
            group=group,
            normalise=normalise,
            positive=positive,
            drop_missing=drop_missing,
        ).read()


def rows_per_batch(columns: ScoreColumns) -> int:
    """Return the default number of rows per batch, fewer for many classes."""
    return max(1, min(LARGEST_BATCH, SCORES_PER_BATCH // len(columns.classes)))


def _add_places(occurring: dict[Label, str], batch: Batch, names: Names) -> bool:
    """Add labels that have not occurred before, with the positions of their first rows; return whether there are any."""
    new = [(code, label) for code, label in enumerate(names.values.tolist()) if label not in occurring]
    for code, label in new:
        occurring[label] = batch.place(names.first_row(code))
    return bool(new)


ROWS = 2**15


def chosen_columns(path: str | os.PathLike[str], pattern: str) -> tuple[str, ...]:
    """Return the columns of a file for a pattern such as ``y_*``, or for names separated by commas."""
    with open_source(Path(path)) as source:
        for name in [] if any(sign in pattern for sign in "*?[") else pattern.split(","):
            source.column(name.strip(), "side")
        return columns_asked_for(source.path, source.columns, pattern).names


def read_side_columns(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, AnyArray]:
    """Return columns of a file by name, (n,) each: numbers if all values are, with NaN for missing ones, else text or None."""
    with open_source(Path(path)) as source:
        for name in names:
            source.column(name, "side")
        return columns_of(source.batches(ROWS, columns=list(names)), names)


def columns_of(batches: Iterable[Batch], names: Sequence[str]) -> dict[str, AnyArray]:
    """Return columns of several batches; see :func:`read_side_columns`."""
    parts: dict[str, list[AnyArray]] = {name: [] for name in names}
    for batch in batches:
        for name in names:
            parts[name].append(_cells(batch, name))
    return {name: _together(values) for name, values in parts.items()}


def _cells(batch: Batch, name: str) -> AnyArray:
    """Return one column of a batch as numbers, or as text if it has none."""
    try:
        return batch.scores([name])[:, 0].astype(np.float64)
    except PredictionError:
        missing = batch.missing_names(name)
    if not missing.any():
        return batch.names(name).array
    if missing.all():
        return np.full(batch.n_rows, np.nan)
    known = _cells(batch.take(~missing), name)
    found: AnyArray = (
        np.full(batch.n_rows, np.nan) if known.dtype.kind in "iuf" else np.full(batch.n_rows, None)
    )
    found[~missing] = known
    return found


def _together(parts: list[AnyArray]) -> AnyArray:
    """Return the values of all batches.

    >>> _together([np.array([1.0, 2.0]), np.array([np.nan])]), _together([np.array([1.0, np.nan]), np.array(["a"])])
    (array([ 1.,  2., nan]), array(['1', None, 'a'], dtype=object))
    """
    if all(part.dtype.kind in "iuf" for part in parts):
        values = np.concatenate(parts)
        is_whole = values.dtype.kind != "f" or bool((values == np.round(values)).all())
        return values.astype(np.int64) if is_whole else values
    texts = [_text(value) for part in parts for value in part.tolist()]
    return np.array(texts, dtype=object if None in texts else str)


def _text(value: Any) -> str | None:
    if value is None or value != value:
        return None
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)
