"""What the numbers promise: levels of tests, coverage of intervals and power of the verdict, by simulation.

Usage::

    python benchmarks/promises.py --results promises.jsonl [--only verdict] [--simulations 400] [--minutes 30]
    python benchmarks/promises.py --results promises.jsonl --page docs/promises.md

Every cell is a claim in a scenario. The results are appended to a file after each batch of simulations, so an interrupted run
continues where it stopped. ``--page`` writes the page of the documentation from that file, without new simulations.
"""

import argparse
import json
import re
import time
import warnings
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from calibrant import AutoCalibration, LabelledPredictions, WithIntervals
from calibrant.errors import ParameterError
from calibrant.hypothesis_tests import (
    calibration_slope_intercept,
    consistency_test,
    cumulative_test,
    discrete_score_test,
    hosmer_lemeshow_test,
    kernel_test,
    spiegelhalter_test,
)
from calibrant.intervals import bootstrap, clopper_pearson, decision_curve, loss_difference
from calibrant.metrics import brier_score, calibration_error_lower_bound, confidence_ece, debiased_ece
from calibrant.registry import make
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.evidence import evidence_of
from calibrant.report.method_selection import select_method
from calibrant.report.verdict import status_of
from calibrant.streaming import JackknifeSums

Array = NDArray[Any]
BATCH = 20


class Rows(NamedTuple):
    """Predictions, the true probabilities, labels drawn from these, and perhaps weights and groups."""

    p: Array
    truth: Array
    y: Array
    weights: Array | None = None
    groups: Array | None = None

    @property
    def side(self) -> dict[str, Any]:
        """The keyword arguments for weights and groups."""
        return {"sample_weight": self.weights, "groups": self.groups}


def drawn(generator: np.random.Generator, truth: Array, groups: Array | None = None) -> Array:
    """Draw labels; rows of a group share half of the variance of a normal score, so that they are dependent."""
    if groups is None:
        u = generator.random(len(truth))
    else:
        common = generator.normal(size=groups.max() + 1)[groups]
        u = norm.cdf(0.7 * common + np.sqrt(1 - 0.49) * generator.normal(size=len(groups)))
    return np.minimum((u[:, np.newaxis] > truth.cumsum(axis=1)).sum(axis=1), truth.shape[1] - 1)


def of_event(p: Array) -> Array:
    """Return both columns of two classes."""
    return np.column_stack([1 - p, p])


def softmax(z: Array) -> Array:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def sizes(n_groups: int, share: float, n_rows: int) -> Array:
    """Return the group of every row; the first group has the given share of the rows."""
    first = round(share * n_rows)
    return np.concatenate([np.zeros(first, dtype=int), 1 + np.arange(n_rows - first) % (n_groups - 1)])


# Fifteen groups of 2 to 120 rows, effectively eight.
UNEQUAL = np.repeat(np.arange(15), [120, 90, 70, 50, 40, 30, 20, 15, 10, 8, 6, 5, 4, 3, 2])


def uniform(generator: np.random.Generator, n: int) -> Array:
    return of_event(generator.uniform(0.001, 0.999, n))


def rare(generator: np.random.Generator, n: int, rate: float = 1 / 200) -> Array:
    logits = generator.normal(size=n)
    return of_event(np.minimum(np.exp(logits - 0.5) * rate, 0.9))


def ten_scores(generator: np.random.Generator, n: int) -> Array:
    return of_event(generator.choice((np.arange(10) + 0.5) / 10, n))


def certain(generator: np.random.Generator, n: int) -> Array:
    p = np.clip(generator.beta(0.3, 0.02, n), 1e-6, 1 - 1e-6)
    return of_event(np.where(generator.random(n) < 0.5, p, 1 - p))


def heavy(generator: np.random.Generator, n: int) -> Array:
    p = np.maximum(softmax(2 * generator.standard_t(1.5, size=(n, 2))), 1e-9)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def dirichlet(generator: np.random.Generator, n: int, k: int, alpha: float = 0.5) -> Array:
    p = np.maximum(generator.dirichlet(np.full(k, alpha), n), 1e-9)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def rounded(generator: np.random.Generator, n: int, decimals: int) -> Array:
    p = np.round(softmax(2.5 * generator.normal(size=(n, 3))), decimals)
    p = np.maximum(p, 10.0**-decimals)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def imbalanced(generator: np.random.Generator, n: int) -> Array:
    return softmax(np.array([3.0, 1.0, 0.0, -1.0, -2.0]) + 1.2 * generator.normal(size=(n, 5)))


Draw = Callable[[np.random.Generator], Rows]


