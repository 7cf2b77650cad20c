"""Scorers: metrics for scikit-learn's cross-validation and searches, with the sign that makes higher better."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import MetadataRequest

from calibrant.errors import ParameterError
from calibrant.metrics.declaration import (
    declared_metrics,
    describe,
    is_declared,
    options_of,
    parts_of,
    traits_of,
)
from calibrant.predictions import Predictions

__all__ = ["Scorer", "scorer", "scorer_names"]


class Scorer(BaseEstimator):  # type: ignore[misc]
    """Scorer for scikit-learn: a metric of the predicted probabilities, signed so that higher is better.

    Create one with :func:`scorer`. Unlike the scorers of scikit-learn's ``make_scorer``, it passes on the classes
    of the classifier. A fold may therefore lack a class, and with two classes the probabilities are matched to
    the correct one.

    Parameters
    ----------
    metric : function
        A metric, or a ``functools.partial`` that sets its options.
    sign : {1, -1}
        Factor by which the metric is multiplied.
    """

    __metadata_request__score = {"sample_weight": None}  # noqa: RUF012 (read by scikit-learn)

    def __init__(self, metric: Callable[..., float], sign: int) -> None:
        self.metric = metric
        self.sign = sign

    def __call__(self, estimator: Any, X: Any, y_true: Any, sample_weight: Any = None) -> float:
        """Return the signed metric of ``estimator.predict_proba(X)``."""
        if not hasattr(estimator, "predict_proba"):
            raise ParameterError(
                f"{type(estimator).__name__} has no predict_proba, which {self!r} needs; wrap the classifier in "
                "CalibratedClassifier."
            )
        probabilities = Predictions.from_probabilities(
            estimator.predict_proba(X), classes=_as_classes(estimator.classes_)
        )
        return self.sign * self.metric(y_true, probabilities, sample_weight=sample_weight)

    def set_score_request(self, *, sample_weight: bool | str | None = None) -> "Scorer":
        """Request that cross-validation passes sample weights, if metadata routing is enabled."""
        requests: MetadataRequest = self._get_metadata_request()
        requests.score.add_request(param="sample_weight", alias=sample_weight)
        self._metadata_request = requests
        return self

    def __repr__(self) -> str:
        return f"{'-' if self.sign < 0 else ''}{describe(self.metric)}"


def scorer_names() -> list[str]:
    """Return the names of all scorers: those of the metrics, with ``neg_`` where lower is better.

    >>> {"accuracy", "neg_log_loss", "neg_confidence_ece"} <= set(scorer_names())
    True
    """
    return [_name(name, function) for name, function in declared_metrics().items()]


def scorer(metric: str | Callable[..., Any], **options: Any) -> Scorer:
    """Return a scorer for ``scoring=`` of scikit-learn's ``cross_validate``, ``GridSearchCV`` and so on.

    Parameters
    ----------
    metric : str or function
        One of :func:`scorer_names`, or a metric. The sign follows from whether higher or lower is better.
    **options
        Passed on to the metric.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = load_iris(return_X_y=True)
    >>> scores = cross_val_score(LogisticRegression(max_iter=1000), X, y, scoring=scorer("neg_log_loss"))
    >>> scores.shape, bool((scores < 0).all())
    ((5,), True)
    >>> scorer("neg_confidence_ece", n_bins=10)
    -confidence_ece(n_bins=10, strategy='uniform', norm=1)
    """
    if isinstance(metric, str):
        by_name = {_name(name, function): function for name, function in declared_metrics().items()}
        if metric not in by_name:
            meant = f"neg_{metric}" in by_name
            hint = f"use 'neg_{metric}', since lower is better" if meant else f"known are {sorted(by_name)}"
            raise ParameterError(f"there is no scorer {metric!r}; {hint}.")
        metric = by_name[metric]
    if not is_declared(metric):
        raise ParameterError(
            f"{describe(metric)} is not a metric of calibrant, so its sign is unknown; create a Scorer(metric, sign)."
        )
    sign = 1 if traits_of(metric).higher_is_better else -1
    chosen = partial(metric, **options) if options else metric
    # Both raise on wrong options now, instead of in the middle of a search.
    options_of(chosen)
    parts_of(chosen)
    return Scorer(chosen, sign)


def _name(name: str, function: Callable[..., Any]) -> str:
    return name if traits_of(function).higher_is_better else f"neg_{name}"


def _as_classes(classes: Any) -> Any:
    """Return labels in a form that predictions accept as names: booleans become 0 and 1."""
    classes = np.asarray(classes)
    return classes.astype(np.intp) if classes.dtype.kind == "b" else classes
