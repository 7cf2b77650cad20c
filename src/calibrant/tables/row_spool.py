"""RowSpool: labelled rows in a temporary file, for methods that read them several times."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import read_only
from calibrant.tables.prediction_file import CodedRows

__all__ = ["RowSpool"]


class RowSpool:
    """Visitor that writes the checked rows of a file to a temporary file of numbers, which is read again quickly.

    Text is parsed and checked once, whatever the number of passes of a fit. Memory holds one batch at a time. The
    temporary file takes 8 bytes per score (4 for float32) and has no name, so that it never outlives the process.

    Parameters
    ----------
    progress : function
        Called with the number of rows after every batch.
    """

    def __init__(self, progress: Callable[[int], object]) -> None:
        self._progress = progress
        self._file = TemporaryFile()  # noqa: SIM115 (open until the fit ends)
        self._sizes: list[int] = []
        self._template: LabelledPredictions | None = None
        self.n_rows = 0

    def __call__(self, rows: CodedRows) -> None:
        """Write a batch."""
        self.n_rows += rows.n_rows
        if rows.data is not None:
            data = rows.data
            self._template = self._template or data.take(slice(0, 1))
            self._sizes.append(data.n_rows)
            for array in (data.predictions.scores, data.labels, data.weights):
                if array is not None:
                    self._file.write(np.ascontiguousarray(array).data)
        self._progress(self.n_rows)

    @property
    def n_counted(self) -> int:
        """Number of rows of positive weight."""
        return sum(self._sizes)

    def batches(self) -> Iterator[LabelledPredictions]:
        """Yield all rows in the batches in which they were written."""
        self._file.flush()
        start = 0
        for n_rows in self._sizes:
            assert self._template is not None
            one = self._template
            scores, start = self._array(start, (n_rows, one.n_classes), one.predictions.scores.dtype)
            labels, start = self._array(start, (n_rows,), one.labels.dtype)
            weights = None
            if one.weights is not None:
                weights, start = self._array(start, (n_rows,), one.weights.dtype)
            predictions = replace(one.predictions, scores=read_only(scores))
            yield LabelledPredictions(predictions, labels, one.classes, weights)

    def _array(self, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[NDArray[Any], int]:
        array = np.empty(shape, dtype)
        self._file.seek(start)
        self._file.readinto(array.reshape(-1).view(np.uint8).data)  # type: ignore[attr-defined]
        return array, start + array.nbytes

    def close(self) -> None:
        """Remove the temporary file."""
        self._file.close()