def independent(make: Callable[..., Array], **options: Any) -> Draw:
    def draw(generator: np.random.Generator) -> Rows:
        p = make(generator, **options)
        return Rows(p, p, drawn(generator, p))

    return draw


def weighted(make: Callable[..., Array], spread: float, **options: Any) -> Draw:
    def draw(generator: np.random.Generator) -> Rows:
        p = make(generator, **options)
        return Rows(p, p, drawn(generator, p), generator.lognormal(0, spread, len(p)))

    return draw


def grouped(make: Callable[..., Array], groups: Array, *, dependent: bool, **options: Any) -> Draw:
    def draw(generator: np.random.Generator) -> Rows:
        p = make(generator, n=len(groups), **options)
        return Rows(p, p, drawn(generator, p, groups if dependent else None), None, groups)

    return draw


CALIBRATED: dict[str, Draw] = {
    "two classes, 40 rows": independent(uniform, n=40),
    "two classes, 1,000 rows": independent(uniform, n=1000),
    "ten distinct scores, 200 rows": independent(ten_scores, n=200),
    "1:200, 1,000 rows": independent(rare, n=1000),
    "1:200, 1,500 rows": independent(rare, n=1500),
    "near-deterministic, 200 rows": independent(certain, n=200),
    "heavy tails, two classes, 40 rows": independent(heavy, n=40),
    "heavy tails, two classes, 500 rows": independent(heavy, n=500),
    "4 classes, 50 rows": independent(dirichlet, n=50, k=4),
    "4 classes, 200 rows": independent(dirichlet, n=200, k=4),
    "4 classes, 600 rows": independent(dirichlet, n=600, k=4),
    "5 imbalanced classes, 500 rows": independent(imbalanced, n=500),
    "40 classes, 1,000 rows": independent(dirichlet, n=1000, k=40, alpha=0.1),
    "rounded to 3 decimals, 500 rows": independent(rounded, n=500, decimals=3),
    "rounded to 6 decimals, 500 rows": independent(rounded, n=500, decimals=6),
    "log-normal weights (1), 500 rows": weighted(uniform, 1.0, n=500),
    "log-normal weights (1.5), 4 classes, 500 rows": weighted(dirichlet, 1.5, n=500, k=4),
    "1:200 with log-normal weights (1), 1,000 rows": weighted(rare, 1.0, n=1000),
    "60 equal groups, dependent, 600 rows": grouped(uniform, np.arange(600) % 60, dependent=True),
    "15 equal groups, dependent, 450 rows": grouped(uniform, np.arange(450) % 15, dependent=True),
    "15 unequal groups, dependent, 473 rows": grouped(uniform, UNEQUAL, dependent=True),
    "20 groups, one with 70 %, independent rows": grouped(uniform, sizes(20, 0.7, 600), dependent=False),
    "20 groups, one with 70 %, dependent rows": grouped(uniform, sizes(20, 0.7, 600), dependent=True),
    "60 groups, one with 50 %, independent rows": grouped(uniform, sizes(60, 0.5, 600), dependent=False),
    "60 groups, one with 50 %, dependent rows": grouped(uniform, sizes(60, 0.5, 600), dependent=True),
}


# Claims. Each function returns whether the claim held (True is a rejection for a test, the truth inside for an interval),
# or None if the result makes no claim: a caution, a note, or no interval.

Outcome = bool | None
Trial = Callable[[np.random.Generator], Outcome]


@dataclass(frozen=True)
class Cell:
    """One claim in one scenario."""

    claim: str
    scenario: str
    nominal: float
    kind: str  # "level", "coverage", "power", or "measured" where no claim is made
    trial: Trial
    simulations: int = 400

    @property
    def key(self) -> str:
        return f"{self.claim} | {self.scenario}"


def claimed_level(found: Any) -> Outcome:
    return None if found.caution else bool(found.p_value <= 0.05)


