"""The variational bound of the latent process: loops, quadrature and exact algebra against the grid and its gradient."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from calibrant.calibrators.latent.gaussian_process import variational
from calibrant.calibrators.latent.gaussian_process.fit import averaged_covariance, placed_inducing_points
from calibrant.calibrators.latent.gaussian_process.latent_function import (
    JITTER,
    KernelParameters,
    LatentProcess,
    WhitenedFeatures,
    squared_exponential,
)
from calibrant.calibrators.latent.gaussian_process.variational import (
    SpreadRows,
    VariationalBound,
    score_range,
)
from calibrant.numerics.interpolated import CubicTable, EvenGrid
from calibrant.solvers import quasi_newton

SLOPE = 0.7


class Problem:
    """Rows whose latent values are SLOPE z on the rows and (1 - SLOPE) z plus the process on the grid: z in all."""

    def __init__(self, n_rows, n_classes, seed=0, n_nodes=256):
        generator = np.random.default_rng(seed)
        self.z = 3 * generator.normal(size=(n_rows, n_classes))
        self.labels = generator.integers(0, n_classes, n_rows)
        self.weights = generator.uniform(0.5, 2, n_rows)
        low, high = score_range(self.z, self.z, SLOPE, self.labels)
        self.grid = EvenGrid.around(low, high, n_nodes)
        inducing = np.linspace(low, high, 5)
        self.parameters = KernelParameters(inducing, 1.3, 2.5, 0.02)
        self.values = generator.normal(size=5)

    def bound(self, full, weights=None, rows=slice(None)):
        weights = self.weights if weights is None else weights
        spread = SpreadRows(self.z[rows], self.z[rows], SLOPE, self.labels[rows], weights[rows], self.grid)
        return VariationalBound(spread, (1 - SLOPE) * self.grid.nodes, full=full)


def naive_bound(problem, full, covariance):
    """Formula (6) of the paper row by row, for any covariance S of the whitened inducing variables."""
    parameters = problem.parameters
    mean = WhitenedFeatures.at(parameters.inducing, parameters).whitened(problem.values)
    total = 0.0
    for z, label, weight in zip(problem.z, problem.labels, problem.weights, strict=True):
        at = WhitenedFeatures.at(z, parameters)
        phi = z + at.features @ mean
        sigma = np.exp(phi - logsumexp(phi))
        explained = at.features @ covariance @ at.features.T
        c = explained + np.diag(at.rest) if full else np.diag(np.diag(explained) + at.rest)
        total += weight * (np.log(sigma[label]) + (sigma @ c @ sigma - np.diag(c) @ sigma) / 2)
    divergence = np.trace(covariance) + mean @ mean - len(mean) - np.linalg.slogdet(covariance)[1]
    return total - divergence / 2


both_forms = pytest.mark.parametrize("full", [True, False], ids=["full", "diagonal"])
# With 256 nodes, 80 classes are spread over a dense matrix and 3 over a sparse one.
both_widths = pytest.mark.parametrize("n_classes", [3, 80])


@both_forms
@both_widths
def test_the_grid_gives_the_formula_of_the_paper(full, n_classes):
    """Cubics on a grid of step h = 0.08: 3/128 (rate h)^4 of each term, about 1e-6 for rates of one or two."""
    problem = Problem(25, n_classes)
    bound = problem.bound(full)(problem.values, problem.parameters)
    assert bound.value == pytest.approx(naive_bound(problem, full, bound.covariance), rel=1e-7)


@both_forms
def test_no_other_covariance_makes_the_bound_higher(full):
    problem = Problem(25, 4, seed=1)
    best = problem.bound(full)(problem.values, problem.parameters).covariance
    top = naive_bound(problem, full, best)
    generator = np.random.default_rng(0)
    for _ in range(20):
        change = np.eye(5) + 0.1 * generator.normal(size=(5, 5))
        assert naive_bound(problem, full, change @ best @ change.T) < top
    assert naive_bound(problem, full, np.diag(np.diag(best))) < top


@both_forms
@both_widths
def test_the_gradient_against_finite_differences(full, n_classes):
    problem = Problem(25, n_classes, seed=2)
    evaluate = problem.bound(full)
    inducing, variance, length_scale, noise = problem.parameters
    point = np.concatenate([problem.values, np.log([variance, length_scale]), [noise]])

    def at(x):
        return evaluate(x[:5], KernelParameters(inducing, np.exp(x[5]), np.exp(x[6]), x[7]))

    bound = at(point)
    gradient = np.concatenate([bound.of_values, bound.of_kernel])
    steps = 1e-5 * np.eye(len(point))
    numerical = [(at(point + step).value - at(point - step).value) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, numerical, rtol=0, atol=1e-7 * np.abs(gradient).max())


@pytest.mark.parametrize("deviation", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("mean", [-2.0, 0.0, 1.5])
def test_the_second_order_of_two_classes_against_quadrature(mean, deviation):
    """With d = g_1 - g_2 normal, ln sigma(d) has a fourth derivative of at most 1/8: an error of at most s^4 / 64."""
    nodes, quadrature = np.polynomial.hermite_e.hermegauss(80)
    d = mean + deviation * nodes
    exact = quadrature @ -np.logaddexp(0, -d) / quadrature.sum()
    sigma = 1 / (1 + np.exp(-mean))
    # The formula of the bound, with C of which the difference of the two has this variance.
    c = deviation**2 * np.diag([0.5, 0.5])
    q = np.array([sigma, 1 - sigma])
    second_order = np.log(sigma) + (q @ c @ q - np.diag(c) @ q) / 2
    assert abs(exact - second_order) <= deviation**4 / 64
    assert abs(exact - np.log(sigma)) > 2 * abs(exact - second_order)


def test_the_second_order_of_four_classes_against_monte_carlo():
    """A million draws have a standard error of 2e-4 here; of the fourth order 0.15^4 is 5e-4 at the most."""
    generator = np.random.default_rng(0)
    phi = np.array([1.0, 0.2, -0.5, -2.0])
    root = 0.15 * generator.normal(size=(4, 4))
    draws = phi + generator.normal(size=(1_000_000, 4)) @ root.T
    simulated = (draws[:, 0] - logsumexp(draws, axis=1)).mean()
    sigma, c = np.exp(phi - logsumexp(phi)), root @ root.T
    second_order = np.log(sigma[0]) + (sigma @ c @ sigma - np.diag(c) @ sigma) / 2
    assert simulated == pytest.approx(second_order, abs=7e-4)


def test_inducing_points_at_all_scores_leave_no_rest():
    places = np.array([-3.0, -1.0, 0.0, 2.0])
    at = WhitenedFeatures.at(places, KernelParameters(places, 2.0, 1.5, 0.0))
    kernel = squared_exponential(places, places, 2.0, 1.5)
    np.testing.assert_allclose(at.features @ at.features.T, kernel, rtol=0, atol=10 * JITTER)
    np.testing.assert_allclose(at.rest, 0, rtol=0, atol=10 * JITTER)


@both_forms
def test_inducing_points_at_all_scores_give_the_bound_of_the_whole_process(full):
    """With nothing left over ln det(I + A' H A) = ln det(I + K H), K the kernel of all latent values, H block by block."""
    problem = Problem(4, 3, seed=3, n_nodes=1024)
    scores = problem.z.ravel()
    parameters = KernelParameters(np.sort(scores), 1.3, 1.0, 0.0)
    found = problem.bound(full)(np.zeros(12), parameters).value
    sigma = np.exp(problem.z - logsumexp(problem.z, axis=1, keepdims=True))
    curvature = np.zeros((12, 12))
    for row, (share, weight) in enumerate(zip(sigma, problem.weights, strict=True)):
        block = slice(3 * row, 3 * row + 3)
        outer = np.outer(share, share) if full else np.diag(share**2)
        curvature[block, block] = weight * (np.diag(share) - outer)
    kernel = squared_exponential(scores, scores, 1.3, 1.0)
    expected = problem.weights @ np.log(sigma[np.arange(4), problem.labels])
    expected -= np.linalg.slogdet(np.eye(12) + kernel @ curvature)[1] / 2
    assert found == pytest.approx(expected, abs=2e-6)


@both_forms
def test_a_weight_of_two_equals_a_repeated_row(full):
    problem = Problem(12, 3, seed=4)
    problem.weights = np.ones(12)
    weights = np.where(np.arange(12) < 5, 2.0, 1.0)
    weighted = problem.bound(full, weights)(problem.values, problem.parameters)
    repeated = problem.bound(full, np.ones(17), rows=np.r_[:12, :5])
    once = repeated(problem.values, problem.parameters)
    assert weighted.value == pytest.approx(once.value, rel=1e-13)
    np.testing.assert_allclose(weighted.of_values, once.of_values, rtol=0, atol=1e-11)


@both_forms
@both_widths
def test_rows_spread_anew_in_every_pass_give_the_same_numbers(full, n_classes, monkeypatch):
    problem = Problem(200, n_classes, seed=5)
    kept = problem.bound(full)(problem.values, problem.parameters)
    monkeypatch.setattr(variational, "NUMBERS_KEPT", 0)
    anew = problem.bound(full)(problem.values, problem.parameters)
    assert anew.value == kept.value
    np.testing.assert_array_equal(anew.of_values, kept.of_values)


# Against the exact posterior


def two_scores(a, b, right, wrong, variance, length_scale):
    """Rows with scores (a, b), some labelled by the first and some by the second: all depends on d = g(a) - g(b).

    Returns the bound's process, and mean and deviation of d and of g(c) - g(b) under the exact posterior, c between
    them, by numerical integration over d; given d all else is normal.
    """
    c = (a + b) / 2
    places = np.array([a, b, c])
    kernel = squared_exponential(places, places, variance, length_scale)
    spread = kernel[0, 0] + kernel[1, 1] - 2 * kernel[0, 1]
    d = np.linspace(-12, 12, 100_001) * np.sqrt(spread) + a - b
    log_posterior = -right * np.logaddexp(0, -d) - wrong * np.logaddexp(0, d) - (d - a + b) ** 2 / spread / 2
    posterior = np.exp(log_posterior - log_posterior.max())
    posterior /= posterior.sum()
    mean = posterior @ d
    square = posterior @ (d - mean) ** 2
    shared = kernel[2, 0] - kernel[2, 1] - kernel[1, 0] + kernel[1, 1]
    share = shared / spread
    apart = kernel[2, 2] + kernel[1, 1] - 2 * kernel[2, 1] - share * shared
    exact_mean = np.array([mean, c - b + share * (mean - a + b)])
    exact_deviation = np.sqrt([square, apart + share**2 * square])

    grid = EvenGrid.around(b, a, 256)
    z, weights = np.array([[a, b]] * 2), np.array([right, wrong], dtype=float)
    bound = VariationalBound(SpreadRows(z, z, 1.0, np.array([0, 1]), weights, grid), np.zeros(256), full=True)
    parameters = KernelParameters(np.array([b, c, a]), variance, length_scale, 0.0)

    def lost(values):
        found = bound(values, parameters)
        return -found.value, -found.of_values

    best = bound(quasi_newton(lost, np.zeros(3), slope_tolerance=1e-8).theta, parameters)
    covariance = averaged_covariance(bound, parameters, best.mean, best.covariance)
    process = LatentProcess(parameters, best.mean, np.linalg.cholesky(covariance))
    moments = process.moments(np.array([a, c]), reference=b)
    return moments.mean + np.array([a, c]) - b, moments.standard_deviation, exact_mean, exact_deviation


@pytest.mark.parametrize(
    "case", [(0.0, -1.5, 3, 1, 1.0, 1.0), (0.0, -1.5, 3, 1, 0.25, 1.0), (0.0, -3.0, 30, 3, 4.0, 2.0)]
)
def test_mean_and_deviation_against_numerical_integration(case):
    """A normal posterior misses the skewness: its mean by some per cent of a deviation, the deviation likewise."""
    mean, deviation, exact_mean, exact_deviation = two_scores(*case)
    assert np.abs(mean - exact_mean).max() <= 0.03 * exact_deviation.max()
    np.testing.assert_allclose(deviation, exact_deviation, rtol=0.07)


def test_the_approximation_becomes_exact_as_the_prior_narrows():
    """Left out are third derivatives times cubes of deviations: a tenth of the deviation, a thousandth of the error."""
    errors = []
    for variance in (1.0, 0.01):
        mean, _, exact_mean, _ = two_scores(0.0, -1.5, 3, 1, variance, 1.0)
        errors.append(np.abs(mean - exact_mean).max())
    assert errors[1] < 2e-3 * errors[0]


def test_labels_that_agree_narrow_the_deviation_far_below_the_largest_score():
    """Fifty right rows, none wrong: at the mean the softmax has no curvature left, yet d cannot be much lower."""
    _, deviation, _, exact = two_scores(0.0, -5.0, 50, 0, 9.0, 3.0)
    prior = np.sqrt(2 * 9 * (1 - np.exp(-25 / 18)))
    assert 0.7 * exact[0] < deviation[0] < exact[0] < 0.8 * prior


def test_the_averaged_covariance_satisfies_its_equation():
    problem = Problem(200, 4, seed=6)
    bound = problem.bound(True)
    first = bound(problem.values, problem.parameters)
    covariance = averaged_covariance(bound, problem.parameters, first.mean, first.covariance)
    at = WhitenedFeatures.at(bound.nodes, problem.parameters)
    function = at.features @ first.mean
    shares = bound.shares(function)
    relative = at.features - shares @ at.features / shares.sum()
    raised = function + (np.einsum("jm,mn,jn->j", relative, covariance, relative) + at.rest) / 2
    precision = np.eye(5) + bound.curvature(raised, at.features, full=True)
    np.testing.assert_allclose(precision @ covariance, np.eye(5), rtol=0, atol=1e-3)


# Parts


@settings(max_examples=20)
@given(
    coefficients=st.tuples(*[st.floats(-2, 2)] * 4),
    place=st.floats(-1.0, 2.0),
    n_nodes=st.integers(4, 40),
)
def test_cubics_are_interpolated_exactly(coefficients, place, n_nodes):
    grid = EvenGrid.around(-1.0, 2.0, n_nodes)
    values = np.polynomial.polynomial.polyval(grid.nodes, coefficients)
    expected = np.polynomial.polynomial.polyval(place, coefficients)
    first, weights = grid.stencil(np.array([place]))
    assert weights[0] @ values[first[0] : first[0] + 4] == pytest.approx(expected, abs=1e-10)
    assert CubicTable(grid, values)(np.array(place)) == pytest.approx(expected, abs=1e-10)


def test_the_error_of_a_table_is_that_of_its_step():
    """Fourth derivative 1, step h: 3/128 h^4."""
    grid = EvenGrid.around(0.0, 6.0, 63)
    x = np.linspace(0, 6, 1000)
    error = np.abs(CubicTable(grid, np.sin(grid.nodes))(x) - np.sin(x)).max()
    assert error == pytest.approx(3 / 128 * 0.1**4, rel=0.1)


def test_a_table_keeps_its_ends_and_its_shape():
    grid = EvenGrid.around(0.0, 1.0, 8)
    table = CubicTable(grid, np.exp(grid.nodes))
    far = np.array([[-1e9, 1e9]], dtype=np.float32)
    np.testing.assert_allclose(table(far), np.exp([[grid.low, grid.high]]), rtol=1e-14)


def test_a_single_score_makes_a_grid():
    grid = EvenGrid.around(5.0, 5.0, 16)
    assert grid.step > 0
    assert grid.low < 5 < grid.high


def test_inducing_points_go_where_there_is_information_and_no_neighbour():
    places = np.linspace(0, 10, 101)
    information = np.where(places < 5, 1.0, 1e-3)
    chosen = placed_inducing_points(places, information, 1.0, 6)
    assert len(chosen) == 6
    assert (chosen < 5.5).sum() >= 4
    assert np.diff(chosen).min() > 0.5


def test_a_smooth_kernel_needs_fewer_inducing_points():
    chosen = placed_inducing_points(np.linspace(0, 1, 101), np.ones(101), 10.0, 50)
    assert len(chosen) < 8


def test_scores_that_no_softmax_sees_do_not_widen_the_grid():
    """Of the row only the first two classes matter; the label's own score always does."""
    scores = np.array([[0.0, -1.0, -500.0], [0.0, -2.0, -90.0]])
    assert score_range(scores, scores, 1.0, np.array([0, 1])) == (-2.0, 0.0)
    assert score_range(scores, scores, 1.0, np.array([0, 2])) == (-90.0, 0.0)
    assert score_range(scores, scores, 0.1, np.array([0, 1])) == (-500.0, 0.0)
