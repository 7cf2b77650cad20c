"""Claims of :mod:`promises`: what each interval, test and verdict says, and whether it held in a simulated data set."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
from promises_power import POWER, evidence_without_power, parsed, rejects
from promises_scenarios import (
    CALIBRATED,
    FRESH,
    PLAIN,
    UNGROUPED,
    Array,
    Draw,
    beta_map,
    dirichlet_map,
    distorted,
    drawn,
    in_tenths,
    independent,
    is_grouped,
    of_last_class,
    shifted_map,
    softmax,
    tempered,
    uniform,
    wave_map,
    with_error,
)

from calibrant import AutoCalibration, LabelledPredictions, LabelShift, WithIntervals
from calibrant.errors import LabelError, ParameterError
from calibrant.hypothesis_tests import (
    calibration_belt,
    calibration_slope_intercept,
    classwise_cumulative_tests,
    consistency_test,
    cumulative_test,
    discrete_score_test,
    hosmer_lemeshow_test,
    kernel_test,
    spiegelhalter_test,
    subgroup_calibration,
)
from calibrant.intervals import (
    bootstrap,
    clopper_pearson,
    decision_curve,
    loss_difference,
    paired_bootstrap,
    selection_threshold,
)
from calibrant.metrics import brier_score, calibration_error_lower_bound, confidence_ece, debiased_ece
from calibrant.online import CalibrationMonitor
from calibrant.plots.reliability.curve import reliability_curve
from calibrant.ranking import bonferroni_dunn_test, friedman_test, nemenyi_test, wilcoxon_holm
from calibrant.registry import make
from calibrant.report.evaluation_set import gap_estimate
from calibrant.report.evidence import evidence_of, main_event
from calibrant.report.method_selection import select_method
from calibrant.report.verdict import status_of
from calibrant.streaming import JackknifeSums

# Whether the claim held (True is a rejection for a test, the truth inside for an interval), a share of several such claims,
# or None if the result makes no claim: a caution, a note, or no interval.
Outcome = bool | float | None
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
    subject: str = ""  # cells with the same subject see the same data

    @property
    def key(self) -> str:
        return f"{self.claim} | {self.scenario}"


def cells_of(
    kind: str,
    claim: str,
    trial: Any,
    draws: dict[str, Draw],
    simulations: int = 400,
    nominal: float | None = None,
    subject: str = "",
) -> Iterator[Cell]:
    """Yield the cells of a test at the 5 % level, or of a 95 % interval, one for each scenario."""
    share = {"level": 0.05, "coverage": 0.95}[kind] if nominal is None else nominal
    for scenario, draw in draws.items():
        common = f"{subject} | {scenario}" if subject else ""
        yield Cell(claim, scenario, share, kind, partial(trial, draw), simulations, common)


level_cells, coverage_cells = partial(cells_of, "level"), partial(cells_of, "coverage")

# Results that two cells share are kept until the second one asks for them.
shared = lru_cache(maxsize=20_000)


# Tests


def claimed_level(found: Any) -> Outcome:
    return None if found.caution else bool(found.p_value <= 0.05)


def tested(test: Callable[..., Any], draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    try:
        return claimed_level(test(rows.y, rows.p, sample_weight=rows.weights))
    except ParameterError:
        return None


def simulated(test: Callable[..., Any], draw: Draw, generator: np.random.Generator) -> Outcome:
    """As ``tested``, for tests that draw random numbers: a seed in common would repeat its error in all simulations."""
    rows = draw(generator)
    return claimed_level(test(rows.y, rows.p, sample_weight=rows.weights, random_state=generator))


def joint_slope(y: Array, p: Array, **options: Any) -> Any:
    return calibration_slope_intercept(y, p, interval="wald", **options).joint_test


def any_class(draw: Draw, generator: np.random.Generator) -> Outcome:
    """Return whether any class is rejected; no claim if some class has a caution."""
    rows = draw(generator)
    found = classwise_cumulative_tests(rows.y, rows.p, sample_weight=rows.weights)
    if any(test.caution for test in found.results):
        return None
    return bool(min(found.adjusted_p_values) <= 0.05)


def belt_rejects(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    try:
        return claimed_level(calibration_belt(rows.y, rows.p, n_points=2).test)
    except (LabelError, ParameterError):
        return None


def belt_covers(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    try:
        found = calibration_belt(rows.y, rows.p, n_points=5)
    except (LabelError, ParameterError):
        return None
    if found.test.caution:
        return None
    return not (found.below_diagonal.any() or found.above_diagonal.any())


def discrete_rejects(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    return bool(discrete_score_test(rows.y, rows.p).test.p_value <= 0.05)


@shared
def _subgroups(draw: Draw, seed: int) -> tuple[bool, bool]:
    """Return whether any segment is rejected, and whether all intervals hold zero: expected frequency minus prediction."""
    generator = np.random.default_rng(seed)
    rows = draw(generator)
    n = len(rows.y)
    columns = {"site": generator.integers(0, 5, n), "age": generator.normal(size=n)}
    options: dict[str, Any] = {"depth": 2, "n_resamples": 199, "min_rows": 10, "random_state": generator}
    found = subgroup_calibration(rows.y, rows.p, columns, sample_weight=rows.weights, **options)
    return bool(found.rejected), bool(((found.low <= 0) & (found.high >= 0)).all())


def seed_of(generator: np.random.Generator) -> int:
    return int(generator.integers(2**31))


def subgroup_rejects(draw: Draw, generator: np.random.Generator) -> Outcome:
    return _subgroups(draw, seed_of(generator))[0]


def subgroups_covered(draw: Draw, generator: np.random.Generator) -> Outcome:
    return _subgroups(draw, seed_of(generator))[1]


def bound_exceeds(draw: Draw, generator: np.random.Generator) -> Outcome:
    """Return whether the lower bound is above zero, the error of calibrated predictions."""
    rows = draw(generator)
    return calibration_error_lower_bound(rows.y, rows.p, sample_weight=rows.weights).limit > 0


# Intervals


def without_claim(found: Any) -> bool:
    return found.note is not None or bool(np.isnan(found.low))


def blunted(p: Array) -> Array:
    """Return other predictions of the same rows, for differences: log-probabilities times 0.7, the last class favoured."""
    q = p**0.7
    q[:, -1] *= 1.5
    return np.asarray(q / q.sum(axis=1, keepdims=True))


def expected_difference(truth: Array, p: Array, q: Array) -> float:
    return float((truth * (np.log(p) - np.log(q))).sum(axis=1).mean())


def expected_brier(truth: Array, p: Array) -> float:
    """Return the expected Brier score, halved for two classes."""
    squares = (p**2).sum(axis=1) - 2 * (truth * p).sum(axis=1) + 1
    return float(squares.mean()) / (2 if p.shape[1] == 2 else 1)


@cache
def many_rows(draw: Draw, seed: int = 99, number: int = 400) -> Array:
    """Return the predictions of many data sets of a scenario."""
    return np.concatenate([draw(np.random.default_rng([seed, one])).p for one in range(number)])


@cache
def long_run(draw: Draw) -> tuple[float, float, float]:
    """Return the expected difference of log-losses, the expected Brier score, and the difference of expected Brier scores."""
    p = many_rows(draw)
    q = blunted(p)
    brier = expected_brier(p, p)
    return expected_difference(p, p, q), brier, expected_brier(p, q) - brier


def difference_covered(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    found = loss_difference(rows.y, rows.p, blunted(rows.p), **rows.side)
    return None if without_claim(found) else long_run(draw)[0] in found


RESAMPLING: dict[str, Any] = {"n_resamples": 199}


def bootstrap_covered(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    found = bootstrap(brier_score, rows.y, rows.p, random_state=generator, **RESAMPLING, **rows.side)
    return None if without_claim(found) else long_run(draw)[1] in found


def paired_covered(draw: Draw, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    options = {**RESAMPLING, **rows.side, "random_state": generator}
    found = paired_bootstrap(brier_score, rows.y, rows.p, blunted(rows.p), **options)
    return None if without_claim(found) else long_run(draw)[2] in found


def error_covered(
    metric: Any, options: dict[str, Any], draw: Draw, generator: np.random.Generator
) -> Outcome:
    """Return whether an interval of an error holds zero, the error of calibrated predictions."""
    rows = draw(generator)
    found = bootstrap(metric, rows.y, rows.p, random_state=generator, **RESAMPLING, **rows.side, **options)
    return None if without_claim(found) else 0.0 in found


@shared
def _line(draw: Draw, seed: int) -> tuple[bool, bool] | None:
    """Return whether the intervals hold the true slope, one, and the true intercept, zero."""
    rows = draw(np.random.default_rng(seed))
    found = calibration_slope_intercept(rows.y, rows.p, sample_weight=rows.weights)
    slope, intercept = found.slope, found.intercept
    if not np.isfinite(slope.value):
        return None
    return bool(slope.low <= 1 <= slope.high), bool(intercept.low <= 0 <= intercept.high)


def coefficient_covered(place: int, draw: Draw, generator: np.random.Generator) -> Outcome:
    found = _line(draw, seed_of(generator))
    return None if found is None else found[place]


THRESHOLDS = np.array([0.05, 0.1, 0.3, 0.5, 0.7, 0.9])


@cache
def long_run_benefit(draw: Draw) -> Array:
    p = many_rows(draw)[:, 1, np.newaxis]
    gains = p - (1 - p) * THRESHOLDS / (1 - THRESHOLDS)
    return np.asarray((gains * (p >= THRESHOLDS)).mean(axis=0))


def benefit_covered(draw: Draw, generator: np.random.Generator) -> Outcome:
    """Return the share of thresholds whose interval of the net benefit holds its expectation."""
    rows = draw(generator)
    found = decision_curve(rows.y, rows.p, thresholds=THRESHOLDS, sample_weight=rows.weights)
    truth = long_run_benefit(draw)
    return float(((found.low <= truth) & (truth <= found.high)).mean())


def bins_covered(mode: str, draw: Draw, generator: np.random.Generator) -> Outcome:
    """Return the share of bins whose interval holds its mean: of the outcomes, or of outcomes drawn from the scores."""
    rows = draw(generator)
    found = reliability_curve(
        rows.y, rows.p, sample_weight=rows.weights, n_bins=5, strategy="quantile", n_resamples=0
    )
    used = found.count > 0
    if mode == "confidence":
        inside = (found.low <= found.mean_score) & (found.mean_score <= found.high)
    else:
        inside = (found.consistency_low <= found.mean_outcome) & (
            found.mean_outcome <= found.consistency_high
        )
    return float(inside[used].mean())


def gap_covered(draw: Draw, generator: np.random.Generator) -> Outcome:
    """Return whether the interval of the mean probability minus the frequency of the main event holds zero."""
    rows = draw(generator)
    given = parsed(rows)
    utility, _ = main_event(given)
    prospect = utility.prospect(given.predictions)
    is_event = np.asarray(prospect.realised(given.data.labels)) > 0
    found = gap_estimate("gap", prospect.expected, is_event, given, 0.95, "")
    return None if found.low is None or found.high is None else bool(found.low <= 0 <= found.high)


def proportion_covered(n: int, p: float, generator: np.random.Generator) -> Outcome:
    low, high = clopper_pearson(int(generator.binomial(n, p)), n, 0.95)
    return bool(low <= p <= high)


def jackknife_covered(metric: Any, truth: float, rows: Any, generator: np.random.Generator) -> Outcome:
    data = LabelledPredictions.parse(rows.p, rows.y, rows.weights)
    (found,) = JackknifeSums([metric]).update(data, generator.integers(0, 100, len(rows.y))).results()
    low, high = found.interval()
    return None if np.isnan(low) else bool(low <= truth <= high)


def jackknifed_brier(draw: Draw, generator: np.random.Generator) -> Outcome:
    return jackknife_covered(brier_score, long_run(draw)[1], draw(generator), generator)


def jackknifed_error(metric: Any, draw: Draw, generator: np.random.Generator) -> Outcome:
    return jackknife_covered(metric, 0.0, draw(generator), generator)


# Verdict


def called_calibrated(draw: Draw, generator: np.random.Generator) -> Outcome:
    given = parsed(draw(generator))
    if evidence_without_power(given).p_value <= 0.05:
        return False
    return status_of(given, evidence_of(given, given, 0.95, 0), 0.95) == "calibrated"


@shared
def _sizes(draw: Draw, seed: int) -> dict[str, float | None]:
    """Return the smallest error of each kind that is detected with a power of 80 %, as the headline says."""
    given = parsed(draw(np.random.default_rng(seed)))
    return {one.kind: one.smallest for one in evidence_of(given, given, 0.95, 0).detectable}


def detected(kind: str, draw: Draw, generator: np.random.Generator) -> Outcome:
    """Return whether an error of the smallest size that the headline calls detectable is found."""
    seed = seed_of(generator)
    rows, size = draw(np.random.default_rng(seed)), _sizes(draw, seed).get(kind)
    if size is None:
        return None
    truth = rows.p.copy()
    event = rows.p[:, 1]
    if kind == "over-confidence":
        degree = first(lambda one: float(np.abs(distorted(rows.p, 1 - one)[:, 1] - event).mean()) >= size)
        truth = distorted(rows.p, 1 - degree)
    else:
        place = np.argsort(np.argsort(event, kind="stable")) * 6 // len(event)
        sign = (
            np.where(place % 2 == 0, 1.0, -1.0) if kind == "waves" else 1.0 if event.mean() <= 0.5 else -1.0
        )
        degree = first(lambda one: float(np.abs(np.clip(event + sign * one, 0, 1) - event).mean()) >= size)
        truth[:, 1] = np.clip(event + sign * degree, 0, 1)
        truth[:, 0] = 1 - truth[:, 1]
    changed = rows._replace(y=drawn(generator, truth))
    return bool(evidence_without_power(parsed(changed)).p_value <= 0.05)


def first(holds: Callable[[float], bool]) -> float:
    """Return the smallest number up to one for which something holds, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


