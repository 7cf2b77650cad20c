"""Logistic regression on a few columns: closed forms, bounds, separated outcomes and columns of any size."""

from contextlib import ExitStack
from itertools import product
from math import exp, log

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from calibrant.objective import ArrayRows
from calibrant.solvers import Status, logistic_newton, outcome_logistic, smoothed_targets
from calibrant.solvers.logistic import _Loss

FREE = -np.inf


def rows_of(columns, targets, weights=None, intercept=True):
    """Columns side by side, and one of ones for the intercept."""
    columns = [*columns, np.ones(len(targets))] if intercept else columns
    return ArrayRows(np.column_stack(columns), np.asarray(targets, dtype=np.float64), weights)


def bounds_of(columns, intercept, lower):
    return np.array([*([FREE] * len(columns) if lower is None else lower), *[FREE] * intercept])


def fit_of(columns, targets, weights=None, *, start, intercept=True, lower=None):
    """Logistic regression on some columns; the intercept comes last."""
    rows = rows_of(columns, targets, weights, intercept)
    return logistic_newton(
        rows, np.array(start, dtype=np.float64), bounds_of(columns, intercept, lower), bias=intercept
    )


def outcome_fit_of(columns, outcomes, *, start, **options):
    """The same for outcomes that may be separated; without a start, from zeros that are never kept."""
    begin = np.zeros(len(columns) + 1) if start is None else np.array(start)
    return outcome_logistic(
        rows_of(columns, outcomes),
        begin,
        bounds_of(columns, True, None),
        bias=True,
        keep_start=start is not None,
        **options,
    )


def naive_loss(theta, columns, targets, weights=None):
    """Mean cross-entropy row by row, with an intercept if there is one number more than there are columns."""
    total = weight_sum = 0.0
    for row, target in enumerate(targets):
        score = sum(coefficient * column[row] for coefficient, column in zip(theta, columns, strict=False))
        score += theta[len(columns)] if len(theta) > len(columns) else 0.0
        loss = max(score, 0.0) - target * score + log(1 + exp(-abs(score)))
        weight = 1.0 if weights is None else weights[row]
        total, weight_sum = total + weight * loss, weight_sum + weight
    return total / weight_sum


def naive_gradient(theta, columns, targets, weights=None):
    weights = np.ones(len(targets)) if weights is None else weights
    design = np.vstack([*columns, np.ones(len(targets))])[: len(theta)]
    score = np.asarray(theta) @ design
    small = np.exp(-np.abs(score))
    mean = np.where(score >= 0, 1, small) / (1 + small)
    return design @ (weights * (mean - targets)) / weights.sum()


def some_rows(seed, n_rows=60, n_columns=2, noise=1.0):
    """Columns and overlapping outcomes that depend on the first column only."""
    generator = np.random.default_rng(seed)
    columns = [generator.normal(size=n_rows) for _ in range(n_columns)]
    outcomes = columns[0] + noise * generator.logistic(size=n_rows) > 0.3
    return columns, outcomes


def test_two_points_in_closed_form():
    """Odds 3 at x = 1 and 1/2 at x = -1: slope (log 3 + log 2)/2, intercept (log 3 - log 2)/2."""
    x = np.array([1.0] * 4 + [-1.0] * 3)
    fit = fit_of([x], np.array([1, 1, 1, 0, 1, 0, 0]), start=[1.0, 0.0])
    np.testing.assert_allclose(fit.theta, [log(6) / 2, log(1.5) / 2], rtol=1e-12)
    assert fit.status is Status.CONVERGED
    assert (
        fit.loss == fit.value == pytest.approx(naive_loss(fit.theta, [x], [1, 1, 1, 0, 1, 0, 0]), rel=1e-14)
    )


def test_without_an_intercept_in_closed_form():
    """All four rows at x = 2 with three events: 2 a = log 3."""
    fit = fit_of([np.full(4, 2.0)], np.array([1, 1, 0, 1]), start=[0.0], intercept=False)
    np.testing.assert_allclose(fit.theta, [log(3) / 2], rtol=1e-12)


