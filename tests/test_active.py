"""Active calibration: which labels are asked for, when it stops, and what it refuses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from calibrant import GaussianProcessCalibration, Predictions, TemperatureScaling
from calibrant.active import N_DRAWS, ActiveCalibration, excess_log_loss, select_rows
from calibrant.errors import LabelError, ParameterError

RULES = ["excess-loss", "information", "entropy", "random"]
KERNEL = (0.5, 5.0)


def rows(n_rows, seed=0, n_classes=3):
    generator = np.random.default_rng(seed)
    z = generator.normal(0, 3, (n_rows, n_classes))
    return Predictions.from_logits(z), (0.5 * z + generator.gumbel(size=z.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def fitted():
    X, y = rows(300)
    return GaussianProcessCalibration(kernel=KERNEL).fit(X, y)


@pytest.fixture(scope="module")
def pool():
    return rows(600, seed=1)[0]


def test_the_excess_is_half_the_variance_that_probabilities_see(pool):
    """To second order, KL is half the quadratic form of diag(q) - q q' in the latent deviations, which are small here."""
    fitted = GaussianProcessCalibration(kernel=KERNEL).fit(*rows(3000))
    features, rest = fitted.posterior_features(pool)
    q = fitted.predict_proba(pool)
    covariance = features @ features.transpose(0, 2, 1) + rest[:, :, np.newaxis] * np.eye(3)
    fisher = q[:, :, np.newaxis] * np.eye(3) - q[:, :, np.newaxis] * q[:, np.newaxis]
    expected = 0.5 * np.trace(fisher @ covariance, axis1=1, axis2=2)
    assert excess_log_loss(fitted, pool).mean() == pytest.approx(expected.mean(), rel=0.2)


def test_features_have_the_covariance_of_the_latent_function(fitted, pool):
    features, rest = fitted.posterior_features(pool)
    spread = np.sqrt((features**2).sum(axis=2) + rest)
    assert_allclose(spread, fitted.latent(pool.log_probabilities).standard_deviation, rtol=1e-6)


def test_more_labels_leave_less_excess_and_the_expectation_is_right_on_average():
    """Of 12 fits to 200 rows, the mean true excess is within a factor of three of what was expected."""
    test, labels = rows(20_000, seed=99)
    truth = 0.5 * test.logits
    best = -(truth - np.log(np.exp(truth).sum(axis=1, keepdims=True)))[np.arange(len(labels)), labels].mean()
    true, expected = [], []
    for seed in range(12):
        X, y = rows(200, seed)
        each = GaussianProcessCalibration(kernel=KERNEL).fit(X, y)
        p = each.predict_proba(test)
        true.append(-np.log(p[np.arange(len(labels)), labels]).mean() - best)
        expected.append(excess_log_loss(each, test.take(slice(2000))).mean())
    assert 1 / 3 < np.mean(expected) / np.mean(true) < 3


