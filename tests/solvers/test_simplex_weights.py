"""Mixture weights: closed forms, slow plain methods beside the fast one, and every degenerate case."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize

from calibrant.solvers import Status
from calibrant.solvers.simplex_weights import (
    _LogLoss,
    _SquaredError,
    least_squares_weights,
    likeliest_weights,
    simplex_newton,
)

# Digits that cancel, zeros and equal columns, as small whole numbers give them.
LIKELIHOODS = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 6)),
    elements=st.sampled_from([0.0, 0.0, 1e-12, 0.1, 0.25, 0.5, 1.0]) | st.floats(0, 1),
).map(lambda matrix: np.where(matrix.max(axis=1, keepdims=True) > 0, matrix, 0.5))

VECTORS = hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 4)), elements=st.integers(-3, 3))


def some_likelihoods(n_rows=300, size=4, seed=0):
    generator = np.random.default_rng(seed)
    return generator.uniform(size=(n_rows, size)) ** generator.uniform(0.3, 3, size)


def mean_surprise(likelihoods, weights):
    """The log-loss, written out."""
    return -sum(np.log(sum(a * w for a, w in zip(row, weights, strict=True))) for row in likelihoods) / len(
        likelihoods
    )


def expectation_maximisation(likelihoods, n_steps):
    """The slow and safe way: every weight becomes its mean responsibility."""
    weights = np.full(likelihoods.shape[1], 1 / likelihoods.shape[1])
    for _ in range(n_steps):
        shares = likelihoods * weights
        weights = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights


def best_of_all_supports(gram, linear):
    """Solve the equations for each set of positive weights, and keep the best solution that is allowed."""
    size = len(linear)
    best = (np.inf, None)
    for count in range(1, size + 1):
        for chosen in map(list, combinations(range(size), count)):
            system = np.zeros((count + 1, count + 1))
            system[:count, :count] = 2 * gram[np.ix_(chosen, chosen)]
            system[count, :count] = system[:count, count] = 1
            solved = np.linalg.lstsq(system, np.append(2 * linear[chosen], 1.0), rcond=None)[0][:count]
            if solved.min() < -1e-12 or abs(solved.sum() - 1) > 1e-9:
                continue
            weights = np.zeros(size)
            weights[chosen] = solved
            best = min(best, (weights @ gram @ weights - 2 * linear @ weights, weights), key=lambda b: b[0])
    return best


# Greatest likelihood


def test_components_that_exclude_each_other_get_the_frequencies():
    likelihoods = np.repeat([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [2, 3, 5], axis=0)
    found = likeliest_weights(likelihoods)
    np.testing.assert_allclose(found.theta, [0.2, 0.3, 0.5], rtol=1e-9)
    assert found.value == pytest.approx(-(0.2 * np.log(0.2) + 0.3 * np.log(0.3) + 0.5 * np.log(0.5)))


@pytest.mark.parametrize("n_rows", [10, 1000, 100_000])
def test_one_row_that_only_the_second_component_allows(n_rows):
    """(n - 1) log(1 - w / 2) + log(w / 2) is largest at w = 2 / n, and few steps lead there however small it is."""
    likelihoods = np.tile([1.0, 0.5], (n_rows, 1))
    likelihoods[n_rows // 2, 0] = 0
    found = likeliest_weights(likelihoods)
    assert found.theta[1] == pytest.approx(2 / n_rows, rel=1e-6)
    assert found.n_iterations <= 8


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_better_than_what_a_general_optimiser_or_many_plain_steps_find(seed):
    likelihoods = some_likelihoods(seed=seed)
    found = likeliest_weights(likelihoods)
    assert found.status is Status.CONVERGED
    plain = expectation_maximisation(likelihoods, 3000)
    general = minimize(
        lambda w: -np.log(likelihoods @ w).mean(),
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    value = mean_surprise(likelihoods, found.theta)
    assert found.value == pytest.approx(value, rel=1e-12)
    assert value <= mean_surprise(likelihoods, plain) + 1e-12
    assert value <= general.fun + 1e-12
    np.testing.assert_allclose(found.theta, plain, atol=1e-3)
    np.testing.assert_allclose(found.theta, general.x, atol=1e-5)


@settings(max_examples=100, deadline=None)
@given(likelihoods=LIKELIHOODS)
def test_the_conditions_of_an_optimum_hold(likelihoods):
    """Mean ratios of component to mixture are one where the weight is positive and not above it elsewhere.

    By convexity their excess bounds the distance from the optimum, so nothing else need be believed.
    """
    found = likeliest_weights(likelihoods)
    assert found.converged
    assert found.theta.min() >= 0
    assert found.theta.sum() == pytest.approx(1, abs=1e-14)
    ratios = (likelihoods / (likelihoods @ found.theta)[:, np.newaxis]).mean(axis=0)
    assert ratios.max() <= 1 + 1e-7
    assert found.decrement == pytest.approx(max(0.0, ratios.max() - 1), abs=1e-12)


def test_a_weight_of_two_is_a_row_given_twice():
    likelihoods = some_likelihoods(60)
    twice = np.arange(60) % 3 == 0
    weighted = likeliest_weights(likelihoods, np.where(twice, 2.0, 1.0))
    repeated = likeliest_weights(np.vstack([likelihoods, likelihoods[twice]]))
    np.testing.assert_allclose(weighted.theta, repeated.theta, atol=1e-9)
    assert weighted.value == pytest.approx(repeated.value, rel=1e-13)


def test_many_rows_in_blocks_are_as_good_as_few():
    """Copies change neither the mean nor its minimum; 100 000 rows make more than one block."""
    likelihoods = some_likelihoods(100)
    few, many = likeliest_weights(likelihoods), likeliest_weights(np.tile(likelihoods, (1000, 1)))
    np.testing.assert_allclose(many.theta, few.theta, atol=1e-9)
    assert many.value == pytest.approx(few.value, rel=1e-12)


def test_the_size_of_a_row_does_not_matter_even_below_the_smallest_number():
    """Factors of rows add a constant to the loss; here products with weights would underflow to zero."""
    likelihoods = 2.0 ** -np.random.default_rng(1).integers(0, 6, size=(50, 3))
    factors = 2.0 ** -np.random.default_rng(2).integers(1000, 1060, size=50)
    plain, tiny = likeliest_weights(likelihoods), likeliest_weights(likelihoods * factors[:, np.newaxis])
    np.testing.assert_array_equal(tiny.theta, plain.theta)
    assert tiny.value == pytest.approx(plain.value - np.log(factors).mean(), rel=1e-12)


def test_a_row_that_no_component_allows_is_refused():
    with pytest.raises(ValueError, match="row 1 has no likelihood above 0"):
        likeliest_weights(np.array([[1.0, 0.5], [0.0, 0.0]]))


def test_input_is_left_as_it_is_and_may_be_float32_or_strided():
    likelihoods = some_likelihoods(40).astype(np.float32)
    copy = likelihoods.copy()
    found = likeliest_weights(likelihoods)
    np.testing.assert_array_equal(likelihoods, copy)
    strided = np.repeat(likelihoods, 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(likeliest_weights(strided).theta, found.theta)
    assert found.theta.dtype == np.float64


@pytest.mark.parametrize("row_weights", [None, np.random.default_rng(3).uniform(0.5, 2, 30)])
def test_derivatives_against_finite_differences(row_weights):
    likelihoods, small = some_likelihoods(30), 1e-6
    weights, step = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, -0.3, 0.15, 0.05])
    loss = _LogLoss(
        lambda contribution: contribution(likelihoods, row_weights),
        30.0 if row_weights is None else row_weights.sum(),
    )
    here = loss.expand(weights)
    for direction in np.eye(4):
        above, below = (loss.expand(weights + sign * small * direction) for sign in (1, -1))
        assert here.gradient @ direction == pytest.approx((above.value - below.value) / (2 * small), rel=1e-6)
        changes = (above.gradient - below.gradient) / (2 * small)
        np.testing.assert_allclose(here.hessian @ direction, changes, rtol=1e-6)
    value, slope, curvature = loss.along(weights, step)
    assert value == pytest.approx(here.value, rel=1e-14)
    assert slope == pytest.approx(here.gradient @ step, rel=1e-12)
    assert curvature == pytest.approx(step @ here.hessian @ step, rel=1e-12)


# Least squares


def test_a_target_inside_the_simplex_is_reached():
    """Unit vectors as components: the weights are the coordinates of the target."""
    target = np.array([0.5, 0.3, 0.2])
    found = least_squares_weights(np.eye(3), target, target @ target)
    np.testing.assert_allclose(found.theta, target, atol=1e-12)
    assert found.value == pytest.approx(0, abs=1e-15)


def test_a_target_outside_is_projected():
    """The nearest point of the simplex to (1, 0.4, -0.5): both positive coordinates less 0.2."""
    found = least_squares_weights(np.eye(3), np.array([1.0, 0.4, -0.5]))
    np.testing.assert_allclose(found.theta, [0.8, 0.2, 0.0], atol=1e-12)
    assert found.theta[2] == 0


@settings(max_examples=100, deadline=None)
@given(vectors=VECTORS, data=st.data())
def test_no_support_gives_less_than_the_active_set(vectors, data):
    """All sets of positive weights one after the other; small whole numbers make many of them singular."""
    target = data.draw(hnp.arrays(np.float64, vectors.shape[1], elements=st.integers(-3, 3)))
    gram, linear = vectors @ vectors.T, vectors @ target
    found = least_squares_weights(gram, linear)
    value, _ = best_of_all_supports(gram, linear)
    assert found.converged
    assert found.value == pytest.approx(value, abs=1e-8)
    assert found.theta.min() >= 0
    assert found.theta.sum() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_scale_of_the_problem_does_not_matter(scale):
    vectors = np.random.default_rng(4).normal(size=(5, 8))
    target = np.random.default_rng(5).normal(size=8)
    plain = least_squares_weights(vectors @ vectors.T, vectors @ target)
    scaled = least_squares_weights(scale * vectors @ vectors.T, scale * vectors @ target)
    assert scaled.status is Status.CONVERGED
    np.testing.assert_allclose(scaled.theta, plain.theta, atol=1e-9)


# Both


def of_both_kinds(vectors):
    """Solve both problems with the columns of ``vectors`` as components."""
    yield likeliest_weights(vectors)
    yield least_squares_weights(vectors.T @ vectors, vectors.T @ np.ones(len(vectors)))


def test_one_component_gets_everything():
    for found in of_both_kinds(np.array([[0.3], [0.4]])):
        assert found.theta == [1.0]
        assert found.status is Status.CONVERGED
        assert found.n_iterations == 0


def test_equal_components_share_their_weight():
    vectors = some_likelihoods(50, 2)
    for doubled, single in zip(of_both_kinds(vectors[:, [0, 1, 0]]), of_both_kinds(vectors), strict=True):
        # Rounding decides the share of each from about the fifth digit on, and nothing depends on it.
        assert doubled.theta[0] == pytest.approx(doubled.theta[2], abs=1e-4)
        assert doubled.theta[1] == pytest.approx(single.theta[1], abs=1e-9)
        assert doubled.value == pytest.approx(single.value, abs=1e-12)


def test_all_components_equal():
    for found in of_both_kinds(np.tile(some_likelihoods(20, 1), (1, 5))):
        np.testing.assert_allclose(found.theta, 0.2, atol=1e-12)
        assert found.status is Status.CONVERGED


def test_a_component_of_zeros_gets_nothing():
    vectors = np.column_stack([some_likelihoods(50, 2), np.zeros(50)])
    for found in of_both_kinds(vectors):
        assert found.theta[2] == 0
        assert found.status is Status.CONVERGED


def test_nothing_but_zeros_is_solved_by_any_weights():
    found = least_squares_weights(np.zeros((3, 3)), np.zeros(3), 1.0)
    assert found.status is Status.CONVERGED
    assert found.value == 1


def test_without_curvature_the_best_corner_is_found():
    """No distances at all, only a preference for the second component."""
    found = least_squares_weights(np.zeros((3, 3)), np.array([0.1, 0.3, 0.2]))
    np.testing.assert_array_equal(found.theta, [0, 1, 0])


@pytest.mark.parametrize("size", [10, 30])
def test_the_order_of_components_does_not_matter(size):
    vectors = some_likelihoods(200, size)
    order = np.random.default_rng(6).permutation(size)
    for plain, moved in zip(of_both_kinds(vectors), of_both_kinds(vectors[:, order]), strict=True):
        np.testing.assert_allclose(moved.theta, plain.theta[order], atol=1e-7)


def test_components_that_hardly_differ_do_not_use_up_the_steps():
    first = some_likelihoods(50, 1)
    noise = np.random.default_rng(7).normal(size=(50, 5))
    for found in of_both_kinds(first * (1 + 1e-9 * noise)):
        assert found.converged
        assert found.n_iterations < 30


def test_running_out_of_steps_is_said(monkeypatch):
    monkeypatch.setattr("calibrant.solvers.simplex_weights.MAX_STEPS", 1)
    assert likeliest_weights(some_likelihoods()).status is Status.OUT_OF_ITERATIONS


def test_a_function_that_contradicts_its_slopes_is_given_up():
    """No point on the way is lower although the slope promises it: no progress, and no endless loop."""

    class Contradiction:
        def expand(self, weights):
            exact = least_squares_function.expand(weights)
            return exact._replace(value=-np.inf)

        def along(self, weights, step):
            return least_squares_function.along(weights, step)

    least_squares_function = _SquaredError(np.eye(2), np.array([1.0, 0.0]), 0.0)
    found = simplex_newton(Contradiction(), 2)
    assert found.status is Status.OUT_OF_PRECISION
    assert not found.converged
