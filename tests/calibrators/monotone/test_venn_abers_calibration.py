"""Venn-Abers calibration: refits by plain loops, intervals, validity, and the edges."""

import warnings
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression
from venn_abers_rows import both_forms, both_losses, some_rows, summing_to_one

from calibrant import OneVsRest, Predictions, VennAbersCalibration, load
from calibrant.errors import MissingClassWarning, ParameterError, PredictionError
from calibrant.metrics import log_loss
from calibrant.numerics.isotonic import isotonic_fit
from data import load as load_data


def naive_pair(scores, outcomes, weights, score):
    """Refit with the point added, once as a non-event and once as an event."""
    pair = []
    for outcome in (0, 1):
        refit = IsotonicRegression().fit(
            np.append(scores, score), np.append(outcomes, outcome), np.append(weights, 1.0)
        )
        pair.append(float(refit.predict([score])[0]))
    return pair


@pytest.mark.parametrize("weighted", [False, True])
def test_every_row_as_if_refitted_with_it(weighted):
    X, y = some_rows()
    weights = np.random.default_rng(1).gamma(2.0, size=len(y)) if weighted else np.ones(len(y))
    fitted = VennAbersCalibration().fit(X, y, weights if weighted else None)
    fresh = np.concatenate([X[:30, 1], np.linspace(0, 1, 23)])
    lower, upper = fitted.predict_interval(fresh)
    calibrated = fitted.predict_proba(fresh)
    for row, score in enumerate(fresh):
        p0, p1 = naive_pair(X[:, 1], y, weights, score)
        assert (lower[row, 1], upper[row, 1]) == pytest.approx((p0, p1), rel=0, abs=1e-12)
        assert calibrated[row, 1] == pytest.approx(p1 / (1 - p0 + p1), rel=0, abs=1e-12)


def test_two_rows_by_hand():
    """Between the two nothing is known, 0 to 1; beside either, another outcome than its own makes one half."""
    fitted = VennAbersCalibration().fit([0.2, 0.8], [0, 1])
    lower, upper = fitted.predict_interval([0.1, 0.2, 0.5, 0.8, 0.9])
    assert lower[:, 1] == pytest.approx([0, 0, 0, 1 / 2, 1 / 2])
    assert upper[:, 1] == pytest.approx([1 / 2, 1 / 2, 1, 1, 1])
    expected = [(1 / 2) / (3 / 2), (1 / 2) / (3 / 2), 1 / 2, 1 / (3 / 2), 1 / (3 / 2)]
    assert fitted.predict_proba([0.1, 0.2, 0.5, 0.8, 0.9])[:, 1] == pytest.approx(expected)


def test_scores_of_exactly_zero():
    """Three of ten rows at zero have the event: p_0 = 3 / 11 and p_1 = 4 / 11 with the added row, whatever is above."""
    p = [0.0] * 10 + [0.9] * 10
    y = [1] * 3 + [0] * 7 + [1] * 9 + [0]
    fitted = VennAbersCalibration(cv=None).fit(p, y)
    lower, upper = 3 / 11, 4 / 11
    assert fitted.predict_proba([0.0])[0, 1] == pytest.approx(upper / (1 - lower + upper), abs=1e-12)


def test_scores_that_are_all_the_same():
    """Of n rows k are events: k / (n + 1) and (k + 1) / (n + 1) there, and Laplace's (k + 1) / (n + 2) for both."""
    fitted = VennAbersCalibration().fit([0.3] * 10, [1] * 4 + [0] * 6)
    lower, upper = fitted.predict_interval([0.3])
    assert (lower[0, 1], upper[0, 1]) == pytest.approx((4 / 11, 5 / 11))
    assert fitted.predict_proba([0.3])[0, 1] == pytest.approx(5 / 12)


