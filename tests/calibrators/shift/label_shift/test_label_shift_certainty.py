"""How sure shares without labels are: intervals, classes that look alike, and changes that are no label shift."""

import warnings
from math import sqrt

import numpy as np
import pytest
from label_shift_rows import METHODS, equal, rows_of
from scipy.optimize import brentq, minimize
from scipy.stats import chi2, norm

from calibrant import BiasCorrectedTemperature, LabelShift, Predictions
from calibrant.calibrators.shift.label_shift.diagnostics import Directions, indistinct_groups
from calibrant.calibrators.shift.label_shift.estimators import ConfusionPrior, LikelihoodPrior, ProfilePaths
from calibrant.errors import CalibrationWarning


@pytest.fixture(scope="module")
def source():
    return rows_of(equal(4), 2000, 0)


@pytest.fixture(scope="module")
def target():
    return rows_of([0.6, 0.3, 0.08, 0.02], 1500, 1)


# Intervals


def test_directions_are_those_in_which_a_quadratic_minimum_moves():
    """A linear term c moves the minimum of a quadratic over the simplex by the response times c, while no weight
    reaches zero; fixing one weight moves the others along its direction.
    """
    generator = np.random.default_rng(2)
    root = generator.normal(size=(6, 4))
    hessian = root.T @ root
    inside = np.array([0.3, 0.4, 0.2, 0.1])
    around = Directions.around(inside, hessian, np.zeros(4))
    np.testing.assert_allclose(around.vectors.sum(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(np.diagonal(around.vectors), 1, atol=1e-9)
    linear = 1e-3 * generator.normal(size=4)
    border = np.block([[hessian, np.ones((4, 1))], [np.ones((1, 4)), np.zeros((1, 1))]])
    moved = np.linalg.solve(border, [*linear, 0])[:4]
    np.testing.assert_allclose(around.response @ linear, moved, atol=1e-9)
    fixed = np.linalg.solve(
        np.block([[border, np.eye(5)[:, :1]], [np.eye(5)[:1], np.zeros((1, 1))]]), [0, 0, 0, 0, 0, 1]
    )[:4]
    np.testing.assert_allclose(around.vectors[0], fixed, atol=1e-8)
    assert around.curvatures[0] == pytest.approx(fixed @ hessian @ fixed, rel=1e-8)


def test_directions_at_the_edge_keep_other_zeros():
    hessian = np.diag([1.0, 2.0, 3.0, 4.0])
    around = Directions.around(np.array([0.5, 0.5, 0.0, 0.0]), hessian, np.zeros(4))
    # Entering by one takes 2/3 from the first and 1/3 from the second, where curvatures are 1 and 2.
    np.testing.assert_allclose(around.vectors[2], [-2 / 3, -1 / 3, 1, 0], atol=1e-9)
    corner = Directions.around(np.array([1.0, 0.0, 0.0, 0.0]), hessian, np.array([0, -3.0, -1.0, -2.0]))
    np.testing.assert_array_equal(corner.vectors[0], [1, 0, -1, 0])


def test_limits_of_perfectly_known_classes_are_those_of_a_proportion():
    """Predictions of zero and one are labels: the likelihood is that of a binomial proportion.

    Seven of ten: limits solve 2 (l(0.7) - l(t)) = 3.84. None of ten: 20 (- log(1 - t)) = 3.84.
    """
    allowed = chi2.ppf(0.95, 1)
    found = LikelihoodPrior(np.repeat(np.eye(3), [3, 7, 0], axis=0), None, equal(3))
    np.testing.assert_allclose(found.prior, [0.3, 0.7, 0], atol=1e-9)
    lower, upper = found.limits(np.full(3, sqrt(allowed)), np.zeros(3))

    def fall(t):
        return 2 * (7 * np.log(0.7 / t) + 3 * np.log(0.3 / (1 - t))) - allowed

    assert lower[1] == pytest.approx(brentq(fall, 0.1, 0.7), abs=1e-3)
    assert upper[1] == pytest.approx(brentq(fall, 0.7, 0.99), abs=1e-3)
    assert lower[2] == 0
    assert upper[2] == pytest.approx(1 - np.exp(-allowed / 20), abs=1e-3)


def test_limits_are_close_to_those_of_the_exact_profile_likelihood(target):
    """The profile maximises over all other shares, by a general routine."""
    q = target[0][:300]
    found = LikelihoodPrior(q, None, equal(4))
    lower, upper = found.limits(np.full(4, 1.96), np.zeros(4))

    def likelihood(prior):
        return np.log(q @ prior).sum()

    def profile(k, share):
        def loss(free):
            others = np.exp(free - free.max())
            return -likelihood(np.insert((1 - share) * others / others.sum(), k, share))

        start = np.log(np.delete(found.prior, k) + 1e-3)
        return -minimize(loss, start, method="BFGS", tol=1e-8).fun

    top = likelihood(found.prior)
    for k in range(4):
        for limit in (lower[k], upper[k]):
            if limit > 0:
                assert 2 * (top - profile(k, limit)) == pytest.approx(1.96**2, rel=0.03)


def test_paths_stay_in_the_simplex_and_have_the_share_they_are_asked_for():
    """The coefficients say how much of the estimate, of the direction and of the class itself a path is made of."""
    weights = np.array([0.5, 0.3, 0.2, 0.0])
    hessian = np.linalg.inv(np.diag([1.0, 2, 3, 4]) + 0.2)
    vectors = Directions.around(weights, hessian, np.zeros(4)).vectors
    paths = ProfilePaths(np.eye(4), None, weights, vectors)
    for share in (0.0, 0.1, 0.45, 0.9, 1.0):
        a, b, c = paths._coefficients(np.full(4, share))
        points = a[:, np.newaxis] * weights + b[:, np.newaxis] * vectors + np.diag(c)
        np.testing.assert_allclose(np.diagonal(points), share, atol=1e-12)
        np.testing.assert_allclose(points.sum(axis=1), 1, atol=1e-12)
        assert points.min() > -1e-12


def test_limits_from_a_perfect_confusion_matrix_are_those_of_wilson():
    """With C the identity the share is the proportion of predictions, (x + z^2/2 -+ z sqrt(...)) / (n + z^2)."""
    predicted = np.repeat(np.eye(2), [3, 7], axis=0)
    z = norm.ppf(0.975)
    found = ConfusionPrior(predicted, None, np.eye(2), equal(2), 0.0)
    lower, upper = found.limits(np.full(2, z), np.zeros(2))
    middle, half = (7 + z**2 / 2) / (10 + z**2), z * sqrt(10) / (10 + z**2) * sqrt(0.7 * 0.3 + z**2 / 40)
    assert lower[1] == pytest.approx(middle - half, abs=1e-9)
    assert upper[1] == pytest.approx(middle + half, abs=1e-9)
    never = ConfusionPrior(predicted[:3], None, np.eye(2), equal(2), 0.0)
    lower, upper = never.limits(np.full(2, z), np.zeros(2))
    assert (lower[1], upper[1]) == (0, pytest.approx(z**2 / (3 + z**2), abs=1e-9))


@pytest.mark.parametrize("method", METHODS)
def test_few_source_rows_make_intervals_wider(method, source, target):
    given = LabelShift(method=method, n_groups=0).fit(source[0][:300], source[1][:300])
    known = given.estimate(target[0])
    counted = LabelShift(method=method).fit(source[0][:300], source[1][:300]).estimate(target[0])
    np.testing.assert_array_equal(counted.prior, known.prior)
    assert ((counted.upper - counted.lower)[:2] > 1.2 * (known.upper - known.lower)[:2]).all()


@pytest.mark.parametrize(
    ("method", "n_times"),
    [
        ("em", 25),
        pytest.param("em", 150, marks=pytest.mark.slow),
        pytest.param("confusion", 150, marks=pytest.mark.slow),
        pytest.param("confusion-soft", 150, marks=pytest.mark.slow),
    ],
)
def test_intervals_cover_the_true_shares_as_often_as_they_say(method, n_times):
    """Many sources and targets, four classes, one share of zero: nine of ten intervals at 90 % should hold the truth.

    Four intervals of one target hold about as much news as two, hence a standard error of sqrt(0.09 / 2n), of which 3.5
    are allowed for; the limits of a share of zero hold it almost always.
    """
    shares = np.array([0.6, 0.3, 0.1, 0.0])
    hits = 0
    for seed in range(n_times):
        fitted = LabelShift(method=method, n_groups=10).fit(*rows_of(equal(4), 400, [seed, 0]))
        found = fitted.estimate(rows_of(shares, 250, [seed, 1])[0], level=0.9)
        hits += ((found.lower <= shares) & (shares <= found.upper)).sum()
        assert ((found.lower <= found.prior) & (found.prior <= found.upper)).all()
    assert hits / (4 * n_times) == pytest.approx(0.91, abs=3.5 * sqrt(0.09 / 2 / n_times))


# Warnings


def test_classes_that_get_the_same_predictions_are_named():
    """The second and third class share evenly what they get: their sum can be estimated, not their shares."""
    p, y = rows_of(equal(3), 3000, 3)
    same = np.column_stack([p[:, 0], p[:, 1], p[:, 2]])
    same[:, 1:] = same[:, 1:].mean(axis=1, keepdims=True)
    fitted = LabelShift(n_groups=0).fit(same, [["a", "b", "c"][label] for label in y])
    assert fitted.indistinct_ == [[1, 2]]
    with pytest.warns(CalibrationWarning, match=r"tell these classes apart: 'b', 'c'"):
        estimate = fitted.estimate(same[:500])
    assert not estimate.identifiable
    assert estimate.indistinct == [["b", "c"]]
    # Anything between none and all of their sum is possible.
    assert estimate.lower[1] == pytest.approx(0, abs=1e-6)
    assert estimate.upper[1] > estimate.prior[1:].sum() - 1e-6


def test_columns_of_noise_tell_nothing_apart():
    """Scores of two classes that differ at random look informative, but labels say that they are not."""
    p, y = rows_of(equal(3), 3000, 4)
    noise = np.random.default_rng(5).random(3000)
    pair = p[:, 1] + p[:, 2]
    noisy = np.column_stack([p[:, 0], noise * pair, (1 - noise) * pair])
    assert LabelShift(n_groups=0).fit(noisy, y).indistinct_ == [[1, 2]]


def test_predictions_without_information_tell_no_class_from_another():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = LabelShift().fit(np.full((90, 3), 1 / 3), np.arange(90) % 3)
        estimate = fitted.estimate(np.full((20, 3), 1 / 3))
    assert estimate.indistinct == [[0, 1, 2]]
    assert np.isfinite(estimate.prior).all()


def test_two_pairs_are_two_groups():
    q = np.repeat([[0.4, 0.4, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4]], 500, axis=0)
    labels = np.repeat([0, 1, 2, 3] * 2, [200, 200, 50, 50, 50, 50, 200, 200])
    assert indistinct_groups(q, labels) == [[0, 1], [2, 3]]


def exchangeable(n_rows, shares, seed):
    """Return predictions and labels of four classes, of which the last two get the same logits but for noise."""
    generator = np.random.default_rng([seed, n_rows])
    labels = generator.choice(4, n_rows, p=shares)
    known = np.eye(4)[labels]
    known[:, 2] += known[:, 3]
    logits = 1.5 * generator.normal(size=(n_rows, 4)) + 2.25 * known
    logits[:, 3] = logits[:, 2] + generator.normal(size=n_rows)
    predictions = Predictions.from_logits(logits)
    return BiasCorrectedTemperature().fit(predictions, labels).predict_proba(predictions), labels


@pytest.mark.parametrize(
    ("shares", "n_times"),
    [
        ([0.45, 0.45, 0.05, 0.05], 60),
        pytest.param([0.25] * 4, 1500, marks=pytest.mark.slow),
        pytest.param([0.45, 0.45, 0.05, 0.05], 1500, marks=pytest.mark.slow),
    ],
)
def test_exchangeable_classes_are_missed_as_rarely_as_three_standard_errors_say(shares, n_times):
    """A probability of 0.0027 for each of n runs; three standard errors more are allowed for.

    The variance of all rows, where that of rows of the two classes is due, missed 1.6 % of equal and 22 % of rare
    classes.
    """
    missed = sum(indistinct_groups(*exchangeable(800, shares, seed)) == [] for seed in range(n_times))
    assert missed <= 0.0027 * n_times + 3 * sqrt(0.0027 * n_times)


@pytest.mark.parametrize(("spread", "n_rows"), [(0.7, 800), (1.0, 400), (1.5, 200)])
def test_classes_that_differ_raise_no_alarm(spread, n_rows):
    """Four classes, whose shares can be told from 50 rows each if they are far apart, and from 200 if they are not."""
    alarms = 0
    for seed in range(20):
        p, labels = rows_of(equal(4), n_rows, [seed, n_rows], spread)
        alarms += indistinct_groups(p, labels) != []
    assert alarms == 0


def test_weights_count_rows_in_what_is_told_apart():
    """Forty rows do not tell these classes apart; ten times as many do, however they are written."""
    p, labels = rows_of(equal(3), 40, 3, spread=0.8)
    assert indistinct_groups(p, labels) != []
    assert indistinct_groups(p, labels, np.full(40, 10.0)) == []
    assert indistinct_groups(np.repeat(p, 10, axis=0), np.repeat(labels, 10)) == []


def test_a_target_that_is_no_shifted_source_is_reported(source, target):
    """Predictions of the target were made timid, as by blurred images."""
    timid = target[0] ** 0.3
    timid /= timid.sum(axis=1, keepdims=True)
    for method in METHODS:
        fitted = LabelShift(method=method).fit(*source)
        assert fitted.estimate(target[0]).p_value > 0.01
        with pytest.warns(CalibrationWarning, match="more than the shares has changed"):
            assert fitted.estimate(timid).p_value < 1e-3
