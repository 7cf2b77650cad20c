"""The classifiers of the demo: trained on handwritten digits, asked about rows they have not seen."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

from calibrant.predictions import Predictions

__all__ = ["Digits", "Scored", "network_logits", "scored_classifiers"]

SEED = 0

# Of all powers of ten this has the best five-fold accuracy on the training rows. The default, 1e-9, takes
# pixels that are always white for one digit as proof against it.
NAIVE_BAYES_SMOOTHING = 0.1

FloatArray = NDArray[np.float64]
Labels = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Digits:
    """Images of 8 x 8 pixels from 0 to 1 and what they show, in three stratified parts of equal size."""

    train: FloatArray
    train_labels: Labels
    calibration: FloatArray
    calibration_labels: Labels
    test: FloatArray
    test_labels: Labels

    @classmethod
    def split(cls) -> "Digits":
        """Return the 1,797 digits that scikit-learn ships, always split the same way."""
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
    """What a trained classifier says about the calibration rows and about the test rows.

    Attributes
    ----------
    name, about : str
        The classifier, and in a few words how it was made and what it was asked for.
    n_training_rows : int
        Rows it was trained on; none of them is among the others.
    calibration, test : Predictions
    calibration_labels, test_labels : ndarray of shape (n,)
    """

    name: str
    about: str
    n_training_rows: int
    calibration: Predictions
    calibration_labels: Labels
    test: Predictions
    test_labels: Labels

    @property
    def held_out(self) -> tuple[Predictions, Labels]:
        """All rows that the classifier was not trained on, and their labels."""
        scores = np.concatenate([self.calibration.scores, self.test.scores])
        together = replace(self.calibration, scores=scores)
        return together, np.concatenate([self.calibration_labels, self.test_labels])


def scored_classifiers() -> Iterator[Scored]:
    """Train one classifier after the other and yield what it says."""
    digits = Digits.split()
    bayes = naive_bayes(digits)
    yield _scored(
        "naive Bayes",
        f"GaussianNB(var_smoothing={bayes.var_smoothing}), asked for probabilities",
        digits,
        lambda X: Predictions.from_probabilities(bayes.predict_proba(X)),
    )
    forest = random_forest(digits)
    yield _scored(
        "random forest",
        f"RandomForestClassifier, {forest.n_estimators} trees, asked for probabilities",
        digits,
        lambda X: Predictions.from_probabilities(forest.predict_proba(X)),
    )
    network = neural_network(digits)
    yield _scored(
        "neural network",
        f"MLPClassifier, {network.hidden_layer_sizes[0]} hidden units, trained until all training rows are "
        "right, asked for logits",
        digits,
        lambda X: Predictions.from_logits(network_logits(network, X)),
    )


def naive_bayes(digits: Digits) -> GaussianNB:
    """Return a classifier that takes every pixel for independent evidence and so is too sure of itself."""
    return GaussianNB(var_smoothing=NAIVE_BAYES_SMOOTHING).fit(digits.train, digits.train_labels)


def random_forest(digits: Digits) -> RandomForestClassifier:
    """Return a classifier whose probabilities are shares of votes, which are seldom unanimous."""
    return RandomForestClassifier(random_state=SEED).fit(digits.train, digits.train_labels)


def neural_network(digits: Digits) -> MLPClassifier:
    """Return a network with hardly any weight decay: it learns the training rows by heart."""
    network = MLPClassifier(solver="lbfgs", alpha=1e-5, max_iter=2000, random_state=SEED)
    return network.fit(digits.train, digits.train_labels)


def network_logits(network: MLPClassifier, X: FloatArray) -> FloatArray:
    """Return the scores before the softmax, (n, K), which scikit-learn's networks keep to themselves."""
    layers = list(zip(network.coefs_, network.intercepts_, strict=True))
    for weights, intercept in layers[:-1]:
        X = np.maximum(X @ weights + intercept, 0.0)
    weights, intercept = layers[-1]
    logits: FloatArray = X @ weights + intercept
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