# Calibrators


def gain_on_new_rows(predict: Callable[[Array], Array], draw: Draw, power: float) -> float:
    """Return the expected reduction of the log-loss by a fitted map."""
    truth = many_rows(draw, 98, 10)
    given = distorted(truth, power)
    return expected_difference(truth, np.maximum(predict(given), 1e-300), given)


@shared
def _auto(draw: Draw, power: float, seed: int) -> tuple[bool | None, bool]:
    """Return whether the interval of the gain holds the gain on new rows, and whether the gain is called significant."""
    rows = draw(np.random.default_rng(seed))
    fitted = AutoCalibration().fit(distorted(rows.p, power), rows.y, sample_weight=rows.weights)
    better = "significantly better" in fitted.explanation_
    ends = re.findall(r"interval (\S+) to (\S+),", fitted.explanation_)
    if not ends:
        return None, better
    low, high = map(float, ends[0])
    # The sentence has four decimals.
    return bool(low - 5e-5 <= gain_on_new_rows(fitted.predict_proba, draw, power) <= high + 5e-5), better


def auto_covered(power: float, draw: Draw, generator: np.random.Generator) -> Outcome:
    return _auto(draw, power, seed_of(generator))[0]


def auto_better(draw: Draw, generator: np.random.Generator) -> Outcome:
    return _auto(draw, 1.0, seed_of(generator))[1]


