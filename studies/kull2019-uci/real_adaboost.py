"""AdaBoost by class probabilities (SAMME.R), which the experiments of the paper used and scikit-learn no longer has."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier

__all__ = ["RealAdaBoost"]

FloatArray = NDArray[np.float64]

# The smallest probability whose logarithm is taken.
SMALLEST = float(np.finfo(np.float64).eps)


class RealAdaBoost(ClassifierMixin, BaseEstimator):
    r"""Boost stumps by the logarithms of their class probabilities.

    With K classes and the probabilities :math:`p_m` of tree m, weights of rows are multiplied by
    :math:`\exp(-\frac{K-1}{K} c^T \ln p_m)`, where c is 1 for the true class and -1/(K-1) for all others. The
    probabilities are those that scikit-learn gave then: the geometric mean over all trees, made to sum to one.

    Parameters
    ----------
    n_estimators : int, default=200
        Trees at most; fewer if one makes no mistake.
    max_depth : int, default=1
        Of every tree.
    random_state : int or None
        Seed of the trees.

    Examples
    --------
    >>> fitted = RealAdaBoost(n_estimators=5, random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0])
    >>> fitted.predict_proba([[1.5]]).shape
    (1, 2)
    """

    def __init__(self, n_estimators: int = 200, max_depth: int = 1, random_state: int | None = None) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Grow the trees, one after the other."""
        features, labels = np.asarray(X), np.asarray(y)
        self.classes_, places = np.unique(labels, return_inverse=True)
        n_classes = len(self.classes_)
        codes = np.full((len(features), n_classes), -1 / (n_classes - 1))
        codes[np.arange(len(features)), places] = 1.0
        weights = np.full(len(features), 1 / len(features))
        generator = np.random.RandomState(self.random_state)
        self.estimators_: list[Any] = []
        for _ in range(self.n_estimators):
            tree = DecisionTreeClassifier(
                max_depth=self.max_depth, random_state=generator.randint(np.iinfo(np.int32).max)
            )
            tree.fit(features, places, sample_weight=weights)
            self.estimators_.append(tree)
            probabilities = np.zeros((len(features), n_classes))
            probabilities[:, tree.classes_] = tree.predict_proba(features)
            if (probabilities.argmax(axis=1) == places).all():
                break
            logarithms = np.log(np.maximum(probabilities, SMALLEST))
            weights = weights * np.exp(-(n_classes - 1) / n_classes * (codes * logarithms).sum(axis=1))
            total = weights.sum()
            if not np.isfinite(total) or total <= 0:
                break
            weights /= total
        return self

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the geometric mean of the probabilities of all trees, (n, K)."""
        features = np.asarray(X)
        logarithms = np.zeros((len(features), len(self.classes_)))
        for tree in self.estimators_:
            probabilities = np.zeros_like(logarithms)
            probabilities[:, tree.classes_] = tree.predict_proba(features)
            logarithms += np.log(np.maximum(probabilities, SMALLEST))
        logarithms /= len(self.estimators_)
        scores: FloatArray = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of every row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
