"""Selective prediction: risk-coverage curve, AURC, excess AURC and accuracy at a coverage."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.arrays import Float64Array
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import Evaluator, MetricTraits, metric
from calibrant.metrics.events import confidences
from calibrant.numerics.cumulative import ScoreGroups
from calibrant.numerics.row_blocks import row_blocks
from calibrant.options import is_number
from calibrant.predictions import Predictions
from calibrant.shared_parameters import documented
from calibrant.space import Space
from calibrant.tabular import Tabular

__all__ = ["RiskCoverageCurve", "accuracy_at_coverage", "aurc", "excess_aurc", "risk_coverage_curve"]


@dataclass(frozen=True, eq=False)
class RiskCoverageCurve(Tabular):
    """Error rate among the accepted rows for every confidence threshold.

    Attributes
    ----------
    threshold : ndarray of shape (m,)
        Distinct confidences, from the highest to the lowest. Rows whose confidence is at least the threshold are accepted.
    coverage : ndarray of shape (m,)
        Fraction of rows that are accepted.
    risk : ndarray of shape (m,)
        Error rate among the accepted rows.
    """

    threshold: Float64Array
    coverage: Float64Array
    risk: Float64Array

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per threshold."""
        return {"threshold": self.threshold, "coverage": self.coverage, "risk": self.risk}

    @property
    def aurc(self) -> float:
        """Area under the curve, as in :func:`~calibrant.metrics.aurc`."""
        return float(np.diff(self.coverage, prepend=0.0) @ self.risk)

    @property
    def excess_aurc(self) -> float:
        """AURC minus that of a perfect ranking, as in :func:`~calibrant.metrics.excess_aurc`."""
        # Never negative in exact arithmetic: a coverage of c has a risk of at least 1 - (1 - r) / c.
        return max(0.0, self.aurc - _perfect_aurc(float(self.risk[-1])))

    def accuracy_at(self, coverage: float) -> float:
        """Return the accuracy of the most confident rows, as :func:`~calibrant.metrics.accuracy_at_coverage` does."""
        _check_coverage(coverage)
        wrong = np.concatenate([[0.0], self.coverage * self.risk])
        accepted = np.concatenate([[0.0], self.coverage])
        accepted[-1] = 1.0  # up to rounding
        return 1.0 - float(np.interp(coverage, accepted, wrong)) / coverage


def _perfect_aurc(risk: float) -> float:
    """Return the area for n to infinity if every correct prediction ranks before every wrong one."""
    return risk + (1 - risk) * float(np.log1p(-risk)) if risk < 1 else 1.0


class _Ranking:
    """Rows in descending order of confidence; computed once for any number of label vectors."""

    def __init__(self, predictions: Predictions) -> None:
        self.predicted = predictions.predicted
        self.groups = ScoreGroups.of(-ranking_scores(predictions))
        self.threshold = exact_confidences(predictions)[self.groups.order[self.groups.ends]]

    def curve(self, labels: NDArray[np.intp], weights: NDArray[np.float64] | None) -> RiskCoverageCurve:
        """Return the curve; rows of weight zero play no part."""
        ones = np.ones(len(labels))
        accepted = self.groups.path(ones, weights)
        wrong = self.groups.path(self.predicted != labels, weights)
        counted = np.diff(accepted, prepend=0.0) > 0
        accepted, wrong = accepted[counted], wrong[counted]
        return RiskCoverageCurve(self.threshold[counted], accepted, np.minimum(wrong / accepted, 1.0))


def ranking_scores(predictions: Predictions) -> Float64Array:
    """Return a score per row, (n,), in the order of the confidence.

    For probabilities it is the confidence. For logits it is its log-odds, in float64: a softmax in float32 rounds the
    confidence of saturated rows to one, and all of them would be ties.

    >>> ranking_scores(Predictions.from_logits(np.array([[90.0, 0.0], [99.0, 0.0]], dtype=np.float32)))
    array([90., 99.])
    """
    if predictions.space is Space.PROBABILITIES:
        given: Float64Array = np.minimum(confidences(predictions), 1.0, dtype=np.float64)
        return given
    scores = np.empty(predictions.n_rows)
    for rows in row_blocks(*predictions.scores.shape):
        block = predictions.scores[rows].astype(np.float64)
        every, top = np.arange(len(block)), predictions.predicted[rows]
        highest = block[every, top]
        block[every, top] = -np.inf
        rival = block.max(axis=1)
        others = np.exp(block - rival[:, np.newaxis]).sum(axis=1)
        scores[rows] = highest - rival - np.log(others)
    return scores


def exact_confidences(predictions: Predictions) -> Float64Array:
    """Return the confidence of every row in float64, (n,), as thresholds of a risk-coverage curve have it."""
    scores = ranking_scores(predictions)
    exact: Float64Array = scores if predictions.space is Space.PROBABILITIES else expit(scores)
    return exact