def report_gain_covered(draw: Draw, power: float, generator: np.random.Generator) -> Outcome:
    rows = draw(generator)
    given = parsed(rows._replace(p=distorted(rows.p, power)))
    selection = select_method(given, None, 5, 0.95, 0, None)
    if selection.gain is None or np.isnan(selection.gain.low):
        return None
    calibrator = selection.calibrator
    made = make(calibrator) if isinstance(calibrator, str) else calibrator
    fitted = made.fit_labelled(given.data)
    gain = gain_on_new_rows(fitted.predict_proba, draw, power)
    return bool(-selection.gain.high <= gain <= -selection.gain.low)


NEW_ROWS = 50


def inside(fitted: WithIntervals, p: Array, truth: Array) -> float:
    low, high = fitted.predict_interval(p)
    return float(((low <= truth) & (truth <= high)).mean())


def probability_covered(
    method: Any, n: int, k: int, way: Any, truth_of: Callable[[Array], Array], generator: np.random.Generator
) -> Outcome:
    """Return the share of probabilities of new rows that are in their intervals."""
    p = softmax(generator.normal(size=(n + NEW_ROWS, k)) * 2)
    truth = truth_of(p)
    y = drawn(generator, truth[:n])
    if len(np.unique(y)) < k:
        return None
    fitted = WithIntervals(method, way, n_draws=60, random_state=generator)
    fitted.fit(p[:n], y)
    if way == "auto" and fitted.caution_:
        return None
    return inside(fitted, p[n:], truth[n:])


