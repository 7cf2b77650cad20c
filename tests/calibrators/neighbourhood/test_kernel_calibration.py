"""Kernel calibration: plain loops, closed forms, all bandwidths at once, zeros and other edges."""

import tracemalloc
from itertools import product
from math import exp, factorial, inf, lgamma, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import dirichlet

from calibrant import KernelCalibration, Predictions
from calibrant.calibrators.neighbourhood.kernel import (
    DirichletAroundPoints,
    DirichletAroundRows,
    GaussianWeights,
    KernelMeans,
    kernel_values,
)
from calibrant.errors import CalibrationWarning, ParameterError
from strategies import class_orders

KINDS = [("rbf", "prediction"), ("dirichlet", "prediction"), ("dirichlet", "calibration")]
every_kind = pytest.mark.parametrize(
    ("kernel", "centre"), KINDS, ids=["rbf", "dirichlet", "dirichlet-program"]
)
WEIGHTS = {
    ("rbf", "prediction"): GaussianWeights,
    ("dirichlet", "prediction"): DirichletAroundRows,
    ("dirichlet", "calibration"): DirichletAroundPoints,
}
GRID = [1.6 * 2.0**j for j in range(-9, 7)]


def some_rows(n_rows=200, n_classes=4, seed=0):
    """Over-confident rows, so that there is something to correct."""
    generator = np.random.default_rng(seed)
    p = 0.99 * generator.dirichlet(np.full(n_classes, 0.5), n_rows) + 0.01 / n_classes
    labels = (0.5 * np.log(p) + generator.gumbel(size=p.shape)).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)[:n_rows]
    return p, labels


def naive_log_kernel(p, q, kernel, bandwidth):
    """By the formula of the thesis, term by term."""
    if kernel == "rbf":
        return -bandwidth * sum((a - b) ** 2 for a, b in zip(p, q, strict=True))
    alpha = [a / bandwidth + 1 for a in p]
    total = lgamma(sum(alpha)) - sum(lgamma(a) for a in alpha)
    for a, b in zip(alpha, q, strict=True):
        if a > 1:
            total += (a - 1) * log(b) if b > 0 else -inf
    return total


def naive_calibration(p, labels, weights, row, kernel, bandwidth, centre, assumption, crop, epsilon):
    """One row by two loops, in the order of the thesis: weights, mean, subtraction, cropping, division."""
    n_classes = len(row)
    exponents = [
        naive_log_kernel(*((row, point) if centre == "prediction" else (point, row)), kernel, bandwidth)
        for point in p
    ]
    highest = max(exponents)
    total, sums = 0.0, [0.0] * n_classes
    for point, label, weight, exponent in zip(p, labels, weights, exponents, strict=True):
        share = weight * exp(exponent - highest)
        total += share
        for k in range(n_classes):
            outcome = float(k == label)
            sums[k] += share * (outcome if assumption == "equal-labels" else point[k] - outcome)
    means = [value / total for value in sums]
    scores = means if assumption == "equal-labels" else [a - b for a, b in zip(row, means, strict=True)]
    if crop == "clip":
        scores = [min(max(score, epsilon), 1 - epsilon) for score in scores]
    else:
        scores = [epsilon if score < 0 else 1 - epsilon if score > 1 else score for score in scores]
    return [score / sum(scores) for score in scores]


@every_kind
@pytest.mark.parametrize("assumption", ["equal-errors", "equal-labels"])
@pytest.mark.parametrize("crop", ["clip", "outside"])
def test_two_plain_loops_give_the_same(kernel, centre, assumption, crop):
    p, labels = some_rows(60)
    weights = np.random.default_rng(1).uniform(1, 3, len(labels))
    fresh, _ = some_rows(8, seed=2)
    for bandwidth in (0.003125, 0.1, 1.6, 102.4):
        calibrator = KernelCalibration(kernel, bandwidth, centre, assumption, crop, 0.01, guard=False)
        found = calibrator.fit(p, labels, weights).predict_proba(fresh)
        chosen = (kernel, bandwidth, centre, assumption, crop, 0.01)
        expected = [naive_calibration(p, labels, weights, row, *chosen) for row in fresh]
        np.testing.assert_allclose(found, expected, rtol=1e-10)


