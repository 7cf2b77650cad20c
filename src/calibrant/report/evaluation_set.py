"""EvaluationSet: labels and predictions of a report, random subsets of them, and means with intervals."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array, IntArray
from calibrant.intervals import Interval, clopper_pearson
from calibrant.intervals.few_units import ENOUGH_MISTAKES, FEWEST_OUTCOMES
from calibrant.intervals.groups import group_numbers
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.cluster_variance import UnitMean
from calibrant.predictions import Predictions
from calibrant.report.contents import RARE, Estimate, Numbers

__all__ = [
    "EvaluationSet",
    "estimate_of",
    "gap_estimate",
    "mean_estimate",
    "numbers_of",
    "plain_float",
    "plain_floats",
    "proportion_estimate",
    "random_rows",
    "random_rows_by_class",
    "rounded",
]

# With fewer events, or non-events, the t interval of a proportion is rough.
FEW_EVENTS = 30

# Smallest number of rows of each class in a sample, if the class has as many.
KEPT_OF_CLASS = 500


@dataclass(frozen=True, eq=False)
class EvaluationSet:
    """Labels, predictions, weights and groups, parsed once.

    Attributes
    ----------
    data : LabelledPredictions
        Groups, if any, are numbered from 0 without gaps.
    """

    data: LabelledPredictions

    @classmethod
    def parse(cls, y_true: Any, y_proba: Any, sample_weight: Any, groups: Any) -> Self:
        """Validate and parse the inputs; rows of weight zero are dropped."""
        data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
        data = replace(data, predictions=replace(data.predictions, classes=data.classes))
        if groups is not None:
            data = replace(data, groups=group_numbers(groups, len(y_true), sample_weight))
        return cls(data)

    @cached_property
    def labels(self) -> NDArray[Any]:
        """True classes as the user's labels."""
        return self.data.classes[self.data.labels]

    @property
    def predictions(self) -> Predictions:
        """Predictions with named columns."""
        return self.data.predictions

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """Weights, or None for unit weights."""
        return self.data.weights

    @property
    def groups(self) -> IntArray | None:
        """Group number of every row, or None."""
        return self.data.groups

    @property
    def n_groups(self) -> int | None:
        """Number of groups, or None without groups."""
        return None if self.groups is None else len(np.unique(self.groups))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.data.n_rows

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.data.n_classes

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """Labels as strings."""
        return tuple(str(label) for label in self.data.classes.tolist())

    @cached_property
    def n_present(self) -> int:
        """Number of classes that occur."""
        return int(np.count_nonzero(np.bincount(self.data.labels, minlength=self.n_classes)))

    @cached_property
    def confidence(self) -> NDArray[np.float64]:
        """Confidence: probability of the predicted class of every row, at most one."""
        chosen = self.predictions.probabilities[np.arange(self.n_rows), self.predictions.predicted]
        return np.minimum(chosen.astype(np.float64), 1.0)

    @cached_property
    def hits(self) -> NDArray[np.bool_]:
        """Whether the predicted class is correct."""
        return np.equal(self.predictions.predicted, self.data.labels)

    def mean(self, values: NDArray[Any]) -> float:
        """Return a weighted mean over the rows."""
        return float(np.average(values, weights=self.weights))

    def take(self, rows: IntArray | None) -> Self:
        """Return a subset of the rows; all for None."""
        if rows is None:
            return self
        data = self.data.take(rows)
        if data.groups is not None:
            data = replace(data, groups=np.unique(data.groups, return_inverse=True)[1].reshape(-1))
        return type(self)(data)

    def with_predictions(self, predictions: Predictions) -> Self:
        """Return the same rows with other predictions, such as calibrated ones."""
        named = replace(predictions, classes=self.data.classes)
        return type(self)(replace(self.data, predictions=named))

    def one_class(self, column: int) -> Self:
        """Return the one-vs-rest problem of a class, which becomes class 1."""
        probability = np.clip(self.predictions.probabilities[:, column], 0.0, 1.0)
        is_class = (self.data.labels == column).astype(np.intp)
        predictions = Predictions.from_probabilities(probability, classes=np.arange(2))
        return type(self)(LabelledPredictions(predictions, is_class, np.arange(2), self.weights, self.groups))


