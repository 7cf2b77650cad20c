"""Reliability curve: observed frequency of an event by its predicted probability."""

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from calibrant.arrays import AnyArray, FloatArray, IntArray, Vector
from calibrant.binning import BinningScheme, EqualMass, EqualWidth
from calibrant.intervals import bin_intervals
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.binned_metric import Strategy, chosen_partition, chosen_scheme
from calibrant.numerics.isotonic import IsotonicFit, isotonic_fit
from calibrant.options import check_choice, check_level, check_whole, random_source
from calibrant.plots.event_rows import EventKind, EventRows
from calibrant.plots.reliability.consistency_limits import ScoreCells, consistency_limits
from calibrant.presentation.sentences import counted
from calibrant.shared_parameters import documented
from calibrant.tabular import Tabular

__all__ = ["ReliabilityCurve", "reliability_curve"]


Mode = Literal["confidence", "consistency"]
"""``"confidence"``: confidence intervals of the observed frequencies. ``"consistency"``: range of the observed frequencies
under calibration."""


MAX_VERTICES, MAX_GRID_POINTS = 400, 100

# Largest number of distinct scores for resampling.
MAX_CELLS = 1000


@dataclass(frozen=True, eq=False)
class IsotonicCurve:
    """Vertices of the isotonic curve, and its band on a grid."""

    score: Vector  # (m,) from left to right
    outcome: Vector
    band_score: Vector  # (g,) pointwise limits; of length zero without a band
    band_low: Vector
    band_high: Vector

    @classmethod
    def of(
        cls,
        scores: FloatArray,
        outcomes: NDArray[np.bool_],
        weights: Vector | None,
        *,
        level: float,
        mode: Mode,
        n_resamples: int,
        generator: np.random.Generator,
    ) -> Self:
        """Fit the curve, and its band if the number of resamples is positive."""
        vertices = _vertices(isotonic_fit(scores, outcomes, weights))
        if n_resamples == 0:
            return cls(*vertices, np.empty(0), np.empty(0), np.empty(0))
        cells = ScoreCells.of(scores, outcomes, weights, MAX_CELLS)
        places = _places(cells.score)
        curves = np.empty((n_resamples, len(places)))
        drawn = _simulated_curves if mode == "consistency" else _bootstrap_curves
        for start in range(0, n_resamples, 100):  # in batches of a hundred, to limit memory
            block = curves[start : start + 100]
            for number, (score, outcome) in enumerate(drawn(cells, len(block), generator)):
                block[number] = np.interp(places, score, outcome)
        low, high = np.quantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return cls(*vertices, places, low, high)


def _vertices(fit: IsotonicFit) -> tuple[Vector, Vector]:
    """Return both ends of every plateau, or an evenly spaced subset along the curve."""
    score = np.column_stack([fit.low, fit.high]).ravel().astype(np.float64)
    outcome = np.repeat(fit.value, 2)
    keep = np.concatenate([[True], (score[1:] != score[:-1]) | (outcome[1:] != outcome[:-1])])
    score, outcome = score[keep], outcome[keep]
    if len(score) > MAX_VERTICES:
        along = score + outcome  # increasing, since both are; a measure of arc length
        wanted = np.linspace(along[0], along[-1], MAX_VERTICES)
        chosen = np.unique(np.clip(np.searchsorted(along, wanted), 0, len(along) - 1))
        score, outcome = score[chosen], outcome[chosen]
    return score, outcome


def _places(scores: Vector) -> Vector:
    """Return at most a hundred of the scores: half evenly spaced over the rows, half over their range."""
    half = MAX_GRID_POINTS // 2
    of_rows = scores[np.linspace(0, len(scores) - 1, min(half, len(scores))).round().astype(np.intp)]
    return np.unique(np.concatenate([of_rows, np.linspace(scores[0], scores[-1], half)]))


Curves = list[tuple[Vector, Vector]]


def _simulated_curves(cells: ScoreCells, n_draws: int, generator: np.random.Generator) -> Curves:
    """Return curves of outcomes simulated from the scores."""
    weight = cells.total_weight
    outcomes = cells.simulated_outcomes(n_draws, generator)
    return [(cells.score, isotonic_regression(row, weights=weight).x) for row in outcomes]


def _bootstrap_curves(cells: ScoreCells, n_draws: int, generator: np.random.Generator) -> Curves:
    """Return curves of bootstrap resamples of the rows."""
    curves = []
    for weight, outcome in zip(*cells.bootstrap_resamples(n_draws, generator), strict=True):
        seen = weight > 0
        fitted = isotonic_regression(outcome[seen] / weight[seen], weights=weight[seen]).x
        curves.append((cells.score[seen], fitted))
    return curves


SMALL_BIN = 10
"""Bins with fewer rows are small; they are drawn in grey, since their means are unreliable."""

N_HISTOGRAM_BINS = 50

