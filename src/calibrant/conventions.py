"""Conventions: metrics with the settings behind published tables, by first author and year."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import getdoc
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray
from calibrant.binning import EqualWidth, FixedEdges
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import (
    accuracy,
    brier_score,
    classwise_ece,
    confidence_ece,
    log_loss,
    maximum_calibration_error,
)
from calibrant.metrics.declaration import describe, is_declared
from calibrant.metrics.events import columns, confidences

__all__ = ["Convention", "convention", "conventions"]

Metric = Callable[..., float]


@dataclass(frozen=True)
class Convention:
    """The metrics of a publication, with the settings that reproduce its tables.

    Attributes
    ----------
    name : str
        First author and year.
    source : str
        What the tables show, in a few words.
    metrics : mapping
        Metric names -> functions ``(y_true, y_proba, *, sample_weight=None)``. Each is also available as an
        attribute.

    Examples
    --------
    >>> kull = convention("kull2019")
    >>> round(kull.classwise_ece([0] * 9 + [1], [[0.8, 0.2]] * 10), 6)      # a sum over classes
    0.2
    """

    name: str
    source: str
    metrics: Mapping[str, Metric]

    def __getattr__(self, name: str) -> Metric:
        try:
            return self.metrics[name]
        except KeyError:
            raise AttributeError(f"{self.name} has no {name}; it has {sorted(self.metrics)}") from None

    def __str__(self) -> str:
        lines = [f"{name}: {_definition(function)}" for name, function in self.metrics.items()]
        return "\n".join([f"{self.name}: {self.source}", *lines])

    def __reduce__(self) -> tuple[Any, ...]:
        return convention, (self.name,)


def _definition(function: Metric) -> str:
    """Return the name and options of a metric, with a description if it is not one of :mod:`calibrant.metrics`."""
    if is_declared(function):
        return describe(function)
    return f"{describe(function)}, {_first_line(function).removeprefix('Return ').removesuffix('.')}"


def _first_line(function: Metric) -> str:
    """Return the first line of the docstring, also through ``functools.partial``."""
    while isinstance(function, partial):
        function = function.func
    return (getdoc(function) or "").partition("\n")[0]


def convention(name: str) -> Convention:
    """Return the metrics of a publication, with the settings that reproduce its tables.

    Parameters
    ----------
    name : str
        One of :func:`conventions`.

    Notes
    -----
    ``"kull2019"``
        Confidence-ECE and maximum calibration error with 15 bins (a, b] of equal width. Classwise-ECE is the
        *sum* over classes, although the paper's formula is the mean, with 14 bins [a, b) and one more for
        probabilities of exactly one. The Brier score is the mean over rows and classes. Probabilities are clipped
        at 1e-15 for the log-loss. ``error_rate`` is in per cent :cite:`kull2019`.
    ``"valk2022"``
        All in per cent except log-loss and Brier score. 15 bins of equal counts, which may separate equal scores.
        Classwise-ECE is the mean over classes and leaves out rows that give a class the probability zero.
        Probabilities are clipped at 1e-15 for the log-loss. The formula printed in the thesis has an extra factor
        of one over the number of bins, which its figures do not contain :cite:`valk2022`.
    ``"wenger2020"``
        Confidence-ECE with 100 bins between 1/K and one. Each bin is represented by a centre instead of its mean
        confidence; the centre is taken 1/200 below the upper edge, although the bins are narrower than 1/100. No
        root is taken for norms above one. The formula of the paper has no bin weights, the figures do
        :cite:`wenger2020`.
    ``"tomani2022"``
        Confidence-ECE with 10 bins (a, b] of equal width; Brier score summed over classes :cite:`tomani2022`.
    ``"guo2017"``
        Confidence-ECE and maximum calibration error with 15 bins (a, b] of equal width :cite:`guo2017`.

    Examples
    --------
    >>> print(convention("guo2017"))
    guo2017: temperature scaling of modern networks
    confidence_ece: confidence_ece(norm=1, binning=EqualWidth(closed='right', n_bins=15, low=0.0, high=1.0))
    maximum_calibration_error: maximum_calibration_error(binning=EqualWidth(closed='right', n_bins=15,
    low=0.0, high=1.0))
    >>> print(convention("wenger2020"))
    wenger2020: Gaussian-process calibration
    confidence_ece: confidence_ece_of_bin_centres(n_bins=100, norm=1), the mean gap between accuracies and the
    centres of bins from 1/K to one, in probability
    """
    try:
        return _CONVENTIONS[name]
    except KeyError:
        raise ParameterError(f"there is no convention {name!r}; known are {conventions()}.") from None


def conventions() -> list[str]:
    """Return the names of all conventions.

    >>> conventions()
    ['guo2017', 'kull2019', 'tomani2022', 'valk2022', 'wenger2020']
    """
    return sorted(_CONVENTIONS)


def error_rate_in_percent(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    """Return the error rate in per cent."""
    return 100 * (1 - accuracy(y_true, y_proba, sample_weight=sample_weight))


def brier_mean_over_classes(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    """Return the squared difference, the mean over rows and classes, in squared probability."""
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    total = brier_score(y_true, y_proba, sample_weight=sample_weight, scale_by_half=False)
    return total / data.n_classes


def confidence_ece_of_equal_counts_in_percent(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, n_bins: int = 15
) -> float:
    """Return confidence-ECE with bins of equal counts, in per cent."""
    data = _without_weights(y_true, y_proba, sample_weight, "valk2022")
    right = data.predictions.predicted == data.labels
    return 100 * _error_of_equal_counts(confidences(data.predictions), right, n_bins)


def classwise_ece_of_equal_counts_in_percent(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, n_bins: int = 15
) -> float:
    """Return classwise-ECE, the mean over classes, with bins of equal counts and without zeros, in per cent."""
    data = _without_weights(y_true, y_proba, sample_weight, "valk2022")
    errors = [
        _error_of_equal_counts(column[column > 0], (data.labels == k)[column > 0], n_bins)
        for k, column in enumerate(columns(data.predictions))
    ]
    return 100 * float(np.mean(errors))


def confidence_ece_of_bin_centres(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, n_bins: int = 100, norm: float = 1
) -> float:
    """Return the mean gap between accuracies and the centres of bins from 1/K to one, in probability."""
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    right = data.predictions.predicted == data.labels
    partition = EqualWidth(n_bins, low=1 / data.n_classes)
    bins = partition.bins(confidences(data.predictions), right, data.weights)
    centres = bins.edges[1:] - 1 / (2 * n_bins)
    return float(bins.share @ np.abs(bins.mean_outcome - centres) ** norm)


def _error_of_equal_counts(scores: FloatArray, outcomes: NDArray[np.bool_], n_bins: int) -> float:
    """Return the weighted mean gap of consecutive blocks of the sorted scores; the first ones take the remainder."""
    if len(scores) == 0:
        return 0.0
    order = np.argsort(scores, kind="stable")
    runs = [run for run in np.array_split(order, n_bins) if len(run)]
    gaps = [len(run) * abs(scores[run].mean(dtype=np.float64) - outcomes[run].mean()) for run in runs]
    return float(sum(gaps) / len(scores))


def _without_weights(y_true: Any, y_proba: Any, sample_weight: Any, name: str) -> LabelledPredictions:
    if sample_weight is not None:
        raise ParameterError(
            f"the bins of {name} hold equal numbers of rows and cannot use weights; "
            "use the metric itself with strategy='quantile'."
        )
    return LabelledPredictions.parse(y_proba, y_true)


RIGHT_CLOSED = EqualWidth(15, closed="right")


def _named(name: str, source: str, **metrics: Metric) -> tuple[str, Convention]:
    return name, Convention(name, source, MappingProxyType(metrics))


_CONVENTIONS = dict(
    [
        _named(
            "kull2019",
            "Dirichlet calibration, tables of the supplement",
            log_loss=partial(log_loss, floor=1e-15),
            brier_score=brier_mean_over_classes,
            confidence_ece=partial(confidence_ece, binning=RIGHT_CLOSED),
            classwise_ece=partial(
                classwise_ece, reduction="sum", binning=FixedEdges((*np.linspace(0, 1, 15), 1.0))
            ),
            maximum_calibration_error=partial(maximum_calibration_error, binning=RIGHT_CLOSED),
            error_rate=error_rate_in_percent,
        ),
        _named(
            "valk2022",
            "non-parametric multi-class calibration, tables of the thesis",
            log_loss=partial(log_loss, floor=1e-15),
            brier_score=partial(brier_score, scale_by_half=False),
            confidence_ece=confidence_ece_of_equal_counts_in_percent,
            classwise_ece=classwise_ece_of_equal_counts_in_percent,
        ),
        _named("wenger2020", "Gaussian-process calibration", confidence_ece=confidence_ece_of_bin_centres),
        _named(
            "tomani2022",
            "parameterized temperature scaling",
            confidence_ece=partial(confidence_ece, binning=EqualWidth(10, closed="right")),
            brier_score=partial(brier_score, scale_by_half=False),
        ),
        _named(
            "guo2017",
            "temperature scaling of modern networks",
            confidence_ece=partial(confidence_ece, binning=RIGHT_CLOSED),
            maximum_calibration_error=partial(maximum_calibration_error, binning=RIGHT_CLOSED),
        ),
    ]
)