@documented
def risk_coverage_curve(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> RiskCoverageCurve:
    r"""Risk-coverage curve: error rate among the rows whose confidence is at least a threshold, for all thresholds.

    .. math::

        c(t) = \frac{1}{W} \sum_{i :\, s_i \ge t} w_i, \qquad
        r(t) = \frac{\sum_{i :\, s_i \ge t} w_i \, [\hat y_i \ne y_i]}{\sum_{i :\, s_i \ge t} w_i}

    with the confidence :math:`s_i = \max_k p_{ik}` and the predicted class :math:`\hat y_i` :cite:`elyaniv2010`.

    Returns
    -------
    RiskCoverageCurve
        One point per distinct confidence. Costs O(nK + n log n) time, O(n) memory.

    Notes
    -----
    Only the order of the confidences matters. A calibrator that maps all confidences by one increasing function,
    such as temperature scaling of two classes, leaves the curve unchanged. Temperature scaling of several classes preserves the
    predicted classes but may reorder rows, since the confidence depends on all logits of a row.

    Examples
    --------
    >>> curve = risk_coverage_curve([0, 1, 0, 1], [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.6, 0.4]])
    >>> curve.coverage, curve.risk.round(3)
    (array([0.25, 0.5 , 0.75, 1.  ]), array([0.   , 0.   , 0.333, 0.5  ]))
    """
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    return _Ranking(data.predictions).curve(data.labels, data.weights)


def _prepared(value: Callable[..., float]) -> Callable[..., Evaluator]:
    """Return a function that ranks the rows once, for this value of the curve of any number of label vectors."""

    def prepare(predictions: Predictions, **options: Any) -> Evaluator:
        ranking = _Ranking(predictions)
        return lambda labels, weights: value(ranking.curve(labels, weights), **options)

    return prepare


@metric(MetricTraits(), prepare=_prepared(lambda curve: curve.aurc))
def aurc(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    r"""AURC: area under the risk-coverage curve, the mean error rate over all confidence thresholds.

    .. math::

        \frac{1}{W} \sum_i w_i \, r(s_i), \qquad
        r(t) = \frac{\sum_{j :\, s_j \ge t} w_j \, [\hat y_j \ne y_j]}{\sum_{j :\, s_j \ge t} w_j}

    with the confidence :math:`s_i` and the predicted class :math:`\hat y_i` :cite:`geifman2019`.

    Returns
    -------
    float
        From 0 to 1; lower is better. It falls with the accuracy as well as with the quality of the ranking;
        :func:`excess_aurc` removes most of the former.

    Notes
    -----
    Rows of equal confidence are accepted together, so their order has no effect; other programs break ties in the order
    of the rows. AURC measures ranking, not calibration: see :func:`risk_coverage_curve`. Costs O(nK + n log n).

    Examples
    --------
    Risks of 0, 0, 1/3 and 1/2 at the four thresholds:

    >>> y, p = [0, 1, 0, 1], [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.6, 0.4]]
    >>> round(aurc(y, p), 6)
    0.208333
    """
    return risk_coverage_curve(y_true, y_proba, sample_weight=sample_weight).aurc


@metric(MetricTraits(), prepare=_prepared(lambda curve: curve.excess_aurc))
def excess_aurc(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    r"""Excess AURC (E-AURC): area under the risk-coverage curve minus that of a perfect ranking.

    .. math:: \mathrm{AURC} - \bigl( r + (1 - r) \log(1 - r) \bigr)

    with the error rate r of all rows. The second term is the area for many rows if every correct prediction has a higher
    confidence than every wrong one :cite:`geifman2019`.

    Returns
    -------
    float
        At least 0; lower is better. Costs O(nK + n log n).

    Examples
    --------
    >>> y, p = [0, 1, 0, 1], [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.6, 0.4]]
    >>> round(excess_aurc(y, p), 6)      # 0.208333 - (0.5 - 0.5 log 2)
    0.054907
    """
    return risk_coverage_curve(y_true, y_proba, sample_weight=sample_weight).excess_aurc


def _check_coverage(coverage: Any) -> None:
    if not is_number(coverage) or not 0 < coverage <= 1:
        raise ParameterError(f"coverage must be above 0 and at most 1, such as 0.8, not {coverage!r}.")


@metric(
    MetricTraits(higher_is_better=True),
    prepare=_prepared(lambda curve, coverage: curve.accuracy_at(coverage)),
)
def accuracy_at_coverage(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, coverage: float = 0.8
) -> float:
    r"""Accuracy at a coverage: accuracy of the fraction of rows with the highest confidence.

    .. math:: 1 - r(t), \qquad t \text{ such that } c(t) = c

    with coverage and risk as in :func:`risk_coverage_curve`.

    Parameters
    ----------
    coverage : float, default=0.8
        Fraction of rows to accept, above 0 and at most 1; 1 gives the accuracy.

    Returns
    -------
    float
        From 0 to 1; higher is better. Of rows with the same confidence as the last accepted one, as many as needed are
        accepted at random; the value is the mean over their orders. Costs O(nK + n log n).

    Examples
    --------
    >>> y, p = [0, 1, 0, 1], [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.6, 0.4]]
    >>> accuracy_at_coverage(y, p, coverage=0.5), accuracy_at_coverage(y, p, coverage=1)
    (1.0, 0.5)
    """
    _check_coverage(coverage)
    return risk_coverage_curve(y_true, y_proba, sample_weight=sample_weight).accuracy_at(coverage)