@pytest.mark.parametrize(
    ("loss", "regret"),
    [
        ("log", lambda q, p0, p1: (log(p1) - log(q), log(1 - p0) - log(1 - q))),
        ("brier", lambda q, p0, p1: ((1 - q) ** 2 - (1 - p1) ** 2, q**2 - p0**2)),
    ],
)
def test_the_regret_is_the_same_for_both_outcomes(loss, regret):
    """What minimises the larger of two regrets, one rising and one falling with q, is where they meet."""
    X, y = some_rows()
    fitted = VennAbersCalibration(loss=loss).fit(X, y)
    lower, upper = fitted.predict_interval(X)
    for q, p0, p1 in zip(fitted.predict_proba(X)[:, 1], lower[:, 1], upper[:, 1], strict=True):
        event, other = regret(q, p0, p1)
        assert event == pytest.approx(other, abs=1e-12)


@both_forms
@both_losses
@pytest.mark.parametrize("n_classes", [2, 5])
def test_separate_probabilities_lie_in_their_intervals(cv, loss, n_classes):
    X, y = some_rows(400, n_classes)
    fitted = VennAbersCalibration(cv, loss).fit(X, y)
    fresh, _ = some_rows(300, n_classes, seed=3, decimals=6)
    lower, upper = fitted.predict_interval(fresh)
    separate = OneVsRest(VennAbersCalibration(cv, loss)).fit(X, y).class_probabilities(fresh)
    assert lower.shape == upper.shape == fresh.shape
    assert (lower >= 0).all()
    assert (upper <= 1).all()
    assert (lower <= separate + 1e-15).all()
    assert (separate <= upper + 1e-15).all()
    assert (upper > lower).all()


@both_forms
def test_two_classes_have_mirrored_intervals(cv):
    X, y = some_rows()
    lower, upper = VennAbersCalibration(cv).fit(X, y).predict_interval(X)
    np.testing.assert_array_equal(lower[:, 0], 1 - upper[:, 1])
    np.testing.assert_array_equal(upper[:, 0], 1 - lower[:, 1])


@both_forms
@both_losses
def test_two_classes_may_change_places(cv, loss):
    """Also in the folds, which look at the larger column and at hits, not at the second class."""
    X, y = some_rows(decimals=9)
    fitted = VennAbersCalibration(cv, loss).fit(X, y)
    swapped = VennAbersCalibration(cv, loss).fit(X[:, ::-1], 1 - y)
    np.testing.assert_allclose(
        swapped.predict_proba(X[:, ::-1]), fitted.predict_proba(X)[:, ::-1], rtol=0, atol=1e-13
    )
    for mirrored, ends in zip(swapped.predict_interval(X[:, ::-1]), fitted.predict_interval(X), strict=True):
        np.testing.assert_allclose(mirrored, ends[:, ::-1], rtol=0, atol=1e-13)


@both_forms
def test_intervals_of_several_classes_are_those_of_each_against_the_rest(cv):
    X, y = some_rows(200, 4)
    lower, upper = VennAbersCalibration(cv).fit(X, y).predict_interval(X)
    for column in range(4):
        pair = np.column_stack([1 - X[:, column], X[:, column]])
        alone = VennAbersCalibration(cv).fit(pair, y == column).predict_interval(pair)
        np.testing.assert_allclose(lower[:, column], alone[0][:, 1], rtol=0, atol=1e-12)
        np.testing.assert_allclose(upper[:, column], alone[1][:, 1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_an_absent_class_has_its_own_probability_at_both_ends(n_classes):
    """The others share what is left: with three classes one pair, with more one against the rest."""
    X, y = some_rows(300, n_classes)
    kept = y != 1
    with pytest.warns(MissingClassWarning):
        fitted = VennAbersCalibration().fit(X[kept], y[kept])
    lower, upper = fitted.predict_interval(X)
    floors = np.full(n_classes, fitted.floor_)
    floors[1] = min(fitted.floor_, 1 / (kept.sum() + 2))
    floored = np.maximum(X, floors)
    floored /= (floored - X).sum(axis=1, keepdims=True) + 1
    np.testing.assert_array_equal(lower[:, 1], floored[:, 1])
    np.testing.assert_array_equal(upper[:, 1], floored[:, 1])
    seen = np.delete(np.arange(n_classes), 1)
    share = X[:, seen].sum(axis=1, keepdims=True)
    given = np.divide(X[:, seen], share, out=np.full((len(X), len(seen)), 1 / len(seen)), where=share > 0)
    alone = VennAbersCalibration().fit(given[kept], np.searchsorted(seen, y[kept]))
    share = floored[:, seen].sum(axis=1, keepdims=True)
    for ends, expected in zip((lower, upper), alone.predict_interval(given), strict=True):
        np.testing.assert_allclose(ends[:, seen], share * expected, rtol=0, atol=1e-12)


@both_forms
@both_losses
def test_tables_have_no_entry_that_repeats_the_one_before(cv, loss):
    X, y = some_rows(400)
    fitted = VennAbersCalibration(cv, loss).fit(X, y)
    for scores, values, parts in (
        (fitted.lower_scores_, fitted.lower_values_, fitted.lower_parts_),
        (fitted.upper_scores_, fitted.upper_values_, fitted.upper_parts_),
    ):
        assert len(values) == len(scores) + 1 <= len(np.unique(X[:, 1])) + 1
        assert (np.diff(scores) > 0).all()
        assert (parts is None) == (cv is None)
        tables = np.stack([values] if parts is None else [values, parts])
        assert (np.diff(tables) != 0).any(axis=0).all()


@given(data=st.data())
@settings(max_examples=25)
def test_leaving_each_row_out_gives_the_fit_to_all(data):
    """Why it is valid: p_y of a row, from the others, is the isotonic fit to all rows, whatever is left out.

    So over the rows of one value, outcomes average to exactly that value.
    """
    n_rows = data.draw(st.integers(3, 16))
    scores = np.array(data.draw(st.lists(st.integers(1, 9), min_size=n_rows, max_size=n_rows))) / 10
    outcomes = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n_rows, max_size=n_rows)))
    together = isotonic_fit(scores, outcomes)(scores)
    for row in range(n_rows):
        others = np.arange(n_rows) != row
        if len(set(outcomes[others])) < 2:
            continue
        ends = (
            VennAbersCalibration()
            .fit(scores[others], outcomes[others])
            .predict_interval(scores[row : row + 1])
        )
        assert ends[outcomes[row]][0, 1] == pytest.approx(together[row], rel=0, abs=1e-12)


@pytest.mark.slow
def test_the_value_of_the_true_outcome_is_calibrated():
    """Twenty calibration rows from a source whose scores are badly off, three thousand times.

    Left out are draws with fewer than two rows of an outcome among all 21, under which they stay exchangeable.

    The differences y - p_y have mean zero, overall and for p_y in each quarter, within four standard errors;
    the merged probability, by contrast, is off by more than that somewhere.
    """
    generator = np.random.default_rng(0)
    scores = generator.random((3_000, 21)).round(2)
    outcomes = (generator.random(scores.shape) < 0.2 + 0.5 * scores**3).astype(int)
    values, truth, merged = [], [], []
    for score, outcome in zip(scores, outcomes, strict=True):
        if not 2 <= outcome.sum() <= 19:
            continue
        fitted = VennAbersCalibration().fit(score[:-1], outcome[:-1])
        values.append(fitted.predict_interval(score[-1:])[outcome[-1]][0, 1])
        merged.append(fitted.predict_proba(score[-1:])[0, 1])
        truth.append(outcome[-1])

    def deviations(p):
        differences = np.array(truth) - np.array(p)
        parts = [slice(None), *((np.array(p) * 4).astype(int).clip(max=3) == quarter for quarter in range(4))]
        return [
            differences[part].mean() / (differences[part].std() / differences[part].size ** 0.5)
            for part in parts
        ]

    assert np.abs(deviations(values)).max() < 4
    assert np.abs(deviations(merged)).max() > 4


def test_neither_end_is_reached():
    """With n rows no probability is below 1 / (n + 2), however sure the rows are."""
    scores = np.linspace(0.01, 0.99, 50)
    calibrated = VennAbersCalibration().fit(scores, scores > 0.5).predict_proba([0.0, 1e-300, 0.2, 0.9, 1.0])
    assert calibrated.min() >= 1 / 52


