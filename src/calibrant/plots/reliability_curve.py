"""The numbers of a reliability diagram: how often an event happens at each level of its probability."""

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.binning import BinningScheme, EqualMass, EqualWidth
from calibrant.intervals import bin_intervals
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.bin_errors import Strategy, chosen_partition, chosen_scheme
from calibrant.options import check_choice, check_level, check_whole, random_source
from calibrant.plots.consistency_limits import consistency_limits
from calibrant.plots.event_rows import EventKind, EventRows
from calibrant.plots.isotonic_curve import IsotonicCurve, Mode
from calibrant.tabular import Tabular
from calibrant.wording import counted

__all__ = ["FEW_ROWS", "ReliabilityCurve", "reliability_curve", "reliability_of"]

Vector = NDArray[np.float64]

FEW_ROWS = 10
"""Bins of fewer rows are small: drawn in grey, since their mean says next to nothing."""

N_HISTOGRAM_BINS = 50

MEANING = {
    "confidence": "bars on the points are Clopper-Pearson intervals: where the true share may be",
    "consistency": "bars on the diagonal are consistency intervals: where calibrated predictions would be",
}


@dataclass(frozen=True, eq=False)
class ReliabilityCurve(Tabular):
    """How often an event happened at each level of its probability, with intervals.

    Attributes
    ----------
    event : str
        What is looked at: ``"predicted class"``, ``"class 'cat'"`` or ``"predicted class 'cat'"``.
    kind : str
        ``"confidence"``, ``"positive"``, ``"class"`` or ``"top-label"``.
    definition : str
        Event, bins, level and mode in words.
    n_rows : int
        Number of rows.
    level : float
        Level of all intervals, each by itself.
    mode : str
        Which intervals a picture shows, ``"confidence"`` or ``"consistency"``; of bins both are there.
    edges : ndarray of shape (B + 1,)
        Ends of the bins.
    count, weight : ndarray of shape (B,)
        Number of rows of each bin, and their weight.
    mean_score, mean_outcome : ndarray of shape (B,)
        Weighted mean probability, and share of rows for which the event happened; NaN in empty bins.
    low, high : ndarray of shape (B,)
        Clopper-Pearson interval of the share; NaN in empty bins.
    consistency_low, consistency_high : ndarray of shape (B,)
        Where the share would be, with a probability of at least ``level``, if the scores were true; NaN in empty bins.
    filled, small : ndarray of shape (B,)
        Whether a bin has rows, and whether fewer than ten.
    isotonic_score, isotonic_outcome : ndarray of shape (m,)
        Vertices of the isotonic curve, at most 400.
    band_score, band_low, band_high : ndarray of shape (g,)
        Its pointwise band at g, at most 100, places; of length zero without resamples.
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
    count: NDArray[np.intp]
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
    histogram_count: NDArray[np.intp]

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per bin, empty ones included."""
        return {
            "bin_low": self.edges[:-1],
            "bin_high": self.edges[1:],
            "count": self.count,
            "weight": self.weight,
            "mean_score": self.mean_score,
            "mean_outcome": self.mean_outcome,
            "low": self.low,
            "high": self.high,
            "consistency_low": self.consistency_low,
            "consistency_high": self.consistency_high,
            "filled": self.filled,
            "small": self.small,
        }

    def __repr__(self) -> str:
        return f"ReliabilityCurve({self.definition}, {counted(self.n_rows, 'row')})"


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
    r"""How often an event happens at each level of its probability: bins with intervals, and a curve without bins.

    For rows :math:`i \in B_b` of a bin with scores s, outcomes o and weights w,

    .. math::

        \bar s_b = \frac{\sum_i w_i s_i}{\sum_i w_i}, \qquad
        \bar o_b = \frac{\sum_i w_i o_i}{\sum_i w_i},

    with the exact interval of :math:`\bar o_b` :cite:`clopper1934` and, for the hypothesis that all :math:`s_i` are
    true, the range of :math:`\bar o_b` by chance :cite:`broecker2007`. The curve without bins is the isotonic
    regression of outcomes on scores, the CORP diagram of :cite:`dimitriadis2021`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        How much each row matters. Means are those of repeated rows; for intervals a row remains one observation, and
        a bin counts as its effective number of rows.
    kind : {"auto", "confidence", "positive", "class", "top-label"}, default="auto"
        The event: the predicted class being right; the second class of two; the class ``label``; or the predicted
        class being right among rows that predict ``label``. ``"auto"`` is ``"positive"`` for two classes, else
        ``"confidence"``.
    label : label, optional
        For ``kind="class"`` and ``kind="top-label"``: the class, as it is called in ``y_true``.
    n_bins : int, default=15
        Number of bins from 0 to 1.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight.
    binning : scheme, optional
        Takes the place of ``n_bins`` and ``strategy``, as in :func:`~calibrant.metrics.confidence_ece`.
    level : float, default=0.95
        Level of every interval by itself.
    mode : {"confidence", "consistency"}, default="confidence"
        Which intervals a picture shows, and what the band of the isotonic curve is: with ``"confidence"`` that of
        curves of rows drawn with replacement, with ``"consistency"`` that of curves of outcomes drawn from the scores.
    n_resamples : int, default=1000
        Number of draws for that band; 0 leaves it out.
    random_state : int, Generator or None, default=0
        Seed of the draws; None for others every time.

    Returns
    -------
    ReliabilityCurve
        With ``columns()`` and ``frame()`` for the bins.

    Notes
    -----
    Consistency limits are exact quantiles of the Poisson-binomial distribution, of its normal limit where the variance
    exceeds 100, and of 2,000 draws for unequal weights. Bands are drawn from at most a thousand different scores;
    with more, neighbours are pooled. The band of mode ``"confidence"`` has no width where all outcomes are equal,
    and is too narrow near such places: rows drawn again cannot show what was never seen.

    Costs a sort, O(n log n), and the draws, which take about half a second whatever n is; memory O(n).

    Examples
    --------
    Ten rows at 80 %, nine of them right; of ten such rows, five to ten are right with a probability of 0.99:

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
    """Return the curve of rows that are parsed already, see :func:`reliability_curve`."""
    check_level(level)
    check_choice("mode", mode, get_args(Mode))
    check_whole("n_resamples", n_resamples, least=0)
    generator = random_source(random_state)
    scores, happened, weights = rows.scores, rows.happened, rows.weights
    partition = chosen_partition(scheme, scores, weights)
    bins = partition.bins(scores, happened, weights)
    squares = None if weights is None else partition.bins(scores, happened, weights**2).weight
    low, high = bin_intervals(bins, level, squared_weight=squares)
    limits = consistency_limits(partition.index(scores), bins.n_bins, scores, weights, level, generator)
    isotonic = IsotonicCurve.of(
        scores, happened, weights, level=level, mode=mode, n_resamples=int(n_resamples), generator=generator
    )
    in_unit = np.clip(scores, 0, 1)  # a float32 probability of 1.0000001 counts in the last bin
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
        small=bins.filled & (bins.count < FEW_ROWS),
        isotonic_score=isotonic.score,
        isotonic_outcome=isotonic.outcome,
        band_score=isotonic.band_score,
        band_low=isotonic.band_low,
        band_high=isotonic.band_high,
        histogram_edges=histogram_edges,
        histogram_count=histogram_count,
    )


def _in_words(scheme: BinningScheme) -> str:
    """Return what bins a scheme makes; the scheme itself where that takes more than its kind and a number.

    >>> _in_words(EqualWidth(10)), _in_words(EqualMass())
    ('10 bins of equal width', '15 bins of equal mass')
    """
    if isinstance(scheme, EqualMass) and scheme == EqualMass(scheme.n_bins):
        return f"{counted(scheme.n_bins, 'bin')} of equal mass"
    if isinstance(scheme, EqualWidth) and scheme == EqualWidth(scheme.n_bins):
        return f"{counted(scheme.n_bins, 'bin')} of equal width"
    return repr(scheme)
