"""The loss on rows held out against the number of calibration rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold

from calibrant import Predictions, TemperatureScaling
from calibrant.errors import ParameterError
from calibrant.intervals import loss_difference
from calibrant.metrics import brier_score, confidence_ece, log_loss
from calibrant.plots import learning_curve
from calibrant.registry import make


def rows(n_rows: int = 400, n_classes: int = 3, seed: int = 0):
    """Predictions that are twice as sure as they should be, in logits."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 1.5, (n_rows, n_classes))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = np.array([generator.choice(n_classes, p=row) for row in p])
    return y, Predictions.from_logits(2 * logits)


def test_all_rows_of_the_other_folds_give_the_cross_validated_loss():
    """The largest size against a loop over the folds of scikit-learn."""
    y, p = rows()
    splits = list(StratifiedKFold(4).split(p.scores, y))
    curve = learning_curve(y, p, method="temperature", sizes=[300], cv=splits)
    held_out = np.empty_like(p.probabilities)
    for train, test in splits:
        fitted = TemperatureScaling().fit(p.take(train), y[train])
        held_out[test] = fitted.predict_proba(p.take(test))
    assert curve.loss[0] == pytest.approx(log_loss(y, held_out), rel=1e-9)
    assert curve.uncalibrated == pytest.approx(log_loss(y, p), rel=1e-9)
    interval = loss_difference(y, p, held_out)
    assert curve.difference_low[0] == pytest.approx(interval.low, rel=1e-6)
    assert curve.difference_high[0] == pytest.approx(interval.high, rel=1e-6)
    losses = -np.log(held_out[np.arange(len(y)), y])
    half = 1.96 * losses.std(ddof=1) / np.sqrt(len(y))
    assert (curve.low[0], curve.high[0]) == pytest.approx(
        (losses.mean() - half, losses.mean() + half), rel=0.05
    )


def test_more_rows_help_and_the_gain_is_beyond_noise():
    y, p = rows(1200)
    curve = learning_curve(y, p, method="dirichlet-l2", sizes=(30, 120, 900))
    assert (np.diff(curve.loss) < 0).all()
    assert curve.difference_high[-1] < 0
    loss, error = curve.expected(5000)
    assert loss <= curve.loss[-1] + 2 * error


def test_sizes_are_halved_from_all_rows_down_to_a_few():
    y, p = rows(250)
    curve = learning_curve(y, p, method="temperature")
    assert curve.sizes.tolist() == [25, 50, 100, 200]
    assert learning_curve(y[:12], p.take(slice(0, 12)), method="temperature", cv=3).sizes.tolist() == [8]


def test_predictions_that_are_left_as_they_are_lose_nothing():
    y, p = rows(100)
    curve = learning_curve(y, p, method="uncalibrated")
    assert_allclose(curve.loss, curve.uncalibrated)
    assert_allclose(curve.difference_low, 0)
    assert_allclose(curve.difference_high, 0)


@pytest.mark.parametrize("metric", [brier_score, confidence_ece])
def test_other_metrics(metric):
    y, p = rows(300)
    curve = learning_curve(y, p, method=make("temperature"), sizes=[200], metric=metric)
    assert curve.uncalibrated == pytest.approx(metric(y, p))
    assert curve.loss[0] < curve.uncalibrated
    if metric is brier_score:
        assert curve.low[0] < curve.loss[0] < curve.high[0]
    else:  # positive by noise alone
        assert np.isnan(
            [curve.low[0], curve.high[0], curve.difference_low[0], curve.difference_high[0]]
        ).all()


def test_a_function_of_ones_own():
    y, p = rows(100)
    names = np.array(["ant", "bee", "cat"])[y]
    curve = learning_curve(names, p, method="temperature", sizes=[60], metric=_mean_surprise)
    assert curve.uncalibrated == pytest.approx(1 - p.probabilities[np.arange(100), y].mean())
    assert curve.low[0] < curve.loss[0] < curve.high[0]


def _mean_surprise(y_true, y_proba):
    columns = np.searchsorted(["ant", "bee", "cat"], y_true)
    return 1 - y_proba[np.arange(len(y_proba)), columns].mean()


def test_weights_and_groups():
    y, p = rows(300)
    weights = np.random.default_rng(1).gamma(2, size=300)
    weights[:20] = 0
    groups = np.arange(300) // 3
    curve = learning_curve(y, p, method="temperature", sizes=[100], sample_weight=weights, groups=groups)
    assert curve.n_rows == 280
    kept = weights > 0
    expected = log_loss(y[kept], p.take(kept), sample_weight=weights[kept])
    assert curve.uncalibrated == pytest.approx(expected)
    single = learning_curve(y, p, method="temperature", sizes=[100], sample_weight=weights)
    assert np.isfinite(curve.low).all()
    assert curve.loss[0] == pytest.approx(single.loss[0], rel=0.05)


def test_rows_that_are_held_out_again_are_no_new_observations():
    """Three repeats of the folds make the interval no narrower than a third of a root of three would."""
    y, p = rows(200)
    once = learning_curve(y, p, method="temperature", sizes=[100], cv=StratifiedKFold(4))
    often = learning_curve(
        y, p, method="temperature", sizes=[100], cv=RepeatedStratifiedKFold(n_splits=4, n_repeats=3)
    )
    assert (often.high - often.low)[0] > 0.8 * (once.high - once.low)[0]


def test_zeros_count_as_less_than_anything_said():
    """A refuted zero would make the loss infinite, and no calibrator could be compared with it."""
    y, predictions = rows(200, n_classes=2)
    p = predictions.probabilities.round(1)
    refuted = (p[np.arange(200), y] == 0).any()
    curve = learning_curve(y, p, method="temperature", sizes=[100])
    assert refuted
    assert np.isfinite(curve.uncalibrated)


def test_sizes_at_which_nothing_can_be_fitted_are_noted():
    """A single row has a single class."""
    y, p = rows(60)
    curve = learning_curve(y, p, method="temperature", sizes=[1, 40])
    assert np.isnan(curve.loss[0])
    assert np.isfinite(curve.loss[1])
    assert any("at least two classes" in note for note in curve.notes)


def test_progress_is_told_after_every_fit():
    y, p = rows(60)
    seen = []
    learning_curve(y, p, method="temperature", sizes=[10, 40], cv=3, progress=lambda *told: seen.append(told))
    assert [done for done, _, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert {total for _, total, _ in seen} == {6}
    assert seen[0][2] == "10 rows"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sizes": [49]}, "must not exceed the 48 rows"),
        ({"sizes": [0]}, "integers of at least 1"),
        ({"sizes": []}, "integers of at least 1"),
        ({"method": 3}, "registry name or a calibrator"),
        ({"method": "tempreture"}, "did you mean"),
        ({"cv": 1}, "cv must be"),
        ({"level": 2}, "level must lie"),
    ],
)
def test_options_that_mean_nothing_for_a_learning_curve_are_refused(options, words):
    y, p = rows(60)
    with pytest.raises(ParameterError, match=words):
        learning_curve(y, p, **{"method": "temperature", **options})


def test_a_number_of_rows_must_be_positive():
    y, p = rows(60)
    with pytest.raises(ParameterError, match="positive size"):
        learning_curve(y, p, method="temperature", sizes=[30]).expected(0)
