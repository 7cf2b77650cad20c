"""Losses of rows as functions of their temperature, exact or from a table."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.reductions import row_maxima, row_sums
from calibrant.numerics.row_blocks import BlockSums

__all__ = ["ExactRowLosses", "RowLosses", "TabulatedRowLosses", "row_losses"]

Expanded = tuple[Vector, Vector, Vector]
Rows = slice | NDArray[np.intp]

# With nodes this far apart in log T, quintic interpolation has an error of 1e-5 in the worst row and 1e-8 on average.
SPACING = 0.2

# Value and two derivatives at the places on both sides.
CORNERS = 6


class RowLosses(ABC):
    """The loss of every row as a function of its temperature."""

    n_columns: int
    """Numbers that an evaluation takes of one row, for the size of blocks."""

    @abstractmethod
    def __call__(self, rows: Rows, logarithms: Vector) -> tuple[Vector, Vector]:
        """Return losses and their derivatives in ``logarithms``, those of the rows' temperatures; all (n,)."""


class ExactRowLosses(RowLosses):
    r"""Exact losses, by a softmax of every row.

    With :math:`u = \log T`, :math:`\beta = e^{-u}` and z the logits, :math:`\ell(u)` is the loss of
    :math:`\mathrm{softmax}(\beta z)`, and :math:`d\ell/du = -\beta \, d\ell/d\beta`.

    Parameters
    ----------
    logits : ndarray of shape (n, K)
        Scores before the softmax.
    labels : ndarray of shape (n,)
        Column of the true class.
    loss : {"log", "brier"}
        Which loss.
    double : bool
        Whether to work in float64 whatever the type of the logits.

    Examples
    --------
    At temperature 1 the log-loss of even odds is log 2, and no temperature changes that:

    >>> exact = ExactRowLosses(np.zeros((1, 2)), np.array([0]), "log")
    >>> value, slope = exact(slice(None), np.zeros(1))
    >>> value.round(4), slope + 0.0
    (array([0.6931]), array([0.]))
    """

    def __init__(
        self,
        logits: FloatArray,
        labels: NDArray[np.intp],
        loss: Literal["log", "brier"],
        *,
        double: bool = True,
    ) -> None:
        self.n_columns = logits.shape[1]
        self._logits = logits
        self._tops = row_maxima(logits)
        self._of_labels = logits[np.arange(len(labels)), labels]
        self._expand = _log_rows if loss == "log" else _brier_rows
        self._dtype = np.dtype(np.float64) if double else logits.dtype

    def __call__(self, rows: Rows, logarithms: Vector) -> tuple[Vector, Vector]:
        losses, slopes, _ = self.expanded(rows, logarithms, curvatures=False)
        return losses, slopes

    def expanded(self, rows: Rows, logarithms: Vector, *, curvatures: bool = True) -> Expanded:
        """Return losses and their first two derivatives in the logarithms; the second empty unless asked for."""
        return self._at(logarithms, *self._gaps(rows), curvatures)

    def expanded_at(self, rows: Rows, places: Vector) -> Iterator[Expanded]:
        """Return the same for several places, at each of which all rows have one temperature."""
        gaps, label_gaps = self._gaps(rows)
        for place in places:
            yield self._at(np.full(len(gaps), place), gaps, label_gaps, curvatures=True)

    def _gaps(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Return how far each logit, and then that of the label, lies from the largest of its row."""
        tops = self._tops[rows].astype(self._dtype)
        return (
            np.subtract(self._logits[rows], tops[:, np.newaxis], order="C"),
            self._of_labels[rows] - tops,
        )

    def _at(self, logarithms: Vector, gaps: FloatArray, label_gaps: FloatArray, curvatures: bool) -> Expanded:
        beta = np.exp(-logarithms)
        parts = self._expand(beta.astype(self._dtype), gaps, label_gaps, curvatures)
        losses, first, second = (part.astype(np.float64) for part in parts)
        return losses, -beta * first, beta * (beta * second + first) if curvatures else second


class TabulatedRowLosses(RowLosses):
    r"""Losses by quintic interpolation in a table.

    The loss of a row is a smooth function of :math:`\log T`, so exact values and two derivatives at a few dozen nodes
    suffice for interpolation. Evaluations then cost O(n) instead of O(nK).

    Parameters
    ----------
    exact : ExactRowLosses
        What the table is made of.
    n_rows : int
        Number of rows, n.
    limits : tuple of float
        Least and largest logarithm of a temperature.
    """

    def __init__(self, exact: ExactRowLosses, n_rows: int, limits: tuple[float, float]) -> None:
        self._places = places_between(limits)
        self._step = float(self._places[1] - self._places[0])
        self.n_columns = CORNERS
        self._table = np.empty((n_rows, len(self._places), 3))

        def fill(rows: slice) -> int:
            block = self._table[rows]
            for number, expanded in enumerate(exact.expanded_at(rows, self._places)):
                for order, part in enumerate(expanded):
                    block[:, number, order] = part * self._step**order
            return 1

        with BlockSums.over(n_rows, exact.n_columns) as in_all_blocks:
            in_all_blocks(fill)

    def __call__(self, rows: Rows, logarithms: Vector) -> tuple[Vector, Vector]:
        table = self._table[rows]
        scaled = (logarithms - self._places[0]) / self._step
        left = np.clip(scaled.astype(np.intp), 0, len(self._places) - 2)
        starts = 3 * (len(self._places) * np.arange(len(table)) + left)
        corners = table.reshape(-1)[starts[:, np.newaxis] + np.arange(CORNERS)].T
        value, slope = _quintic(corners, scaled - left)
        return value, slope / self._step


def places_between(limits: tuple[float, float]) -> Vector:
    """Return evenly spaced places of a table, at most :data:`SPACING` apart, the limits included."""
    return np.linspace(*limits, 2 + int((limits[1] - limits[0]) / SPACING))


def row_losses(
    data: LabelledPredictions, loss: Literal["log", "brier"], limits: tuple[float, float]
) -> RowLosses:
    """Return a table of losses if it holds fewer numbers than the rows, else exact losses.

    ``limits`` are the smallest and the largest log-temperature. The few softmaxes of a table are computed in the float type
    of the scores; exact losses are in float64, since a search needs their digits.
    """
    logits = data.predictions.logits
    if 3 * len(places_between(limits)) > data.n_classes:
        return ExactRowLosses(logits, data.labels, loss)
    exact = ExactRowLosses(logits, data.labels, loss, double=False)
    return TabulatedRowLosses(exact, data.n_rows, limits)


def _quintic(corners: Vector, place: Vector) -> tuple[Vector, Vector]:
    """Return value and slope, at places in [0, 1], of the polynomial with these values and derivatives at both ends.

    ``corners`` (6, n) has value, first and second derivative at 0 and then at 1.
    """
    value, slope, bend = corners[0], corners[1], corners[2] / 2
    # Residuals at the other end of the second-order expansion at this end: value, slope and curvature.
    rise = corners[3] - value - slope - bend
    turn = corners[4] - slope - 2 * bend
    curl = corners[5] - 2 * bend
    third = 10 * rise - 4 * turn + curl / 2
    fourth = -15 * rise + 7 * turn - curl
    fifth = 6 * rise - 3 * turn + curl / 2
    at_place = value + place * (slope + place * (bend + place * (third + place * (fourth + place * fifth))))
    slope_there = slope + place * (2 * bend + place * (3 * third + place * (4 * fourth + place * 5 * fifth)))
    return at_place, slope_there


NOTHING: Vector = np.empty(0)


def _log_rows(
    beta: FloatArray, gaps: FloatArray, label_gaps: FloatArray, curvatures: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log-loss and derivatives in beta: mean and variance of the gaps under the softmax."""
    # With gaps <= 0 the exponentials cannot overflow and their sum is at least one.
    terms = np.exp(beta[:, np.newaxis] * gaps)
    total = row_sums(terms)
    terms *= gaps
    mean = row_sums(terms) / total
    second: FloatArray = NOTHING
    if curvatures:
        second = np.einsum("ik,ik->i", terms, gaps) / total - mean**2
    return np.log(total) - beta * label_gaps, mean - label_gaps, second


def _brier_rows(
    beta: FloatArray, gaps: FloatArray, label_gaps: FloatArray, curvatures: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Brier score and derivatives in beta, from sums of p and of its square times powers of the gaps z.

    With m and v the mean and variance of z under p: p' = p (z - m) and p'' = p ((z - m)^2 - v).
    """
    terms = np.exp(beta[:, np.newaxis] * gaps)
    tilted_terms = terms * gaps
    total = row_sums(terms)
    mean = row_sums(tilted_terms) / total
    square = np.einsum("ik,ik->i", terms, terms) / total**2
    tilted_square = np.einsum("ik,ik->i", terms, tilted_terms) / total**2
    # The label's own column, from its gap alone.
    own, own_centred = np.exp(beta * label_gaps) / total, label_gaps - mean
    first = 2 * (tilted_square - mean * square - own * own_centred)
    second: FloatArray = NOTHING
    if curvatures:
        variance = np.einsum("ik,ik->i", tilted_terms, gaps) / total - mean**2
        bent_square = np.einsum("ik,ik->i", tilted_terms, tilted_terms) / total**2
        of_changes = bent_square - 2 * mean * tilted_square + mean**2 * square
        second = 2 * (2 * of_changes - variance * square - own * (own_centred**2 - variance))
    return square - 2 * own + 1, first, second