# The kernels


def test_the_dirichlet_kernel_is_the_density_of_scipy():
    p, q = some_rows(3)[0], some_rows(5, seed=3)[0]
    expected = [[dirichlet.pdf(b, a / 0.1 + 1) for b in q] for a in p]
    np.testing.assert_allclose(kernel_values(p, q, bandwidth=0.1), expected, rtol=1e-10)


def test_the_density_of_two_classes_integrates_to_one():
    area, _ = quad(lambda t: kernel_values([[0.8, 0.2]], [[t, 1 - t]], bandwidth=0.05).item(), 0, 1)
    assert area == pytest.approx(1, rel=1e-8)


def test_both_kernels_are_highest_at_their_centre():
    """Figure 11 of the thesis: p1 = (0.75, 0.2, 0.05) with h = 0.1 and gamma = 30, over a grid of the simplex."""
    grid = np.array([(i, j, 20 - i - j) for i, j in product(range(21), repeat=2) if i + j <= 20]) / 20
    centre = [[0.75, 0.2, 0.05]]
    for kernel, bandwidth in (("dirichlet", 0.1), ("rbf", 30)):
        values = kernel_values(centre, grid, kernel, bandwidth)
        assert values.shape == (1, len(grid))
        np.testing.assert_array_equal(grid[values.argmax()], centre[0])


def test_the_radial_kernel_in_closed_form():
    """Squared distance of two corners: 2."""
    assert kernel_values([[1, 0, 0]], [[0, 1, 0]], "rbf", 3.0).item() == pytest.approx(exp(-6))


def test_zeros_in_the_density():
    """A class with no mass in the centre plays no part; one with mass that is denied makes the density zero."""
    values = kernel_values([[1, 0], [0.5, 0.5]], [[1, 0]], bandwidth=0.5)
    # Dir(alpha = (3, 1)) at (1, 0): Gamma(4) / (Gamma(3) Gamma(1)) = 3.
    np.testing.assert_allclose(values, [[3.0], [0.0]])


def test_logarithms_do_not_overflow():
    p = np.full((1, 2000), 1 / 2000)
    assert kernel_values(p, p, bandwidth=1e-6).item() == inf
    assert 5e3 < kernel_values(p, p, bandwidth=1e-6, logarithms=True).item() < inf


def test_bad_requests_for_kernel_values_are_refused():
    with pytest.raises(ParameterError, match="kernel must be 'dirichlet' or 'rbf', not 'cosine'"):
        kernel_values([[0.5, 0.5]], [[0.5, 0.5]], "cosine")
    with pytest.raises(ParameterError, match="bandwidth must be a positive number"):
        kernel_values([[0.5, 0.5]], [[0.5, 0.5]], bandwidth=0)
    with pytest.raises(ParameterError, match="2 and 3 columns"):
        kernel_values([[0.5, 0.5]], [[0.5, 0.25, 0.25]])


# All bandwidths at once


def means_of(kind, points, rows, sizes, weights=None):
    targets = np.random.default_rng(4).normal(size=points.shape)
    weights = np.ones(len(points)) if weights is None else weights
    means = KernelMeans(WEIGHTS[kind](points), targets, weights, sizes)
    return list(means.means(rows, sizes)), targets


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [GRID, [0.05, 0.1, 0.15, 0.2, 7.0]], ids=["doubling", "any"])
def test_all_bandwidths_at_once_are_each_alone(kind, sizes):
    """Squares of exponentials lose a few digits only, and come back in the order of the question."""
    points, rows = some_rows(80)[0], some_rows(30, seed=5)[0]
    together, _ = means_of(kind, points, rows, sizes)
    for size, found in zip(sizes, together, strict=True):
        (alone,), _ = means_of(kind, points, rows, [size])
        np.testing.assert_allclose(found, alone, rtol=0, atol=1e-11)


