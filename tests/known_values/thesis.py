"""The figures of Valk's thesis (2022) for two networks, the rows they belong to, and its metrics.

DenseNet-40 and ResNet-110 on CIFAR-10 with 5,000 rows for calibration and 10,000 for testing, from the logits that
Kull et al. (2019) published.
"""

from functools import cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from calibrant import Predictions, TemperatureScaling
from calibrant.conventions import convention
from calibrant.metrics import accuracy, average_loss_gap
from data import load

NETWORKS = ("c10_densenet40", "c10_resnet110")


class Row(NamedTuple):
    """A row of figures, in the order of the tables; both errors in per cent."""

    confidence_ece: float
    classwise_ece: float
    brier_score: float
    log_loss: float
    accuracy: float
    loss_gap: float

    @classmethod
    def of(cls, labels: NDArray[np.integer], rows: NDArray[np.floating]) -> Self:
        """Return the metrics of the thesis, with the bins of its program."""
        valk = convention("valk2022")
        return cls(
            valk.confidence_ece(labels, rows),
            valk.classwise_ece(labels, rows),
            valk.brier_score(labels, rows),
            valk.log_loss(labels, rows),
            accuracy(labels, rows),
            average_loss_gap(labels, rows),
        )

    def rounded(self) -> Self:
        """Return the digits that Tables 5 to 16 show."""
        digits = (2, 2, 3, 3, 3, 4)
        return type(self)(*(round(figure, n) for figure, n in zip(self, digits, strict=True)))

    def differences(self, other: "Row") -> "Row":
        """Return by how much the figures differ, whichever is larger."""
        return Row(*(abs(own - its) for own, its in zip(self, other, strict=True)))


# Table 4: methods alone on the first network, with one digit more of the errors and one less of the gap.
TABLE_4 = {
    "uncalibrated": Row(5.493, 0.445, 0.127, 0.428, 0.924, 0.030),
    "temperature": Row(0.924, 0.255, 0.110, 0.225, 0.924, 0.006),
    "forest": Row(3.201, 0.436, 0.120, 0.292, 0.924, 0.011),
    "knn-kl": Row(3.342, 0.393, 0.118, 0.298, 0.924, 0.016),
    "kernel-dirichlet": Row(3.381, 0.461, 0.124, 0.293, 0.924, 0.015),
}

# Tables 5 to 10, and 11 to 16 for methods after temperature scaling.
TABLES_5_TO_16 = {
    ("c10_densenet40", "uncalibrated"): Row(5.49, 0.44, 0.127, 0.428, 0.924, 0.0295),
    ("c10_densenet40", "temperature"): Row(0.92, 0.25, 0.110, 0.225, 0.924, 0.0063),
    ("c10_densenet40", "temperature+knn-kl"): Row(0.52, 0.24, 0.110, 0.229, 0.925, 0.0046),
    ("c10_densenet40", "temperature+knn-euclidean"): Row(0.72, 0.24, 0.110, 0.228, 0.925, 0.0046),
    ("c10_densenet40", "temperature+forest"): Row(0.92, 0.25, 0.110, 0.227, 0.924, 0.0040),
    ("c10_densenet40", "temperature+kernel-rbf"): Row(0.80, 0.26, 0.110, 0.229, 0.925, 0.0040),
    ("c10_densenet40", "temperature+kernel-dirichlet"): Row(0.82, 0.23, 0.110, 0.225, 0.926, 0.0054),
    ("c10_densenet40", "temperature+decision"): Row(1.20, 0.30, 0.110, 0.264, 0.925, 0.0051),
    ("c10_resnet110", "uncalibrated"): Row(4.75, 0.36, 0.110, 0.358, 0.936, 0.0259),
    ("c10_resnet110", "temperature"): Row(0.94, 0.22, 0.098, 0.209, 0.936, 0.0056),
    ("c10_resnet110", "temperature+knn-kl"): Row(0.84, 0.17, 0.097, 0.205, 0.936, 0.0035),
    ("c10_resnet110", "temperature+knn-euclidean"): Row(0.88, 0.18, 0.097, 0.206, 0.936, 0.0033),
    ("c10_resnet110", "temperature+forest"): Row(0.90, 0.19, 0.097, 0.207, 0.936, 0.0035),
    ("c10_resnet110", "temperature+kernel-rbf"): Row(1.14, 0.22, 0.097, 0.208, 0.936, 0.0032),
    ("c10_resnet110", "temperature+kernel-dirichlet"): Row(0.92, 0.18, 0.097, 0.206, 0.936, 0.0034),
    ("c10_resnet110", "temperature+decision"): Row(0.94, 0.23, 0.097, 0.232, 0.936, 0.0042),
}


class Network(NamedTuple):
    """Probabilities and labels, for calibration and for testing."""

    calibration: NDArray[np.floating]
    labels: NDArray[np.integer]
    test: NDArray[np.floating]
    test_labels: NDArray[np.integer]

    def after_temperature(self) -> "Network":
        """Return the same with temperature scaling applied to all rows."""
        fitted = TemperatureScaling().fit(self.calibration, self.labels)
        return self._replace(
            calibration=fitted.predict_proba(self.calibration), test=fitted.predict_proba(self.test)
        )


@cache
def network(name: str, *, scaled: bool = False, dtype: DTypeLike = np.float64) -> Network:
    """Return the softmax of a network's logits, taken in some float type, or after temperature scaling of it."""
    if scaled:
        return network(name, dtype=dtype).after_temperature()
    arrays = load(f"kull_nn/{name}")
    calibration, test = (
        Predictions.from_logits(arrays[f"{part}_logits"].astype(dtype)).probabilities
        for part in ("val", "test")
    )
    return Network(calibration, arrays["val_y"].ravel(), test, arrays["test_y"].ravel())
