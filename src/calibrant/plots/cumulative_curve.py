"""Cumulative differences: cumulative sum of outcomes minus probabilities, and its plot."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from calibrant.arrays import AnyArray, IntArray, Vector
from calibrant.hypothesis_tests.cumulative import NullDistribution
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.cumulative import RANGE, ScoreGroups
from calibrant.plots.display import PredictionDisplay, new_axes
from calibrant.plots.event_rows import EventKind, EventRows
from calibrant.plots.style import DIAGONAL, INK, LABEL_SIZE, SERIES, TITLE_SIZE, label_axes, write_caption
from calibrant.presentation.sentences import counted, p_text
from calibrant.shared_parameters import documented
from calibrant.tabular import Tabular

__all__ = ["CumulativeCurve", "CumulativeDifferenceDisplay", "cumulative_curve"]


MAX_POINTS = 500


@dataclass(frozen=True, eq=False)
class CumulativeCurve(Tabular):
    """Cumulative sum of outcomes minus probabilities, from the lowest probability to the highest.

    Attributes
    ----------
    event : str
        Name of the event: ``"predicted class"``, ``"class 'cat'"`` or ``"predicted class 'cat'"``.
    kind : str
        ``"confidence"``, ``"positive"``, ``"class"`` or ``"top-label"``.
    n_rows : int
        Number of rows.
    share : ndarray of shape (m,)
        Fraction of the weight up to each point, from 0 to 1; at most 500 points, including the highest and lowest.
    difference : ndarray of shape (m,)
        Cumulative sum of outcome minus score, divided by the total weight; starts at 0.
    score : ndarray of shape (m,)
        Score at each point.
    sigma : float
        Standard deviation of the last difference under calibration.
    kuiper : float
        Kuiper's statistic, highest minus lowest difference: the largest absolute sum of outcome minus score over any
        interval of scores, divided by the total weight.
    p_value : float
        P-value of Kuiper's test of calibration.
    caution : str or None
        Reason why the p-value is rough, if it is.
    """

    event: str
    kind: str
    n_rows: int
    share: Vector
    difference: Vector
    score: Vector
    sigma: float
    kuiper: float
    p_value: float
    caution: str | None

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per point."""
        return {"share": self.share, "score": self.score, "difference": self.difference}

    def __repr__(self) -> str:
        return (
            f"CumulativeCurve({self.event}, Kuiper {self.kuiper:.4g}, {p_text(self.p_value)}, "
            f"{counted(self.n_rows, 'row')})"
        )


@documented
def cumulative_curve(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, kind: EventKind = "auto", label: Any = None
) -> CumulativeCurve:
    r"""Compute cumulative differences between outcomes and probabilities.

    .. math:: C_j = \frac{1}{W} \sum_{s_i \le s_j} w_i (o_i - s_i), \qquad W = \sum_i w_i

    with scores s, outcomes o and weights w :cite:`arrieta2022`. No bins are needed: the slope of the curve over an interval
    of scores is the mean difference in this interval. For calibrated scores the curve is a random walk with standard
    deviation :math:`\sigma = (\sum_i w_i^2 s_i (1 - s_i))^{1/2} / W` at its end.

    Parameters
    ----------
    sample_weight : array of shape (n,), optional
        Sample weights; each row is one observation.
    kind : {"auto", "confidence", "positive", "class", "top-label"}, default="auto"
        The event, as in :func:`~calibrant.plots.reliability_curve`.
    label : label, optional
        For ``kind="class"`` and ``kind="top-label"``: the class, as in ``y_true``.

    Returns
    -------
    CumulativeCurve
        With ``columns()`` and ``frame()``; the statistic and its p-value are those of
        :func:`~calibrant.hypothesis_tests.cumulative_test`. The cost is a sort, O(n log n).

    Examples
    --------
    The event occurred in 30 of 100 rows with a probability of 20 %, ten more than predicted:

    >>> curve = cumulative_curve([1] * 30 + [0] * 70, [0.2] * 100)
    >>> curve.share, curve.difference.round(6)
    (array([0., 1.]), array([0. , 0.1]))
    >>> round(curve.sigma, 6), round(curve.p_value, 4)
    (0.04, 0.0124)
    """
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    rows = EventRows.of(data, kind, label)
    prospect = rows.utility.prospect(rows.data.predictions)
    groups = ScoreGroups.of(prospect.expected, prospect.tolerance)
    path = groups.path(prospect.realised(rows.data.labels) - prospect.expected, rows.weights)
    noise = NullDistribution.of(prospect, groups, rows.weights, RANGE, continuity_correction=True)
    kuiper = RANGE.measure(path)
    share = groups.path(np.ones(rows.n_rows), rows.weights)
    score = prospect.expected[groups.order[groups.ends]]
    difference = np.concatenate([[0.0], path])
    chosen = _chosen(difference)
    return CumulativeCurve(
        event=rows.name,
        kind=rows.kind,
        n_rows=rows.n_rows,
        share=np.concatenate([[0.0], share])[chosen],
        difference=difference[chosen],
        score=np.concatenate([score[:1], score])[chosen],
        sigma=noise.deviation,
        kuiper=kuiper,
        p_value=noise.p_value(kuiper, prospect.tolerance),
        caution=noise.caution(rows.n_rows),
    )


