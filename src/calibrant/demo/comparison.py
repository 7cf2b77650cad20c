"""Comparison: one classifier, every calibration method, the same test rows."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant import metrics, registry
from calibrant.calibrator import Calibrator
from calibrant.demo.classifiers import Scored
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["COLUMNS", "UNCALIBRATED", "Column", "Comparison", "Result", "compare"]

UNCALIBRATED = "uncalibrated"

# A paired difference of means beyond this many standard errors is hardly chance.
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Column:
    """One measure of the comparison: how it is headed, computed, and which end is good."""

    heading: str
    metric: Callable[..., float]
    higher_is_better: bool = False


COLUMNS = {
    "log_loss": Column("log-loss", metrics.log_loss),
    "brier_score": Column("Brier", metrics.brier_score),
    "confidence_ece": Column("conf-ECE", metrics.confidence_ece),
    "classwise_ece": Column("class-ECE", metrics.classwise_ece),
    "accuracy": Column("accuracy", metrics.accuracy, higher_is_better=True),
}


@dataclass(frozen=True, eq=False)
class Result:
    """What one method made of the classifier.

    Attributes
    ----------
    method : str
        Registry name.
    scores : dict
        Name of a metric -> its value on the test rows.
    seconds : float
        Time of the fit.
    calibrated : Predictions
        The test rows after calibration.
    row_losses : ndarray of shape (n,)
        Log-loss of every test row.
    notes : tuple of str
        What the method warned of.
    """

    method: str
    scores: dict[str, float]
    seconds: float
    calibrated: Predictions
    row_losses: NDArray[np.float64]
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Comparison:
    """All results of one classifier; doing nothing comes first, then the rest from the lowest log-loss up."""

    classifier: Scored
    results: tuple[Result, ...]
    left_out: tuple[str, ...]

    def result(self, method: str) -> Result:
        """Return the result of a method by its registry name."""
        return next(result for result in self.results if result.method == method)

    def best(self, metric: str) -> Result:
        """Return the result with the best value on the test rows; the first of equals."""
        sign = -1.0 if COLUMNS[metric].higher_is_better else 1.0
        return min(self.results, key=lambda result: sign * result.scores[metric])

    def equally_good(self) -> list[Result]:
        """Return the results whose log-loss lies within two standard errors of the lowest, without it.

        The standard error is that of the mean difference, row by row.
        """
        best = self.best("log_loss")
        return [
            result
            for result in self.results
            if result is not best and _within_error(result.row_losses, best.row_losses)
        ]


def compare(classifier: Scored) -> Comparison:
    """Fit every method of the registry on the calibration rows and measure it on the test rows."""
    makers = {name: registry.make(name) for name in registry.calibrators()}
    n_classes = classifier.calibration.n_classes
    fitting = [name for name, maker in makers.items() if n_classes == 2 or not maker.traits.binary_only]
    results = [_result(name, makers[name], classifier) for name in fitting]
    results.sort(key=lambda result: (result.method != UNCALIBRATED, result.scores["log_loss"], result.method))
    return Comparison(
        classifier,
        tuple(results),
        tuple(name for name in makers if name not in fitting),
    )


def _result(name: str, calibrator: Calibrator, classifier: Scored) -> Result:
    seeds: dict[str, Any] = {key: 0 for key in calibrator.get_params() if key.endswith("random_state")}
    calibrator.set_params(**seeds)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        calibrator.fit(classifier.calibration, classifier.calibration_labels)
        seconds = time.perf_counter() - start
    calibrated = calibrator.transform(classifier.test)
    labels = classifier.test_labels
    return Result(
        name,
        {key: column.metric(labels, calibrated) for key, column in COLUMNS.items()},
        seconds,
        calibrated,
        row_losses(calibrated, labels),
        tuple(dict.fromkeys(str(warning.message) for warning in caught)),
    )


def row_losses(predictions: Predictions, labels: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the log-loss of every row, (n,), of which the metric is the mean: infinite for a zero."""
    rows = np.arange(len(labels))
    if predictions.space is Space.LOGITS:
        return np.subtract(0.0, predictions.log_probabilities[rows, labels], dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.subtract(0.0, np.log(predictions.probabilities[rows, labels]), dtype=np.float64)


def _within_error(losses: NDArray[np.float64], best: NDArray[np.float64]) -> bool:
    if not np.isfinite(losses).all():
        return False
    differences = losses - best
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    return bool(differences.mean() <= STANDARD_ERRORS * error)
