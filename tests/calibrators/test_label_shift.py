"""Shares of the classes without labels: closed forms, naive algorithms, intervals and warnings."""

import tracemalloc
import warnings
from math import sqrt

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.stats import chi2, norm

import calibrant
from calibrant import LabelShift, Predictions, TemperatureScaling
from calibrant.calibrators.shift.confusion_prior import ConfusionPrior
from calibrant.calibrators.shift.likelihood_prior import LikelihoodPrior
from calibrant.calibrators.shift.profile_limits import ProfilePaths
from calibrant.calibrators.shift.separation import indistinct_groups
from calibrant.calibrators.shift.simplex_directions import Directions
from calibrant.errors import CalibrationWarning, MissingClassWarning, ParameterError, WeightError

METHODS = ["em", "confusion", "confusion-soft"]


def rows_of(shares, n_rows, seed, spread=1.5):
    """Return posterior probabilities under equal shares, and labels, of rows with these shares of the classes.

    Class k is a Gaussian of unit variance around ``spread`` times the k-th unit vector, so that the posterior is the softmax
    of spread times x, and calibrated as long as shares are equal.
    """
    generator = np.random.default_rng(seed)
    labels = generator.choice(len(shares), n_rows, p=shares)
    x = generator.normal(size=(n_rows, len(shares))) + spread * np.eye(len(shares))[labels]
    return Predictions.from_logits(spread * x).probabilities, labels


def equal(n_classes):
    return np.full(n_classes, 1 / n_classes)


@pytest.fixture(scope="module")
def source():
    return rows_of(equal(4), 2000, 0)


@pytest.fixture(scope="module")
def target():
    return rows_of([0.6, 0.3, 0.08, 0.02], 1500, 1)


# Estimates


def naive_em(q, source_prior, n_steps):
    """Saerens, Latinne and Decaestecker, equations 9 to 11, one step after another."""
    prior = source_prior.copy()
    for _ in range(n_steps):
        responsibilities = q * prior / source_prior
        responsibilities /= responsibilities.sum(axis=1, keepdims=True)
        prior = responsibilities.mean(axis=0)
    return prior


def test_expectation_maximisation_converges_to_the_estimate(source, target):
    fitted = LabelShift().fit(*source)
    q = fitted.predict_proba(target[0])
    estimate = fitted.estimate(target[0])
    np.testing.assert_allclose(estimate.prior, naive_em(q, q_mean(fitted, source), 500), atol=1e-6)
    assert (estimate.prior >= 0).all()
    assert estimate.prior.sum() == pytest.approx(1, abs=1e-12)


def q_mean(fitted, source):
    return fitted.predict_proba(source[0]).mean(axis=0)


@pytest.mark.parametrize("method", METHODS)
def test_two_classes_and_two_scores_have_a_closed_form(method):
    """With 0.8 right in either class a share of 0.7 of the higher score means (0.7 - 0.2) / (0.8 - 0.2) = 5/6."""
    p, y = [0.8] * 500 + [0.2] * 500, [1] * 400 + [0] * 100 + [0] * 400 + [1] * 100
    estimate = LabelShift(method=method).fit(p, y).estimate([0.8] * 70 + [0.2] * 30)
    np.testing.assert_allclose(estimate.prior, [1 / 6, 5 / 6], atol=1e-6)
    np.testing.assert_allclose(estimate.ratio, [1 / 3, 5 / 3], atol=1e-6)


@pytest.mark.parametrize("method", ["confusion", "confusion-soft"])
def test_a_solution_inside_the_simplex_is_the_inverse_of_the_confusion_matrix(method, source, target):
    fitted = LabelShift(method=method, n_groups=0).fit(*source)
    q, labels = fitted.predict_proba(source[0]), source[1]
    mean = fitted.predict_proba(target[0])
    if method == "confusion":
        q, mean = np.eye(4)[q.argmax(axis=1)], np.eye(4)[mean.argmax(axis=1)]
    joint = np.zeros((4, 4))
    for row, label in zip(q, labels, strict=True):
        joint[:, label] += row / len(labels)
    weights = np.linalg.solve(joint, mean.mean(axis=0))
    assert (weights > 0).all()
    shares = np.bincount(labels) / len(labels)
    np.testing.assert_allclose(fitted.estimate(target[0]).prior, weights * shares, atol=1e-7)


def test_where_the_inverse_has_negative_shares_the_nearest_implied_predictions_are_found():
    """C = 0.7 + 0.1 everywhere implies 0.7 pi + 0.1, so that the shares nearest to (mu - 0.1) / 0.7 are sought.

    For mu = (0.7, 0.29, 0.01) that is (6/7, 0.19/0.7, -0.09/0.7): the negative share is lent by the two others in equal
    parts, where setting it to zero and dividing by the sum would take more from the larger one.
    """
    predicted = np.repeat(np.eye(3), [70, 29, 1], axis=0)
    found = ConfusionPrior(predicted, None, 0.7 * np.eye(3) + 0.1, equal(3), 0.0)
    lent = 0.09 / 0.7 / 2
    np.testing.assert_allclose(found.prior, [6 / 7 - lent, 0.19 / 0.7 - lent, 0], atol=1e-9)