def _chosen(difference: Vector) -> IntArray:
    """Return the points to keep: all, or evenly spaced ones with the highest and the lowest."""
    if len(difference) <= MAX_POINTS:
        return np.arange(len(difference))
    even = np.linspace(0, len(difference) - 1, MAX_POINTS - 2).round().astype(np.intp)
    return np.unique(np.append(even, [np.argmax(difference), np.argmin(difference)]))


SCORE_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

# 97.5 % quantile of the standard normal distribution.
TWO_SIDED = 1.959963984540054


class CumulativeDifferenceDisplay(PredictionDisplay):
    """Plot of cumulative differences between outcomes and probabilities, without bins :cite:`arrieta2022`.

    Read the slope: over any stretch of rows it is the mean of outcome minus probability. Where the curve falls, probabilities
    are too high; where it rises, they are too low; where it is flat, they are calibrated. The bar at the right end contains
    the end of the curve with a probability of 95 % under calibration. The shaded range from the lowest to the highest point
    is Kuiper's statistic.

    Parameters
    ----------
    curve : CumulativeCurve
        Data of the plot.
    name : str, default=""
        Title.

    Examples
    --------
    >>> display = CumulativeDifferenceDisplay.from_predictions([1] * 30 + [0] * 70, [0.2] * 100)
    >>> display.columns()["difference"].round(6)
    array([0. , 0.1])
    """

    def __init__(self, curve: CumulativeCurve, name: str = "") -> None:
        self.curve = curve
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        sample_weight: Any = None,
        kind: EventKind = "auto",
        label: Any = None,
        name: str = "",
    ) -> Self:
        """Create the display from predictions and true classes; see :func:`~calibrant.plots.cumulative_curve`."""
        curve = cumulative_curve(y_true, y_proba, sample_weight=sample_weight, kind=kind, label=label)
        return cls(curve, name)

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per point of the curve."""
        return self.curve.columns()

    def plot(self, ax: Any = None) -> Self:
        self.ax_, self.figure_ = new_axes(ax, (5.6, 4.9))
        curve, axes = self.curve, self.ax_
        lowest, highest = float(curve.difference.min()), float(curve.difference.max())
        axes.axhspan(lowest, highest, color=SERIES[0], alpha=0.08, linewidth=0)
        axes.axhline(0, **DIAGONAL)
        axes.plot(curve.share, curve.difference, color=SERIES[0], linewidth=1.6, zorder=3)
        axes.errorbar(
            1, 0, yerr=TWO_SIDED * curve.sigma, color=INK, capsize=5, elinewidth=2, clip_on=False, zorder=4
        )
        bottom, top = min(lowest, -TWO_SIDED * curve.sigma), max(highest, TWO_SIDED * curve.sigma)
        margin = 0.06 * max(top - bottom, 1e-6)
        axes.set(xlim=(0, 1), ylim=(bottom - margin, top + margin))
        label_axes(
            axes, "fraction of rows, from the lowest score to the highest", "cumulative outcomes minus scores"
        )
        self._scores()
        title = f"{self.name or curve.event}: Kuiper {curve.kuiper:.3g}, {p_text(curve.p_value, digits=2)}"
        axes.set_title(title, fontsize=TITLE_SIZE)
        write_caption(
            axes,
            "Falling: scores too high; rising: too low; flat: calibrated. Bar at the right: 95 % range of the end for "
            "calibrated predictions. Shaded: Kuiper's statistic."
            + ("" if curve.caution is None else " Few rows: the p-value is rough."),
        )
        return self

    def _scores(self) -> None:
        """Show the scores on an axis above the plot."""
        upper = self.ax_.secondary_xaxis("top")
        scores = np.interp(SCORE_TICKS, self.curve.share, self.curve.score)
        upper.set_xticks(SCORE_TICKS, labels=[_score_text(score) for score in scores])
        upper.tick_params(labelsize=LABEL_SIZE - 1)
        what = "confidence" if self.curve.kind in ("confidence", "top-label") else "probability"
        upper.set_xlabel(f"{what} at this point", fontsize=LABEL_SIZE - 1)


def _score_text(score: float) -> str:
    """Return a score with three digits; a score below one is never shown as 1.

    >>> _score_text(0.25), _score_text(0.99999), _score_text(1.0), _score_text(1e-5)
    ('0.25', '>0.999', '1', '<0.001')
    """
    if 0 < score < 0.001:
        return "<0.001"
    return ">0.999" if 0.999 < score < 1 else f"{score:.3g}"
