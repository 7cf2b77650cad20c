"""Grouping loss: error of a calibrated score among rows of equal score and different true probabilities."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.isotonic import IsotonicRegression
from sklearn.tree import DecisionTreeRegressor

from calibrant.arrays import Float64Array, IntArray
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import Kind, check_kind, events
from calibrant.options import check_level, check_whole, random_source
from calibrant.shared_parameters import documented

__all__ = ["GroupingLoss", "grouping_loss"]


@dataclass(frozen=True, eq=False)
class GroupingLoss:
    """Lower bound on the grouping loss.

    Attributes
    ----------
    estimate : float
        Debiased estimate of the part of the grouping loss that the regions explain, in units of the squared error.
    limit : float
        One-sided lower confidence bound, at least 0.
    standard_error : float
    n_regions : float
        Mean number of regions.
    level : float
        Confidence level of the bound.
    n_rows : int
    """

    estimate: float
    limit: float
    standard_error: float
    n_regions: float
    level: float
    n_rows: int

    def __str__(self) -> str:
        return (
            f"Grouping loss of at least {self.limit:.4g} at a confidence level of {100 * self.level:g} %; estimate "
            f"{self.estimate:.4g}, standard error {self.standard_error:.2g} ({self.n_rows} rows, {self.n_regions:.3g} regions)."
        )


@documented
def grouping_loss(
    y_true: Any,
    y_proba: Any,
    features: Any,
    *,
    kind: Kind = "confidence",
    max_regions: int = 32,
    min_rows: int = 30,
    level: float = 0.95,
    random_state: Any = 0,
) -> GroupingLoss:
    r"""Lower bound on the grouping loss: over- and under-confidence that cancels among rows with the same score.

    .. math:: \mathrm{GL} = E\bigl[ (q(X) - c(S))^2 \bigr] \;\ge\; \sum_r P(r) \, E\bigl[ o - c(S) \mid r \bigr]^2

    for the true probability q of the event o given the features X, the score S with its calibration curve
    :math:`c(s) = E[o \mid S = s]`, and any regions r of features and scores :cite:`perezlebel2023`. A calibrated classifier
    can have a large grouping loss. Recalibration cannot remove it; better features or
    :class:`~calibrant.multicalibration.Multicalibration` can.

    Parameters
    ----------
    features : array of shape (n, d)
        Numbers that may tell rows of the same score apart, such as inputs or the last hidden layer of a network.
    kind : {"confidence", "positive"}, default="confidence"
        The event: the predicted class is correct, or the second of two classes occurs.
    max_regions : int, default=32
        Largest number of regions.
    min_rows : int, default=30
        Smallest number of rows of a region, in the half of the rows that defines it.
    level : float, default=0.95
        Level of the one-sided confidence bound.
    random_state : int, Generator or None, default=0
        Seed of the split into halves.

    Returns
    -------
    GroupingLoss

    Notes
    -----
    One half of the rows fits the calibration curve, by isotonic regression, and a regression tree of the residuals, whose
    leaves are the regions. The other half estimates the sum, less the sampling variance of each mean. Then the halves change
    places. With few rows the tree finds nothing, and the estimate is near zero or negative. An error of the curve adds to the
    estimate, of the order of :math:`n^{-2/3}` at most. Costs O(d n log n).

    Examples
    --------
    A score of 0.5 for everybody, while one group has 0.8 and the other 0.2; the grouping loss is 0.09:

    >>> generator = np.random.default_rng(0)
    >>> group = generator.integers(0, 2, 4000)
    >>> y = (generator.random(4000) < np.where(group == 1, 0.8, 0.2)).astype(int)
    >>> found = grouping_loss(y, np.full(4000, 0.5), group[:, None], kind="positive")
    >>> round(found.estimate, 2), found.limit > 0.07
    (0.08, True)
    """
    check_kind(kind)
    if kind == "classwise":
        raise ParameterError("kind must be 'confidence' or 'positive': one event per row.")
    check_whole("max_regions", max_regions, least=2)
    check_whole("min_rows", min_rows, least=2)
    check_level(level)
    data = LabelledPredictions.parse(y_proba, y_true)
    try:
        matrix = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            "features must be numbers, (n, d); encode categories as columns of 0 and 1."
        ) from error
    if matrix.ndim != 2 or len(matrix) != data.n_rows or not np.isfinite(matrix).all():
        raise ParameterError(
            f"features must be finite numbers of shape ({data.n_rows}, d), one row per prediction, but have shape {matrix.shape}."
        )
    if data.n_rows < 4 * min_rows:
        raise ParameterError(
            f"{data.n_rows} rows are too few for regions of {min_rows} rows; lower min_rows."
        )
    scores, outcomes = next(events(data, kind))
    confidence: Float64Array = scores.astype(np.float64)
    everything: Float64Array = np.column_stack([matrix, confidence])
    order = random_source(random_state).permutation(data.n_rows)
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    parts = [
        _Half.of(everything, confidence, outcomes.astype(np.float64), train, test, max_regions, min_rows)
        for train, test in (halves, halves[::-1])
    ]
    share = np.array([len(half) for half in halves[::-1]]) / data.n_rows
    estimate = float(share @ [part.estimate for part in parts])
    deviation = float(np.sqrt(share**2 @ [part.variance for part in parts]))
    return GroupingLoss(
        estimate=estimate,
        limit=max(0.0, estimate - float(ndtri(level)) * deviation),
        standard_error=deviation,
        n_regions=float(np.mean([part.n_regions for part in parts])),
        level=float(level),
        n_rows=data.n_rows,
    )


@dataclass(frozen=True)
class _Half:
    """Estimate from the rows of one half, with regions and a curve from the other."""

    estimate: float
    variance: float
    n_regions: int

    @classmethod
    def of(
        cls,
        features: Float64Array,
        scores: Float64Array,
        outcomes: Float64Array,
        train: IntArray,
        test: IntArray,
        max_regions: int,
        min_rows: int,
    ) -> "_Half":
        curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores[train], outcomes[train])
        tree = DecisionTreeRegressor(max_leaf_nodes=max_regions, min_samples_leaf=min_rows, random_state=0)
        tree.fit(features[train], outcomes[train] - curve.predict(scores[train]))
        residuals = outcomes[test] - curve.predict(scores[test])
        _, region = np.unique(tree.apply(features[test]), return_inverse=True)
        sizes = np.bincount(region)
        means = np.bincount(region, residuals) / sizes
        squares = np.bincount(region, (residuals - means[region]) ** 2)
        several = sizes > 1
        noise = np.where(several, squares / np.maximum(sizes - 1, 1) / sizes, means**2)
        explained = means**2 - noise
        n = len(test)
        estimate = float(sizes @ explained) / n
        # Influence of every row: on the mean of its region, and on the sizes of regions.
        influence = 2 * means[region] * (residuals - means[region]) + explained[region] - estimate
        # Where means are zero, the variance is that of the squares of normal means.
        variance = float(influence @ influence) / n**2 + 2 * float((sizes / n) ** 2 @ noise**2)
        return cls(estimate, variance, len(sizes))
