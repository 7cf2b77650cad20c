"""Quadratic scaling: closed forms, optimum under the guard, what lies beyond, ridge, and hard rows."""

from math import exp, inf, log, nan

import numpy as np
import pytest
from event_map_rows import calibrated, fit_log_odds, rows_that_follow
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, logit

from calibrant import OneVsRest, PlattScaling, Predictions, QuadraticScaling, TemperatureScaling
from calibrant.calibrators import parametric
from calibrant.calibrators.scaling.quadratic import LEAST_SLOPE
from calibrant.errors import ConvergenceWarning, ParameterError
from calibrant.metrics import log_loss
from calibrant.objective import ArrayRows, Family, QuadraticPenalty
from calibrant.solvers import Solution, Status
from data import load
from strategies import labels_with_all_classes, logit_matrices


def some_rows(n_rows=400, seed=0, bend=-0.15):
    """Log-odds, and outcomes drawn from a parabola of them that turns within their range."""
    return rows_that_follow(lambda s: 0.2 + 0.6 * s + bend * s**2, 0.3, 2.0, n_rows, seed)


def fit(log_odds, outcomes, weights=None, **options):
    return fit_log_odds(QuadraticScaling(**options), log_odds, outcomes, weights)


def coefficients(fitted):
    return np.array([fitted.intercept_, fitted.slope_, fitted.curvature_])


# A second implementation, one row at a time


def naive_value(theta, scores, outcomes, weights, ridge, steepness):
    """Mean loss plus ridge, with coefficients of the scores as they are."""
    b, w1, w2 = theta
    total = 0.0
    for s, outcome, weight in zip(scores, outcomes, weights, strict=True):
        u = b + w1 * s + w2 * s**2
        total += weight * log(1 + exp(-u if outcome else u))
    penalty = b**2 + (w1 / steepness - 1) ** 2 + (w2 / steepness**2) ** 2
    return (total + ridge * penalty) / sum(weights)


