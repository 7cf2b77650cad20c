"""Histogram binning: the event frequency of each bin of the scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from calibrant.arrays import Vector
from calibrant.batches import Summary
from calibrant.binning import BinningScheme, Closed, EqualMass, EqualWidth, FixedEdges
from calibrant.binning.bins import MOST_BINS
from calibrant.calibrator import Traits
from calibrant.calibrators.reductions.binary_method import BinaryMethod, EventCounts, OneVsRestBatches
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.errors import ParameterError
from calibrant.graph import Event
from calibrant.graph.curves import Piecewise
from calibrant.options import check_choice, check_not_negative, check_whole, is_number
from calibrant.space import Space

__all__ = ["HistogramBinning"]

Strategy = Literal["uniform", "quantile", "range"]

STRATEGIES = ("uniform", "quantile", "range")

# Relative tolerance for rounding of sums of weights that are multiples of ``rows_per_bin``.
ROUNDING = 1e-9


@dataclass(frozen=True)
class SmoothedFrequency:
    r"""Event frequency of a bin with :math:`2 s` pseudo-counts.

    .. math:: v = \frac{P + 2 s m}{W + 2 s}

    for weight W, of which P with the event. With m = 1/2 and s = 1 this is Laplace's rule of succession.

    Attributes
    ----------
    prior : float
        Event frequency m of the pseudo-counts.
    smoothing : float
        Half of their number, s; zero for raw frequencies.

    Examples
    --------
    >>> SmoothedFrequency(0.5, 1.0)(np.array([0.0, 3.0, 0.0]), np.array([2.0, 3.0, 0.0]), 0.9)
    array([0.25, 0.8 , 0.9 ])
    """

    prior: float
    smoothing: float

    def __call__(self, positives: Vector, weight: Vector, if_empty: Vector | float) -> Vector:
        """Return the value of every bin; that of a bin without weight is ``if_empty``."""
        added = 2 * self.smoothing
        filled = weight > 0
        frequency = (positives + added * self.prior) / (np.where(filled, weight, 1.0) + added)
        return np.where(filled, frequency, if_empty)

    def extremes(self, total: float) -> tuple[float, float]:
        """Return the lowest and the highest value that any bin of these rows can have."""
        added = 2 * self.smoothing
        return added * self.prior / (total + added), (total + added * self.prior) / (total + added)


class HistogramBinning(BinaryMethod):
    r"""Histogram binning: replace the scores of each bin by the event frequency of the bin.

    .. math:: \hat q(s) = \frac{P_b + 2 \lambda m}{W_b + 2 \lambda}, \qquad s \in \text{bin } b

    for :math:`W_b` calibration rows in the bin, :math:`P_b` of them events, and :math:`2 \lambda` pseudo-counts with
    event frequency m :cite:`zadrozny2001`. More than two classes are calibrated one-vs-rest.

    Parameters
    ----------
    strategy : {"uniform", "quantile", "range"}, default="uniform"
        Bins of the same width from 0 to 1; bins of the same number of rows; or bins of the same width from the
        smallest to the largest calibration score.
    n_bins : int, sequence of int or "auto", default=15
        Number of bins. From several, the one with the lowest leave-one-out log-loss is selected, per class; see the notes.
        ``"auto"`` is 5, 10, 15, 20, 25, 30, 50, 70 and 100, limited to at least five rows per bin.
    rows_per_bin : int, optional
        Number of rows per bin instead of a number of bins, for ``strategy="quantile"``; there is always at least one
        bin.
    binning : scheme of :mod:`calibrant.binning`, optional
        A binning scheme, which replaces the three parameters above.
    smoothing : float, default=1.0
        Half of the number of pseudo-counts per bin, :math:`\lambda`. Zero gives raw frequencies, which can be 0 or 1 and
        make the log-loss infinite.
    prior : "base-rate" or float, optional
        Event frequency m of the pseudo-counts: that of the calibration set, or a number. By default
        ``"base-rate"`` for bins of equally many rows and 1/2 for all others; see the notes.
    empty : "centre", "prior" or float, default="centre"
        Value of a bin without calibration rows: its centre, the prior, or a number.

    Attributes
    ----------
    edges_ : ndarray of shape (B + 1,)
        Ends of the bins. Scores beyond the outermost belong to the nearest bin.
    closed_ : {"left", "right"}
        Which end of a bin belongs to it.
    values_ : ndarray of shape (B,)
        Calibrated probability of every bin.
    counts_ : ndarray of shape (B,)
        Number of calibration rows, or total weight, of every bin.
    one_vs_rest_ : OneVsRest
        For more than two classes, in place of all of the above; its ``calibrators_`` have them for each class.

    Notes
    -----
    *Number of bins.* Leaving a row out changes only one bin, so the leave-one-out log-loss has a closed form. It needs no
    folds and no random numbers, and one sort serves all numbers of bins. With ``smoothing=0`` they are compared as with
    1, since a single row can make the loss infinite. Integer weights are frequencies, and one observation at a time is
    left out; with any other weights complete rows are.

    *Prior.* Laplace's 1/2 suits bins of equal width: at high scores such bins hold few rows, which should not be shrunk to
    a base rate of 1/K. With many classes most bins of equally many rows hold no event; there 1/2 would raise the
    probabilities of all those classes, and the sum of a row to a multiple of 1.

    *Order.* All scores of a bin become equal, which loses ranking and, with many classes and few bins of equal mass,
    accuracy: each of 100 classes is the true one in about a hundredth of the rows, so the uppermost of 15 bins holds
    mostly rows of other classes. ``"auto"``, the setting of the registry names, selects more bins there.

    *Programs.* The text of :cite:`kull2019` has bins from 0 to 1 and raw frequencies; its program for the
    non-neural tables has ``strategy="range", prior=0.5, empty="prior"`` and chooses among 5 to 30, its program for
    networks 15 bins with ``smoothing=0, empty=0.0`` and ``binning=EqualWidth(15, closed="right")``. The program
    of :cite:`wenger2020` does not change scores in empty bins, and puts scores below the smallest calibration score into
    the last bin; here they are in the first. Bins with a fixed number of rows for the predicted
    class are those of :cite:`gupta2022`.

    *Batches.* ``partial_fit`` keeps the sums of every bin. With a given number of bins of equal width it equals a fit of
    all rows. Edges that depend on the scores, and a selected number of bins, are those of the first
    1,000 rows, or of the first batch if that is longer.

    Costs O(n) for given bins of equal width, otherwise a sort, O(n) memory; O(n log B) to predict.

    Examples
    --------
    Two of five rows in the lower half are events, and four of five in the upper one.

    >>> p = [0.1, 0.2, 0.2, 0.3, 0.4, 0.6, 0.7, 0.7, 0.8, 0.9]
    >>> y = [0, 1, 0, 0, 1, 1, 1, 0, 1, 1]
    >>> fitted = HistogramBinning(n_bins=2, smoothing=0.0).fit(p, y)
    >>> fitted.edges_, fitted.values_, fitted.counts_
    (array([0. , 0.5, 1. ]), array([0.4, 0.8]), array([5., 5.]))
    >>> fitted.predict_proba([0.0, 0.45, 1.0])[:, 1]
    array([0.4, 0.4, 0.8])
    >>> HistogramBinning(n_bins=2).fit(p, y).values_.round(4)               # (2 + 1) / (5 + 2), (4 + 1) / (5 + 2)
    array([0.4286, 0.7143])
    """

    traits = Traits()
    batches: ClassVar[Summary | None] = OneVsRestBatches(EventCounts())
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {
        "width-binning": {"strategy": "uniform", "n_bins": "auto"},
        "frequency-binning": {"strategy": "quantile", "n_bins": "auto"},
    }

    edges_: Vector
    closed_: Closed
    values_: Vector
    counts_: Vector

    def __init__(
        self,
        strategy: Strategy = "uniform",
        n_bins: int | Sequence[int] | Literal["auto"] = 15,
        rows_per_bin: int | None = None,
        binning: BinningScheme | None = None,
        smoothing: float = 1.0,
        prior: float | Literal["base-rate"] | None = None,
        empty: float | Literal["centre", "prior"] = "centre",
    ) -> None:
        self.strategy = strategy
        self.n_bins = n_bins
        self.rows_per_bin = rows_per_bin
        self.binning = binning
        self.smoothing = smoothing
        self.prior = prior
        self.empty = empty

    def _check_parameters(self) -> None:
        check_choice("strategy", self.strategy, STRATEGIES)
        check_not_negative("smoothing", self.smoothing, "such as 1 for Laplace's rule")
        if self.prior is not None:
            _check_probability("prior", self.prior, ("base-rate",))
        _check_probability("empty", self.empty, ("centre", "prior"))
        if self.binning is not None and (isinstance(self.binning, type) or not callable(self.binning)):
            raise ParameterError(
                f"binning must be a scheme such as calibrant.binning.EqualWidth(15), not {self.binning!r}."
            )
        if self.rows_per_bin is not None:
            check_whole("rows_per_bin", self.rows_per_bin)
            if self.strategy != "quantile":
                raise ParameterError(
                    "rows_per_bin makes bins of the same number of rows; set strategy='quantile' with it."
                )
        if isinstance(self.n_bins, str):
            if self.n_bins != "auto":
                raise ParameterError(
                    f"n_bins must be a number, several of them or 'auto', not {self.n_bins!r}."
                )
        elif not np.ndim(self.n_bins):
            check_whole("n_bins", self.n_bins)
        elif not len(self._grid(np.inf)):
            raise ParameterError("n_bins is empty; pass at least one number, or 'auto'.")
        else:
            for number in self._grid(np.inf):
                check_whole("n_bins", number)

    def _fit_event(self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None) -> None:
        own = _own_scores(scores)
        positives = float(outcomes.sum() if weights is None else weights[outcomes].sum())
        total = float(len(outcomes) if weights is None else weights.sum())
        frequency = SmoothedFrequency(self._prior_of(positives / total), float(self.smoothing))
        scheme = self.binning
        if scheme is None:
            scheme = self._chosen(own, outcomes, weights, total, frequency)
        partition = scheme(own, weights)
        bins = partition.bins(own, outcomes, weights)
        self.edges_, self.closed_, self.counts_ = bins.edges, partition.closed, bins.weight
        self.values_ = frequency(
            bins.outcome_sum, bins.weight, self._value_if_empty(bins.edges, frequency, total)
        )

    def _event_memory(
        self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None, n_rows: float
    ) -> dict[str, Any]:
        bins = FixedEdges(self.edges_, closed=self.closed_).bins(_own_scores(scores), outcomes, weights)
        memory = {"rows": float(n_rows), "outcome_sum": bins.outcome_sum, "weight": bins.weight}
        self._set_values(memory)
        return memory

    def _update_event(
        self,
        scores: EventScores,
        outcomes: NDArray[np.bool_],
        weights: Vector | None,
        kept: float,
        n_rows: float,
    ) -> None:
        past, batch = self.memory_, self._event_memory(scores, outcomes, weights, n_rows)
        self.memory_ = batch | {name: past[name] * kept + batch[name] for name in ("outcome_sum", "weight")}
        self._set_values(self.memory_)

    def _set_values(self, memory: dict[str, Any]) -> None:
        """Set the value of every bin from its sums; weights with a mean below 1 do not reduce the number of rows."""
        rows_per_weight = max(1.0, memory["rows"] / float(memory["weight"].sum()))
        events, self.counts_ = memory["outcome_sum"] * rows_per_weight, memory["weight"] * rows_per_weight
        total = float(self.counts_.sum())
        frequency = SmoothedFrequency(self._prior_of(float(events.sum()) / total), float(self.smoothing))
        self.values_ = frequency(events, self.counts_, self._value_if_empty(self.edges_, frequency, total))

    def _traced_event(self, event: Event) -> Event:
        steps = Piecewise.steps(self.edges_[1:-1], self.values_, self.closed_)
        return event.with_probability(event.given_probability.then(steps))

    def _prior_of(self, base_rate: float) -> float:
        if self.prior is not None:
            return base_rate if self.prior == "base-rate" else float(self.prior)
        equal_mass = isinstance(self.binning, EqualMass) or (
            self.binning is None and self.strategy == "quantile"
        )
        return base_rate if equal_mass else 0.5

    def _value_if_empty(self, edges: Vector, frequency: SmoothedFrequency, total: float) -> Vector:
        if is_number(self.empty):
            return np.full(len(edges) - 1, float(self.empty))
        if self.empty == "prior":
            return np.full(len(edges) - 1, frequency.prior)
        inside = np.clip(edges, 0.0, 1.0)
        # A bin of the single score 1 has the centre 1: knowing nothing, it must not be surer than if it held all rows.
        return np.clip((inside[1:] + inside[:-1]) / 2, *frequency.extremes(total))

    def _chosen(
        self,
        scores: NDArray[np.floating],
        outcomes: NDArray[np.bool_],
        weights: Vector | None,
        total: float,
        frequency: SmoothedFrequency,
    ) -> BinningScheme:
        """Return the scheme with the number of bins of the lowest leave-one-out loss."""
        grid = self._grid(total)
        if len(grid) == 1:
            return self._scheme(grid[0], scores)
        if frequency.smoothing == 0:
            frequency = SmoothedFrequency(frequency.prior, 1.0)
        search = BinSearch(scores, outcomes, weights, frequency)
        losses = []
        for number in grid:
            scheme = self._scheme(number, scores)
            # Bins of equal mass are never empty; one that lost its only row says nothing.
            if_empty = (
                frequency.prior
                if isinstance(scheme, EqualMass)
                else self._value_if_empty(scheme(scores).bin_edges(), frequency, total)
            )
            losses.append(search.loss(scheme, if_empty))
        return self._scheme(grid[int(np.argmin(losses))], scores)

    def _grid(self, total: float) -> list[int]:
        """Return the candidate numbers of bins, in increasing order."""
        if self.rows_per_bin is not None:
            return [max(1, min(int(total / self.rows_per_bin + ROUNDING), MOST_BINS))]
        if isinstance(self.n_bins, str):
            return automatic_grid(total)
        return sorted(np.atleast_1d(np.asarray(self.n_bins, dtype=object)).tolist())

    def _scheme(self, n_bins: int, scores: NDArray[np.floating]) -> BinningScheme:
        if self.strategy == "quantile":
            return EqualMass(n_bins)
        if self.strategy == "uniform":
            return EqualWidth(n_bins)
        low, high = float(scores.min()), float(scores.max())
        return EqualWidth(n_bins, low, high) if low < high else FixedEdges((low, high))


def _own_scores(scores: EventScores) -> NDArray[np.floating]:
    """Return the probability of the event in the float type it was given in, in which it is compared with edges."""
    given = scores.predictions
    return given.scores[:, 1] if given.space is Space.PROBABILITIES else scores.probability


def _check_probability(name: str, value: Any, words: tuple[str, ...]) -> None:
    if isinstance(value, str) and value in words:
        return
    if not is_number(value) or not 0 <= value <= 1:
        raise ParameterError(
            f"{name} must be {' or '.join(map(repr, words))}, or a number from 0 to 1, not {value!r}."
        )


# The six numbers of Kull et al. (2019), and larger ones without which many classes lose their order.
NUMBERS_TRIED = (5, 10, 15, 20, 25, 30, 50, 70, 100)

# With fewer rows the frequency of a bin is mostly chance, in left-out rows as well.
FEWEST_ROWS_PER_BIN = 5

# Relative rounding error of a weight minus itself.
LOST_DIGITS = 1e-12


def automatic_grid(total: float) -> list[int]:
    """Return the candidate numbers of bins for rows of this total weight; at least one.

    >>> automatic_grid(120.0), automatic_grid(3.0)
    ([5, 10, 15, 20], [5])
    """
    return [
        number for number in NUMBERS_TRIED if number <= max(total / FEWEST_ROWS_PER_BIN, NUMBERS_TRIED[0])
    ]


class BinSearch:
    r"""Rows in order of their scores, to compare binnings by their leave-one-out log-loss.

    The left-out row changes only one bin, so that its loss needs no second fit: with P of the weight W
    of its bin, a row of weight u with the event has the probability :math:`v(P - u, W - u)`, and one without
    it :math:`1 - v(P, W - u)`. Edges, which do not depend on outcomes, stay; bins are closed on the left.
    Weights that are whole numbers count rows, of which one is left out; any other weight is that of one row.

    Costs a sort, then for every binning O(B log n) with whole weights and O(n) with others.

    Examples
    --------
    >>> from calibrant.binning import EqualWidth
    >>> scores, outcomes = np.array([0.1, 0.2, 0.3, 0.8]), np.array([False, False, True, True])
    >>> search = BinSearch(scores, outcomes, None, SmoothedFrequency(0.5, 1.0))
    >>> round(search.loss(EqualWidth(1), if_empty=0.5), 4), round(-float(np.log(2 / 5)), 4)
    (0.9163, 0.9163)
    """

    def __init__(
        self,
        scores: NDArray[np.floating],
        outcomes: NDArray[np.bool_],
        weights: Vector | None,
        frequency: SmoothedFrequency,
    ) -> None:
        order = np.argsort(scores)
        self.scores = scores[order]
        self.outcomes = outcomes[order]
        self.weights = np.ones(len(order)) if weights is None else weights[order]
        self.rows_are_counted = weights is None or bool(np.array_equal(weights, np.round(weights)))
        self.frequency = frequency
        # Equal scores stay together: a binning cuts between the ends of two groups of them.
        self.ends = np.concatenate([[0], np.flatnonzero(np.diff(self.scores)) + 1, [len(order)]])
        self.weight_below = self._cumulative(self.weights)
        self.positives_below = self._cumulative(self.weights * self.outcomes)

    def loss(self, scheme: BinningScheme, if_empty: Vector | float) -> float:
        """Return the mean log-loss of rows left out; ``if_empty`` is the value of bins that lose their only row."""
        bounds = self._bounds(scheme)
        otherwise = np.broadcast_to(if_empty, len(bounds) - 1)
        weight, positives = np.diff(self.weight_below[bounds]), np.diff(self.positives_below[bounds])
        if self.rows_are_counted:
            # All rows of a bin with the same outcome have the same loss.
            left_out = np.ones(len(weight))
            with_event, without = positives, weight - positives
        else:
            of_bin = np.repeat(np.arange(len(weight)), np.diff(self.ends[bounds]))
            left_out = self.weights
            with_event, without = left_out * self.outcomes, left_out * ~self.outcomes
            weight, positives, otherwise = weight[of_bin], positives[of_bin], otherwise[of_bin]
        rest = weight - left_out
        rest = np.where(rest > LOST_DIGITS * weight, rest, 0.0)
        if_hit = self.frequency(np.clip(positives - left_out, 0.0, rest), rest, otherwise)
        if_miss = self.frequency(np.minimum(positives, rest), rest, otherwise)
        return -float((xlogy(with_event, if_hit) + xlogy(without, 1 - if_miss)).sum() / self.weight_below[-1])

    def _bounds(self, scheme: BinningScheme) -> NDArray[np.intp]:
        """Return how many distinct scores lie below each edge of the bins, (B + 1,)."""
        last = len(self.ends) - 1
        if isinstance(scheme, EqualMass):
            inner = scheme.cuts(self.weight_below)
        else:
            edges = scheme(self.scores, self.weights).bin_edges()[1:-1].astype(self.scores.dtype)
            inner = np.searchsorted(self.scores[self.ends[:-1]], edges)
        return np.concatenate([[0], inner, [last]])

    def _cumulative(self, values: Vector) -> Vector:
        total: Vector = np.concatenate([[0.0], np.cumsum(values)])[self.ends]
        return total
