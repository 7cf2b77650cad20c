"""Scorers: metrics as scikit-learn's cross-validation and searches want them, the higher the better."""

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
    """Call a metric on the probabilities of a fitted classifier, with the sign that makes more better.

    Make one with :func:`scorer`. Unlike those of scikit-learn's ``make_scorer``, it passes the classes of the
    classifier on: a fold in which a class does not occur is no difficulty, and with two classes the
    probabilities belong to the right one.

    Parameters
    ----------
    metric : function
        A metric, or a ``functools.partial`` that sets its options.
    sign : {1, -1}
        What the metric is multiplied by.
    """

    __metadata_request__score = {"sample_weight": None}  # noqa: RUF012 (read by scikit-learn)

    def __init__(self, metric: Callable[..., float], sign: int) -> None:
        self.metric = metric
        self.sign = sign

    def __call__(self, estimator: Any, X: Any, y_true: Any, sample_weight: Any = None) -> float:
        """Return the signed metric of ``estimator.predict_proba(X)``."""
        if not hasattr(estimator, "predict_proba"):
            raise ParameterError(
                f"{type(estimator).__name__} has no predict_proba, which {self!r} needs; a classifier gets one from "
                "CalibratedClassifier."
            )
        probabilities = Predictions.from_probabilities(
            estimator.predict_proba(X), classes=_as_classes(estimator.classes_)
        )
        return self.sign * self.metric(y_true, probabilities, sample_weight=sample_weight)

    def set_score_request(self, *, sample_weight: bool | str | None = None) -> "Scorer":
        """Say whether cross-validation should pass on weights, where metadata routing is on."""
        requests: MetadataRequest = self._get_metadata_request()
        requests.score.add_request(param="sample_weight", alias=sample_weight)
        self._metadata_request = requests
        return self

    def __repr__(self) -> str:
        return f"{'-' if self.sign < 0 else ''}{describe(self.metric)}"


def scorer_names() -> list[str]:
    """Return the names of all scorers: those of the metrics, with ``neg_`` where less is better.

    >>> {"accuracy", "neg_log_loss", "neg_confidence_ece"} <= set(scorer_names())
    True
    """
    return [_name(name, function) for name, function in declared_metrics().items()]


def scorer(metric: str | Callable[..., Any], **options: Any) -> Scorer:
    """Return a scorer for ``scoring=`` of scikit-learn's ``cross_validate``, ``GridSearchCV`` and so on.

    Parameters
    ----------
    metric : str or function
        One of :func:`scorer_names`, or a metric; its sign follows from whether more or less is better.
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
            hint = f"use 'neg_{metric}', since less is better" if meant else f"known are {sorted(by_name)}"
            raise ParameterError(f"there is no scorer {metric!r}; {hint}.")
        metric = by_name[metric]
    if not is_declared(metric):
        raise ParameterError(
            f"{describe(metric)} is no metric of calibrant's, so its sign is unknown; make a Scorer(metric, sign)."
        )
    sign = 1 if traits_of(metric).higher_is_better else -1
    chosen = partial(metric, **options) if options else metric
    # Both refuse wrong options now, not in the middle of a search.
    options_of(chosen)
    parts_of(chosen)
    return Scorer(chosen, sign)


def _name(name: str, function: Callable[..., Any]) -> str:
    return name if traits_of(function).higher_is_better else f"neg_{name}"


def _as_classes(classes: Any) -> Any:
    """Return labels in a form that predictions take as names: booleans become 0 and 1."""
    classes = np.asarray(classes)
    return classes.astype(np.intp) if classes.dtype.kind == "b" else classes