def test_logits_meet_the_steps_of_their_softmax():
    """A fit on probabilities finds rows of logits at the same places, at the steps and between them."""
    X, y = some_rows(200, 3, decimals=3)
    X = 0.98 * X + 0.02 / 3
    fitted = VennAbersCalibration().fit(X, y)
    shifted = Predictions.from_logits(np.log(X) + np.linspace(-30, 30, len(X))[:, np.newaxis])
    for found, expected in zip(fitted.predict_interval(shifted), fitted.predict_interval(X), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_tiny_probabilities_keep_their_order():
    """Digits count, not decimals: 1e-30 and 1e-20 are different scores."""
    fitted = VennAbersCalibration().fit([1e-30, 1e-20, 1e-10, 0.5], [0, 1, 1, 1])
    lower, upper = fitted.predict_interval([1e-40, 1e-30, 1e-25, 1e-20, 1e-15])
    assert lower[:, 1] == pytest.approx([0, 0, 0, 1 / 2, 1 / 2])
    assert upper[:, 1] == pytest.approx([1 / 2, 1 / 2, 1, 1, 1])


@both_forms
def test_single_precision_in_and_out(cv):
    X, y = some_rows(200, 3)
    X = summing_to_one((X * 64).round() / 64)
    single = VennAbersCalibration(cv).fit(X.astype(np.float32), y)
    double = VennAbersCalibration(cv).fit(X, y)
    for found, expected in zip(
        single.predict_interval(X.astype(np.float32)), double.predict_interval(X), strict=True
    ):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)


def test_the_scale_of_weights_matters_to_the_added_row():
    """Ten rows, four of them events, each counted ten times: 40 / 101 and 41 / 101."""
    fitted = VennAbersCalibration().fit([0.3] * 10, [1] * 4 + [0] * 6, [10.0] * 10)
    lower, upper = fitted.predict_interval([0.3])
    assert (lower[0, 1], upper[0, 1]) == pytest.approx((40 / 101, 41 / 101))


def test_a_saved_file_has_the_intervals(tmp_path):
    X, y = some_rows(200, 3)
    fitted = VennAbersCalibration(cv=3).fit(X, y)
    fitted.save(tmp_path / "calibrator.npz")
    restored = load(tmp_path / "calibrator.npz")
    for found, expected in zip(restored.predict_interval(X), fitted.predict_interval(X), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_loss_without_meaning_is_refused():
    with pytest.raises(ParameterError, match="loss must be 'log' or 'brier', not 'square'"):
        VennAbersCalibration(loss="square").fit([0.2, 0.8], [0, 1])


def test_intervals_before_fitting_or_of_other_columns_are_refused():
    X, y = some_rows(60, 3)
    with pytest.raises(NotFittedError):
        VennAbersCalibration().predict_interval(X)
    with pytest.raises(PredictionError, match="fitted on 3 classes"):
        VennAbersCalibration().fit(X, y).predict_interval(X[:, 1])


@both_forms
def test_the_result_belongs_to_the_caller(cv):
    X, y = some_rows()
    fitted = VennAbersCalibration(cv).fit(X, y)
    lower, upper = fitted.predict_interval(X)
    kept = upper.copy()
    lower[:], upper[:] = 0, 0
    np.testing.assert_array_equal(fitted.predict_interval(X)[1], kept)


def test_a_thousand_classes_of_a_real_network():
    """Most classes have no or few rows; the log-loss stays finite."""
    arrays = load_data("imagenet_k1000/tinyimagenet_efficientnet_lite0")
    logits, labels = arrays["logits"][:2000].astype(np.float64), arrays["y"][:2000]
    predictions = Predictions.from_logits(logits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        fitted = VennAbersCalibration().fit(predictions.take(slice(0, 1500)), labels[:1500])
    rest = predictions.take(slice(1500, None))
    seen = np.isin(labels[1500:], labels[:1500])
    assert np.isfinite(log_loss(labels[1500:][seen], fitted.predict_proba(rest)[seen]))
    lower, upper = fitted.predict_interval(rest)
    assert (lower <= upper).all()