def random_rows_by_class(
    rows: EvaluationSet, limit: int, random_state: int
) -> tuple[IntArray | None, EvaluationSet]:
    """Return the indices of a random sample of up to ``limit`` rows (None for all rows), and the sample.

    Up to 500 rows of every rare class are kept. Weights restore the class frequencies, so weighted fits and means estimate
    those of all rows. Groups are sampled as units, whatever their classes.
    """
    drawn = random_rows(rows, limit, limit * rows.n_classes, random_state)
    if drawn is None or rows.groups is not None:
        return drawn, rows.take(drawn)
    labels, generator = rows.data.labels, np.random.default_rng(random_state)
    counts = np.bincount(labels, minlength=rows.n_classes)
    least = np.minimum(counts, min(KEPT_OF_CLASS, limit // (2 * rows.n_present)))
    if (counts * limit >= least * rows.n_rows).all():
        return drawn, rows.take(drawn)
    others = counts - least
    wanted = least + (limit - least.sum()) * others // max(int(others.sum()), 1)
    chosen = [
        generator.choice(np.flatnonzero(labels == column), wanted[column], replace=False)
        for column in np.flatnonzero(wanted)
    ]
    drawn = np.sort(np.concatenate(chosen)).astype(np.intp)
    sample = rows.take(drawn)
    weights = (counts / np.maximum(wanted, 1))[sample.data.labels]
    weights *= 1.0 if sample.weights is None else sample.weights
    return drawn, EvaluationSet(replace(sample.data, weights=weights / weights.mean()))


def random_rows(rows: EvaluationSet, most_rows: int, most_numbers: int, random_state: int) -> IntArray | None:
    """Return the sorted indices of a random sample of rows; None if all rows are within the limits.

    If there are groups, they are sampled as units, so sampled and remaining rows share no group.
    """
    limit = max(1, min(most_rows, most_numbers // rows.n_classes))
    if rows.n_rows <= limit:
        return None
    generator = np.random.default_rng(random_state)
    if rows.groups is None:
        return np.sort(generator.choice(rows.n_rows, limit, replace=False, shuffle=False)).astype(np.intp)
    sizes = np.bincount(rows.groups)
    order = generator.permutation(len(sizes))
    enough = max(2, int(np.searchsorted(np.cumsum(sizes[order]), limit, side="right")))
    return np.flatnonzero(np.isin(rows.groups, order[:enough])).astype(np.intp)


def plain_float(value: Any) -> float | None:
    """Return a Python float, or None for NaN.

    >>> plain_float(np.float32(0.5)), plain_float(float("nan")), plain_float(None)
    (0.5, None, None)
    """
    if value is None:
        return None
    plain = float(value)
    return None if np.isnan(plain) else plain


def plain_floats(values: Iterable[Any]) -> Numbers:
    """Return all entries, converted by :func:`plain_float`.

    >>> plain_floats(np.array([0.5, np.nan]))
    (0.5, None)
    """
    return tuple(plain_float(value) for value in np.asarray(values, dtype=np.float64).tolist())


def rounded(values: Iterable[Any]) -> Numbers:
    """Return plain numbers, rounded to six decimals, which is enough for a plot.

    >>> rounded([1 / 3, np.nan])
    (0.333333, None)
    """
    return plain_floats(np.round(np.asarray(values, dtype=np.float64), 6))


Contents = TypeVar("Contents")


def numbers_of(kind: type[Contents], curve: Any, **own: Any) -> Contents:
    """Return the plain data of a curve: its attributes with the names of the fields, arrays :func:`rounded`."""
    for name in (field.name for field in fields(kind) if hasattr(curve, field.name)):  # type: ignore[arg-type]
        value = getattr(curve, name)
        if isinstance(value, np.ndarray):
            value = rounded(value) if value.dtype.kind == "f" else tuple(value.tolist())
        own.setdefault(name, value)
    return kind(**own)


def estimate_of(name: str, interval: Interval, definition: str = "") -> Estimate:
    """Return an interval of the library as an estimate with a readable name."""
    text = definition or interval.definition
    return Estimate(
        name=name,
        value=plain_float(interval.estimate),
        low=plain_float(interval.low),
        high=plain_float(interval.high),
        level=interval.level,
        definition=f"{text}; {interval.method}",
        note=interval.note,
    )


def mean_estimate(
    name: str,
    values: NDArray[Any],
    rows: EvaluationSet,
    level: float,
    definition: str,
    *,
    higher_is_better: bool = False,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """Return a mean over rows with its t interval, corrected for skewness.

    There is no interval if the mean is infinite or there is a single row.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # infinite losses
        mean = rows.mean(values)
    low = high = None
    if np.isfinite(mean):
        found = UnitMean.of(np.asarray(values, dtype=np.float64), rows.weights, rows.groups)
        if np.isfinite(found.error):
            ends = found.limits(level)
            low, high = max(ends[0], bounds[0]), min(ends[1], bounds[1])
    by = "t interval" if rows.groups is None else "t interval clustered by group"
    return Estimate(
        name=name,
        value=plain_float(mean),
        low=plain_float(low),
        high=plain_float(high),
        level=level,
        definition=f"{definition}; {by}",
        higher_is_better=higher_is_better,
    )


def gap_estimate(
    name: str,
    probability: NDArray[np.floating[Any]],
    is_event: NDArray[np.bool_],
    rows: EvaluationSet,
    level: float,
    definition: str,
) -> Estimate:
    """Return the mean probability of an event minus its observed frequency.

    With few, rare events the interval is the exact one of the frequency, for fixed probabilities. If few unlikely outcomes are
    expected otherwise, and few occurred, there is none.
    """
    mean = rows.mean(probability)
    n_events = int(is_event.sum())
    has_few_events = min(n_events, rows.n_rows - n_events) < min(FEW_EVENTS, RARE * rows.n_rows)
    if rows.weights is not None or rows.groups is not None or not has_few_events:
        gaps = probability.astype(np.float64) - is_event
        if _has_few_unlikely_outcomes(probability.astype(np.float64), is_event, rows.weights):
            why = f"no interval, since fewer than {FEWEST_OUTCOMES:g} of the less probable outcomes are expected"
            return Estimate(name, rows.mean(gaps), None, None, level, f"{definition}; {why}")
        return mean_estimate(name, gaps, rows, level, definition, bounds=(mean - 1, mean))
    low, high = clopper_pearson(n_events, rows.n_rows, level)
    return Estimate(
        name=name,
        value=mean - n_events / rows.n_rows,
        low=mean - float(high),
        high=mean - float(low),
        level=level,
        definition=f"{definition}; Clopper-Pearson interval of the frequency",
    )


def _has_few_unlikely_outcomes(
    probability: Float64Array, is_event: NDArray[np.bool_], weights: Float64Array | None
) -> bool:
    """Return whether the expected number of less probable outcomes, at the effective sample size, is below five."""
    variance = probability * (1 - probability)
    occurred = int(np.count_nonzero(is_event != (probability >= 0.5)))
    if occurred >= max(
        ENOUGH_MISTAKES, 2 * float(variance.sum())
    ):  # the predictions do not tell how rare they are
        return False
    w = np.ones(len(variance)) if weights is None else weights / weights.max()
    squares = float(w**2 @ variance)
    return squares > 0 and float(w @ variance) ** 2 / squares < FEWEST_OUTCOMES


def proportion_estimate(
    name: str, is_event: NDArray[np.bool_], rows: EvaluationSet, level: float, definition: str
) -> Estimate:
    """Return a proportion of rows with an exact interval, or with that of a mean if rows have weights or groups."""
    if rows.weights is not None or rows.groups is not None:
        return mean_estimate(
            name, is_event, rows, level, definition, higher_is_better=True, bounds=(0.0, 1.0)
        )
    low, high = clopper_pearson(int(is_event.sum()), len(is_event), level)
    return Estimate(
        name=name,
        value=float(is_event.mean()),
        low=float(low),
        high=float(high),
        level=level,
        definition=f"{definition}; Clopper-Pearson interval",
        higher_is_better=True,
    )
