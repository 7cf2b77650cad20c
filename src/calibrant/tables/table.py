"""Predictions in a file: read completely or batch by batch."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions
from calibrant.space import Space
from calibrant.tables.batch import Batch
from calibrant.tables.cells import as_integers
from calibrant.tables.class_matching import ClassMatch, Label, match_classes
from calibrant.tables.opening import open_source
from calibrant.tables.score_checks import ScoreParser
from calibrant.tables.score_columns import ScoreColumns
from calibrant.tables.source import Source

__all__ = ["PredictionFile", "Table", "read_predictions", "rows_per_batch"]

LARGEST_BATCH = 2**16  # rows
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


class PredictionFile:
    """A file of predictions with labels, with selected columns.

    Parameters
    ----------
    source : Source
    space : {"probabilities", "logits"}
        Space of the scores; it is never guessed.
    label, weight, group : str, optional
        Names of columns, or of arrays. The default ``label`` is the only column named label, labels, y, y_true or target.
    columns : str, optional
        Score columns: a pattern such as ``p_*``, or names separated by commas. By default all other numeric columns,
        except row numbers. In an NPZ file the array of scores.
    normalise : bool
        Renormalise rows of probabilities whose sums are within 0.05 of one.
    positive : str, optional
        Class of a single score column; by default the last in sorted order.

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
        columns: str | None = None,
        weight: str | None = None,
        group: str | None = None,
        normalise: bool = False,
        positive: str | None = None,
    ) -> None:
        self.source, self.space = source, Space(space)
        self._positive = positive
        self.label = source.label_column(label)
        self.weight = None if weight is None else source.column(weight, "weight")
        self.group = None if group is None else source.column(group, "group")
        taken = [name for name in (self.label, self.weight, self.group) if name is not None]
        self.columns: ScoreColumns = source.score_columns(columns, taken, self.space)
        self.match: ClassMatch | None = None
        self._normalise = normalise
        self._start()

    @property
    def notes(self) -> list[str]:
        """Messages to the user."""
        found = [self.columns.note, None if self.match is None else self.match.note, self._parser.note]
        if self._n_guessed and self._n_right < FEWEST_RIGHT * self._n_guessed:
            share = 100 * self._n_right / self._n_guessed
            found.append(
                f"only {share:.1f} % of the predicted classes are correct, so the positive class may be the other one."
            )
        return [sentence for sentence in found if sentence is not None]

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.source.path

    def batches(self, n_rows: int | None = None) -> Iterator[Table]:
        """Yield all rows in batches, with memory for one batch.

        The labels are read first in a separate pass, since a batch may not contain all classes.
        """
        n_rows = n_rows or rows_per_batch(self.columns)
        if self.match is None:
            occurring: dict[Label, str] = {}
            for batch in self.source.batches(n_rows, [self.label]):
                _add_places(occurring, batch, batch.names(self.label))
            self.match = self._matched(occurring)
        self._start()
        for batch in self.source.batches(n_rows, self._needed()):
            yield self._named(self._rows(batch), self.match)

    def read(self) -> Table:
        """Return all rows at once."""
        occurring: dict[Label, str] = {}
        parts = []
        self._start()
        for batch in self.source.batches(rows_per_batch(self.columns), self._needed()):
            parts.append(self._rows(batch))
            _add_places(occurring, batch, parts[-1].labels)
        self.match = self._matched(occurring)
        scores = np.concatenate([part.predictions.scores for part in parts])
        scores.setflags(write=False)
        rows = Table(
            Predictions(scores, self.space),
            np.concatenate([part.labels for part in parts]),
            None if self.weight is None else np.concatenate([part.weights for part in parts]),
            None if self.group is None else np.concatenate([part.groups for part in parts]),
        )
        if rows.groups is not None and (numbers := as_integers(rows.groups)) is not None:
            rows = replace(rows, groups=numbers)  # in numerical order
        return self._named(rows, self.match)

    def bytes_in_memory(self) -> int:
        """Return the approximate size of all scores in memory, in bytes."""
        return self.source.bytes_in_memory(self.columns)

    def close(self) -> None:
        """Close the file."""
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        """Reset the counters of the notes."""
        self._parser = ScoreParser(self.path, self.columns, self.space, self._normalise)
        self._n_guessed = self._n_right = 0

    def _matched(self, occurring: dict[Label, str]) -> ClassMatch:
        return match_classes(self.path, self.columns, occurring, space=self.space, positive=self._positive)

    def _named(self, rows: Table, match: ClassMatch) -> Table:
        """Return rows with named columns, and with integer labels if all labels are integers."""
        labels = as_integers(rows.labels) if match.integers else rows.labels
        assert labels is not None
        if match.by_order and len(self.columns.classes) == 1:
            self._n_guessed += len(labels)
            self._n_right += int((match.classes[rows.predictions.predicted] == labels).sum())
        return replace(rows, predictions=replace(rows.predictions, classes=match.classes), labels=labels)

    def _needed(self) -> list[str]:
        others = [name for name in (self.label, self.weight, self.group) if name is not None]
        return list(dict.fromkeys([*self.columns.names, *others]))

    def _rows(self, batch: Batch) -> Table:
        return Table(
            self._parser(batch),
            batch.names(self.label),
            None if self.weight is None else batch.weights(self.weight),
            None if self.group is None else batch.names(self.group),
        )


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
) -> Table:
    r"""Read predictions and labels from a CSV, Parquet, Feather or NPZ file.

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
    with open_source(path) as source:
        return PredictionFile(
            source,
            space=space,
            label=label,
            columns=columns,
            weight=weight,
            group=group,
            normalise=normalise,
            positive=positive,
        ).read()


def rows_per_batch(columns: ScoreColumns) -> int:
    """Return the default number of rows per batch, fewer for many classes."""
    return max(1, min(LARGEST_BATCH, SCORES_PER_BATCH // len(columns.classes)))


def _add_places(occurring: dict[Label, str], batch: Batch, names: NDArray[Any]) -> None:
    found, first = np.unique(names, return_index=True)
    for label, row in zip(found.tolist(), first.tolist(), strict=True):
        if label not in occurring:
            occurring[label] = batch.place(row)
