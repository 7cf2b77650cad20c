"""Parse scores of a file into predictions, with errors that name the position in the file."""

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ParameterError, PredictionError
from calibrant.numerics.reductions import row_sums
from calibrant.predictions import ROW_SUM_TOLERANCE, Predictions, read_only
from calibrant.presentation.sentences import counted
from calibrant.remedies import CHOOSE_COLUMNS, DECLARE_LOGITS, NO_NORMALISATION, NORMALISE
from calibrant.space import Space
from calibrant.tables.columns import ScoreColumns, counts_rows, listed
from calibrant.tables.source import Batch

__all__ = ["ScoreParser"]

ADVICE = f"{DECLARE_LOGITS} if these are logits, or {CHOOSE_COLUMNS}"

ROUNDING = 0.05
"""Largest difference to one of the row sums of rounded probabilities."""

UNCHANGED = 1e-6  # rounding error of float32 and of six printed digits; such sums count as one


class ScoreParser:
    """Parser of batches of rows into predictions; a single column is the positive class of two.

    With ``normalise``, rows of probabilities are divided by their sums if these are within 0.05 of one.
    """

    def __init__(self, columns: ScoreColumns, space: Space, normalise: bool = False) -> None:
        if normalise and space is Space.LOGITS:
            raise ParameterError(f"rows of logits do not sum to one; {NO_NORMALISATION}.")
        self._columns, self._space, self._normalise = columns, space, normalise
        self.n_changed, self.largest_change = 0, 0.0

    def __call__(self, batch: Batch) -> Predictions:
        """Return the predictions of a batch."""
        scores = batch.scores(self._columns.names)
        if self._space is Space.LOGITS:
            return Predictions.from_logits(
                scores, allow_probabilities=True
            )  # the command line checks the complete file
        if scores.shape[1] == 1:
            self._check_range(batch, scores, 1 + ROW_SUM_TOLERANCE)
            np.minimum(scores, 1, out=scores)
            return Predictions.from_probabilities(scores)
        tolerance = ROUNDING if self._normalise else ROW_SUM_TOLERANCE
        totals = row_sums(scores).astype(np.float64, copy=False)
        self._check_range(batch, scores, 1 + tolerance)
        self._check_sums(batch, scores, totals, tolerance)
        if self._normalise:
            distances = np.abs(totals - 1)
            changed = distances > UNCHANGED
            scores[changed] /= totals[changed, None]
            self.n_changed += int(changed.sum())
            self.largest_change = max(self.largest_change, float(distances.max(where=changed, initial=0.0)))
        return Predictions(read_only(scores), Space.PROBABILITIES)  # checked above

    @property
    def note(self) -> str | None:
        """Summary of the normalisation."""
        if not self._normalise:
            return None
        if self.n_changed == 0:
            return "no row was normalised: all sums are one."
        return (
            f"{counted(self.n_changed, 'row')} {'was' if self.n_changed == 1 else 'were'} divided by "
            f"{'its sum' if self.n_changed == 1 else 'their sums'}, which differed from one by at most "
            f"{self.largest_change:.2g}."
        )

    def _check_range(self, batch: Batch, scores: NDArray[np.floating], largest: float) -> None:
        """Reject invalid probabilities here, where rows and columns of the file are known."""
        if scores.min() < 0 or scores.max() > largest:
            outside = (scores < 0) | (scores > largest)
            row, number = divmod(int(np.argmax(outside)), scores.shape[1])
            raise PredictionError(
                f"{batch.path}: {batch.place(row)}, column {self._name(number)} is {scores[row, number]:.6g}, which is "
                f"not a probability; {self._advice(scores)}."
            )

    def _check_sums(
        self, batch: Batch, scores: NDArray[np.floating], totals: NDArray[np.float64], tolerance: float
    ) -> None:
        distances = np.abs(totals - 1)
        if distances.max() > tolerance:
            row = int(np.argmax(distances > tolerance))
            raise PredictionError(
                f"{batch.path}: the probabilities in {batch.place(row)} sum to {totals[row]:.6g} and not to 1, over "
                f"the columns {listed(self._columns.in_file)}; {self._advice(scores)}."
            )

    def _advice(self, scores: NDArray[np.floating]) -> str:
        """Return advice that depends on the values of the scores."""
        counting = [number for number in range(scores.shape[1]) if counts_rows(scores[:, number])]
        if counting and len(counting) < scores.shape[1]:
            return f"column {self._name(counting[0])} looks like a row number or an id; {CHOOSE_COLUMNS}"
        totals = scores.sum(axis=1, dtype=np.float64)
        if scores.min() >= 0:
            several = scores.shape[1] > 1
            if several and np.abs(totals - 1).max() <= ROUNDING:
                return f"if they were rounded, {NORMALISE}"
            in_percent = np.abs(totals - 100).max() <= 100 * ROUNDING if several else scores.max() > 2
            if in_percent and scores.max() <= 100 * (1 + ROW_SUM_TOLERANCE):
                return "if they are in percent, divide them by 100"
        return ADVICE

    def _name(self, number: int) -> str:
        """Return the name of a column, or its number within an array."""
        several = len(self._columns.names) == len(self._columns.classes)
        return repr(self._columns.names[number]) if several else str(number)