def tempered_covered(draw: Draw, generator: np.random.Generator) -> Outcome:
    """Return the same for temperature scaling, with the predictions of a scenario."""
    rows, new = draw(generator), draw(generator)
    y = drawn(generator, tempered(rows.p))
    if len(np.unique(y)) < rows.p.shape[1]:
        return None
    fitted = WithIntervals("temperature", random_state=generator).fit(rows.p, y)
    return None if fitted.caution_ else inside(fitted, new.p[:NEW_ROWS], tempered(new.p[:NEW_ROWS]))


def repeated_choice(n_draws: int, k: int, n: int, generator: np.random.Generator) -> Outcome:
    """Return the share of probabilities within the range of refits of ``auto`` that repeat its choice.

    With random weights of the rows; the range of 39 refits contains a further one with a probability of 95 %.
    """
    p = softmax(generator.normal(size=(n + NEW_ROWS, k)) * 2)
    truth = tempered(p)
    y = drawn(generator, truth[:n])
    draws = np.array(
        [
            AutoCalibration()
            .fit(p[:n], y, sample_weight=generator.standard_exponential(n))
            .predict_proba(p[n:])
            for _ in range(n_draws)
        ]
    )
    return float(((draws.min(axis=0) <= truth[n:]) & (truth[n:] <= draws.max(axis=0))).mean())


