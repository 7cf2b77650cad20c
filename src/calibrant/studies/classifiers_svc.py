"""Support vector machines with probabilities: Platt scaling of every pair of classes, then coupled."""

from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC

from calibrant.arrays import Float64Array
from calibrant.calibrators import PlattScaling
from calibrant.notices import held_back
from calibrant.predictions import Predictions

__all__ = ["PairwiseSVC"]


N_FOLDS = 5
SMALLEST = 1e-7  # as in libsvm, so that no pair decides alone


class PairwiseSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Support vector classifier whose probabilities are made as libsvm makes them.

    Scikit-learn had these as ``SVC(probability=True)``, which goes with its version 1.11. Margins of every pair of classes
    over five folds are mapped to probabilities by a Platt sigmoid with smoothed targets; the pairs are coupled by the second
    method of Wu, Lin and Weng (2004), here by its linear equations and not by iteration.

    Parameters
    ----------
    C, kernel, gamma
        See :class:`sklearn.svm.SVC`.
    random_state : int
        Deals rows out to the folds.

    Examples
    --------
    >>> X, y = [[0.0], [0.2], [0.4], [0.6], [0.8], [1.0]] * 5, [0, 0, 0, 1, 1, 1] * 5
    >>> PairwiseSVC(kernel="linear").fit(X, y).predict_proba([[0.0], [1.0]]).argmax(axis=1)
    array([0, 1])
    """

    def __init__(
        self, C: float = 1.0, kernel: str = "rbf", gamma: Any = "scale", random_state: int = 0
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train on features (n, d) and labels (n,)."""
        features, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        generator = np.random.default_rng(self.random_state)
        gamma = self._gamma(features)
        self.machine_ = SVC(C=self.C, kernel=self.kernel, gamma=gamma, decision_function_shape="ovo").fit(
            features, numbers
        )
        self.sigmoids_ = np.array(
            [
                self._sigmoid(features, numbers, pair, gamma, generator)
                for pair in combinations(range(len(self.classes_)), 2)
            ]
        )
        return self

    def predict_proba(self, X: Any) -> Float64Array:
        """Return probabilities, (n, K)."""
        margins = self.machine_.decision_function(np.asarray(X, dtype=np.float64))
        if margins.ndim == 1:  # of two classes scikit-learn turns the sign
            margins = -margins[:, np.newaxis]
        slopes, intercepts = self.sigmoids_.T
        first = np.clip(expit(slopes * margins + intercepts), SMALLEST, 1 - SMALLEST)
        return coupled(first, len(self.classes_))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class, (n,)."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def _gamma(self, features: Float64Array) -> Any:
        """Return gamma as a number: that of all rows also for the folds of a pair."""
        if self.gamma != "scale":
            return self.gamma
        variance = float(features.var())
        return 1 / (features.shape[1] * variance) if variance > 0 else 1.0

    def _sigmoid(
        self,
        features: Float64Array,
        numbers: NDArray[np.intp],
        pair: tuple[int, int],
        gamma: Any,
        generator: np.random.Generator,
    ) -> tuple[float, float]:
        """Return slope and intercept of the log-odds of the first class of a pair given the margin."""
        rows = np.flatnonzero(np.isin(numbers, pair))
        is_first = numbers[rows] == pair[0]
        fold_of = generator.permutation(np.arange(len(rows)) % N_FOLDS)
        margins = np.zeros(len(rows))
        for fold in range(N_FOLDS):
            held_out, rest = fold_of == fold, fold_of != fold
            if not held_out.any() or not rest.any():
                continue
            if is_first[rest].all() or not is_first[rest].any():
                margins[held_out] = 1.0 if is_first[rest].all() else -1.0
                continue
            machine = SVC(C=self.C, kernel=self.kernel, gamma=gamma)
            machine.fit(features[rows[rest]], is_first[rest])
            margins[held_out] = machine.decision_function(features[rows[held_out]])
        with held_back():  # of margins that separate the classes, for which targets are smoothed
            fitted = PlattScaling(smoothed_targets=True).fit(
                Predictions.from_logits(margins), is_first.astype(np.intp)
            )
        return fitted.slope_, fitted.intercept_


def coupled(first: Float64Array, n_classes: int) -> Float64Array:
    r"""Return class probabilities, (n, K), from those of the first of every pair, (n, K(K-1)/2).

    The minimum of :math:`\sum_i \sum_{j \ne i} (r_{ji} p_i - r_{ij} p_j)^2` among vectors that sum to one.

    >>> coupled(np.array([[0.75]]), 2)
    array([[0.75, 0.25]])
    """
    n_rows = len(first)
    ratios = np.zeros((n_rows, n_classes, n_classes))
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        ratios[:, i, j] = first[:, column]
        ratios[:, j, i] = 1 - first[:, column]
    others = ratios.transpose(0, 2, 1)
    system = np.zeros((n_rows, n_classes + 1, n_classes + 1))
    system[:, :n_classes, :n_classes] = -ratios * others
    diagonal = np.arange(n_classes)
    system[:, diagonal, diagonal] = (others**2).sum(axis=2)
    system[:, :n_classes, n_classes] = system[:, n_classes, :n_classes] = 1
    right = np.zeros((n_rows, n_classes + 1, 1))
    right[:, n_classes] = 1
    solved = np.linalg.solve(system, right)[:, :n_classes, 0]
    probabilities = np.maximum(solved, 0)
    total: Float64Array = probabilities.sum(axis=1, keepdims=True)
    return np.asarray(probabilities / total)
