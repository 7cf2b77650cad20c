"""Quadratic discriminants that also take classes with fewer rows than features."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from calibrant.arrays import Float64Array
from calibrant.numerics.simplex import softmax

__all__ = ["SmallClassQDA"]


class SmallClassQDA(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Quadratic discriminant analysis as scikit-learn computed it before it refused classes with few rows.

    The covariance of a class is :math:`(1 - r) S + r I`, with r the regularisation, in the space of its singular vectors. A class
    with fewer rows than features has as many of these as rows, and what lies outside of their span is left out of account.
    Where every class has more rows than features this is
    :class:`sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis`, which now divides by n and not by n - 1.

    Parameters
    ----------
    reg_param : float
        The regularisation r, from 0 to 1.

    Examples
    --------
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [0.5, 2.0], [5.0, 5.0], [6.0, 5.0], [5.0, 7.0]], [0, 0, 0, 1, 1, 1]
    >>> SmallClassQDA(reg_param=0.1).fit(X, y).predict([[0.5, 0.5], [5.5, 5.5]])
    array([0, 1])
    """

    def __init__(self, reg_param: float = 0.0) -> None:
        self.reg_param = reg_param

    def fit(self, X: Any, y: Any) -> Self:
        """Train on features (n, d) and labels (n,)."""
        features, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        self.classes_, counts = np.unique(labels, return_counts=True)
        self.log_shares_ = np.log(counts / len(labels))
        self.means_, self.scalings_, self.rotations_ = [], [], []
        for label, count in zip(self.classes_, counts, strict=True):
            rows = features[labels == label]
            mean = rows.mean(axis=0)
            _, sizes, directions = np.linalg.svd(rows - mean, full_matrices=False)
            variances = sizes**2 / max(count - 1, 1)
            # A direction without any variance would decide everything.
            variances = np.maximum(
                (1 - self.reg_param) * variances + self.reg_param, np.finfo(np.float64).tiny
            )
            self.means_.append(mean)
            self.scalings_.append(variances)
            self.rotations_.append(directions.T)
        return self

    def predict_proba(self, X: Any) -> Float64Array:
        """Return probabilities, (n, K)."""
        features = np.asarray(X, dtype=np.float64)
        scores = [
            share
            - 0.5 * ((((features - mean) @ rotation) ** 2 / variances).sum(axis=1) + np.log(variances).sum())
            for share, mean, rotation, variances in zip(
                self.log_shares_, self.means_, self.rotations_, self.scalings_, strict=True
            )
        ]
        return np.asarray(softmax(np.column_stack(scores)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class, (n,)."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels
