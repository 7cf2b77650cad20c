"""The difference between two predictions of the same rows, by resampling."""

from functools import partial

import numpy as np
import pytest

from calibrant import Predictions, TemperatureScaling
from calibrant.errors import CalibrationWarning, LabelError, ParameterError
from calibrant.intervals import bootstrap, loss_difference, paired_bootstrap
from calibrant.metrics import accuracy, brier_score, calibration_gain, confidence_ece, log_loss
from data import load


def problem(n_rows=200, seed=0):
    """Probabilities that are right, and the same with logits twice as large."""
    generator = np.random.default_rng(seed)
    logits = 1.5 * generator.normal(size=n_rows)
    right, bold = 1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(-2 * logits))
    return (generator.random(n_rows) < right).astype(int), bold, right


@pytest.mark.parametrize("metric", [brier_score, accuracy, partial(confidence_ece, n_bins=7)])
@pytest.mark.parametrize("drawing", ["rows", "classes", "groups"])
def test_it_is_a_loop_over_the_same_rows_for_both(metric, drawing):
    """A function of both predictions, given side by side as one table, sees the same resamples."""
    y, bold, right = problem(60)
    right = right**1.5  # so that the predicted class differs in some rows
    options = {
        "stratify": drawing == "classes",
        "groups": np.arange(60) // 4 if drawing == "groups" else None,
        "n_resamples": 80,
        "uncorrected": True,
    }
    table = np.column_stack([bold / 2, (1 - bold) / 2, right / 2, (1 - right) / 2])

    def difference(y_true, both):
        return metric(y_true, 2 * both[:, 2]) - metric(y_true, 2 * both[:, 0])

    expected = bootstrap(difference, y, table, **options)
    found = paired_bootstrap(metric, y, bold, right, **options)
    assert found.estimate == pytest.approx(expected.estimate, rel=1e-9)
    assert tuple(found) == pytest.approx(tuple(expected), rel=1e-9, abs=1e-12)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-9)


def test_the_standard_error_is_the_closed_one_for_a_mean_loss():
    y, bold, right = problem(400)
    found = paired_bootstrap(brier_score, y, bold, right, n_resamples=4000)
    exact = loss_difference(y, bold, right, loss="brier")
    assert found.estimate == pytest.approx(exact.estimate, rel=1e-12)
    assert found.standard_error == pytest.approx(exact.standard_error, rel=4 / np.sqrt(8000))


def test_pairing_narrows_the_interval():
    y, bold, right = problem(400)
    paired = paired_bootstrap(log_loss, y, bold, right)
    apart = np.hypot(
        bootstrap(log_loss, y, bold).standard_error, bootstrap(log_loss, y, right).standard_error
    )
    assert paired.standard_error < 0.7 * apart


def test_exchanging_the_two_turns_the_interval_around():
    y, bold, right = problem()
    one, other = paired_bootstrap(log_loss, y, bold, right), paired_bootstrap(log_loss, y, right, bold)
    assert tuple(one) == pytest.approx((-other.high, -other.low), rel=1e-9)
    assert one.probability_second_better == pytest.approx(1 - other.probability_second_better)


def test_the_better_one_is_told_for_losses_and_for_scores():
    """Twenty rows that only the second gets right."""
    y = np.arange(100) % 2
    of_true = np.where(np.arange(100) < 20, 0.2, 0.8)
    first, second = (np.where(y == 1, p, 1 - p) for p in (of_true, np.full(100, 0.8)))
    for metric, sign in ((brier_score, -1), (accuracy, 1)):
        found = paired_bootstrap(metric, y, first, second, n_resamples=200)
        assert sign * found.low > 0
        assert sign * found.high > 0
        assert found.probability_second_better == 1.0

    def stranger(y_true, y_score):
        return brier_score(y_true, y_score)

    assert paired_bootstrap(stranger, y, first, second, n_resamples=50).probability_second_better is None
    known = paired_bootstrap(stranger, y, first, second, n_resamples=50, higher_is_better=False)
    assert known.probability_second_better == 1.0