def test_a_strong_ridge_means_no_shift(source, target):
    free = LabelShift(method="confusion", n_groups=0).fit(*source).estimate(target[0])
    held = LabelShift(method="confusion", n_groups=0, ridge=1e6).fit(*source).estimate(target[0])
    some = LabelShift(method="confusion", n_groups=0, ridge=0.1).fit(*source).estimate(target[0])
    np.testing.assert_allclose(held.prior, held.source_prior, atol=1e-5)
    assert 0.02 < some.prior[0] - held.prior[0] < free.prior[0] - held.prior[0]


@pytest.mark.parametrize("source_prior", ["predictions", "labels"])
def test_the_source_itself_shows_no_shift(source, source_prior):
    """At the shares of the mean prediction the mean of every ratio is one, which is the condition of the maximum."""
    fitted = LabelShift(source_prior=source_prior, n_groups=0).fit(*source)
    np.testing.assert_allclose(fitted.estimate(source[0]).ratio, 1, atol=1e-5)
    temperature = LabelShift(TemperatureScaling(), n_groups=0).fit(*source)
    np.testing.assert_allclose(temperature.estimate(source[0]).ratio, 1, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_target_and_source_rows_count_them(method, source, target):
    few, labels = source[0][:400], source[1][:400]
    weights, target_weights = np.arange(400) % 3, np.arange(300) % 4
    weighted = LabelShift(method=method, n_groups=0).fit(few, labels, sample_weight=weights)
    repeated = LabelShift(method=method, n_groups=0).fit(
        np.repeat(few, weights, axis=0), np.repeat(labels, weights)
    )
    one = weighted.estimate(target[0][:300], sample_weight=target_weights)
    other = repeated.estimate(np.repeat(target[0][:300], target_weights, axis=0))
    for name in ("prior", "lower", "upper"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=2e-4)


@pytest.mark.parametrize("method", METHODS)
def test_short_floats_and_logits_agree_with_long_floats(method, source, target):
    long = LabelShift(method=method, n_groups=0).fit(*source).estimate(target[0])
    short = LabelShift(method=method, n_groups=0).fit(source[0].astype(np.float32), source[1])
    np.testing.assert_allclose(short.estimate(target[0].astype(np.float32)).prior, long.prior, atol=1e-4)
    logits = LabelShift(method=method, n_groups=0).fit(Predictions.from_logits(np.log(source[0])), source[1])
    shifted = logits.estimate(Predictions.from_logits(np.log(target[0]) + 3))
    np.testing.assert_allclose(shifted.upper, long.upper, atol=1e-4)


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
    soft = np.array([[0.4, 0.4, 0.1, 0.1]] * 2 + [[0.1, 0.1, 0.4, 0.4]] * 2)
    moments = soft @ soft.T / 4
    assert indistinct_groups(soft, moments, equal(4), 1000) == [[0, 1], [2, 3]]


def test_a_target_that_is_no_shifted_source_is_reported(source, target):
    """Predictions of the target were made timid, as by blurred images."""
    timid = target[0] ** 0.3
    timid /= timid.sum(axis=1, keepdims=True)
    for method in METHODS:
        fitted = LabelShift(method=method).fit(*source)
        assert fitted.estimate(target[0]).p_value > 0.01
        with pytest.warns(CalibrationWarning, match="more than the shares has changed"):
            assert fitted.estimate(timid).p_value < 1e-3


# Adaptation


@pytest.mark.parametrize("method", METHODS)
def test_adapted_predictions_are_those_of_the_shares(method, source, target):
    fitted = LabelShift(method=method).fit(*source)
    before = fitted.predict_proba(target[0])
    estimate = fitted.estimate(target[0])
    adapted = fitted.adapt(target[0])
    weighted = before * estimate.ratio
    np.testing.assert_allclose(
        adapted.predict_proba(target[0]), weighted / weighted.sum(axis=1, keepdims=True), atol=1e-9
    )
    np.testing.assert_array_equal(fitted.predict_proba(target[0]), before)
    rows = np.arange(len(target[1]))
    gain = np.log(adapted.predict_proba(target[0])[rows, target[1]] / before[rows, target[1]])
    assert gain.mean() > 0.1


def test_no_class_becomes_impossible(source):
    """A class of which there is no sign among n rows counts as 1 / (2n) of them."""
    rows = rows_of([0.7, 0.3, 0.0, 0.0], 400, 6, spread=1.5)[0]
    fitted = LabelShift().fit(*source)
    estimate, adapted = fitted.estimate(rows), fitted.adapt(rows)
    assert estimate.prior.min() == 0
    assert adapted.target_prior_.min() == pytest.approx(1 / 800, rel=0.01)
    assert np.isfinite(np.log(adapted.predict_proba(np.eye(4)))).all()


def test_an_adapted_calibrator_can_be_saved_and_adapted_again(tmp_path, source, target):
    adapted = LabelShift(method="confusion", n_groups=3).fit(*source).adapt(target[0])
    adapted.save(tmp_path / "adapted.npz")
    loaded = calibrant.load(tmp_path / "adapted.npz")
    np.testing.assert_array_equal(loaded.predict_proba(target[0]), adapted.predict_proba(target[0]))
    again = loaded.estimate(target[0])
    np.testing.assert_array_equal(again.upper, adapted.estimate(target[0]).upper)
    np.testing.assert_array_equal(
        loaded.adapt(source[0]).predict_proba(source[0]), adapted.adapt(source[0]).predict_proba(source[0])
    )


# Edges


@pytest.mark.parametrize("method", METHODS)
def test_a_class_without_source_rows_keeps_what_the_classifier_gives(method, source, target):
    kept = source[1] != 3
    with pytest.warns(MissingClassWarning):
        fitted = LabelShift(method=method, n_groups=3).fit(source[0][kept], source[1][kept])
    estimate = fitted.estimate(target[0])
    assert estimate.prior[3] == pytest.approx(target[0][:, 3].mean(), rel=1e-9)
    assert (estimate.lower[3], estimate.upper[3], estimate.ratio[3]) == (0, 1, pytest.approx(1))
    assert estimate.prior.sum() == pytest.approx(1)
    adapted = fitted.adapt(target[0]).predict_proba(target[0])
    np.testing.assert_allclose(adapted[:, 3], target[0][:, 3], rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
def test_zeros_and_ones_single_rows_and_few_rows_give_finite_numbers(method):
    generator = np.random.default_rng(7)
    p = np.eye(3)[generator.integers(0, 3, 30)]
    y = np.where(generator.random(30) < 0.8, p.argmax(axis=1), generator.integers(0, 3, 30))
    y[:3] = [0, 1, 2]
    fitted = LabelShift(method=method).fit(p, y)
    for rows in (p, p[:1], np.full((2, 3), 1 / 3)):
        estimate = fitted.estimate(rows)
        for values in (estimate.prior, estimate.lower, estimate.upper):
            assert np.isfinite(values).all()
        assert (estimate.lower <= estimate.upper).all()
        assert np.isfinite(np.log(fitted.adapt(rows).predict_proba(p))).all()
    alone = LabelShift(method=method).fit([[0.6, 0.4], [0.3, 0.7]], [0, 1])
    assert np.isfinite(alone.estimate([[0.5, 0.5]]).prior).all()


def test_a_table_names_the_classes_and_their_intervals(source, target):
    text = str(LabelShift(n_groups=0).fit(source[0], np.array(list("abcd"))[source[1]]).estimate(target[0]))
    lines = text.splitlines()
    assert lines[0].split() == ["class", "source", "target", "0.95", "interval"]
    assert lines[1].split()[0] == "a"
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "guess"}, "'em', 'confusion' or 'confusion-soft'"),
        ({"source_prior": "equal"}, "'predictions' or 'labels'"),
        ({"ridge": -1}, "at least 0"),
        ({"n_groups": -1}, "at least 0"),
        ({"n_groups": 1}, "at least 2"),
        ({"calibrator": 3}, "registry name"),
        ({"calibrator": "nothing"}, "there is no calibrator"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message, source):
    with pytest.raises(ParameterError, match=message):
        LabelShift(**parameters).fit(*source)


def test_weights_without_meaning_are_refused(source, target):
    fitted = LabelShift(n_groups=0).fit(*source)
    for weights, message in (
        ([1.0], "1500 rows"),
        (np.zeros(1500), "not zero"),
        (-np.ones(1500), "negative"),
    ):
        with pytest.raises(WeightError, match=message):
            fitted.estimate(target[0], sample_weight=weights)
    with pytest.raises(ParameterError):
        fitted.estimate(target[0], level=95)


@pytest.mark.slow
def test_a_million_rows_in_bounded_memory():
    """Intervals stay as wide as 5,000 source rows make them; the rows themselves take 80 MB in float64."""
    fitted = LabelShift().fit(*rows_of(equal(10), 5000, 8))
    shares = np.linspace(1, 10, 10) / 55
    rows = rows_of(shares, 1_000_000, 9)[0].astype(np.float32)
    tracemalloc.start()
    estimate = fitted.estimate(rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e9
    assert ((estimate.lower <= shares) & (shares <= estimate.upper)).sum() >= 7