# Selection, shift and streams


@cache
def long_run_risk(draw: Draw) -> tuple[Array, Array]:
    """Return confidences in decreasing order, and the sums of the risks of all rows above each, per row."""
    confidence = np.sort(many_rows(draw).max(axis=1))[::-1]
    return confidence, np.cumsum(1 - confidence) / len(confidence)


def accepted_and_wrong(draw: Draw, threshold: float) -> tuple[float, float]:
    """Return the expected share of rows above a threshold, and of rows above it that are wrong."""
    confidence, risk = long_run_risk(draw)
    number = int(np.searchsorted(-confidence, -threshold, side="left"))
    return number / len(confidence), float(risk[number - 1]) if number else 0.0


def risk_exceeded(draw: Draw, generator: np.random.Generator) -> Outcome:
    """Return whether the error rate above the threshold exceeds the limit, half of the error rate of all rows."""
    rows = draw(generator)
    limit = 0.5 * accepted_and_wrong(draw, -1.0)[1]
    found = selection_threshold(rows.y, rows.p, max_risk=limit)
    if found.n_accepted == 0:
        return None
    share, wrong = accepted_and_wrong(draw, found.threshold)
    return wrong > limit * share


def conformal_wrong(draw: Draw, generator: np.random.Generator) -> Outcome:
    """Return the share of rows that are accepted and wrong, over its limit times 0.05."""
    rows = draw(generator)
    limit = 0.5 * accepted_and_wrong(draw, -1.0)[1]
    found = selection_threshold(rows.y, rows.p, max_risk=limit, method="conformal")
    return 0.05 * accepted_and_wrong(draw, found.threshold if found.n_accepted else 1.0)[1] / limit


@shared
def _shift(draw: Draw, seed: int) -> tuple[float, bool] | None:
    """Return the share of classes whose interval holds the true prior, and whether the shift model is rejected."""
    generator = np.random.default_rng(seed)
    source, pool = draw(generator), draw(generator)
    k = source.p.shape[1]
    if np.bincount(source.y, minlength=k).min() < 2:
        return None
    wanted = generator.dirichlet(np.full(k, 3.0))
    # Rows of the pool are kept with probabilities in proportion to the ratio of the priors.
    ratio = wanted / many_rows(draw).mean(axis=0)
    kept = generator.random(len(pool.y)) < (ratio / ratio.max())[pool.y]
    if kept.sum() < 20:
        return None
    prior = (ratio / ratio.max()) * many_rows(draw).mean(axis=0)
    prior = prior / prior.sum()
    fitted = LabelShift(random_state=generator).fit(source.p, source.y)
    found = fitted.estimate(pool.p[kept])
    return float(((found.lower <= prior) & (prior <= found.upper)).mean()), bool(found.p_value <= 0.05)


def prior_covered(draw: Draw, generator: np.random.Generator) -> Outcome:
    found = _shift(draw, seed_of(generator))
    return None if found is None else found[0]


def shift_rejected(draw: Draw, generator: np.random.Generator) -> Outcome:
    found = _shift(draw, seed_of(generator))
    return None if found is None else found[1]