MEANING = {
    "confidence": "bars on the points are Clopper-Pearson intervals of the frequency",
    "consistency": "bars on the diagonal are consistency intervals: the range for calibrated predictions",
}


@dataclass(frozen=True, eq=False)
class ReliabilityCurve(Tabular):
    """Observed frequencies of an event by predicted probability, with intervals.

    Attributes
    ----------
    event : str
        Name of the event: ``"predicted class"``, ``"class 'cat'"`` or ``"predicted class 'cat'"``.
    kind : str
        ``"confidence"``, ``"positive"``, ``"class"`` or ``"top-label"``.
    definition : str
        Event, bins, level and mode in words.
    n_rows : int
        Number of rows.
    level : float
        Confidence level of the intervals, for each separately.
    mode : str
        Intervals in the plot, ``"confidence"`` or ``"consistency"``; the data of bins have both.
    edges : ndarray of shape (B + 1,)
        Ends of the bins.
    count, weight : ndarray of shape (B,)
        Number of rows in each bin, and their total weight.
    mean_score, mean_outcome : ndarray of shape (B,)
        Weighted mean probability, and observed frequency of the event; NaN in empty bins.
    low, high : ndarray of shape (B,)
        Clopper-Pearson interval of the frequency; NaN in empty bins.
    consistency_low, consistency_high : ndarray of shape (B,)
        Range of the frequency under calibration, with a probability of at least ``level``; NaN in empty bins.
    filled, small : ndarray of shape (B,)
        Whether a bin has rows, and whether it has fewer than ten.
    isotonic_score, isotonic_outcome : ndarray of shape (m,)
        Vertices of the isotonic curve, at most 400.
    band_score, band_low, band_high : ndarray of shape (g,)
        Its pointwise band at up to 100 points; of length zero without resamples.
    histogram_edges, histogram_count : ndarray of shape (51,) and (50,)
        Fine histogram of the scores, in rows.
    """

    event: str
    kind: str
    definition: str
    n_rows: int
    level: float
    mode: str
    edges: Vector
    count: IntArray
    weight: Vector
    mean_score: Vector
    mean_outcome: Vector
    low: Vector
    high: Vector
    consistency_low: Vector
    consistency_high: Vector
    filled: NDArray[np.bool_]
    small: NDArray[np.bool_]
    isotonic_score: Vector
    isotonic_outcome: Vector
    band_score: Vector
    band_low: Vector
    band_high: Vector
    histogram_edges: Vector
    histogram_count: IntArray

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per bin, empty ones included."""
        names = "count weight mean_score mean_outcome low high consistency_low consistency_high filled small"
        values = {name: getattr(self, name) for name in names.split()}
        return {"bin_low": self.edges[:-1], "bin_high": self.edges[1:], **values}

    def __repr__(self) -> str:
        return f"ReliabilityCurve({self.definition}, {counted(self.n_rows, 'row')})"


@documented
def reliability_curve(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: EventKind = "auto",
    label: Any = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    binning: BinningScheme | None = None,
    level: float = 0.95,
    mode: Mode = "confidence",
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
) -> ReliabilityCurve:
    r"""Compute a reliability curve: observed frequency by predicted probability, with bins and by isotonic regression.

    For rows :math:`i \in B_b` of a bin with scores s, outcomes o and weights w,

    .. math::

        \bar s_b = \frac{\sum_i w_i s_i}{\sum_i w_i}, \qquad
        \bar o_b = \frac{\sum_i w_i o_i}{\sum_i w_i},

    with the exact confidence interval of :math:`\bar o_b` :cite:`clopper1934`, and its range under the hypothesis that the
    scores are calibrated :cite:`broecker2007`. The curve without bins is the isotonic regression of outcomes on scores, the
    CORP diagram of :cite:`dimitriadis2021`.

    Parameters
    ----------
    sample_weight : array of shape (n,), optional
        Sample weights. Means are weighted; for intervals, each row is one observation, and the size of a bin is its
        effective sample size.
    kind : {"auto", "confidence", "positive", "class", "top-label"}, default="auto"
        The event: the predicted class is correct; the second class of two; the class ``label``; or the predicted class is
        correct in rows that predict ``label``. ``"auto"`` is ``"positive"`` for two classes, else ``"confidence"``.
    label : label, optional
        For ``kind="class"`` and ``kind="top-label"``: the class, as in ``y_true``.
    n_bins : int, default=15
        Number of bins on [0, 1].
    strategy : {"uniform", "quantile"}, default="uniform"
        Equal-width or equal-mass bins.
    binning : scheme, optional
        Binning scheme instead of ``n_bins`` and ``strategy``, as in :func:`~calibrant.metrics.confidence_ece`.
    level : float, default=0.95
        Confidence level of the intervals, for each separately.
    mode : {"confidence", "consistency"}, default="confidence"
        Intervals in the plot, and the band of the isotonic curve: ``"confidence"`` bootstraps the rows, ``"consistency"``
        simulates outcomes from the scores.
    n_resamples : int, default=1000
        Number of resamples for the band; 0 for no band.
    random_state : int, Generator or None, default=0
        Seed of the random numbers; None for different ones each time.

    Returns
    -------
    ReliabilityCurve
        With ``columns()`` and ``frame()`` for the bins.

    Notes
    -----
    Consistency limits are exact quantiles of the Poisson-binomial distribution, of its normal limit if the variance exceeds
    100, or of 2,000 simulations for unequal weights. Bands are resampled from at most a thousand distinct scores; with more,
    neighbours are pooled. The band of mode ``"confidence"`` has zero width where all outcomes are equal, and is too narrow
    nearby, since the bootstrap cannot produce unobserved outcomes.

    The cost is a sort, O(n log n), and about half a second for the resamples, whatever n is; memory O(n).

    Examples
    --------
    Ten rows at 80 %, nine of them correct; under calibration five to ten are correct with a probability of 0.99:

    >>> curve = reliability_curve([0] * 9 + [1], [[0.8, 0.2]] * 10, kind="confidence", n_bins=5)
    >>> curve.count, curve.mean_outcome
    (array([ 0,  0,  0,  0, 10]), array([nan, nan, nan, nan, 0.9]))
    >>> curve.low[4].round(3), curve.high[4].round(3)
    (np.float64(0.555), np.float64(0.997))
    >>> curve.consistency_low[4], curve.consistency_high[4]
    (np.float64(0.5), np.float64(1.0))
    """
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    return reliability_of(
        EventRows.of(data, kind, label),
        scheme=chosen_scheme(n_bins, strategy, binning),
        level=level,
        mode=mode,
        n_resamples=n_resamples,
        random_state=random_state,
    )


def reliability_of(
    rows: EventRows,
    *,
    scheme: BinningScheme,
    level: float = 0.95,
    mode: Mode = "confidence",
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
) -> ReliabilityCurve:
    """Return the curve of parsed rows; see :func:`reliability_curve`."""
    check_level(level)
    check_choice("mode", mode, get_args(Mode))
    check_whole("n_resamples", n_resamples, least=0)
    generator = random_source(random_state)
    scores, outcomes, weights = rows.scores, rows.occurred, rows.weights
    partition = chosen_partition(scheme, scores, weights)
    bins = partition.bins(scores, outcomes, weights)
    squares = None if weights is None else partition.bins(scores, outcomes, weights**2).weight
    low, high = bin_intervals(bins, level, squared_weight=squares)
    limits = consistency_limits(partition.index(scores), bins.n_bins, scores, weights, level, generator)
    isotonic = IsotonicCurve.of(
        scores, outcomes, weights, level=level, mode=mode, n_resamples=int(n_resamples), generator=generator
    )
    in_unit = np.clip(scores, 0, 1)  # a float32 probability of 1.0000001 belongs to the last bin
    histogram_count, histogram_edges = np.histogram(in_unit, N_HISTOGRAM_BINS, (0.0, 1.0))

    def where_filled(values: Vector) -> Vector:
        return np.where(bins.filled, values, np.nan)

    return ReliabilityCurve(
        event=rows.name,
        kind=rows.kind,
        definition=f"{rows.name}, {_in_words(scheme)}; {100 * level:g} % level, mode {mode!r}: {MEANING[mode]}",
        n_rows=rows.n_rows,
        level=float(level),
        mode=mode,
        edges=bins.edges,
        count=bins.count,
        weight=bins.weight,
        mean_score=where_filled(bins.mean_score),
        mean_outcome=where_filled(bins.mean_outcome),
        low=where_filled(low),
        high=where_filled(high),
        consistency_low=limits[0],
        consistency_high=limits[1],
        filled=bins.filled,
        small=bins.filled & (bins.count < SMALL_BIN),
        isotonic_score=isotonic.score,
        isotonic_outcome=isotonic.outcome,
        band_score=isotonic.band_score,
        band_low=isotonic.band_low,
        band_high=isotonic.band_high,
        histogram_edges=histogram_edges,
        histogram_count=histogram_count,
    )


def _in_words(scheme: BinningScheme) -> str:
    """Describe a binning scheme in words; its repr if it has further parameters.

    >>> _in_words(EqualWidth(10)), _in_words(EqualMass())
    ('10 bins of equal width', '15 bins of equal mass')
    """
    if isinstance(scheme, EqualMass) and scheme == EqualMass(scheme.n_bins):
        return f"{counted(scheme.n_bins, 'bin')} of equal mass"
    if isinstance(scheme, EqualWidth) and scheme == EqualWidth(scheme.n_bins):
        return f"{counted(scheme.n_bins, 'bin')} of equal width"
    return repr(scheme)