@every_kind
def test_the_search_has_the_losses_of_separate_fits(kernel, centre):
    p, labels = some_rows(120)
    splits = [(np.arange(40, 120), np.arange(40)), (np.arange(80), np.arange(80, 120))]
    found = KernelCalibration(kernel, [0.1, 0.8, 6.4], centre, cv=splits, guard=False).fit(p, labels)
    for bandwidth, loss in zip(found.search_["bandwidth"], found.search_["loss"], strict=True):
        losses = []
        for train, test in splits:
            single = KernelCalibration(kernel, bandwidth, centre, guard=False).fit(p[train], labels[train])
            losses.append(-np.log(single.predict_proba(p[test])[np.arange(40), labels[test]]))
        assert loss == pytest.approx(np.mean(losses), rel=1e-10)
    assert found.bandwidth_ == found.search_["bandwidth"][found.search_["loss"].argmin()]


@pytest.mark.parametrize("kernel", ["rbf", "dirichlet"])
def test_auto_tries_the_grid_of_the_thesis(kernel):
    """1.6 times the powers of two from -9 to 6: 0.003125 to 102.4."""
    found = KernelCalibration(kernel).fit(*some_rows())
    np.testing.assert_allclose(found.search_["bandwidth"], [0.003125 * 2**j for j in range(16)])
    assert found.search_["bandwidth"][-1] == pytest.approx(102.4)