def false_alarm(kind: Any, draw: Draw, generator: np.random.Generator) -> Outcome:
    """Return whether a stream of calibrated forecasts raises an alarm; that of a change may in one of twenty streams."""
    rows = draw(generator)
    weights = None if rows.weights is None else rows.weights / rows.weights.max()
    monitor = CalibrationMonitor(kind, run_length=20 * len(rows.y), classes=range(rows.p.shape[1]))
    return bool(monitor.update(rows.y, rows.p, weights).alarm)


# Rankings of methods that are equally good


def ranked(
    test: Callable[[Array], bool], methods: int, tasks: int, shape: str, generator: np.random.Generator
) -> Outcome:
    if shape == "heavy tails":
        table = generator.standard_t(1.5, (tasks, methods))
    else:
        table = generator.normal(size=(tasks, methods)) * generator.lognormal(size=(tasks, 1))
    if shape == "ties":
        table = np.round(table)
    return test(table)


RANKINGS: dict[str, Callable[[Array], bool]] = {
    "friedman_test, chi-square": lambda table: friedman_test(table).p_value <= 0.05,
    "friedman_test, F": lambda table: friedman_test(table).f_p_value <= 0.05,
    "nemenyi_test, any pair": lambda table: bool((nemenyi_test(table).p_values <= 0.05).any()),
    "bonferroni_dunn_test, any method": lambda table: bool(
        (np.delete(bonferroni_dunn_test(table, 0).p_values, 0) <= 0.05).any()
    ),
    "wilcoxon_holm, any pair": lambda table: bool((wilcoxon_holm(table).p_values <= 0.05).any()),
}
TABLES = [
    (methods, tasks, shape)
    for methods, tasks in ((3, 6), (3, 20), (5, 10), (5, 30), (10, 20))
    for shape in ("normal", "heavy tails", "ties")
]


# Cells

GAINS = {
    name: draw
    for name, draw in UNGROUPED.items()
    if name
    not in ("40 classes, 1,000 rows", "1:200, 1,000 rows", "log-normal weights (1.5), 4 classes, 500 rows")
}


def cells() -> Iterator[Cell]:
    """Yield all cells, those on the same subject together."""
    yield from verdict_cells()
    yield from interval_cells()
    yield from test_cells()
    yield from calibrator_cells()
    yield from stream_cells()
    for name, test in RANKINGS.items():
        for methods, tasks, shape in TABLES:
            trial = partial(ranked, test, methods, tasks, shape)
            yield Cell(name, f"{methods} methods, {tasks} tasks, {shape}", 0.05, "level", trial)
    yield from fresh_cells()


def verdict_cells() -> Iterator[Cell]:
    for scenario, draw in CALIBRATED.items():
        number = 200 if scenario.startswith("40 classes") else 400
        yield Cell("verdict: miscalibrated", scenario, 0.05, "level", partial(rejects, draw), number)
    yield from power_cells()
    draws = {
        **{
            f"waves of 8 points, {k} classes, {n:,} rows": with_error("waves of 8 points", k, n)
            for k, n in ((2, 1500), (2, 3000), (4, 1500), (10, 1500))
        },
        **{
            f"two classes swapped, {k} classes, {n:,} rows": with_error("two classes swapped", k, n)
            for k, n in ((4, 500), (10, 1500), (40, 1500))
        },
        **{
            f"{kind}, {k} classes, {n:,} rows": with_error(kind, k, n)
            for kind in ("shifted by 6 points", "over-confident")
            for k, n in ((2, 500), (2, 1500), (4, 1500), (10, 1500))
        },
    }
    for scenario, draw in draws.items():
        trial = partial(called_calibrated, draw)
        yield Cell("verdict: calibrated despite an error", scenario, 0.2, "level", trial, 200)
    for name in (
        "two classes, 1,000 rows",
        "ten distinct scores, 200 rows",
        "heavy tails, two classes, 500 rows",
        "log-normal weights (1), 500 rows",
        "60 equal groups, dependent, 600 rows",
    ):
        for kind in ("constant shift", "over-confidence", "waves"):
            trial = partial(detected, kind, CALIBRATED[name])
            scenario = f"{kind}, {name}"
            yield Cell("headline: detectable error", scenario, 0.8, "coverage", trial, 200, f"size | {name}")


