"""Shares of the classes without labels: closed forms, naive algorithms, adaptation and edges."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from label_shift_rows import METHODS, equal, rows_of

import calibrant
from calibrant import LabelShift, Predictions, TemperatureScaling
from calibrant.calibrators.shift.label_shift import estimators
from calibrant.calibrators.shift.label_shift.estimators import ConfusionPrior
from calibrant.errors import ConvergenceWarning, MissingClassWarning, ParameterError, WeightError
from calibrant.solvers import Status


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


@pytest.mark.parametrize(
    ("method", "module", "solver"),
    [
        ("em", estimators, "likeliest_weights"),
        ("confusion", estimators, "least_squares_weights"),
    ],
)
def test_a_solver_that_stops_early_is_reported(method, module, solver, source, target, monkeypatch):
    solve = getattr(module, solver)

    def impatient(*arguments):
        return replace(solve(*arguments), status=Status.OUT_OF_ITERATIONS)

    fitted = LabelShift(method=method, n_groups=0).fit(*source)
    monkeypatch.setattr(module, solver, impatient)
    with pytest.warns(ConvergenceWarning, match=r"LabelShift.estimate: the fit was stopped before its end"):
        fitted.estimate(target[0])


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


def test_for_the_least_share_a_weight_of_two_is_the_row_twice(source):
    """A hundred rows of weight three leave 1 / 600 for a class without a sign, with 1 / (1 + 2/600) for the sum."""
    rows = rows_of([0.7, 0.3, 0.0, 0.0], 100, 6)[0]
    fitted = LabelShift(n_groups=0).fit(*source)
    weighted = fitted.adapt(rows, sample_weight=np.full(100, 3.0))
    repeated = fitted.adapt(np.repeat(rows, 3, axis=0))
    assert repeated.target_prior_.min() == pytest.approx(1 / 600, rel=0.01)
    np.testing.assert_allclose(weighted.target_prior_, repeated.target_prior_, rtol=1e-6)
    estimate = fitted.estimate(rows, sample_weight=np.full(100, 3.0))
    assert (estimate.n_rows, estimate.total_weight) == (100, 300)


def test_the_attribute_says_whether_it_is_adapted(source, target):
    fitted = LabelShift(n_groups=0).fit(*source)
    assert fitted.target_prior_ is None
    assert fitted.adapt(target[0]).target_prior_ is not None
    assert fitted.target_prior_ is None


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
    assert [line.split()[0] for line in lines[1:]] == list("abcd")


def test_a_table_begins_with_the_most_common_class(source):
    rows = rows_of([0.1, 0.2, 0.3, 0.4], 1500, 2)[0]
    lines = str(LabelShift(n_groups=0).fit(*source).estimate(rows)).splitlines()
    assert [line.split()[0] for line in lines[1:]] == list("3210")


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
