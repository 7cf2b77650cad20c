"""Compared: every calibration method on the test set of one classifier of the demo."""

from dataclasses import dataclass

from calibrant import registry
from calibrant.comparison import Comparison, MethodResult, compare
from calibrant.demo.classifiers import Scored

__all__ = ["COLUMNS", "HIGHER_IS_BETTER", "UNCALIBRATED", "Compared", "compare_all"]

UNCALIBRATED = "uncalibrated"

COLUMNS = {
    "log_loss": "log-loss",
    "brier_score": "Brier",
    "confidence_ece": "conf-ECE",
    "classwise_ece": "class-ECE",
    "accuracy": "accuracy",
}
"""Metrics of the table with their column headings."""

HIGHER_IS_BETTER = {"accuracy"}


@dataclass(frozen=True, eq=False)
class Compared:
    """A classifier with the results of all methods, and the methods that do not support its number of classes."""

    classifier: Scored
    comparison: Comparison
    left_out: tuple[str, ...]

    @property
    def results(self) -> tuple[MethodResult, ...]:
        """Results: the uncalibrated predictions first, then by increasing log-loss."""
        return self.comparison.measured

    def best(self, metric: str) -> MethodResult:
        """Return the result with the best value on the test set; the first of ties."""
        sign = -1.0 if metric in HIGHER_IS_BETTER else 1.0
        return min(self.results, key=lambda result: sign * result.scores[metric])


def compare_all(classifier: Scored) -> Compared:
    """Fit every method of the registry on the calibration set and evaluate it on the test set."""
    makers = {name: registry.make(name) for name in registry.calibrators()}
    n_classes = classifier.calibration.n_classes
    fitting = [name for name, maker in makers.items() if n_classes == 2 or not maker.traits.binary_only]
    comparison = compare(
        classifier.calibration_labels,
        classifier.calibration,
        fitting,
        test=(classifier.test_labels, classifier.test),
    )
    return Compared(classifier, comparison, tuple(name for name in makers if name not in fitting))