def power_cells(claim: str = "verdict: power") -> Iterator[Cell]:
    """Yield the cells of the power; those of another tree see the same data."""
    yield from cells_of("power", claim, rejects, POWER, nominal=1.0, subject="power")


def interval_cells() -> Iterator[Cell]:
    yield from coverage_cells("loss_difference", difference_covered, CALIBRATED)
    yield from coverage_cells("bootstrap", bootstrap_covered, CALIBRATED)
    yield from coverage_cells("paired_bootstrap", paired_covered, CALIBRATED)
    squared = partial(error_covered, partial(debiased_ece, signed=True), {})
    yield from coverage_cells("bootstrap of the squared debiased_ece", squared, CALIBRATED, 200)
    few = {name: CALIBRATED[name] for name in ("two classes, 1,000 rows", "4 classes, 600 rows")}
    yield from coverage_cells(
        "bootstrap of confidence_ece", partial(error_covered, confidence_ece, {}), few, 40
    )
    for scenario, draw in few.items():
        trial = partial(error_covered, confidence_ece, {"uncorrected": True}, draw)
        yield Cell("bootstrap of confidence_ece, uncorrected", scenario, 0.95, "measured", trial)
    yield from coverage_cells("jackknife, Brier score", jackknifed_brier, UNGROUPED)
    signed = partial(jackknifed_error, partial(debiased_ece, signed=True, strategy="uniform"))
    yield from coverage_cells("jackknife, squared debiased_ece", signed, UNGROUPED)
    yield from coverage_cells("jackknife, confidence_ece", partial(jackknifed_error, confidence_ece), few, 40)
    yield from coverage_cells("report: gap of means", gap_covered, CALIBRATED)
    binary = {name: of_last_class(draw) for name, draw in UNGROUPED.items()}
    yield from coverage_cells("decision_curve", benefit_covered, binary)
    yield from coverage_cells("reliability_curve, confidence", partial(bins_covered, "confidence"), UNGROUPED)
    yield from coverage_cells(
        "reliability_curve, consistency", partial(bins_covered, "consistency"), UNGROUPED
    )
    for n in (10, 50, 200, 1000):
        for p in (0.003, 0.02, 0.2, 0.5):
            trial = partial(proportion_covered, n, p)
            yield Cell("clopper_pearson", f"{n:,} rows, a rate of {p:g}", 0.95, "coverage", trial)
    yield from level_cells("selection_threshold, clopper-pearson", risk_exceeded, PLAIN)
    yield from level_cells("selection_threshold, conformal", conformal_wrong, PLAIN)


def test_cells() -> Iterator[Cell]:
    for name, test in {
        "cumulative_test": cumulative_test,
        "spiegelhalter_test": spiegelhalter_test,
        "hosmer_lemeshow_test": hosmer_lemeshow_test,
        "calibration_slope_intercept": joint_slope,
    }.items():
        yield from level_cells(name, partial(tested, test), UNGROUPED)
    yield from level_cells("classwise_cumulative_tests, any class", any_class, UNGROUPED)
    for place, name in enumerate(("slope", "intercept")):
        claim = f"calibration_slope_intercept: interval of the {name}"
        yield from coverage_cells(claim, partial(coefficient_covered, place), UNGROUPED, subject="line")
    ece = partial(consistency_test, confidence_ece, n_resamples=99)
    yield from level_cells("consistency_test, confidence_ece", partial(simulated, ece), UNGROUPED)
    for method in ("resampling", "wild", "block"):
        test = partial(simulated, partial(kernel_test, method=method, n_resamples=39))
        for scenario, draw in UNGROUPED.items():
            number = 200 if scenario.startswith("40 classes") else 400
            yield from level_cells(f"kernel_test, {method}", test, {scenario: draw}, number)
    yield from level_cells("calibration_error_lower_bound above zero", bound_exceeds, UNGROUPED, 200)
    yield from level_cells("calibration_belt", belt_rejects, PLAIN)
    yield from coverage_cells("calibration_belt: complete belt", belt_covers, PLAIN, 200)
    yield from level_cells(
        "subgroup_calibration, any segment", subgroup_rejects, UNGROUPED, subject="segments"
    )
    claim = "subgroup_calibration: all intervals"
    yield from coverage_cells(claim, subgroups_covered, UNGROUPED, subject="segments")
    tenths = {f"{name}, in tenths": in_tenths(draw) for name, draw in PLAIN.items()}
    yield from level_cells("discrete_score_test", discrete_rejects, tenths)