def test_equal_predictions_are_a_tie():
    y, _, right = problem()
    with pytest.warns(CalibrationWarning, match="all resamples gave 0"):
        found = paired_bootstrap(brier_score, y, right, right)
    assert tuple(found) == (0.0, 0.0)
    assert found.probability_second_better == 0.5


def test_two_infinite_losses_have_no_difference():
    """Each has a value, infinity; what has none is the difference."""
    with pytest.warns(
        CalibrationWarning,
        match=r"log_loss\(floor=0.0\) is infinite for both predictions, so their difference is undefined; "
        r"functools.partial\(log_loss, floor=1e-6\)",
    ):
        found = paired_bootstrap(log_loss, [0, 1], [0.5, 0.0], [0.4, 0.0])
    assert np.isnan(found.estimate)
    assert found.probability_second_better is None
    assert found.note in str(found)
    floored = paired_bootstrap(partial(log_loss, floor=1e-6), [0, 1], [0.5, 0.0], [0.4, 0.0])
    assert floored.estimate == pytest.approx(-np.log(0.6 / 0.5) / 2)


def test_a_metric_without_a_value_is_told_from_two_infinite_ones():
    with pytest.warns(CalibrationWarning, match="the metric is undefined for these rows"):
        found = paired_bootstrap(lambda *_: float("nan"), [0, 1], [0.5, 0.0], [0.4, 0.0])
    assert np.isnan(tuple(found)).all()


def test_predictions_that_are_always_refuted_are_infinitely_worse():
    with pytest.warns(
        CalibrationWarning, match=r"all resamples gave -inf, so there is no interval; .*floor="
    ):
        found = paired_bootstrap(log_loss, [0] * 9, [1.0] * 9, [0.4] * 9)
    assert found.estimate == -np.inf
    assert found.probability_second_better == 1.0


def test_bad_input_is_refused():
    y, bold, right = problem()
    with pytest.raises(LabelError):
        paired_bootstrap(brier_score, y, bold, right[:-1])
    with pytest.raises(ParameterError, match="set stratify=False"):
        paired_bootstrap(brier_score, y, bold, right, groups=y, stratify=True)
    for options, message in (
        ({"level": "a"}, "level must lie"),
        ({"level": None}, "level must lie"),
        ({"level": 2}, "level must lie"),
        ({"random_state": "a"}, "random_state must be"),
        ({"random_state": 1.5}, "random_state must be"),
        ({"higher_is_better": "a"}, "higher_is_better must be True or False"),
        ({"stratify": "a"}, "stratify must be True or False"),
        ({"progress": 3}, "progress must be a function"),
    ):
        with pytest.raises(ParameterError, match=message):
            paired_bootstrap(brier_score, y, bold, right, **options)
    with pytest.raises(ParameterError, match=r"calibration_gain.*missing a required argument: 'after'"):
        paired_bootstrap(calibration_gain, y, bold, right)


def test_its_progress_is_told():
    y, bold, right = problem()
    seen = []
    paired_bootstrap(
        brier_score, y, bold, right, n_resamples=300, progress=lambda *counts: seen.append(counts)
    )
    assert seen == [(done, 300) for done in range(3, 301, 3)]


def test_temperature_scaling_of_a_network_is_clearly_better():
    """ResNet-110 on CIFAR-10: the log-loss falls by about 0.15, many standard errors."""
    network = load("kull_nn/c10_resnet110")
    before = Predictions.from_logits(network["test_logits"])
    fitted = TemperatureScaling().fit(Predictions.from_logits(network["val_logits"]), network["val_y"])
    after = fitted.transform(before)
    y = network["test_y"]
    found = paired_bootstrap(log_loss, y, before, after, n_resamples=500)
    exact = loss_difference(y, before, after)
    assert found.estimate == pytest.approx(log_loss(y, after) - log_loss(y, before))
    assert found.high < -0.1
    assert found.probability_second_better == 1.0
    assert tuple(found) == pytest.approx(tuple(exact), abs=0.25 * exact.standard_error)