def rejected(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    parsed = EvaluationSet.parse(rows.y, rows.p, rows.weights, rows.groups)
    return bool(evidence_without_power(parsed).p_value <= 0.05)


def evidence_without_power(rows: EvaluationSet) -> Any:
    """Return the evidence without its simulation of power, which does not affect p-values."""
    with mock.patch("calibrant.report.evidence.detectable_errors", return_value=()):
        return evidence_of(rows, rows, 0.95, 0)


def called_calibrated(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    parsed = EvaluationSet.parse(rows.y, rows.p, rows.weights, rows.groups)
    return status_of(parsed, evidence_of(parsed, parsed, 0.95, 0), 0.95) == "calibrated"


def tested(test: Callable[..., Any], draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    try:
        return claimed_level(test(rows.y, rows.p, sample_weight=rows.weights))
    except ParameterError:
        return None


def without_claim(found: Any) -> bool:
    return found.note is not None or bool(np.isnan(found.low))


def joint_slope(y: Array, p: Array, **options: Any) -> Any:
    return calibration_slope_intercept(y, p, interval="wald", **options).joint_test


def blunted(p: Array) -> Array:
    """Return other predictions of the same rows, for differences: log-probabilities times 0.7, the last class favoured."""
    q = p**0.7
    q[:, -1] *= 1.5
    return np.asarray(q / q.sum(axis=1, keepdims=True))


def expected_difference(truth: Array, p: Array, q: Array) -> float:
    return float((truth * (np.log(p) - np.log(q))).sum(axis=1).mean())


@cache
def long_run(draw: Draw) -> tuple[float, float]:
    """Return the expected difference of log-losses and the expected Brier score of a scenario."""
    many = [draw(np.random.default_rng([99, number])).p for number in range(400)]
    p = np.concatenate(many)
    brier = (p * (1 - p)).sum(axis=1).mean() / (2 if p.shape[1] == 2 else 1)
    return expected_difference(p, p, blunted(p)), float(brier)


def difference_covered(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    found = loss_difference(rows.y, rows.p, blunted(rows.p), **rows.side)
    return None if without_claim(found) else long_run(draw)[0] in found


def bootstrap_covered(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    found = bootstrap(brier_score, rows.y, rows.p, n_resamples=400, **rows.side)
    return None if without_claim(found) else long_run(draw)[1] in found


def error_covered(
    metric: Any, options: dict[str, Any], draw: Draw, generator: np.random.Generator
) -> Outcome:
    """Return whether an interval of an error holds zero, the error of calibrated predictions."""
    rows = draw(generator)
    found = bootstrap(metric, rows.y, rows.p, n_resamples=400, **rows.side, **options)
    return None if without_claim(found) else 0.0 in found


def slope_covered(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    slope = calibration_slope_intercept(rows.y, rows.p, sample_weight=rows.weights).slope
    return bool(slope.low <= 1 <= slope.high) if np.isfinite(slope.value) else None


def ece_test(y: Array, p: Array, **options: Any) -> Any:
    return consistency_test(confidence_ece, y, p, n_resamples=99, **options)


def bound_exceeds(draw: Draw, generator: np.random.Generator) -> Outcome:
    """Return whether the lower bound is above zero, the error of calibrated predictions."""
    rows = draw(generator)
    return calibration_error_lower_bound(rows.y, rows.p, sample_weight=rows.weights).limit > 0


THRESHOLDS = np.array([0.05, 0.1, 0.3, 0.5, 0.7, 0.9])


@cache
def long_run_benefit(draw: Draw) -> Array:
    p = np.concatenate([draw(np.random.default_rng([97, number])).p[:, 1] for number in range(400)])
    odds = THRESHOLDS / (1 - THRESHOLDS)
    gains = p[:, np.newaxis] - (1 - p[:, np.newaxis]) * odds
    return np.asarray((gains * (p[:, np.newaxis] >= THRESHOLDS)).mean(axis=0))


def benefit_covered(draw: Draw, generator: np.random.Generator) -> float:
    """Return the share of thresholds whose interval of the net benefit holds its expectation."""
    rows = draw(generator)
    found = decision_curve(rows.y, rows.p, thresholds=THRESHOLDS, sample_weight=rows.weights)
    truth = long_run_benefit(draw)
    return float(((found.low <= truth) & (truth <= found.high)).mean())


def discrete_rejects(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    return bool(discrete_score_test(rows.y, rows.p).test.p_value <= 0.05)


def jackknife_covered(metric: Any, truth: float, draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    data = LabelledPredictions.parse(rows.p, rows.y, rows.weights)
    (found,) = JackknifeSums([metric]).update(data, generator.integers(0, 100, len(rows.y))).results()
    if not found.has_interval:
        return None
    low, high = found.interval()
    return bool(low <= truth <= high)


def long_run_brier(draw: Draw, generator: np.random.Generator) -> Outcome:
    return jackknife_covered(brier_score, long_run(draw)[1], draw, generator)


def distorted(p: Array, power: float) -> Array:
    q = p**power
    return np.asarray(q / q.sum(axis=1, keepdims=True))


def gain_on_new_rows(predict: Callable[[Array], Array], draw: Draw, power: float) -> float:
    """Return the expected reduction of the log-loss by a fitted map."""
    truth = np.concatenate([draw(np.random.default_rng([98, number])).p for number in range(10)])
    given = distorted(truth, power)
    return expected_difference(truth, np.maximum(predict(given), 1e-300), given)


def auto_covered(draw: Draw, power: float, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    fitted = AutoCalibration().fit(distorted(rows.p, power), rows.y)
    ends = re.findall(r"interval (\S+) to (\S+),", fitted.explanation_)
    if not ends:
        return None
    low, high = map(float, ends[0])
    # The sentence has four decimals.
    return bool(low - 5e-5 <= gain_on_new_rows(fitted.predict_proba, draw, power) <= high + 5e-5)


def auto_better(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    return "significantly better" in AutoCalibration().fit(rows.p, rows.y).explanation_


def report_gain_covered(draw: Draw, power: float, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    parsed = EvaluationSet.parse(rows.y, distorted(rows.p, power), rows.weights, rows.groups)
    selection = select_method(parsed, None, 5, 0.95, 0, None)
    if selection.gain is None or np.isnan(selection.gain.low):
        return None
    calibrator = selection.calibrator
    made = make(calibrator) if isinstance(calibrator, str) else calibrator
    fitted = made.fit_labelled(parsed.data)
    gain = gain_on_new_rows(fitted.predict_proba, draw, power)
    return bool(-selection.gain.high <= gain <= -selection.gain.low)


def probability_covered(
    method: str, n: int, k: int, way: str, truth_of: Callable[[Array], Array], generator: np.random.Generator
) -> float | None:
    """Return the share of probabilities of new rows that are in their intervals."""
    p = softmax(generator.normal(size=(n + 50, k)) * 2)
    truth = truth_of(p)
    y = drawn(generator, truth[:n])
    if len(np.unique(y)) < k:
        return None
    fitted = WithIntervals(method, way, n_draws=200 if way == "auto" else 60).fit(p[:n], y)
    if way == "auto" and fitted.caution_:
        return None
    low, high = fitted.predict_interval(p[n:])
    return float(((low <= truth[n:]) & (truth[n:] <= high)).mean())


def beta_map(p: Array) -> Array:
    return of_event(expit(2 * np.log(p[:, 1]) - 0.5 * np.log(p[:, 0]) + 0.3))


def dirichlet_map(p: Array) -> Array:
    weights = np.array([[0.9, -0.2, 0.1], [0.2, 0.6, -0.3], [-0.1, 0.3, 0.8]])
    return softmax(np.log(p) @ weights.T + np.array([0.3, 0.0, -0.3]))


def tempered(p: Array) -> Array:
    return distorted(p, 0.7)


def shifted_map(p: Array) -> Array:
    return softmax(0.7 * np.log(p) + np.array([-1.0, 0.0, 1.0]))


def wave_map(p: Array) -> Array:
    return softmax(np.log(p) + 0.8 * np.sin(2 * np.log(p)))


def with_error(kind: str, k: int, n: int) -> Draw:
    """Return rows whose true probabilities differ from the predicted ones."""

    def draw(generator: np.random.Generator) -> Rows:
        if kind == "two classes swapped":
            p = softmax(1.5 * generator.normal(size=(n, k)))
            truth = p.copy()
            truth[:, [0, 1]] = p[:, [1, 0]]
            return Rows(p, truth, drawn(generator, truth))
        p = softmax(1.5 * generator.normal(size=(n, k)))
        order = np.argsort(np.argsort(p[:, -1]))
        if kind == "over-confident":
            truth = distorted(p, 1 / 1.4)
        elif kind == "under-confident":
            truth = distorted(p, 1.4)
        else:
            sign = np.ones(n) if kind == "shifted by 6 points" else np.where(order * 6 // n % 2 == 0, 1, -1)
            size = 0.06 if kind == "shifted by 6 points" else 0.08
            last = np.clip(p[:, -1] + size * sign, 0.001, 0.999)
            truth = p * ((1 - last) / (1 - p[:, -1]))[:, np.newaxis]
            truth[:, -1] = last
        return Rows(p, truth, drawn(generator, truth))

    return draw


def with_groups(kind: str, groups: Array) -> Draw:
    """Return independent rows with an error, in groups, whose independence is not known."""
    draw = with_error(kind, 2, len(groups))
    return lambda generator: draw(generator)._replace(groups=groups)


def is_grouped(scenario: str) -> bool:
    return "groups" in scenario


def is_multiclass(scenario: str) -> bool:
    return "rounded" in scenario or ("classes" in scenario and "two classes" not in scenario)


def cells() -> Iterator[Cell]:
    """Yield all cells, the claims about verdicts and gains first."""
    two = independent(uniform, n=200)
    for scenario, draw in CALIBRATED.items():
        slow = is_multiclass(scenario)
        yield Cell(
            "verdict: miscalibrated", scenario, 0.05, "level", partial(rejected, draw), 200 if slow else 400
        )
    for kind in ("over-confident", "under-confident", "shifted by 6 points", "waves of 8 points"):
        for k in (2, 4):
            draw = with_error(kind, k, 500)
            yield Cell(
                "verdict: power", f"{kind}, {k} classes, 500 rows", 1.0, "power", partial(rejected, draw), 200
            )
    for name, groups in (
        ("60 equal groups", np.arange(600) % 60),
        ("20 groups, one with 70 %", sizes(20, 0.7, 600)),
    ):
        for kind in ("over-confident", "under-confident", "shifted by 6 points"):
            trial = partial(rejected, with_groups(kind, groups))
            yield Cell("verdict: power", f"{kind}, {name}, 600 rows", 1.0, "power", trial, 200)
    for kind, k, n in (("waves of 8 points", 2, 1500), ("two classes swapped", 40, 1500)):
        draw = with_error(kind, k, n)
        yield Cell(
            "verdict: calibrated despite an error",
            f"{kind}, {k} classes, 1,500 rows",
            0.2,
            "level",
            partial(called_calibrated, draw),
            200,
        )
    for method, n, k, truth_of in (
        ("temperature", 100, 3, tempered),
        ("temperature", 200, 3, tempered),
        ("temperature", 500, 10, tempered),
        ("vector", 200, 3, shifted_map),
        ("vector", 500, 3, shifted_map),
        ("bias-corrected-temperature", 200, 3, shifted_map),
        ("matrix", 500, 3, dirichlet_map),
        ("dirichlet", 200, 3, dirichlet_map),
        ("dirichlet", 500, 3, dirichlet_map),
        ("platt", 100, 2, tempered),
        ("platt", 500, 2, tempered),
        ("beta", 100, 2, beta_map),
        ("beta", 200, 2, beta_map),
        ("beta", 500, 2, beta_map),
        ("beta-ab", 200, 2, tempered),
        ("ets", 200, 3, tempered),
        ("temperature+vector", 200, 3, shifted_map),
    ):
        trial = partial(probability_covered, method, n, k, "auto", truth_of)
        yield Cell("WithIntervals", f"{method}, {k} classes, {n} rows", 0.95, "coverage", trial, 200)
    for method, n, k, way, truth_of in (
        ("dirichlet-l2", 200, 3, "laplace", dirichlet_map),
        ("dirichlet-l2", 500, 3, "laplace", dirichlet_map),
        ("structured-vector", 200, 3, "laplace", shifted_map),
        ("gp", 200, 2, "own", tempered),
        ("isotonic", 200, 2, "bootstrap", tempered),
        ("isotonic", 200, 2, "bootstrap", wave_map),
        ("frequency-binning", 500, 2, "bootstrap", wave_map),
    ):
        trial = partial(probability_covered, method, n, k, way, truth_of)
        name = {tempered: "a temperature", wave_map: "waves", shifted_map: "shifts"}.get(
            truth_of, "its family"
        )
        scenario = f"{method}, {way}, truth: {name}, {k} classes, {n} rows"
        yield Cell("WithIntervals, method named", scenario, 0.95, "measured", trial, 200)
    for scenario, draw in CALIBRATED.items():
        trial = partial(difference_covered, draw)
        number = 400 if "40 classes" in scenario else 1000
        yield Cell("loss_difference", scenario, 0.95, "coverage", trial, number)
    for scenario, draw in CALIBRATED.items():
        yield Cell("bootstrap, percentile", scenario, 0.95, "coverage", partial(bootstrap_covered, draw))
    signed = partial(debiased_ece, signed=True)
    for scenario, draw in CALIBRATED.items():
        trial = partial(error_covered, signed, {})
        yield Cell(
            "bootstrap of the squared debiased_ece", scenario, 0.95, "coverage", partial(trial, draw), 200
        )
    for scenario in ("two classes, 1,000 rows", "4 classes, 600 rows", "40 classes, 1,000 rows"):
        draw = CALIBRATED[scenario]
        for claim, kind, options in (
            ("bootstrap of confidence_ece", "coverage", {}),
            ("bootstrap of confidence_ece, uncorrected", "measured", {"uncorrected": True}),
        ):
            trial = partial(error_covered, confidence_ece, options, draw)
            yield Cell(claim, scenario, 0.95, kind, trial, 200)
    tests: dict[str, Callable[..., Any]] = {
        "cumulative_test": cumulative_test,
        "spiegelhalter_test": spiegelhalter_test,
        "hosmer_lemeshow_test": hosmer_lemeshow_test,
        "calibration_slope_intercept": joint_slope,
        "consistency_test, confidence_ece": ece_test,
    }
    independent_rows = {name: draw for name, draw in CALIBRATED.items() if not is_grouped(name)}
    for name, test in tests.items():
        for scenario, draw in independent_rows.items():
            number = 400 if "consistency" in name else 1000
            yield Cell(name, scenario, 0.05, "level", partial(tested, test, draw), number)
    for scenario, draw in independent_rows.items():
        trial = partial(slope_covered, draw)
        yield Cell("calibration_slope_intercept: interval of the slope", scenario, 0.95, "coverage", trial)
    for scenario, draw in independent_rows.items():
        trial = partial(bound_exceeds, draw)
        yield Cell("calibration_error_lower_bound above zero", scenario, 0.05, "level", trial, 200)
    for scenario, draw in independent_rows.items():
        if not is_multiclass(scenario):
            trial = partial(benefit_covered, draw)
            yield Cell("decision_curve", scenario, 0.95, "coverage", trial)
    trial = partial(discrete_rejects, CALIBRATED["ten distinct scores, 200 rows"])
    yield Cell("discrete_score_test", "ten distinct scores, 200 rows", 0.05, "level", trial)
    for method in ("resampling", "wild", "block"):
        test = partial(kernel_test, method=method, n_resamples=199)
        for scenario, draw in independent_rows.items():
            number = 200 if "40 classes" in scenario else 400
            yield Cell(f"kernel_test, {method}", scenario, 0.05, "level", partial(tested, test, draw), number)
    signed = partial(debiased_ece, signed=True, strategy="uniform")
    for scenario in ("two classes, 1,000 rows", "4 classes, 600 rows", "40 classes, 1,000 rows"):
        draw = CALIBRATED[scenario]
        for name, trial in (
            ("jackknife, Brier score", partial(long_run_brier, draw)),
            ("jackknife, confidence_ece", partial(jackknife_covered, confidence_ece, 0.0, draw)),
            ("jackknife, debiased_ece", partial(jackknife_covered, signed, 0.0, draw)),
        ):
            yield Cell(name, scenario, 0.95, "coverage", trial)
    for scenario in ("4 classes, 50 rows", "4 classes, 200 rows", "4 classes, 600 rows"):
        draw = CALIBRATED[scenario]
        yield Cell("AutoCalibration: gain", scenario, 0.95, "coverage", partial(auto_covered, draw, 1.0), 200)
    yield Cell(
        "AutoCalibration: gain",
        "two classes, 200 rows",
        0.95,
        "coverage",
        partial(auto_covered, two, 1.0),
        200,
    )
    yield Cell(
        "AutoCalibration: gain",
        "over-confident, two classes, 200 rows",
        0.95,
        "coverage",
        partial(auto_covered, two, 2.0),
        200,
    )
    yield Cell(
        "AutoCalibration: significantly better",
        "two classes, 200 rows",
        0.025,
        "level",
        partial(auto_better, two),
        200,
    )
    for scenario in (
        "two classes, 1,000 rows",
        "1:200, 1,500 rows",
        "near-deterministic, 200 rows",
        "heavy tails, two classes, 40 rows",
        "heavy tails, two classes, 500 rows",
        "4 classes, 200 rows",
        "60 equal groups, dependent, 600 rows",
    ):
        draw = CALIBRATED[scenario]
        trial = partial(report_gain_covered, draw, 1.0)
        yield Cell("report: adjusted gain", scenario, 0.95, "coverage", trial, 200)
    trial = partial(report_gain_covered, two, 2.0)
    yield Cell("report: adjusted gain", "over-confident, two classes, 200 rows", 0.95, "coverage", trial, 200)


class Count(NamedTuple):
    """Simulations of a cell: how many made a claim, in how many it held, and in how many none was made."""

    claims: int = 0
    held: float = 0.0
    withheld: int = 0
    seconds: float = 0.0

    @property
    def total(self) -> int:
        return self.claims + self.withheld


def stored(path: Path) -> dict[str, Count]:
    """Return the sums of all batches in a file of results."""
    found: dict[str, Count] = defaultdict(Count)
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            batch = json.loads(line)
            numbers = (batch["claims"], batch["held"], batch["withheld"], batch["seconds"])
            found[batch["cell"]] = Count(
                *(old + new for old, new in zip(found[batch["cell"]], numbers, strict=True))
            )
    return dict(found)


def simulate(cell: Cell, first: int, number: int) -> Count:
    start, claims, held, withheld = time.process_time(), 0, 0.0, 0
    for place in range(first, first + number):
        outcome = cell.trial(np.random.default_rng([zlib.crc32(cell.key.encode()), place]))
        if outcome is None:
            withheld += 1
        else:
            claims, held = claims + 1, held + float(outcome)
    return Count(claims, held, withheld, time.process_time() - start)


# A cell on the wrong side of its limits is simulated again, this many times as often.
IN_DOUBT = 5


def wanted(cell: Cell, count: Count) -> int:
    """Return the number of simulations of a cell, which is larger if the first ones leave its claim in doubt."""
    in_doubt = count.total > cell.simulations or (
        count.total == cell.simulations and not is_kept(cell, count)
    )
    return IN_DOUBT * cell.simulations if in_doubt else cell.simulations


def run(path: Path, only: str, minutes: float, most: int) -> None:
    """Simulate all cells in rounds, until the time is used up."""
    chosen = [cell for cell in cells() if only in cell.key]
    done, end = stored(path), time.monotonic() + 60 * minutes
    for limit in (100, 200, 400, 1000, IN_DOUBT * 1000):
        for cell in chosen:
            while (count := done.get(cell.key, Count())).total < min(limit, wanted(cell, count), most):
                if time.monotonic() > end:
                    return
                batch = simulate(cell, count.total, BATCH)
                done[cell.key] = Count(*(old + new for old, new in zip(count, batch, strict=True)))
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"cell": cell.key, **batch._asdict()}) + "\n")


NAMES = {"level": "rejected", "coverage": "covered", "power": "rejected", "measured": "covered"}


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def is_kept(cell: Cell, count: Count) -> bool:
    """Return whether the nominal share is within exact 95 % limits, or on the safe side of them."""
    if cell.kind in ("power", "measured") or count.claims == 0:
        return True
    low, high = clopper_pearson(round(count.held), count.claims, 0.95)
    return bool(low <= cell.nominal if cell.kind == "level" else high >= cell.nominal)


def table(chosen: list[Cell], done: dict[str, Count]) -> list[str]:
    kind = chosen[0].kind
    heading = "called calibrated" if "despite" in chosen[0].claim else NAMES[kind]
    lines = [
        f"| scenario | nominal | {heading} | simulations | no claim made |",
        "|---|---|---|---|---|",
    ]
    for cell in chosen:
        count = done.get(cell.key, Count())
        nominal = (
            ""
            if kind in ("power", "measured")
            else f"{'at most ' if kind == 'level' else ''}{100 * cell.nominal:g} %"
        )
        if count.total == 0:
            lines.append(f"| {cell.scenario} | {nominal} | not run | 0 | |")
            continue
        share = ""
        if count.claims:
            low, high = clopper_pearson(round(count.held), count.claims, 0.95)
            bold = "" if is_kept(cell, count) else "**"
            ends = f"({100 * float(low):.1f} to {100 * float(high):.1f})"
            share = f"{bold}{percent(count.held / count.claims)}{bold} {ends}"
        withheld = percent(count.withheld / count.total) if count.withheld else ""
        lines.append(f"| {cell.scenario} | {nominal} | {share} | {count.total} | {withheld} |")
    return lines


def worst(chosen: list[Cell], done: dict[str, Count]) -> str:
    """Return a sentence on the cell that is furthest on the wrong side."""
    measured = [
        (cell, done[cell.key]) for cell in chosen if cell.key in done and done[cell.key].claims >= MIN_CLAIMS
    ]
    if not measured:
        return ""
    sign = 1 if chosen[0].kind == "level" else -1
    cell, count = max(measured, key=lambda pair: sign * pair[1].held / pair[1].claims)
    return f"Worst case: {percent(count.held / count.claims)}, {cell.scenario}."


# With fewer simulations in which a claim was made its share is not a useful number.
MIN_CLAIMS = 40

INTRODUCTION = """# What the numbers promise

Every p-value promises a level, and every interval a coverage. This page shows both by simulation, in scenarios that
are easy and in scenarios that are not: few rows, rare events, ten distinct scores, rounded probabilities, log-normal
weights, dependent rows in groups of equal and of very unequal size, near-deterministic predictions, heavy tails, and
up to 40 classes. All predictions are calibrated by construction unless the scenario says otherwise.

Some results make no claim where none would be true: a test has a `caution`, or there is no interval and a `note` says
why. The last column is the share of such simulations. The other numbers are shares of the simulations in which a
claim is made, with exact 95 % limits. A share in bold is on the wrong side of the nominal one by more than these limits.
By chance alone that happens in up to one of forty rows, so a row that is bold after the first simulations is simulated five
times as often, and the limits are those of all its simulations.

`python benchmarks/promises.py --results promises.jsonl` runs the simulations and continues where it stopped; with
`--page docs/promises.md` it writes this page.
"""

OTHERS = """## Simulated elsewhere

- `python benchmarks/questions.py`: thresholds of selective prediction ({doc}`selective_prediction`), subgroup tests with their
  family-wise error ({doc}`subgroups`), the calibration belt and the exact test of discrete scores ({doc}`hypothesis_tests`).
- `python benchmarks/online.py`: false alarms of {class}`calibrant.online.CalibrationMonitor`, see
  {doc}`measurements/shift_and_streams`.
- `python benchmarks/label_shift.py`: intervals of shifted class frequencies ({doc}`label_shift`).
- `make test-slow`: levels of all tests.
"""


def page(done: dict[str, Count]) -> str:
    by_claim: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells():
        by_claim[cell.claim].append(cell)
    every = list(cells())
    totals = [done.get(cell.key, Count()).total for cell in every]
    short = sum(
        done.get(cell.key, Count()).total < wanted(cell, done.get(cell.key, Count())) for cell in every
    )
    least = min((total for total in totals if total), default=0)
    extent = (
        "A complete run has 400 simulations in each cell, 1,000 of closed forms, and 200 where a fit is slow. This run was\n"
        f"stopped early: of {len(every)} cells, {totals.count(0)} were not run, and {short - totals.count(0)} have fewer "
        f"simulations, at least\n{least}. The limits show what such numbers can tell.\n"
        if short
        else ""
    )
    parts = [INTRODUCTION, *([extent] if extent else [])]
    for claim, chosen in by_claim.items():
        remark = ABOUT.get(claim, "")
        sentence = "" if chosen[0].kind in ("power", "measured") else worst(chosen, done)
        ending = f"\n\n{sentence}" if sentence else ""
        rows = "\n".join(table(chosen, done))
        about = f"\n\n{remark}" if remark else ""
        title = f"`{claim}`" if "_" in claim else f"{claim[0].upper()}{claim[1:]}"
        parts.append(f"## {title}{about}{ending}\n\n{rows}\n")
    seconds = sum(count.seconds for count in done.values())
    total = sum(count.total for count in done.values())
    parts.append(OTHERS)
    parts.append(f"{total:,} simulations took {seconds / 60:.0f} minutes of CPU time.\n")
    return "\n".join(parts)


ABOUT = {
    "verdict: miscalibrated": "How often {func}`calibrant.assess` calls calibrated predictions miscalibrated.",
    "verdict: power": "How often it calls miscalibrated predictions miscalibrated. A high share is good.",
    "verdict: calibrated despite an error": "How often it calls them calibrated although the error is relevant.",
    "AutoCalibration: gain": "The interval in `explanation_`, for the gain of the fitted maps on new rows.",
    "AutoCalibration: significantly better": "How often `explanation_` calls the gain on calibrated predictions significant.",
    "report: adjusted gain": "The interval of the recommended method's gain, for the map fitted to all rows.",
    "WithIntervals": (
        "{class}`calibrant.WithIntervals`: the share of probabilities of new rows in their intervals, where the family contains "
        "the true map. Rows of one set are covered or missed together, so the limits are only rough."
    ),
    "WithIntervals, method named": (
        "The coverage that intervals would have where `caution_` gives a reason, and which need the name of a method."
    ),
    "loss_difference": (
        "{func}`calibrant.intervals.loss_difference` of the log-loss, for two fixed predictions. With very unequal weights the "
        "coverage is only approximate, as its notes say."
    ),
    "spiegelhalter_test": "The level is approximate, as the notes of {func}`calibrant.hypothesis_tests.spiegelhalter_test` say.",
    "bootstrap of the squared debiased_ece": "{func}`calibrant.intervals.bootstrap`, with `signed=True`; the true value is zero.",
    "bootstrap of confidence_ece": "Errors that are positive by noise alone have no interval.",
    "bootstrap of confidence_ece, uncorrected": "The reason: the coverage that they would have.",
    "calibration_error_lower_bound above zero": "The true error is zero, so that a positive bound is wrong.",
    "decision_curve": "Intervals of the net benefit at the thresholds 0.05, 0.1, 0.3, 0.5, 0.7 and 0.9, each by itself.",
    "bootstrap, percentile": (
        "{func}`calibrant.intervals.bootstrap` of the Brier score, 400 resamples. The coverage is approximate, as its notes say."
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--only", default="", help="run cells whose name contains this")
    parser.add_argument("--simulations", type=int, default=1000, help="at most this many in each cell")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--page", type=Path, help="write the page from the results, without simulations")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.page is None:
        run(options.results, options.only, options.minutes, options.simulations)
    text = page(stored(options.results))
    if options.page is not None:
        options.page.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