def test_targets_may_be_any_share():
    """One row at each of two points with targets 0.9 and 0.2: the line goes through both."""
    fit = fit_of([np.array([0.0, 1.0])], np.array([0.9, 0.2]), start=[0.0, 0.0])
    np.testing.assert_allclose(fit.theta, [log(0.25) - log(9), log(9)], rtol=1e-9)


def test_derivatives_against_finite_differences():
    columns, outcomes = some_rows(0, n_columns=3)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(outcomes))
    for given_weights in (None, weights):
        rows = rows_of(columns, outcomes, given_weights, intercept=False)
        theta, step = np.array([0.7, -0.3, 0.4]), 1e-5
        with ExitStack() as stack:
            loss = _Loss.over(rows, stack)
            at = loss(theta)
            assert at.value == pytest.approx(naive_loss(theta, columns, outcomes, given_weights), rel=1e-13)
            for index in range(3):
                move = step * np.eye(3)[index]
                above, below = loss(theta + move), loss(theta - move)
                assert at.gradient[index] == pytest.approx((above.value - below.value) / (2 * step), abs=1e-9)
                np.testing.assert_allclose(
                    at.hessian[index], (above.gradient - below.gradient) / (2 * step), atol=1e-9
                )


@pytest.mark.parametrize("seed", range(5))
def test_a_general_minimiser_finds_nothing_lower(seed):
    columns, outcomes = some_rows(seed, n_columns=3)
    weights = np.random.default_rng(seed).exponential(size=len(outcomes))
    fit = fit_of(columns, outcomes, weights, start=np.zeros(4))
    plain = minimize(
        naive_loss, np.zeros(4), (columns, outcomes, weights), method="BFGS", options={"gtol": 1e-9}
    )
    assert fit.value <= plain.fun + 1e-13
    np.testing.assert_allclose(fit.theta, plain.x, atol=1e-5)
    assert np.abs(naive_gradient(fit.theta, columns, outcomes, weights)).max() < 1e-9


def best_face(columns, outcomes, lower):
    """Fix every set of coefficients at their bounds in turn; of the fits that obey the bounds return the lowest."""
    lowest, best = np.inf, None
    for fixed in product([False, True], repeat=len(columns)):
        free = [*np.flatnonzero(~np.array(fixed)), len(columns)]

        def theta_of(chosen, free=free):
            theta = np.array([*lower, 0.0])
            theta[free] = chosen
            return theta

        found = minimize(
            lambda chosen, theta_of=theta_of: naive_loss(theta_of(chosen), columns, outcomes),
            np.zeros(len(free)),
            jac=lambda chosen, theta_of=theta_of, free=free: naive_gradient(
                theta_of(chosen), columns, outcomes
            )[free],
            method="BFGS",
            options={"gtol": 1e-8},
        )
        theta = theta_of(found.x)
        if (theta[:-1] >= lower).all() and found.fun < lowest:
            lowest, best = found.fun, theta
    return lowest, best


def test_bounds_give_the_best_of_all_faces():
    met = set()
    for seed in range(8):
        columns, outcomes = some_rows(seed, n_rows=40, n_columns=3, noise=3.0)
        lower = np.array([0.0, 0.1, 0.0])
        fit = fit_of(columns, outcomes, start=[1.0, 1.0, 1.0, 0.0], lower=lower)
        lowest, best = best_face(columns, outcomes, lower)
        assert fit.value == pytest.approx(lowest, abs=1e-12)
        np.testing.assert_allclose(fit.theta, best, atol=1e-5)
        np.testing.assert_array_equal(fit.theta[:3] == lower, best[:3] == lower)  # at the bound, not near it
        met.add(tuple(best[:3] == lower))
    assert len(met) >= 4  # else the problems would be too much alike