@pytest.mark.parametrize("temperature", [True, False])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("bend", [-0.15, -0.02, 0.15])
def test_the_fit_is_the_constrained_optimum_of_plain_loops(temperature, monotone, bend):
    log_odds, outcomes = some_rows(150, bend=bend)
    weights = np.random.default_rng(1).uniform(1, 3, 150)
    fitted = fit(log_odds, outcomes, weights, temperature=temperature, monotone=monotone, ridge=0.7)
    steepness = 1 / fitted.temperature_
    assert (steepness == 1) == (not temperature)
    arguments = log_odds, outcomes, weights, 0.7, steepness
    theta = coefficients(fitted)
    assert fitted.solution_.value == pytest.approx(naive_value(theta, *arguments), rel=1e-11)
    # The least slope is a share of that of the best temperature, or of the identity if that is flatter.
    best_steepness = 1 / fit(log_odds, outcomes, weights).temperature_
    least = LEAST_SLOPE * min(best_steepness, 1.0 if not temperature else inf)
    ends = np.array([log_odds.min(), log_odds.max()])
    guard = {"type": "ineq", "fun": lambda t: t[1] + 2 * t[2] * ends - least}
    best = minimize(
        naive_value,
        [0.0, 0.5, 0.0],
        arguments,
        method="SLSQP",
        constraints=[guard] if monotone else [],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert best.success
    assert fitted.solution_.value == pytest.approx(best.fun, rel=1e-9)
    np.testing.assert_allclose(theta, best.x, atol=1e-4)
    slopes = theta[1] + 2 * theta[2] * ends
    if monotone:
        assert slopes.min() >= least * (1 - 1e-9)
        assert (slopes.min() < 1.001 * least) == (abs(bend) > 0.1)  # the strong bends turn within the range
    else:
        assert (slopes.min() < 0) == (abs(bend) > 0.1)


@pytest.mark.parametrize("weighted", [True, False])
def test_derivatives_are_those_of_finite_differences(weighted):
    log_odds, outcomes = some_rows(80)
    weights = np.random.default_rng(1).uniform(0.5, 2, 80) if weighted else None
    features = np.stack([np.ones(80), log_odds, log_odds**2])
    strengths = np.array([[1.0, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 2.0]])
    penalty = QuadraticPenalty(np.zeros(3), np.array([0.1, 1.0, 0.0]), strengths)
    family = Family.of_event(lambda _: features.T, np.zeros(3), np.full(3, -inf), penalty_in_rows=penalty)
    objective = family.objective(ArrayRows(features.T, outcomes.astype(np.float64), weights))
    theta = np.array([-0.4, 0.7, 0.05])
    at = objective.second_order(theta)
    np.testing.assert_allclose(
        approx_fprime(theta, lambda t: objective.second_order(t).value, 1e-7), at.gradient, atol=1e-6
    )
    np.testing.assert_allclose(
        approx_fprime(theta, lambda t: objective.second_order(t).gradient, 1e-7), at.hessian, atol=1e-5
    )
    row_weights = np.ones(80) if weights is None else weights
    u = theta @ features
    losses = [log(1 + exp(-v if happened else v)) for v, happened in zip(u, outcomes, strict=True)]
    away = theta - [0.1, 1.0, 0.0]
    expected = (row_weights @ losses + away @ strengths @ away) / row_weights.sum()
    assert at.value == pytest.approx(expected, rel=1e-12)
    assert objective.penalty.value(theta) == pytest.approx(
        away @ strengths @ away / row_weights.sum(), rel=1e-12
    )


# Closed forms


def test_three_points_are_met_exactly_without_a_ridge():
    """Odds 9, 1 and 1/9 become 3, 1/2 and 1/15: three equations for the three coefficients."""
    p = [0.9] * 4 + [0.5] * 3 + [0.1] * 16
    fitted = QuadraticScaling(ridge=0).fit(p, [1, 1, 1, 0] + [1, 0, 0] + [1] + [0] * 15)
    scores = np.log([9, 1, 1 / 9])
    expected = np.linalg.solve(np.vander(scores, 3, increasing=True), np.log([3, 1 / 2, 1 / 15]))
    np.testing.assert_allclose(coefficients(fitted), expected, rtol=1e-7)
    np.testing.assert_allclose(fitted.predict_proba([0.9, 0.5, 0.1])[:, 1], [3 / 4, 1 / 3, 1 / 16], rtol=1e-8)


def test_two_gaussians_of_unequal_variance_are_its_home():
    """Events N(1, 1.5^2), others N(-1, 1), equal priors; the log-ratio of densities is a parabola.

    u = s^2 (1/2 - 1/(2 v)) + s (1/v + 1) + 1/2 - 1/(2 v) - log(v)/2 with v = 2.25.
    """
    s = np.linspace(-9, 9, 1201)
    v = 2.25
    events = np.exp(-((s - 1) ** 2) / (2 * v)) / np.sqrt(v)
    others = np.exp(-((s + 1) ** 2) / 2)
    weights = np.concatenate([others, events]) * 1e4
    fitted = fit(np.tile(s, 2), np.repeat([0, 1], 1201), weights, ridge=0, monotone=False)
    expected = [0.5 - 0.5 / v - log(v) / 2, 1 / v + 1, 0.5 - 0.5 / v]
    np.testing.assert_allclose(coefficients(fitted), expected, rtol=1e-5)


def test_with_an_overwhelming_ridge_it_is_temperature_scaling_or_the_identity():
    log_odds, outcomes = some_rows()
    scaled = TemperatureScaling().fit(Predictions.from_logits(log_odds), outcomes)
    stiff = fit(log_odds, outcomes, ridge=1e9)
    assert stiff.temperature_ == pytest.approx(scaled.temperature_, rel=1e-6)
    np.testing.assert_allclose(calibrated(stiff, log_odds), log_odds / scaled.temperature_, atol=1e-5)
    same = fit(log_odds, outcomes, ridge=1e9, temperature=False)
    np.testing.assert_allclose(calibrated(same, log_odds), log_odds, atol=1e-5)


def test_on_two_scores_without_a_ridge_it_agrees_with_platt_scaling():
    """A parabola through two points is not determined, but its values there are those of the line."""
    p, outcomes = [0.8] * 10 + [0.3] * 10, [1] * 7 + [0] * 3 + [1] * 4 + [0] * 6
    fitted = QuadraticScaling(ridge=0).fit(p, outcomes)
    platt = PlattScaling().fit(p, outcomes)
    np.testing.assert_allclose(fitted.predict_proba(p), platt.predict_proba(p), atol=1e-6)


def test_without_a_guard_and_a_ridge_the_temperature_does_not_matter():
    log_odds, outcomes = some_rows()
    first, second = (
        fit(log_odds, outcomes, ridge=0, monotone=False, temperature=temperature)
        for temperature in (True, False)
    )
    np.testing.assert_allclose(coefficients(first), coefficients(second), rtol=1e-5)
    # The slopes of the loss in all three coefficients are zero.
    residuals = expit(calibrated(first, log_odds)) - outcomes
    for power in range(3):
        assert residuals @ log_odds**power == pytest.approx(0, abs=1e-3)


# The guard


def test_beyond_the_calibration_scores_the_map_goes_on_straight():
    log_odds, outcomes = some_rows(bend=0.05)
    fitted = fit(log_odds, outcomes)
    low, high = log_odds.min(), log_odds.max()
    assert (fitted.lowest_, fitted.highest_) == pytest.approx((low, high))
    for end, step in ((low, -1.0), (high, 1.0)):
        slope = fitted.slope_ + 2 * fitted.curvature_ * end
        expected = calibrated(fitted, [end]) + slope * step * np.array([0.5, 2.0, 20.0])
        np.testing.assert_allclose(
            calibrated(fitted, end + step * np.array([0.5, 2.0, 20.0])), expected, rtol=1e-9
        )
    inside = np.linspace(low, high, 7)
    parabola = fitted.intercept_ + fitted.slope_ * inside + fitted.curvature_ * inside**2
    np.testing.assert_allclose(calibrated(fitted, inside), parabola, atol=1e-12)


def test_without_the_guard_the_parabola_turns():
    log_odds, outcomes = some_rows()
    places = np.linspace(-20, 20, 100)
    assert (np.diff(calibrated(fit(log_odds, outcomes), places)) > 0).all()
    plain = fit(log_odds, outcomes, monotone=False)
    assert (plain.lowest_, plain.highest_) == (-inf, inf)
    expected = plain.intercept_ + plain.slope_ * places + plain.curvature_ * places**2
    np.testing.assert_allclose(calibrated(plain, places), expected, rtol=1e-12)
    assert (np.diff(expected) < 0).any()


def test_scores_that_point_the_wrong_way_become_flat_and_only_a_free_map_turns_them():
    log_odds, outcomes = some_rows(bend=0.0)
    guarded = calibrated(fit(-log_odds, outcomes), [-3.0, 3.0])
    assert 0 < np.diff(guarded)[0] < 1e-2
    assert np.diff(calibrated(fit(-log_odds, outcomes, monotone=False), [-3.0, 3.0]))[0] < -2


@settings(max_examples=40)
@given(data=st.data(), temperature=st.booleans())
def test_order_is_kept_and_the_loss_is_no_higher_than_of_nothing(data, temperature):
    n_rows = data.draw(st.integers(2, 12))
    logits = data.draw(logit_matrices(n_rows=n_rows, n_classes=2, dtype=st.just(np.float64)))
    outcomes = data.draw(labels_with_all_classes(n_rows, 2))
    given_rows = Predictions.from_logits(logits)
    fitted = QuadraticScaling(temperature=temperature).fit(given_rows, outcomes)
    assert fitted.solution_.converged
    assert log_loss(outcomes, fitted.transform(given_rows)) <= log_loss(
        outcomes, given_rows.without_zeros()
    ) * (1 + 1e-9)
    places = np.sort(np.concatenate([np.linspace(-60, 60, 200), logits[:, 1] - logits[:, 0]]))
    found = calibrated(fitted, places)
    # Terms of a parabola cancel near the end where it is flat.
    assert (np.diff(found) >= -1e-9 * (1 + np.abs(found).max())).all()


def test_the_scale_of_scores_does_not_matter_to_a_ridge_around_the_temperature():
    log_odds, outcomes = some_rows()
    expected = calibrated(fit(log_odds, outcomes), log_odds)
    for scale in (1e-6, 1e3, 1e6):
        found = calibrated(fit(scale * log_odds, outcomes), scale * log_odds)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    identity_held = calibrated(fit(1e-6 * log_odds, outcomes, temperature=False), 1e-6 * log_odds)
    assert np.ptp(identity_held) < 1e-3


def test_on_a_network_it_beats_the_temperature():
    rows = load("cifar_widmann/c10_vgg13_bn")
    order = np.random.default_rng(0).permutation(10_000)
    p = rows["probs"][order].astype(float)
    cats = (rows["y"][order] == 3).astype(int)
    pair = np.column_stack([np.delete(p, 3, axis=1).sum(axis=1), p[:, 3]])
    losses = [
        log_loss(cats[5000:], method.fit(pair[:5000], cats[:5000]).transform(pair[5000:]))
        for method in (QuadraticScaling(), TemperatureScaling())
    ]
    assert losses[0] < 0.98 * losses[1]


# Hard rows

HARD_ROWS = {
    "two rows": ([0.3, 0.8], [0, 1]),
    "two rows the wrong way": ([0.3, 0.8], [1, 0]),
    "constant": ([0.7] * 40, [0, 1] * 20),
    "all but constant": (0.7 + 1e-5 * np.arange(40), [0, 1] * 20),
    "zeros and ones": ([0.0] * 20 + [1.0] * 20, [0] * 20 + [1] * 20),
    "zeros and ones, two wrong": ([0.0] * 20 + [1.0] * 20, [0] * 19 + [1] * 20 + [0]),
    "all at one, one wrong": ([1.0] * 30, [1] * 29 + [0]),
    "separable": (np.linspace(0.01, 0.99, 30), np.arange(30) >= 15),
    "one event in thirty": (np.linspace(0.001, 0.03, 30), np.arange(30) == 12),
}


@pytest.mark.parametrize("case", HARD_ROWS)
@pytest.mark.parametrize("options", [{}, {"temperature": False}, {"monotone": False}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hard_rows_give_finite_losses(case, options, dtype):
    p, outcomes = HARD_ROWS[case]
    fitted = QuadraticScaling(**options).fit(np.asarray(p, dtype=dtype), np.asarray(outcomes, dtype=int))
    assert fitted.solution_.converged
    found = fitted.predict_proba(np.array([0, 1e-30, 1e-6, 0.1, 0.5, 0.9, 1], dtype=dtype))
    assert found.dtype == dtype
    assert np.isfinite(np.log(found)).all()
    if options != {"monotone": False}:
        assert (np.diff(found[:, 1]) >= -1e-6).all()


@pytest.mark.parametrize("monotone", [True, False])
def test_scores_of_any_size_are_mapped_to_finite_odds(monotone):
    log_odds, outcomes = some_rows()
    fitted = fit(1e-6 * log_odds, outcomes, monotone=monotone)
    found = calibrated(fitted, [-1e300, -1e160, -1e5, 0.0, 1e5, 1e160, 1e300])
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("scale", "options"), [(1e15, {"temperature": False}), (1e30, {}), (1e100, {"ridge": 0}), (1e150, {})]
)
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
def test_huge_scores_do_no_harm_as_they_are_predicted(scale, options):
    """Losses of such scores and of what is given out, with zeros floored, are not the same."""
    generator = np.random.default_rng(0)
    for trial in range(150):
        n_rows = int(generator.integers(2, 6))
        sizes = 10.0 ** generator.integers(-20, 2, (n_rows, 1)) if trial % 2 else 1.0
        rows = Predictions.from_logits(scale * sizes * generator.normal(size=(n_rows, 2)))
        outcomes = np.append([0, 1], generator.integers(0, 2, n_rows - 2))
        after = QuadraticScaling(**options).fit(rows, outcomes).transform(rows)
        # The floor itself is a huge logit and a small number.
        assert log_loss(outcomes, after) <= log_loss(outcomes, rows.without_zeros()) * (1 + 1e-5)


def test_constant_scores_give_a_straight_line():
    """All rows at odds of 4 with three events of four: beta log 4 = log 3 is reached by the temperature alone."""
    fitted = QuadraticScaling().fit([0.8] * 40, [1, 1, 1, 0] * 10)
    assert fitted.temperature_ == pytest.approx(log(4) / log(3), rel=1e-6)
    assert fitted.curvature_ == 0
    assert fitted.predict_proba([0.8])[0, 1] == pytest.approx(0.75, abs=1e-6)


def test_saturated_float32_rows():
    log_odds, outcomes = some_rows(1000)
    p = expit((40 * log_odds).astype(np.float32))
    assert ((p == 0) | (p == 1)).sum() > 100
    after = QuadraticScaling().fit(p, outcomes).predict_proba(p)
    assert after.dtype == np.float32
    assert log_loss(outcomes, after) < 0.69


def test_many_rows_in_blocks_equal_few_with_weights():
    log_odds, outcomes = some_rows(300)
    repeated = fit(np.tile(log_odds, 400), np.tile(outcomes, 400))
    weighted = fit(log_odds, outcomes, np.full(300, 400.0))
    np.testing.assert_allclose(calibrated(repeated, log_odds), calibrated(weighted, log_odds), atol=1e-6)


def test_without_a_ridge_separable_rows_are_told_of():
    log_odds = np.linspace(-3, 3, 20)
    with pytest.warns(ConvergenceWarning, match=r"QuadraticScaling: .*stronger penalty"):
        fitted = fit(log_odds, (log_odds > 0).astype(int), ridge=0, monotone=False)
    assert np.isfinite(fitted.predict_proba(expit(log_odds))).all()


def test_a_fit_that_does_harm_is_replaced_by_the_identity(monkeypatch):
    """Only rounding can bring it about, so a solver that fails stands in."""
    log_odds, outcomes = some_rows()

    def failing(expand, start, lower, **options):
        return Solution(start * 3, nan, nan, nan, 0.0, 1, 1, Status.CONVERGED)

    monkeypatch.setattr(parametric, "bounded_newton", failing)
    fitted = fit(log_odds, outcomes)
    assert fitted.solution_.status is Status.IDENTITY
    assert fitted.solution_.loss == fitted.solution_.identity_loss
    np.testing.assert_allclose(calibrated(fitted, log_odds), log_odds, rtol=1e-12)


def test_the_solution_says_what_was_found():
    log_odds, outcomes = some_rows()
    fitted = fit(log_odds, outcomes)
    np.testing.assert_array_equal(fitted.solution_.theta, coefficients(fitted))
    after = expit(calibrated(fitted, log_odds))
    expected = -np.log(np.where(outcomes == 1, after, 1 - after)).mean()
    assert fitted.solution_.loss == pytest.approx(expected, rel=1e-10)
    before = -np.log(expit(np.where(outcomes == 1, log_odds, -log_odds))).mean()
    assert fitted.solution_.identity_loss == pytest.approx(before, rel=1e-10)


def test_more_classes_go_one_against_the_rest():
    generator = np.random.default_rng(3)
    X = generator.dirichlet([0.5, 0.6, 0.7], 300)
    y = (0.5 * np.log(X) + generator.gumbel(size=X.shape)).argmax(axis=1)
    alone = QuadraticScaling(ridge=2.0).fit(X, y)
    wrapped = OneVsRest(QuadraticScaling(ridge=2.0)).fit(X, y)
    np.testing.assert_array_equal(alone.predict_proba(X), wrapped.predict_proba(X))
    of_first = QuadraticScaling(ridge=2.0).fit(Predictions.from_logits(logit(X[:, 0])), (y == 0).astype(int))
    assert alone.one_vs_rest_.calibrators_[0].slope_ == pytest.approx(of_first.slope_, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ridge": -1}, "ridge must be a number of at least 0"),
        ({"ridge": "weak"}, "ridge must be a number of at least 0"),
        ({"monotone": "no"}, "monotone must be True or False"),
        ({"temperature": None}, "temperature must be True or False"),
    ],
)
def test_parameters_without_meaning_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        QuadraticScaling(**options).fit([0.2, 0.8], [0, 1])
