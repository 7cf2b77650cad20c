"""Power of the tests of a report against kinds of miscalibration, by simulation on the rows at hand."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtr, stdtrit

from calibrant.arrays import Matrix, Vector
from calibrant.metrics import OneClass
from calibrant.metrics.utility import Utility
from calibrant.numerics.cumulative import RANGE
from calibrant.presentation import class_named
from calibrant.report.contents import Detectable
from calibrant.report.evaluation_set import EvaluationSet, random_rows
from calibrant.report.event_evidence import POWER, EventEvidence, weights_of_test

__all__ = [
    "CHI_SQUARE_BINS",
    "CHI_SQUARE_EXPECTED",
    "IN_A_SHARE",
    "KINDS_OF_MAIN_EVENT",
    "SWAPPED",
    "detectable_errors",
]

# Bins of the chi-square test, and the expected events and non-events of each.
CHI_SQUARE_BINS = 15
CHI_SQUARE_EXPECTED = 20.0

# Rows and numbers that the simulation uses of a large data set, simulated data sets, and steps of the cumulative residuals.
MOST_ROWS, MOST_NUMBERS = 5_000, 2_000_000
SIMULATIONS, STEPS = 400, 120

N_WAVES = 6

KINDS_OF_MAIN_EVENT = ("constant shift", "over-confidence", "waves")
IN_A_SHARE = ", in a share of the rows"
ONE_CLASS = "one class too high"
SWAPPED = "two classes swapped"

# Mean errors whose power the table shows, in probability; and degrees of an error of single classes.
SIZES = (0.02, 0.05, 0.1)
DEGREES = (0.2, 0.5, 1.0)

TOLERANCE = 0.02


@dataclass(frozen=True, eq=False)
class _Steps:
    """Sums over steps of increasing probability of an event, of all rows."""

    index: NDArray[np.intp]  # (m,) step of each of m sampled rows
    probability: Vector  # (m,) of the sampled rows
    weight: Vector  # (m,) scaled up to all rows
    square_weight: Vector  # (m,)
    critical: float  # value above which Kuiper's range of the sums is significant
    alpha: float  # level of one test
    inflation: float  # design effect
    only_kuiper: bool  # whether rows are dependent, so that the other tests do not count

    @classmethod
    def of(
        cls,
        sample: EvaluationSet,
        probability: Vector,
        main: EventEvidence,
        alpha: float,
        n_rows: int,
        *,
        only_kuiper: bool = False,
    ) -> "_Steps":
        weights = weights_of_test(sample)
        scale = n_rows / sample.n_rows
        place = np.empty(len(probability), dtype=np.intp)
        place[np.argsort(probability, kind="stable")] = np.arange(len(probability))
        steps = place * min(STEPS, len(probability)) // len(probability)
        square_weight = scale * weights**2
        deviation = np.sqrt(main.design_effect * float(square_weight @ (probability * (1 - probability))))
        critical = RANGE.quantile(alpha)
        if main.effective_groups is not None:
            critical = -float(stdtrit(main.effective_groups - 1, ndtr(-critical)))
        return cls(
            steps,
            probability,
            scale * weights,
            square_weight,
            critical * deviation,
            alpha,
            main.design_effect,
            only_kuiper or main.is_grouped,
        )

    def power(self, true: Vector, normal: Matrix) -> float:
        """Return the fraction of simulations in which a test rejects, given the true probabilities of the sampled rows."""
        drift = self._sums(self.weight * (true - self.probability))
        variance = self.inflation * self._sums(self.square_weight * true * (1 - true))
        residuals = drift + np.sqrt(variance) * normal[:, : len(drift)]
        path = np.concatenate([np.zeros((len(residuals), 1)), residuals.cumsum(axis=1)], axis=1)
        rejected = np.ptp(path, axis=1) > self.critical
        if not self.only_kuiper:
            rejected |= self._rejected_by_chi_square(residuals) | self._rejected_by_line(residuals)
        return float(rejected.mean())

    def _sums(self, values: Vector) -> Vector:
        return np.bincount(self.index, values).astype(np.float64, copy=False)

    @cached_property
    def _null_variance(self) -> Vector:
        return self._sums(self.square_weight * self.probability * (1 - self.probability))

    @cached_property
    def _bins(self) -> NDArray[np.intp]:
        """Return the chi-square bin of every step, merged as in the test itself."""
        n_steps = int(self.index.max()) + 1
        first = np.arange(n_steps) * CHI_SQUARE_BINS // n_steps
        ratio = self._sums(self.weight) / self._sums(self.square_weight)
        events, others = (
            np.bincount(first, ratio * self._sums(self.weight * probability))
            for probability in (self.probability, 1 - self.probability)
        )
        merged, bin_number, pending = np.zeros(len(events), dtype=np.intp), 0, np.zeros(2)
        for place, counts in enumerate(zip(events, others, strict=True)):
            merged[place] = bin_number
            pending = pending + counts
            if pending.min() >= CHI_SQUARE_EXPECTED:
                bin_number, pending = bin_number + 1, np.zeros(2)
        return np.minimum(merged, max(bin_number - 1, 0))[first]

    def _rejected_by_chi_square(self, residuals: Matrix) -> NDArray[np.bool_]:
        n_bins = int(self._bins.max()) + 1
        of_bin = np.eye(n_bins)[self._bins]
        variance = self._null_variance @ of_bin
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.nan_to_num((residuals @ of_bin) ** 2 / variance, posinf=0.0).sum(axis=1)
        return np.asarray(statistic > chdtri(n_bins, self.alpha))

    def _rejected_by_line(self, residuals: Matrix) -> NDArray[np.bool_]:
        """Score test of slope and intercept of the log-odds, which is the likelihood-ratio test for many rows."""
        n_rows = np.bincount(self.index)
        mean = np.clip(np.bincount(self.index, self.probability) / n_rows, 1e-6, 1 - 1e-6)
        features = np.column_stack([np.ones(len(mean)), np.log(mean / (1 - mean))])
        information = features.T @ (features * self._null_variance[:, np.newaxis])
        scores = residuals @ features
        if np.linalg.cond(information) > 1e12:
            return np.zeros(len(scores), dtype=np.bool_)
        statistic = (scores @ np.linalg.inv(information) * scores).sum(axis=1)
        return np.asarray(statistic > chdtri(2, self.alpha))


def detectable_errors(
    rows: EvaluationSet,
    utility: Utility,
    main: EventEvidence,
    class_events: tuple[EventEvidence, ...],
    alpha: float,
    random_state: int,
) -> tuple[Detectable, ...]:
    """Return for each kind of miscalibration how large it must be for the tests to find it, given these predictions.

    The residuals of the main event and of single classes are simulated from true probabilities that differ from the predicted
    ones: normal sums over at most 120 steps of the sorted probabilities, with their exact means and variances. A test counts
    at the Bonferroni-corrected level ``alpha``. Those of all classes and of probability vectors are left out where the kind
    concerns the main event, so the true power is higher.
    """
    if main.effective_groups is not None and main.effective_groups <= 1:
        return ()
    sample = rows.take(random_rows(rows, MOST_ROWS, MOST_NUMBERS, random_state))
    generator = np.random.default_rng(random_state)
    normal = generator.standard_normal((SIMULATIONS, STEPS))
    probability = np.clip(utility.prospect(sample.predictions).expected, 0.0, 1.0)
    found = []
    # The power against rare events is that of exact counts, as a factor.
    if not main.is_exact and not main.counts.is_rare:
        event = _Steps.of(sample, probability, main, alpha, rows.n_rows)
        changes = (_shifted(probability), _tempered(sample, utility), _waves(probability))
        found = [
            _in_probability(kind, event, change, normal)
            for kind, change in zip(KINDS_OF_MAIN_EVENT, changes, strict=True)
        ]
    if rows.n_classes > 2:
        found += _of_classes(sample, class_events, alpha, rows.n_rows, normal)
    return tuple(found)


Change = Callable[[float], Vector]
"""True probabilities as a function of a degree from 0, none, to 1."""


def _shifted(probability: Vector) -> Change:
    """Add the same number to all probabilities, or subtract it if they are above one half on average."""
    sign = 1 if probability.mean() <= 0.5 else -1
    return lambda degree: np.clip(probability + sign * degree, 0.0, 1.0)


def _waves(probability: Vector) -> Change:
    """Add and subtract the same number in six intervals of the scores with equally many rows, in turn."""
    place = np.empty(len(probability))
    place[np.argsort(probability, kind="stable")] = np.arange(len(probability))
    sign = np.where((place * N_WAVES // len(probability)) % 2 == 0, 1.0, -1.0)
    return lambda degree: np.clip(probability + sign * degree, 0.0, 1.0)


def _tempered(sample: EvaluationSet, utility: Utility) -> Change:
    """Divide the logits by a temperature; degree 1 is an infinite one, so that all classes are equally likely."""
    probabilities = sample.predictions.probabilities.astype(np.float64)
    with np.errstate(divide="ignore"):
        logarithms = np.log(probabilities)
    logarithms = np.maximum(logarithms, -700.0)
    logarithms -= logarithms.max(axis=1, keepdims=True)
    rows = np.arange(sample.n_rows)
    column: Any = utility.column if isinstance(utility, OneClass) else sample.predictions.predicted

    def true(degree: float) -> Vector:
        powers = np.exp((1 - degree) * logarithms)
        chosen: Vector = powers[rows, column] / powers.sum(axis=1)
        return chosen

    return true


def _of_classes(
    sample: EvaluationSet, class_events: tuple[EventEvidence, ...], alpha: float, n_rows: int, normal: Matrix
) -> list[Detectable]:
    """Return the power against errors of one and of two classes of average frequency."""
    probabilities = np.clip(sample.predictions.probabilities.astype(np.float64), 0.0, 1.0)
    order = np.argsort(probabilities.mean(axis=0), kind="stable")
    columns = order[len(order) // 2], order[len(order) // 2 - 1]
    names = [class_named(sample.class_names[column]) for column in columns]
    units = f"{names[0]}, by a share of its probability", f"{names[0]} and {names[1]}{IN_A_SHARE}"
    if any(class_events[column].is_exact for column in columns):  # too few rows for normal sums
        unknown = (None,) * len(DEGREES)
        return [
            Detectable(kind, unit, DEGREES, unknown, None)
            for kind, unit in zip((ONE_CLASS, SWAPPED), units, strict=True)
        ]
    p, q = probabilities[:, columns[0]], probabilities[:, columns[1]]
    one, other = (
        _Steps.of(
            sample,
            probabilities[:, column],
            class_events[column],
            alpha / sample.n_classes,
            n_rows,
            only_kuiper=True,
        )
        for column in columns
    )

    def swapped(degree: float) -> float:
        return max(one.power(p + degree * (q - p), normal), other.power(q + degree * (p - q), normal))

    return [
        _in_degrees(ONE_CLASS, units[0], lambda degree: one.power((1 - degree) * p, normal)),
        _in_degrees(SWAPPED, units[1], swapped),
    ]


def _in_probability(name: str, event: _Steps, change: Change, normal: Matrix) -> Detectable:
    """Return the power against mean errors in points."""
    share = event.weight / event.weight.sum()

    def size(degree: float) -> float:
        return float(share @ np.abs(change(degree) - event.probability))

    largest = size(1.0)

    def power(degree: float) -> float:
        return event.power(change(degree), normal)

    def power_at(wanted: float) -> float:
        return power(_first(lambda degree: size(degree) >= wanted))

    powers = tuple(power_at(wanted) if wanted <= largest else None for wanted in SIZES)
    smallest = size(_first(lambda degree: power(degree) >= POWER)) if power(1.0) >= POWER else None
    return Detectable(name, "mean error of the probability", SIZES, powers, smallest)


def _in_degrees(name: str, unit: str, power: Callable[[float], float]) -> Detectable:
    powers = tuple(power(degree) for degree in DEGREES)
    smallest = _first(lambda degree: power(degree) >= POWER) if powers[-1] >= POWER else None
    return Detectable(name, unit, DEGREES, powers, smallest)


def _first(holds: Callable[..., bool]) -> float:
    """Return the smallest degree at which something holds that holds at 1, by bisection."""
    low, high = 0.0, 1.0
    while high - low > TOLERANCE * high and high > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
