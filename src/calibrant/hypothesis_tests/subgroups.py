"""Calibration within subgroups: a test over all segments of side columns, with simultaneous intervals."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array
from calibrant.hypothesis_tests.event import EventKind, chosen_event
from calibrant.hypothesis_tests.result import TestResult
from calibrant.intervals.clopper_pearson import clopper_pearson
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.options import check_choice, check_level, check_whole, random_source
from calibrant.presentation.sentences import counted, p_text, shortened
from calibrant.segments import Segments, side_columns
from calibrant.tabular import Tabular

__all__ = ["SubgroupCalibration", "subgroup_calibration"]

DRAWS_AT_A_TIME = 64


@dataclass(frozen=True, eq=False)
class SubgroupCalibration(Tabular):
    """Calibration of every segment, from the strongest evidence to the weakest.

    Attributes
    ----------
    segment : tuple of str
        Names such as ``"sex = f"`` or ``"sex = f and age = 60 to 71"``.
    n_rows : ndarray of shape (S,)
        Number of rows.
    predicted, observed : ndarray of shape (S,)
        Mean predicted probability and observed frequency of the event.
    low, high : ndarray of shape (S,)
        Simultaneous confidence intervals of the expected frequency minus the mean prediction, ``observed - predicted``.
    z : ndarray of shape (S,)
        That difference in standard deviations under calibration; infinite if an impossible outcome occurred.
    p_value : ndarray of shape (S,)
        Adjusted for the search over all segments.
    event : str
        Which event the probabilities refer to.
    level : float
        Confidence level of all intervals together.
    n_left_out : int
        Number of segments with fewer than ``min_rows`` rows.
    test : TestResult
        Test that no segment is miscalibrated.
    """

    segment: tuple[str, ...]
    n_rows: NDArray[np.intp]
    predicted: Float64Array
    observed: Float64Array
    low: Float64Array
    high: Float64Array
    z: Float64Array
    p_value: Float64Array
    event: str
    level: float
    n_left_out: int
    test: TestResult

    @property
    def difference(self) -> Float64Array:
        """Observed frequency minus mean prediction: negative if probabilities are too high."""
        return self.observed - self.predicted

    @property
    def rejected(self) -> tuple[str, ...]:
        """Segments that are miscalibrated at the 5 % level, adjusted for the search."""
        return tuple(name for name, p in zip(self.segment, self.p_value, strict=True) if p <= 0.05)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per segment."""
        return {
            "segment": np.array(self.segment, dtype=object),
            "n_rows": self.n_rows,
            "predicted": self.predicted,
            "observed": self.observed,
            "difference": self.difference,
            "low": self.low,
            "high": self.high,
            "z": self.z,
            "p_value": self.p_value,
        }

    def __str__(self) -> str:
        found = len(self.rejected)
        lines = [
            f"{counted(found, 'segment')} of {len(self.segment)} miscalibrated at the 5 % level, adjusted for the search; "
            f"event: {self.event}."
        ]
        lines += [
            f"  {shortened(self.segment[i])}: predicted {100 * self.predicted[i]:.3g} %, observed "
            f"{100 * self.observed[i]:.3g} % ({counted(int(self.n_rows[i]), 'row')}, "
            f"{p_text(float(self.p_value[i]), self.test.n_resamples)})"
            for i in range(min(5, max(found, 1)))
        ]
        return "\n".join(lines)


