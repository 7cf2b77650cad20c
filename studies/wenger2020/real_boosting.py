"""Real boosting of several classes (SAMME.R), which scikit-learn has no more and the paper calls AdaBoost."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier

__all__ = ["RealBoosting"]


class RealBoosting(ClassifierMixin, BaseEstimator):
    """Trees of one cut, each fitted to rows weighted by the log-probabilities of those before.

    Parameters
    ----------
    n_estimators : int, default=100
        Trees.
    learning_rate : float, default=1.0
        Power of the change of weights.
    random_state : int or None, default=0
        Seed of the trees.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> boosting = RealBoosting(n_estimators=20).fit(X[::2], y[::2])
    >>> bool((boosting.predict(X[1::2]) == y[1::2]).mean() > 0.9)
    True
    """

    def __init__(
        self, n_estimators: int = 100, learning_rate: float = 1.0, random_state: int | None = 0
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Grow one tree after the other."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        rows = np.ascontiguousarray(X, dtype=np.float32)
        self.n_features_in_ = rows.shape[1]
        weights = np.full(len(rows), 1 / len(rows))
        self.trees_: list[DecisionTreeClassifier] = []
        for _ in range(self.n_estimators):
            tree = DecisionTreeClassifier(max_depth=1, random_state=self.random_state)
            tree.fit(rows, codes, sample_weight=weights)
            self.trees_.append(tree)
            logs = _logs(tree, rows)
            # One for the class of the row, -1 / (K - 1) for the others.
            own = logs[np.arange(len(rows)), codes]
            agreement = own - (logs.sum(axis=1) - own) / (n_classes - 1)
            weights *= np.exp(-self.learning_rate * (n_classes - 1) / n_classes * agreement)
            weights /= weights.sum()
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the softmax of the mean centred log-probabilities of the trees."""
        rows = np.ascontiguousarray(X, dtype=np.float32)
        mean = np.mean([_logs(tree, rows) for tree in self.trees_], axis=0)
        scores = np.exp(mean - mean.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _logs(tree: DecisionTreeClassifier, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.log(np.maximum(tree.predict_proba(rows), np.finfo(np.float64).eps))
