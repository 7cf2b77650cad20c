"""Metrics of several labels that do not exclude each other: per label, macro, micro and weighted."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from calibrant.arrays import Float64Array
from calibrant.label_matrix import LabelScores, parse_labelled
from calibrant.metrics.declaration import check_metric
from calibrant.options import check_choice

__all__ = ["multilabel_score"]

Average = Literal["macro", "micro", "weighted", "none"]


def multilabel_score(
    metric: Callable[..., float],
    y_true: Any,
    y_proba: Any,
    *,
    average: Average = "macro",
    space: Literal["probabilities", "logits"] = "probabilities",
    sample_weight: Any = None,
    **options: Any,
) -> Any:
    r"""Metric of several labels that do not exclude each other: per label, macro-, micro- or weighted average.

    Each label is a problem of two classes. ``"macro"`` is the mean over labels, ``"weighted"`` the mean with the number of
    positive outcomes of each label as its weight, ``"micro"`` the metric of all outcomes of all labels together, and
    ``"none"`` the metric of each label.

    Parameters
    ----------
    metric : function
        A metric for two classes, such as :func:`log_loss`, :func:`brier_score` or :func:`classwise_ece`.
    y_true : array or frame of shape (n, L)
        Outcomes: 1 if the row has the label, 0 if not, NaN if the outcome is missing.
    y_proba : array or frame of shape (n, L), or list of L arrays (n, 2)
        Probabilities of the labels.
    average : {"macro", "micro", "weighted", "none"}, default="macro"
        How labels are combined.
    space : {"probabilities", "logits"}, default="probabilities"
        Whether ``y_proba`` has probabilities, or log-odds of each label.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    **options
        Passed on to the metric.

    Returns
    -------
    float or ndarray of shape (L,)
        Labels without a known outcome are NaN, and do not take part in the averages. Costs L times the metric.

    Notes
    -----
    Averages differ: rare labels count as much as frequent ones in ``"macro"``, and hardly in ``"micro"``. A micro calibration
    error can be zero although labels are too high and too low by the same amount; ``"macro"`` shows that.

    Examples
    --------
    >>> from calibrant.metrics import brier_score
    >>> Y, p = [[1, 0], [0, 0], [1, np.nan], [0, 1]], [[0.9, 0.4], [0.2, 0.2], [0.8, 0.5], [0.1, 0.6]]
    >>> multilabel_score(brier_score, Y, p, average="none").round(3)
    array([0.025, 0.12 ])
    >>> round(multilabel_score(brier_score, Y, p), 3), round(multilabel_score(brier_score, Y, p, average="micro"), 3)
    (0.072, 0.066)
    """
    check_choice("average", average, ("macro", "micro", "weighted", "none"))
    check_choice("space", space, ("probabilities", "logits"))
    if options and callable(metric):
        metric = partial(metric, **options)
    check_metric(metric, sample_weight is not None)
    scores, outcomes = parse_labelled(y_proba, y_true, sample_weight, space)
    parts = [outcomes.of_label(label) for label in range(scores.n_labels)]
    if average == "micro":
        column = np.concatenate([scores.scores[rows, label] for label, (rows, _, _) in enumerate(parts)])
        weights = None
        if outcomes.weights is not None:
            weights = np.concatenate([part for _, _, part in parts if part is not None])
        together = LabelScores(column[:, np.newaxis], scores.space)
        known = np.concatenate([known for _, known, _ in parts])
        return float(metric(known, together.of_label(0), sample_weight=weights))
    total, positive = outcomes.totals()
    values: Float64Array = np.full(scores.n_labels, np.nan)
    for label, (rows, known, weights) in enumerate(parts):
        if total[label] > 0:
            values[label] = metric(known, scores.of_label(label, rows), sample_weight=weights)
    if average == "none":
        return values
    shares = np.where(total > 0, positive if average == "weighted" else 1.0, 0.0)
    if not shares.any():
        return float("nan")
    return float(np.average(np.where(shares > 0, values, 0.0), weights=shares))