def subgroup_calibration(
    y_true: Any,
    y_proba: Any,
    columns: Any,
    *,
    sample_weight: Any = None,
    kind: EventKind = "auto",
    depth: int = 1,
    n_quantiles: int = 4,
    min_rows: int = 30,
    level: float = 0.95,
    n_resamples: int = 2000,
    random_state: Any = 0,
) -> SubgroupCalibration:
    r"""Test calibration within every segment of side columns, such as sex, site or age, allowing for the search.

    For segment s with the predicted probabilities :math:`p_i` and outcomes :math:`o_i` of an event,

    .. math:: z_s = \frac{\sum_{i \in s} w_i (o_i - p_i)}{\sqrt{\sum_{i \in s} w_i^2 \, p_i (1 - p_i)}} .

    Outcomes are drawn from the probabilities ``n_resamples`` times, and the p-value of a segment compares :math:`|z_s|` with the
    largest one of all segments in each draw. The segments that are rejected before are left out
    (step-down maximum :cite:`westfall1993`).

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    columns : data frame or mapping of str to array of shape (n,)
        Side columns. Every value is a segment; a column of numbers with more than 20 distinct values is cut at its
        quantiles. Missing values are a segment of their own.
    sample_weight : array of shape (n,), optional
        Importance of each row; rows are independent observations.
    kind : {"auto", "confidence", "positive"}, default="auto"
        The event: the second of two classes occurs, or the predicted class is correct. ``"auto"`` uses the former for two
        classes and the latter for more.
    depth : int, default=1
        Largest number of columns that are crossed: 2 adds segments such as ``"sex = f and site = north"``.
    n_quantiles : int, default=4
        Number of segments of a column of numbers.
    min_rows : int, default=30
        Segments with fewer rows are left out. The choice does not depend on the labels, so it leaves the level unchanged.
    level : float, default=0.95
        Confidence level of all intervals together.
    n_resamples : int, default=2000
        Number of simulated sets of outcomes. The smallest p-value is one over this number plus one.
    random_state : int, Generator or None, default=0
        Seed of the simulation.

    Returns
    -------
    SubgroupCalibration

    Notes
    -----
    If all probabilities are calibrated, the probability of one or more rejections is at most 5 %, for any number of segments
    that overlap in any way. The test sees the mean error of a segment. An error that cancels within each segment, such as
    over-confidence at both ends, is found by the tests of the complete set, or with the score itself as a side column.

    The intervals are those of Clopper and Pearson for the frequency, at level :math:`1 - (1 - \mathrm{level}) / S` for S
    segments. They are conservative. With weights, their sample size is Kish's effective one.

    Costs O(n S') per draw with S' the mean number of segments of a row.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> p, site = generator.random(4000), generator.choice(["east", "north", "south", "west"], 4000)
    >>> y = (generator.random(4000) < np.where(site == "north", 0.8 * p, p)).astype(int)
    >>> found = subgroup_calibration(y, p, {"site": site, "age": generator.normal(50, 9, 4000)})
    >>> found.rejected
    ('site = north',)
    """
    check_choice("kind", kind, ("auto", "confidence", "positive"))
    check_level(level)
    for name, value in {"depth": depth, "n_resamples": n_resamples, "min_rows": min_rows}.items():
        check_whole(name, value)
    check_whole("n_quantiles", n_quantiles, least=2)
    generator = random_source(random_state)
    weights = None if sample_weight is None else np.asarray(sample_weight)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    side = side_columns(columns, len(np.atleast_1d(np.asarray(y_true))))
    if weights is not None:
        side = {name: values[weights > 0] for name, values in side.items()}
    segments = Segments.of(side, depth=depth, n_quantiles=n_quantiles, min_rows=min_rows)
    members, names = segments.members(side), segments.names
    event, words = chosen_event(data, kind)
    row_weights = np.ones(data.n_rows) if data.weights is None else data.weights
    variance = members @ (row_weights**2 * event.variance)
    weight = members @ row_weights

    def z_of(outcomes: Float64Array) -> Float64Array:
        """Return z for every segment and column of outcomes, (S, draws)."""
        sums = members @ (row_weights[:, np.newaxis] * (outcomes - event.probability[:, np.newaxis]))
        # Sums of the same numbers in another order differ by rounding.
        sums[np.abs(sums) < 1e-9 * weight[:, np.newaxis]] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            z: Float64Array = np.where(sums == 0, 0.0, sums / np.sqrt(variance)[:, np.newaxis])
        return z

    observed_z = z_of(event.occurred.astype(np.float64)[:, np.newaxis])[:, 0]
    p_values, largest = _step_down(observed_z, z_of, event.probability, n_resamples, generator)
    predicted = members @ (row_weights * event.probability) / weight
    observed = members @ (row_weights * event.occurred) / weight
    n_effective = weight**2 / (members @ row_weights**2)
    low, high = clopper_pearson(
        np.clip(observed, 0, 1) * n_effective, n_effective, 1 - (1 - level) / len(names)
    )
    order = np.lexsort((-np.abs(observed_z), p_values))
    best = float(np.abs(observed_z).max())
    p = float(p_values.min())
    return SubgroupCalibration(
        segment=tuple(names[i] for i in order),
        n_rows=np.diff(members.indptr)[order].astype(np.intp),
        predicted=predicted[order],
        observed=observed[order],
        low=(np.asarray(low) - predicted)[order],
        high=(np.asarray(high) - predicted)[order],
        z=observed_z[order],
        p_value=p_values[order],
        event=words,
        level=float(level),
        n_left_out=segments.n_left_out,
        test=TestResult(
            statistic=best,
            p_value=p,
            test=f"largest |z| of {counted(len(names), 'segment')}",
            null_hypothesis=f"the probabilities that {words} are calibrated in every segment",
            n_rows=data.n_rows,
            n_resamples=n_resamples,
            p_value_error=float(np.sqrt(p * (1 - p) / n_resamples)),
            null_mean=float(largest.mean()),
            null_quantile=float(np.quantile(largest, 0.95, method="inverted_cdf")),
        ),
    )


def _step_down(
    observed: Float64Array,
    z_of: Any,
    probability: Float64Array,
    n_resamples: int,
    generator: np.random.Generator,
) -> tuple[Float64Array, Float64Array]:
    """Return adjusted p-values of Westfall and Young (1993), Alg. 4.1, and the largest z of every draw."""
    ascending = np.argsort(np.abs(observed))
    limits = np.abs(observed)[ascending, np.newaxis] * (1 - 1e-12)
    at_least = np.zeros(len(observed))
    largest = []
    for first in range(0, n_resamples, DRAWS_AT_A_TIME):
        n_draws = min(DRAWS_AT_A_TIME, n_resamples - first)
        drawn = generator.random((len(probability), n_draws)) < probability[:, np.newaxis]
        z = np.abs(z_of(drawn.astype(np.float64)))[ascending]
        np.maximum.accumulate(z, axis=0, out=z)
        at_least += (z >= limits).sum(axis=1)
        largest.append(z[-1])
    p_values = np.empty_like(observed)
    p_values[ascending] = (1 + at_least) / (1 + n_resamples)
    # A segment with weaker evidence never has a smaller p-value.
    descending = ascending[::-1]
    p_values[descending] = np.maximum.accumulate(p_values[descending])
    return p_values, np.concatenate(largest)