@st.composite
def regressions(draw, kinds=("usual", "whole", "heavy tails", "logarithms")):
    """A few rows and columns of very different sizes, with ties, and outcomes of both kinds."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows, n_columns = draw(st.integers(2, 40)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from(kinds))
    if kind == "logarithms":
        log_odds = generator.normal(size=n_rows) * draw(st.sampled_from([1.0, 30.0]))
        columns = [-np.logaddexp(0, -log_odds), np.logaddexp(0, log_odds)][:n_columns]
    elif kind == "heavy tails":
        columns = list(generator.standard_cauchy(size=(n_columns, n_rows)) ** 3)
    else:
        columns = list(generator.normal(size=(n_columns, n_rows)) * draw(st.sampled_from([1.0, 1e-3, 1e4])))
        columns = [np.round(column) for column in columns] if kind == "whole" else columns
    noise = draw(st.sampled_from([0.0, 0.1, 1.0, 10.0]))
    outcomes = columns[0] + noise * np.abs(columns[0]).mean() * generator.normal(size=n_rows) > np.median(
        columns[0]
    )
    intercept = draw(st.booleans())
    lower = [draw(st.sampled_from([0.0, FREE])) for _ in columns]
    return columns, outcomes, intercept, lower


@settings(max_examples=150)
@given(problem=regressions(), weighted=st.booleans())
def test_optimality_conditions(problem, weighted):
    """Inside, the slope is zero; at a bound the loss rises inwards. Slopes are for columns of mean square one."""
    columns, outcomes, intercept, lower = problem
    weights = np.random.default_rng(0).exponential(size=len(outcomes)) if weighted else None
    start = np.ones(len(columns) + intercept)
    fit = fit_of(columns, outcomes, weights, start=start, intercept=intercept, lower=lower)
    assert np.isfinite(fit.theta).all()
    assert fit.value <= fit.identity_loss
    assert fit.identity_loss == pytest.approx(
        naive_loss(start, columns, outcomes, weights), rel=1e-10, abs=1e-12
    )
    assert fit.status in (Status.CONVERGED, Status.RUNNING_AWAY)
    bounds = np.array([*lower, FREE])[: len(start)]
    assert (fit.theta >= bounds).all()
    sizes = np.sqrt([np.average(column**2, weights=weights) for column in columns] + [1.0] * intercept)
    slopes = naive_gradient(fit.theta, columns, outcomes, weights) / np.where(sizes > 0, sizes, 1.0)
    inside = fit.theta > bounds
    assert np.abs(slopes[inside]).max(initial=0.0) < 1e-6
    assert (slopes[~inside] > -1e-6).all()


@settings(max_examples=150)
@given(problem=regressions(kinds=("usual", "whole")))
def test_it_runs_away_where_a_linear_program_separates_the_outcomes(problem):
    """No finite optimum exists just if some direction makes no row worse and one better (Albert, Anderson 1984)."""
    columns, outcomes, intercept, lower = problem
    design = np.vstack([*columns, np.ones(len(outcomes))])[: len(columns) + intercept]
    gains = design / np.maximum(np.abs(design).max(axis=1, keepdims=True), 1e-300) * np.where(outcomes, 1, -1)
    box = [(0 if bound == 0 else -1, 1) for bound in lower] + [(-1, 1)] * intercept
    program = linprog(-gains.sum(axis=1), A_ub=-gains.T, b_ub=np.zeros(len(outcomes)), bounds=box)
    assume(not 1e-12 < -program.fun < 1e-6)  # rows that overlap by rounding only
    start = np.zeros(len(design))  # a start that is certain already would have nowhere to run
    fit = fit_of(columns, outcomes, start=start, intercept=intercept, lower=lower)
    assert (fit.status is Status.RUNNING_AWAY) == (-program.fun >= 1e-6)


def test_separated_outcomes_end_after_some_steps_with_next_to_no_loss():
    x = np.linspace(-1, 1, 50)
    fit = fit_of([x], x > 0, start=[1.0, 0.0])
    assert fit.status is Status.RUNNING_AWAY
    assert 0 <= fit.value < 1e-9
    assert fit.n_evaluations < 60
    assert np.isfinite(fit.theta).all()


def test_rows_on_the_border_of_separated_ones_keep_their_loss():
    """Ten rows each at -1 and 1 are told apart; of the ten at 0 half are events, which costs log 2 each."""
    x = np.repeat([-1.0, 0.0, 1.0], 10)
    outcomes = np.concatenate([np.zeros(10), np.arange(10) % 2, np.ones(10)]) > 0
    fit = fit_of([x], outcomes, start=[1.0, 0.0])
    assert fit.status is Status.RUNNING_AWAY
    assert fit.value == pytest.approx(log(2) / 3, abs=1e-9)


def test_one_outcome_only_stays_finite():
    fit = fit_of([np.arange(5.0)], np.ones(5), start=[1.0, 0.0])
    assert np.isfinite(fit.theta).all()
    assert fit.value < 1e-9


def test_bounds_can_forbid_what_would_separate():
    """Scores that point the wrong way: with a slope of at least zero the constant 1/2 is best."""
    x = np.array([-1.0, 1.0])
    fit = fit_of([x], x < 0, start=[1.0, 0.0], lower=[0.0])
    np.testing.assert_array_equal(fit.theta, [0.0, 0.0])
    assert (fit.status, fit.value) == (Status.CONVERGED, pytest.approx(log(2)))


def test_a_constant_column_keeps_its_coefficient_and_the_intercept_does_the_work():
    """Three of four are events; 0.3 times its coefficient of 2 is taken off the intercept."""
    fit = fit_of([np.full(8, 0.3)], np.array([1, 1, 1, 0] * 2), start=[2.0, 0.0])
    np.testing.assert_allclose(fit.theta, [2.0, log(3) - 0.6], rtol=1e-12)
    assert fit.status is Status.CONVERGED


@pytest.mark.parametrize("bounds", [None, [0.0, 0.0]])
def test_columns_that_are_multiples_of_each_other_share_the_work(bounds):
    columns, outcomes = some_rows(3, n_columns=1)
    alone = fit_of(columns, outcomes, start=[1.0, 0.0])
    both = fit_of([columns[0], 3 * columns[0]], outcomes, start=[1.0, 1.0, 0.0], lower=bounds)
    assert both.theta[0] + 3 * both.theta[1] == pytest.approx(alone.theta[0], rel=1e-6)
    assert both.value == pytest.approx(alone.value, abs=1e-13)
    assert both.status is Status.CONVERGED


@settings(max_examples=30)
@given(factor=st.floats(-280, 150).map(lambda power: 10.0**power), shift=st.floats(-100, 100))
def test_the_scale_and_the_origin_of_a_column_do_not_matter(factor, shift):
    columns, outcomes = some_rows(4)
    plain = fit_of(columns, outcomes, start=[1.0, 1.0, 0.0])
    moved = fit_of([factor * (columns[0] + shift), columns[1]], outcomes, start=[1.0, 1.0, 0.0])
    assert moved.value == pytest.approx(plain.value, abs=1e-12)
    assert moved.theta[0] * factor == pytest.approx(plain.theta[0], rel=1e-8)
    assert moved.theta[1] == pytest.approx(plain.theta[1], rel=1e-8)


def test_huge_log_odds_of_which_few_are_wrong():
    """At the start every row is saturated and has no curvature; one in a thousand costs ten thousand nats."""
    generator = np.random.default_rng(0)
    x = np.where(generator.random(5000) < 0.5, -1e4, 1e4) + generator.normal(size=5000)
    outcomes = (x > 0) ^ (np.arange(5000) % 1000 == 0)
    fit = fit_of([x], outcomes, start=[1.0, 0.0])
    assert fit.status is Status.CONVERGED
    # Two groups, each wrong in some of its rows.
    rates = [outcomes[x < 0].mean(), outcomes[x > 0].mean()]
    odds = np.log(rates) - np.log1p(-np.array(rates))
    np.testing.assert_allclose(fit.theta[0] * 1e4, (odds[1] - odds[0]) / 2, rtol=1e-3)


def test_weights_are_repetitions():
    columns, outcomes = some_rows(5)
    weights = 1 + np.arange(len(outcomes)) % 3
    weighted = fit_of(columns, outcomes, weights.astype(float), start=[1.0, 1.0, 0.0])
    repeated = fit_of(
        [np.repeat(column, weights) for column in columns],
        np.repeat(outcomes, weights),
        start=[1.0, 1.0, 0.0],
    )
    np.testing.assert_allclose(weighted.theta, repeated.theta, rtol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_of_many_rows_only_helps_to_start(weighted):
    columns, outcomes = some_rows(6, n_rows=50_000)
    weights = np.random.default_rng(0).uniform(0.5, 2, 50_000) if weighted else None
    fit = fit_of(columns, outcomes, weights, start=[1.0, 1.0, 0.0], lower=[0.0, FREE])
    assert np.abs(naive_gradient(fit.theta, columns, outcomes, weights)).max() < 1e-10
    assert fit.n_evaluations <= 6


def test_a_start_at_the_optimum_is_returned_to_the_bit():
    x = np.repeat([log(3), -log(3)], 4)
    fit = fit_of([x], np.array([1, 1, 1, 0, 0, 0, 0, 1]), start=[1.0, 0.0])
    assert fit.value <= fit.identity_loss
    np.testing.assert_allclose(fit.theta, [1.0, 0.0], atol=1e-12)


def test_no_input_is_changed():
    columns, outcomes = some_rows(7)
    rows, start = rows_of(columns, outcomes), np.array([1.0, 1.0, 0.0])
    for array in (rows.features, rows.labels, start):
        array.flags.writeable = False
    logistic_newton(rows, start, np.full(3, FREE), bias=True)
    np.testing.assert_array_equal(start, [1.0, 1.0, 0.0])


# Outcomes with smoothed targets


def test_smoothed_targets_count_one_more_row_of_each_kind():
    """Three events of weight 2 and one other of weight 3: 7/8 and 1/5."""
    assert smoothed_targets(n_others=3.0, n_events=6.0) == pytest.approx((1 / 5, 7 / 8))


@pytest.mark.parametrize("smoothed", [True, False])
def test_smoothed_targets_count_weights_as_rows(smoothed):
    """Weights 6 at 1/2 and 3 at -1/2, all events and none: targets 7/8 and 1/5, so slope log 7 + log 4."""
    rows = rows_of([np.array([0.5, -0.5])], [1.0, 0.0], np.array([6.0, 3.0]))
    fit = outcome_logistic(
        rows, np.array([0.0, 0.0]), np.full(2, FREE), bias=True, smoothed=smoothed, keep_start=False
    )
    np.testing.assert_allclose(fit.theta, [log(28), log(7 / 4) / 2], rtol=1e-9)


def test_outcomes_that_overlap_are_fitted_as_they_are():
    columns, outcomes = some_rows(8)
    plain = fit_of(columns, outcomes, start=[1.0, 1.0, 0.0])
    fit = outcome_fit_of(columns, outcomes, start=[1.0, 1.0, 0.0])
    np.testing.assert_array_equal(fit.theta, plain.theta)
    assert fit.status is Status.CONVERGED


def test_separated_outcomes_are_fitted_by_smoothed_targets():
    """One row of each kind at 1/2 and -1/2: targets 2/3 and 1/3, hence a slope of 2 log 2."""
    x = np.array([-0.5, 0.5])
    fit = outcome_fit_of([x], x > 0, start=[1.0, 0.0])
    np.testing.assert_allclose(fit.theta, [2 * log(2), 0.0], atol=1e-9)
    assert fit.status is Status.SEPARATED
    assert fit.loss == pytest.approx(log(1.5))  # of the outcomes, both at 2/3
    assert fit.value == pytest.approx(log(3) - 2 / 3 * log(2))  # of the targets, their entropy
    assert fit.identity_loss == pytest.approx(log(1 + exp(-0.5)))


def test_separated_outcomes_keep_a_better_start():
    x = np.array([-5.0, 5.0])
    fit = outcome_fit_of([x], x > 0, start=[1.0, 0.0])
    np.testing.assert_array_equal(fit.theta, [1.0, 0.0])
    assert fit.status is Status.IDENTITY
    assert fit.loss == fit.identity_loss == pytest.approx(log(1 + exp(-5)))


def test_without_a_start_there_is_none_to_keep():
    x = np.array([-5.0, 5.0])
    fit = outcome_fit_of([x], x > 0, start=None)
    np.testing.assert_allclose(fit.theta, [log(2) / 5, 0.0], atol=1e-9)
    assert np.isnan(fit.identity_loss)
    assert fit.status is Status.SEPARATED


def test_smoothed_targets_on_request_converge_also_where_outcomes_are_separated():
    x = np.array([-5.0, 5.0])
    fit = outcome_fit_of([x], x > 0, start=[1.0, 0.0], smoothed=True)
    np.testing.assert_allclose(fit.theta, [log(2) / 5, 0.0], atol=1e-9)
    assert fit.status is Status.CONVERGED