def test_the_factors_of_points_may_be_too_far_apart_for_products():
    """With many classes and a narrow kernel they span thousands of nats; the logarithms of the density say what is right."""
    points = np.vstack([np.eye(300)[:5] * 0.9 + 0.1 / 300, np.full((1, 300), 1 / 300)])
    rows = np.vstack([0.5 * (points[0] + points[5]), points[5]])
    (found,), targets = means_of(("dirichlet", "calibration"), points, rows, [1e-6])
    exponents = kernel_values(points, rows, bandwidth=1e-6, logarithms=True).T
    shares = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, shares @ targets / shares.sum(axis=1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(found[1], targets[5])


def test_factors_that_are_zero_in_floating_point_still_count():
    """A corner and the middle of 300 classes, at a row where both kernels have the same density: the mean of the two.

    The factor of the middle is about exp(-800) of the other, which no product of floats knows.
    """
    points = np.vstack([np.eye(300)[0], np.full(300, 1 / 300)])

    def row(first):
        return np.array([[first, *[(1 - first) / 299] * 299]])

    def difference(first):
        corner, middle = kernel_values(points, row(first), bandwidth=1e-4, logarithms=True)[:, 0]
        return corner - middle

    kernel = DirichletAroundPoints(points)
    assert np.ptp(kernel.log_factors(1e-4)) > 750
    rows = row(brentq(difference, 0.01, 0.9, xtol=1e-15))
    (found,), targets = means_of(("dirichlet", "calibration"), points, rows, [1e-4])
    np.testing.assert_allclose(found[0], targets.mean(axis=0), rtol=0, atol=1e-8)


@pytest.mark.parametrize("power", [1, 30, 999, 1000, 1001, 1500, 3000, 10_000])
def test_the_factor_of_a_corner_is_that_of_a_factorial(power):
    """With h = 1/m the density around (1, 0) has the factor m^m e^-m / m!, on both sides of where a series takes over."""
    (found,) = DirichletAroundPoints(np.array([[1.0, 0.0]])).log_factors(1 / power)
    rounding = 1e-15 * power * log(power + 1)
    assert found == pytest.approx(power * log(power) - power - log(factorial(power)), abs=1e-11 + rounding)


def test_factors_of_large_powers_are_those_of_the_gamma_function():
    """Differences of numbers of up to a million nats, hence nine digits; the second term of the series is 8e-7 and more."""
    for power in np.geomspace(1e3, 1e5, 21):
        (found,) = DirichletAroundPoints(np.array([[1.0, 0.0]])).log_factors(1 / power)
        assert found == pytest.approx(power * log(power) - power - gammaln(power + 1), abs=1e-9)


# Limits and edges


@every_kind
def test_a_narrow_kernel_is_the_nearest_row(kernel, centre):
    """Even where every kernel value by itself is zero in floating point."""
    p = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    bandwidth = 1e7 if kernel == "rbf" else 1e-7
    calibrator = KernelCalibration(kernel, bandwidth, centre, crop="outside", guard=False)
    found = calibrator.fit(p, [0, 2, 1]).predict_proba([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    # The nearest are (0.8, 0.1, 0.1) of class 0, error (-0.2, 0.1, 0.1), and (0.1, 0.1, 0.8) of class 1.
    np.testing.assert_allclose(found[0], [0.8, 0.2, 0.0], atol=2e-4)
    np.testing.assert_allclose(found[1], np.array([0.1, 1 - 1e-4, 1e-4]) / 1.1, atol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "dirichlet"])
def test_a_wide_kernel_takes_away_the_mean_of_all_errors(kernel):
    """Four rows at 0.9 of which two are wrong, and four at 0.6 of which one is wrong: the error is 0.125 in the mean."""
    p = [[0.9, 0.1]] * 4 + [[0.6, 0.4]] * 4
    calibrator = KernelCalibration(kernel, 1e-12 if kernel == "rbf" else 1e12)
    calibrator.fit(p, [0, 0, 1, 1, 0, 0, 0, 1])
    found = calibrator.predict_proba([[0.9, 0.1], [0.6, 0.4]])
    np.testing.assert_allclose(found[:, 0], [0.775, 0.475], rtol=1e-9)


def test_zeros_are_no_neighbours_of_what_they_deny():
    """Around the prediction a calibration row (1, 0) is no neighbour of (0.5, 0.5), and around the calibration row it is
    the other way round; what has no neighbour stays as it is."""
    p, labels = [[1.0, 0.0]] * 4 + [[0.0, 1.0]] * 4, [0, 0, 0, 1, 1, 1, 1, 0]
    text = KernelCalibration(bandwidth=0.5).fit(p, labels)
    np.testing.assert_allclose(text.predict_proba([[0.5, 0.5], [0.7, 0.3]]), [[0.5, 0.5], [0.7, 0.3]])
    np.testing.assert_allclose(text.predict_proba([[1.0, 0.0]]), [[0.75, 0.25]])
    program = KernelCalibration(bandwidth=0.5, centre="calibration").fit(p, labels)
    # Shares of the two corners at (0.7, 0.3): 0.7^2 to 0.3^2; errors (0.25, -0.25) and (-0.25, 0.25).
    shift = 0.25 * (0.49 - 0.09) / 0.58
    np.testing.assert_allclose(program.predict_proba([[0.7, 0.3]]), [[0.7 - shift, 0.3 + shift]])


@every_kind
def test_weight_two_is_a_repeated_row_to_rounding(kernel, centre):
    p, labels = some_rows()
    twice = np.arange(len(p)) % 3 == 0
    bandwidth = 12.8 if kernel == "rbf" else 0.1
    weighted = KernelCalibration(kernel, bandwidth, centre).fit(p, labels, np.where(twice, 2.0, 1.0))
    repeated = KernelCalibration(kernel, bandwidth, centre)
    repeated.fit(np.vstack([p, p[twice]]), np.concatenate([labels, labels[twice]]))
    np.testing.assert_allclose(weighted.predict_proba(p), repeated.predict_proba(p), rtol=1e-12)


@every_kind
@settings(max_examples=10)
@given(exponent=st.integers(-60, 60), order=class_orders(4), seed=st.integers(0, 5))
def test_any_bandwidth_and_order_of_classes_gives_probabilities(kernel, centre, exponent, order, seed):
    p, labels = some_rows(40, seed=seed)
    p[::4] = np.eye(4)[p[::4].argmax(axis=1)]
    rows = np.vstack(
        [p, np.eye(4), some_rows(10, seed=9)[0], [[0.5, 0.5, 0.0, 0.0], [1e-300, 0.0, 0.0, 1.0]]]
    )
    calibrator = KernelCalibration(kernel, 2.0**exponent, centre, guard=False)
    found = calibrator.fit(p, labels).predict_proba(rows)
    assert (found > 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    permuted = calibrator.fit(p[:, order], np.argsort(order)[labels]).predict_proba(rows[:, order])
    # Narrow kernels tell points apart by the last digits of a distance; not so at moderate bandwidths.
    if abs(exponent) <= 10:
        np.testing.assert_allclose(permuted, found[:, order], atol=1e-9)


@pytest.mark.parametrize("bandwidth", [5e-324, 1e-310, 1e308])
@every_kind
def test_the_smallest_and_the_largest_float_are_bandwidths(kernel, centre, bandwidth):
    p, labels = some_rows(30)
    found = KernelCalibration(kernel, bandwidth, centre, guard=False).fit(p, labels).predict_proba(p)
    np.testing.assert_allclose(found.sum(axis=1), 1)


@every_kind
def test_float32_rows_give_what_float64_rows_give(kernel, centre):
    p, labels = some_rows()
    bandwidth = 12.8 if kernel == "rbf" else 0.1
    double = KernelCalibration(kernel, bandwidth, centre).fit(p, labels).predict_proba(p)
    single = KernelCalibration(kernel, bandwidth, centre).fit(p.astype(np.float32), labels)
    found = single.predict_proba(p.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, double, atol=2e-6)


@pytest.mark.parametrize("kernel", ["rbf", "dirichlet"])
def test_harm_is_not_done(kernel):
    """One shift for all rows pushes small probabilities below zero; doing nothing is better, and is what remains."""
    p = np.repeat([[0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [0.01, 0.01, 0.98]], 30, axis=0)
    labels = np.repeat([0, 1, 2], 30)
    labels[:2], labels[30:34] = 1, 0  # class 1 is predicted too often, and missed where it was given 0.01
    calibrator = KernelCalibration(kernel, 1e-9 if kernel == "rbf" else 1e9)
    with pytest.warns(CalibrationWarning, match="identity is at least as good"):
        calibrator.fit(p, labels)
    np.testing.assert_array_equal(calibrator.predict_proba(p), p)


def test_logits_are_their_softmax():
    p, labels = some_rows()
    on_logits = KernelCalibration(bandwidth=0.1).fit(Predictions.from_logits(np.log(p)), labels)
    on_probabilities = KernelCalibration(bandwidth=0.1).fit(p, labels)
    np.testing.assert_allclose(
        on_logits.predict_proba(Predictions.from_logits(np.log(p))),
        on_probabilities.predict_proba(p),
        rtol=1e-9,
    )


@pytest.mark.parametrize(("n_points", "n_classes"), [(6000, 3), (20, 500)])
def test_memory_is_bounded_by_blocks(n_points, n_classes):
    """All pairs, or all means of all bandwidths, would take gigabytes."""
    points, rows = some_rows(n_points, n_classes)[0], some_rows(2000, n_classes, seed=1)[0]
    means = KernelMeans(DirichletAroundRows(points), points, np.ones(n_points), GRID)
    assert means.block_rows < 2000
    tracemalloc.start()
    list(means.means(rows[: means.block_rows], GRID))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * 2**23  # five blocks of a million numbers


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "gaussian"}, "kernel must be 'dirichlet' or 'rbf', not 'gaussian'"),
        ({"centre": "center"}, "centre must be 'prediction' or 'calibration', not 'center'"),
        ({"bandwidth": 0}, "bandwidth must be a positive number"),
        ({"bandwidth": [0.1, -1]}, "bandwidth must be a positive number.*-1"),
        ({"bandwidth": inf}, "bandwidth must be a positive number.*inf is not positive and finite"),
        ({"bandwidth": True}, "bandwidth must be a positive number.*True is not a number"),
        ({"bandwidth": [0.1, None]}, "bandwidth must be a positive number.*None is not a number"),
        ({"bandwidth": []}, "bandwidth must have at least one number"),
        ({"bandwidth": "scott"}, "bandwidth must be a number, a list of numbers or 'auto', not 'scott'"),
        ({"assumption": "none"}, "assumption must be 'equal-errors' or 'equal-labels', not 'none'"),
        ({"crop": "none"}, "crop must be 'clip' or 'outside', not 'none'"),
        ({"epsilon": 0.6}, "epsilon must be 'auto' or lie strictly between 0 and 0.5"),
        ({"cv": 1}, "cv must be a whole number of at least 2"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        KernelCalibration(**parameters).fit(*some_rows(20))