def calibrator_cells() -> Iterator[Cell]:
    for method, n, k, truth_of in (
        ("temperature", 100, 3, tempered),
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
        number = 200 if method in ("ets", "temperature+vector") else 400
        yield Cell("WithIntervals", f"{method}, {k} classes, {n} rows", 0.95, "coverage", trial, number)
    yield from coverage_cells("WithIntervals of temperature", tempered_covered, PLAIN)
    for method, n, k, way, truth_of in (
        ("dirichlet-l2", 200, 3, "laplace", dirichlet_map),
        ("dirichlet-l2", 500, 3, "laplace", dirichlet_map),
        ("structured-vector", 200, 3, "laplace", shifted_map),
        ("gp", 200, 2, "own", tempered),
        ("isotonic", 200, 2, "bootstrap", tempered),
        ("isotonic", 200, 2, "bootstrap", wave_map),
        ("frequency-binning", 500, 2, "bootstrap", wave_map),
        ("auto", 200, 2, "bootstrap", tempered),
        ("auto", 200, 3, "bootstrap", shifted_map),
    ):
        trial = partial(probability_covered, method, n, k, way, truth_of)
        name = {tempered: "a temperature", wave_map: "waves", shifted_map: "shifts"}.get(
            truth_of, "its family"
        )
        scenario = f"{method}, {way}, truth: {name}, {k} classes, {n} rows"
        number = 100 if method == "auto" else 200
        yield Cell("WithIntervals, method named", scenario, 0.95, "measured", trial, number)
    scenario = "auto, 39 refits that repeat its choice, truth: a temperature, 2 classes, 200 rows"
    trial = partial(repeated_choice, 39, 2, 200)
    yield Cell("WithIntervals, method named", scenario, 0.95, "measured", trial, 40)
    two = independent(uniform, n=200)
    over = "over-confident, two classes, 200 rows"
    trial = partial(auto_covered, 2.0, two)
    yield Cell("AutoCalibration: gain", over, 0.95, "coverage", trial, 200)
    for scenario, draw in GAINS.items():
        one = {scenario: draw}
        claim = "AutoCalibration: significantly better"
        covered = partial(auto_covered, 1.0)
        yield from coverage_cells("AutoCalibration: gain", covered, one, 200, subject="auto")
        yield from level_cells(claim, auto_better, one, 200, 0.025, subject="auto")
    for scenario, draw, power in [
        *[(name, draw, 1.0) for name, draw in GAINS.items()],
        ("60 equal groups, dependent, 600 rows", CALIBRATED["60 equal groups, dependent, 600 rows"], 1.0),
        (over, two, 2.0),
    ]:
        trial = partial(report_gain_covered, draw, power)
        yield Cell("report: adjusted gain", scenario, 0.95, "coverage", trial, 200)
    yield from coverage_cells("LabelShift: class prior", prior_covered, PLAIN, 200, subject="shift")
    yield from level_cells("LabelShift: other changes", shift_rejected, PLAIN, 200, subject="shift")


def stream_cells() -> Iterator[Cell]:
    for kind in ("any-time", "change"):
        yield from level_cells(f"CalibrationMonitor, {kind}", partial(false_alarm, kind), UNGROUPED)


def fresh_cells() -> Iterator[Cell]:
    ungrouped = {name: draw for name, draw in FRESH.items() if not is_grouped(name)}
    plain = {name: draw for name, draw in ungrouped.items() if "weights" not in name}
    yield from level_cells("fresh: verdict", rejects, FRESH)
    yield from coverage_cells("fresh: loss_difference", difference_covered, FRESH)
    yield from coverage_cells("fresh: bootstrap", bootstrap_covered, FRESH)
    yield from coverage_cells("fresh: gap of means", gap_covered, FRESH)
    for name, test in {
        "fresh: cumulative_test": cumulative_test,
        "fresh: spiegelhalter_test": spiegelhalter_test,
        "fresh: calibration_slope_intercept": joint_slope,
    }.items():
        yield from level_cells(name, partial(tested, test), ungrouped)
    yield from coverage_cells("fresh: WithIntervals of temperature", tempered_covered, plain)
    yield from level_cells("fresh: selection_threshold", risk_exceeded, plain)
