"""The classifiers of the demo, trained on handwritten digits, and their predictions for held-out rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

from calibrant.arrays import Float64Array, IntArray
from calibrant.predictions import Predictions

__all__ = ["Digits", "Scored", "network_logits", "scored_classifiers"]

SEED = 0

# The power of ten with the best five-fold accuracy on the training set. With the default, 1e-9, a pixel that is always
# white for a digit excludes this digit.
NAIVE_BAYES_SMOOTHING = 0.1


@dataclass(frozen=True, eq=False)
class Digits:
    """Images of 8 x 8 pixels in [0, 1] with their labels, in three stratified parts of equal size."""

    train: Float64Array
    train_labels: IntArray
    calibration: Float64Array
    calibration_labels: IntArray
    test: Float64Array
    test_labels: IntArray

    @classmethod
    def split(cls) -> "Digits":
        """Return the 1,797 digits of scikit-learn, with a fixed split."""
        images, labels = load_digits(return_X_y=True)
        images = images / 16
        n_part = len(labels) // 3
        train, rest, train_labels, rest_labels = train_test_split(
            images, labels, train_size=n_part, stratify=labels, random_state=SEED
        )
        calibration, test, calibration_labels, test_labels = train_test_split(
            rest, rest_labels, train_size=n_part, stratify=rest_labels, random_state=SEED
        )
        return cls(train, train_labels, calibration, calibration_labels, test, test_labels)


@dataclass(frozen=True, eq=False)
class Scored:
    """Predictions of a trained classifier for the calibration set and the test set.

    Attributes
    ----------
    name, about : str
        Name of the classifier, and its settings with the kind of scores in a few words.
    n_training_rows : int
        Size of the training set, which is disjoint from the other two.
    calibration, test : Predictions
    calibration_labels, test_labels : ndarray of shape (n,)
    """

    name: str
    about: str
    n_training_rows: int
    calibration: Predictions
    calibration_labels: IntArray
    test: Predictions
    test_labels: IntArray

    @property
    def held_out(self) -> tuple[Predictions, IntArray]:
        """Predictions and labels of all held-out rows."""
        scores = np.concatenate([self.calibration.scores, self.test.scores])
        together = replace(self.calibration, scores=scores)
        return together, np.concatenate([self.calibration_labels, self.test_labels])


def scored_classifiers() -> Iterator[Scored]:
    """Train the classifiers one after the other and yield their predictions."""
    digits = Digits.split()
    bayes = naive_bayes(digits)
    yield _scored(
        "naive Bayes",
        f"GaussianNB(var_smoothing={bayes.var_smoothing}), probabilities",
        digits,
        lambda X: Predictions.from_probabilities(bayes.predict_proba(X)),
    )
    forest = random_forest(digits)
    yield _scored(
        "random forest",
        f"RandomForestClassifier, {forest.n_estimators} trees, probabilities",
        digits,
        lambda X: Predictions.from_probabilities(forest.predict_proba(X)),
    )
    network = neural_network(digits)
    yield _scored(
        "neural network",
        f"MLPClassifier, {network.hidden_layer_sizes[0]} hidden units, trained to 100 % training accuracy, logits",
        digits,
        lambda X: Predictions.from_logits(network_logits(network, X)),
    )


def naive_bayes(digits: Digits) -> GaussianNB:
    """Return naive Bayes, which is over-confident because it treats pixels as independent."""
    return GaussianNB(var_smoothing=NAIVE_BAYES_SMOOTHING).fit(digits.train, digits.train_labels)


def random_forest(digits: Digits) -> RandomForestClassifier:
    """Return a random forest, which is under-confident because its trees rarely agree."""
    return RandomForestClassifier(random_state=SEED).fit(digits.train, digits.train_labels)


def neural_network(digits: Digits) -> MLPClassifier:
    """Return a network with very little weight decay, which overfits the training set."""
    network = MLPClassifier(solver="lbfgs", alpha=1e-5, max_iter=2000, random_state=SEED)
    return network.fit(digits.train, digits.train_labels)


def network_logits(network: MLPClassifier, X: Float64Array) -> Float64Array:
    """Return the logits, (n, K), which scikit-learn's networks do not expose."""
    layers = list(zip(network.coefs_, network.intercepts_, strict=True))
    for weights, intercept in layers[:-1]:
        X = np.maximum(X @ weights + intercept, 0.0)
    weights, intercept = layers[-1]
    logits: Float64Array = X @ weights + intercept
    return logits


def _scored(name: str, about: str, digits: Digits, ask: Callable[[Any], Predictions]) -> Scored:
    return Scored(
        name,
        about,
        len(digits.train_labels),
        ask(digits.calibration),
        digits.calibration_labels,
        ask(digits.test),
        digits.test_labels,
    )