def test_greedy_choices_against_a_second_implementation(fitted, pool):
    """One row after the other, each the best by brute force, for the mean of the pool and for the determinant."""
    some = pool.take(slice(40))
    features, _ = fitted.posterior_features(some)
    generator, information = np.random.default_rng(0), np.zeros((40, features.shape[2], features.shape[2]))
    q = fitted.transform(some).log_probabilities
    for _ in range(N_DRAWS // 2):
        moved = features @ generator.standard_normal(features.shape[2])
        generator.standard_normal(3)  # of the rest, which is zero here
        for sign in (1, -1):
            drawn = np.exp(q + sign * moved)
            drawn /= drawn.sum(axis=1, keepdims=True)
            for row in range(40):
                fisher = np.diag(drawn[row]) - np.outer(drawn[row], drawn[row])
                information[row] += features[row].T @ fisher @ features[row] / N_DRAWS
    for rule in ("excess-loss", "information"):
        precision, wanted = np.eye(features.shape[2]), []
        for _ in range(4):
            worth = []
            for row in range(40):
                after = precision + information[row]
                loss = np.trace(np.linalg.inv(after) @ information.mean(axis=0))
                worth.append(
                    -np.inf if row in wanted else -loss if rule == "excess-loss" else np.linalg.det(after)
                )
            wanted.append(int(np.argmax(worth)))
            precision = precision + information[wanted[-1]]
        assert_array_equal(select_rows(fitted, some, 4, rule=rule), wanted)


def test_entropy_takes_the_most_uncertain_rows(fitted, pool):
    p = fitted.predict_proba(pool)
    wanted = np.argsort((p * np.log(p)).sum(axis=1))[:7]
    assert_array_equal(select_rows(fitted, pool, 7, rule="entropy"), wanted)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("monotone", [False, True])
def test_rows_are_different_available_and_the_same_for_a_seed(rule, monotone, pool):
    X, y = rows(150)
    each = GaussianProcessCalibration(kernel=KERNEL, monotone=monotone).fit(X, y)
    options = {"rule": rule, "available": np.arange(100, 600), "n_candidates": 60, "random_state": 3}
    chosen = select_rows(each, pool, 10, **options)
    assert len(np.unique(chosen)) == 10
    assert chosen.min() >= 100
    assert_array_equal(select_rows(each, pool, 10, **options), chosen)
    mask = np.zeros(600, dtype=bool)
    mask[100:] = True
    assert_array_equal(select_rows(each, pool, 10, **(options | {"available": mask})), chosen)


def test_selected_labels_reduce_the_expected_excess_more_than_random_ones(pool):
    X, y = rows(600, seed=1)
    left = {}
    for rule in ("excess-loss", "random"):
        active = ActiveCalibration(X, rule=rule, n_first=40, tolerance=1e-9, random_state=5)
        for _ in range(4):
            asked = active.ask()
            active.tell(asked, y[asked])
        left[rule] = active.history_[-1].excess_log_loss
    assert left["excess-loss"] < left["random"]


@pytest.mark.parametrize("rule", RULES)
def test_it_stops_at_the_tolerance_and_at_the_largest_number(rule):
    X, y = rows(400)
    active = ActiveCalibration(X, rule=rule, tolerance=0.008)
    while not active.stopped:
        asked = active.ask()
        assert active.tell(asked, y[asked]) is active.history_[-1]
    assert active.history_[-1].excess_log_loss <= 0.008 < active.history_[0].excess_log_loss
    assert len(np.unique(active.rows_)) == len(active.rows_) == active.history_[-1].n_labels
    few = ActiveCalibration(X, rule=rule, tolerance=1e-9, max_labels=60)
    while not few.stopped:
        asked = few.ask()
        few.tell(asked, y[asked])
    assert len(few.rows_) == 60
    with pytest.raises(ParameterError, match="60 rows are labelled, and no more may be; raise max_labels"):
        few.ask()


def test_labels_may_be_names_and_first_ones_all_the_same():
    X, y = rows(200)
    names = np.array(["bird", "cat", "dog"])
    named = Predictions.from_logits(X.scores, classes=names)
    active = ActiveCalibration(named, n_per_round=10)
    first = np.flatnonzero(y == 1)[:5]
    assert active.tell(first, names[y[first]]).excess_log_loss == np.inf
    assert active.calibrator_ is None
    asked = active.ask()
    active.tell(asked, names[y[asked]])
    assert np.isfinite(active.history_[-1].excess_log_loss)
    assert active.calibrator_.predict(named.take(slice(1)))[0] in names


def test_complaints(fitted, pool):
    X, y = rows(100)
    for options, message in (
        ({"rule": "best"}, "rule"),
        ({"tolerance": 0}, "tolerance must be a number above 0"),
        ({"n_first": 1}, "n_first"),
        ({"max_labels": 0}, "max_labels"),
        ({"calibrator": TemperatureScaling()}, "must be a GaussianProcessCalibration"),
    ):
        with pytest.raises(ParameterError, match=message):
            ActiveCalibration(X, **options)
    active = ActiveCalibration(X)
    with pytest.raises(LabelError, match="2 rows but 1 labels"):
        active.tell([0, 1], [0])
    for wrong in ([0, 0], [-1, 1], [5, 100]):
        with pytest.raises(ParameterError, match="different indices from 0 to 99"):
            active.tell(wrong, y[:2])
    assert len(active.rows_) == 0
    with pytest.raises(ParameterError, match="n_rows must be at most 5"):
        select_rows(fitted, pool, 6, available=np.arange(5))


def test_a_given_kernel_is_kept():
    X, y = rows(200)
    each = GaussianProcessCalibration(kernel=(0.25, 4.0)).fit(X, y)
    assert each.length_scale_ == pytest.approx(4.0)
    assert each.kernel_variance_ == pytest.approx(1.0)
    assert each.noise_variance_ == 0
    for wrong in (0.5, (0.5,), (0.5, 0), (np.nan, 1.0), "rbf"):
        with pytest.raises(ParameterError, match="kernel must be two positive numbers"):
            GaussianProcessCalibration(kernel=wrong).fit(X, y)
