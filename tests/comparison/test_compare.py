"""Methods side by side on rows that they were not fitted to."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, ShuffleSplit

from calibrant import (
    Chain,
    Identity,
    LabelledPredictions,
    PlattScaling,
    Predictions,
    TemperatureScaling,
    registry,
)
from calibrant.comparison import compare
from calibrant.comparison.compare import random_folds
from calibrant.errors import ParameterError, PredictionError
from calibrant.intervals import loss_difference
from calibrant.metrics import accuracy, brier_score, log_loss, smooth_ece

NAMES = np.array(["ant", "bee", "cow", "dog"])


def over_confident(n_rows: int, seed: int = 0, n_classes: int = 4):
    """Return probabilities whose true temperature is two, and labels."""
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(n_classes, 0.5), n_rows)
    p = np.maximum(p, 1e-9) / np.maximum(p, 1e-9).sum(axis=1, keepdims=True)
    y = (np.log(p) / 2 + generator.gumbel(size=p.shape)).argmax(axis=1)
    return p, y


def test_out_of_fold_rows_are_those_of_a_loop_over_the_folds():
    """A second implementation with scikit-learn's splitter."""
    p, y = over_confident(203)
    splitter = KFold(4, shuffle=True, random_state=1)
    found = compare(y, p, ["temperature", "vector"], cv=splitter)
    for name in ("temperature", "vector"):
        expected = np.empty_like(p)
        for train, test in splitter.split(p):
            expected[test] = registry.make(name).fit(p[train], y[train]).predict_proba(p[test])
        result = found.result(name)
        assert result.predictions.probabilities == pytest.approx(expected, abs=1e-12)
        assert result.scores["log_loss"] == pytest.approx(log_loss(y, expected))
        assert result.scores["brier_score"] == pytest.approx(brier_score(y, expected))
        assert result.scores["accuracy"] == pytest.approx(accuracy(y, expected))
        assert result.changed == pytest.approx(np.mean(expected.argmax(1) != p.argmax(1)))
        paired = loss_difference(y, p, expected)
        assert result.differences["log_loss"].estimate == pytest.approx(paired.estimate)
        assert tuple(result.differences["log_loss"]) == pytest.approx(tuple(paired))


def test_test_rows_are_measured_by_a_map_fitted_to_all_calibration_rows():
    p, y = over_confident(300)
    q, z = over_confident(150, seed=1)
    found = compare(NAMES[y], p, ["temperature"], test=(NAMES[z], q))
    fitted = TemperatureScaling().fit(p, y)
    assert found.result("temperature").scores["log_loss"] == pytest.approx(
        log_loss(z, fitted.predict_proba(q))
    )
    assert (found.n_rows, found.n_test_rows) == (300, 150)
    assert found.how == "Fitted to 300 rows and evaluated on 150 test rows"
    assert found.result("temperature").calibrator.temperature_ == fitted.temperature_


def test_doing_nothing_comes_first_and_the_rest_by_log_loss():
    p, y = over_confident(400)
    found = compare(y, p, ["isotonic", "temperature", "uncalibrated"])
    assert found.results[0].name == "uncalibrated"
    losses = [result.scores["log_loss"] for result in found.results[1:]]
    assert losses == sorted(losses)
    assert len(found.results) == 3
    assert found.best.name == "temperature"
    assert found.result("uncalibrated").differences == {}


def test_a_method_that_does_nothing_differs_by_zero():
    p, y = over_confident(60)
    found = compare(y, p, [Chain([Identity()])])
    (difference,) = [result.differences["log_loss"] for result in found.results[1:]]
    assert (difference.estimate, difference.low, difference.high) == (0.0, 0.0, 0.0)


def test_logits_in_their_own_space():
    p, y = over_confident(120)
    found = compare(y, Predictions.from_logits(np.log(p) + 3), ["temperature"])
    given = compare(y, p, ["temperature"])
    assert found.best.scores["log_loss"] == pytest.approx(given.best.scores["log_loss"])


def test_refuted_zeros_count_as_the_floor_for_the_difference_only():
    p = np.array([[1.0, 0.0], [0.9, 0.1], [0.2, 0.8], [0.0, 1.0]] * 20)
    y = np.array([0, 0, 1, 1] * 15 + [1, 1, 0, 0] * 5)
    found = compare(y, p, ["temperature"])
    assert found.result("uncalibrated").scores["log_loss"] == np.inf
    assert np.isfinite(found.result("temperature").differences["log_loss"].estimate)


def test_groups_stay_together_and_widen_the_interval():
    """Every row eight times over: as groups, one eighth of the rows are independent."""
    p, y = over_confident(60)
    repeated, labels, groups = np.repeat(p, 8, axis=0), np.repeat(y, 8), np.repeat(np.arange(60), 8)
    apart = compare(labels, repeated, ["temperature"])
    together = compare(labels, repeated, ["temperature"], groups=groups)
    widths = [each.result("temperature").differences["log_loss"].width for each in (apart, together)]
    assert widths[1] > 2 * widths[0]
    assert "groups kept together" in together.how


def test_a_weight_of_zero_leaves_a_row_out():
    p, y = over_confident(101)
    weights = np.r_[np.ones(100), 0]
    weighted = compare(y, p, ["temperature"], sample_weight=weights)
    without = compare(y[:100], p[:100], ["temperature"], sample_weight=np.ones(100))
    assert weighted.n_rows == 100
    assert weighted.best.scores == pytest.approx(without.best.scores)


def test_a_failure_is_recorded_and_does_not_stop_the_rest(monkeypatch):
    p, y = over_confident(300)

    def fail(self, data):
        raise ValueError("this method never works.")

    monkeypatch.setattr(PlattScaling, "_fit", fail)
    found = compare(y, p, [PlattScaling(), "temperature"])
    failed = found.results[-1]
    assert failed.failed
    assert failed.error == "this method never works"
    assert found.best.name == "temperature"
    assert "failed: this method never works" in " ".join(str(found).split())
    with pytest.raises(ParameterError, match="failed and cannot be compared"):
        found.difference("temperature", failed.name)


def test_notes_hold_what_the_fits_warned_of():
    p, y = over_confident(80)
    y = np.where(y == 3, 2, y)
    found = compare(y, p, ["temperature"])
    assert any("no calibration row has class 3" in note for note in found.result("temperature").notes)


def test_the_base_of_the_differences_is_named():
    p, y = over_confident(80)
    found = compare(y, p, ["temperature"])
    assert found.base == "the uncalibrated predictions"
    assert str(found).endswith(
        "Differences are to the uncalibrated predictions, paired by row; negative is better."
    )


def test_infinite_losses_beside_finite_differences_are_explained():
    """Rows of quarters, one of which gives the true class nothing: the floor is an eighth."""
    p = np.array([[0.75, 0.25]] * 20 + [[0.25, 0.75]] * 20 + [[1.0, 0.0]] * 2)
    found = compare([0, 0, 0, 1] * 5 + [1, 1, 1, 0] * 5 + [0, 1], p, ["temperature"])
    assert found.results[0].scores["log_loss"] == np.inf
    assert np.isfinite(found.result("temperature").differences["log_loss"].estimate)
    assert found.base == "the uncalibrated predictions with zeros raised to 0.12"
    assert (
        "The log-loss of uncalibrated is inf: the true class of at least one row has probability zero."
        in " ".join(str(found).split())
    )


def test_progress_counts_every_fit():
    p, y = over_confident(60)
    seen = []
    compare(y, p, ["temperature", "vector"], cv=3, progress=lambda *told: seen.append(told))
    assert [done for done, _, _ in seen] == list(range(13))
    assert {total for _, total, _ in seen} == {12}
    assert seen[-1] == (12, 12, "")


def test_without_a_last_fit_there_is_no_calibrator():
    p, y = over_confident(60)
    found = compare(y, p, ["temperature"], refit=False)
    assert found.result("temperature").calibrator is None
    assert not found.result("temperature").failed


def test_methods_within_two_standard_errors_of_the_best_are_told():
    """Told again from the losses of single rows."""
    p, y = over_confident(300)
    found = compare(y, p, ["temperature", "ets", "structured-vector", "isotonic"])

    def losses(result):
        return -np.log(result.predictions.probabilities[np.arange(300), y])

    expected = set()
    for result in found.results:
        gap = losses(result) - losses(found.best)
        if result is not found.best and gap.mean() <= 2 * gap.std(ddof=1) / np.sqrt(300):
            expected.add(result.name)
    assert {result.name for result in found.equally_good()} == expected
    assert expected
    assert "uncalibrated" not in expected


def test_further_metrics_and_the_table():
    p, y = over_confident(60)
    found = compare(y, p, ["temperature"], metrics=["smooth_ece", accuracy])
    table = found.columns()
    assert table["smooth_ece"][0] == pytest.approx(smooth_ece(y, p))
    assert list(table["method"]) == ["uncalibrated", "temperature"]
    assert found.frame().shape == (2, len(table))
    assert max(map(len, str(found).splitlines())) <= 88
    printed = found.table().records()
    assert [row["method"] for row in printed] == list(table["method"])
    assert [row["log-loss"] for row in printed] == list(table["log_loss"])


def test_the_same_numbers_for_methods_that_draw_random_ones():
    p, y = over_confident(80)
    first, second = (compare(y, p, ["pts"], cv=2, random_state=3) for _ in range(2))
    assert first.best.scores == second.best.scores


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"methods": "temperature"}, ParameterError, "methods must be a list"),
        ({"methods": ["temprature"]}, ParameterError, "did you mean 'temperature'"),
        ({"cv": ShuffleSplit(2)}, ParameterError, "every row in exactly one test fold"),
        ({"cv": 1}, ParameterError, "cv must be a whole number of at least 2"),
        ({"metrics": ["nonsense"]}, ParameterError, "there is no metric 'nonsense'"),
        ({"level": 2}, ParameterError, "level"),
        ({"test": ([1], [[0.5, 0.5]])}, ParameterError, "the test set must have the classes"),
        ({"groups": [1, 2]}, ParameterError, "groups must have one entry per row"),
    ],
)
def test_what_has_no_meaning_is_refused(options, error, message):
    p, y = over_confident(40)
    with pytest.raises(error, match=message):
        compare(y, p, **{"methods": ["temperature"], **options})


def test_one_row_cannot_be_held_out():
    with pytest.raises(PredictionError, match="cross-validation needs at least 2 rows"):
        compare([0], [[0.5, 0.5]], ["temperature"])


@pytest.mark.parametrize("scores", ["several columns", "one column", "parsed"])
def test_predictions_first_still_work_with_a_warning(scores):
    p, y = over_confident(100, n_classes=2)
    given = {"several columns": p, "one column": p[:, 1], "parsed": Predictions.from_probabilities(p)}[scores]
    expected = compare(
        y, given, ["temperature"], test=(y[:50], given[:50] if scores != "parsed" else given.take(range(50)))
    )
    with pytest.warns(DeprecationWarning, match=r"labels first, compare\(y, p, ...\)"):
        found = compare(given, y, ["temperature"], test=(expected.data.predictions, y[:50]))
    assert found.result("temperature").scores == expected.result("temperature").scores


def test_an_unknown_result_is_refused():
    p, y = over_confident(40)
    with pytest.raises(ParameterError, match="there is no result of 'vector'"):
        compare(y, p, ["temperature"]).result("vector")


def test_folds_do_not_know_the_labels():
    """One of two thousand seeds would hold out a class in equal shares; folds by class do so always."""
    p, y = over_confident(200)
    shares = [
        np.bincount(y[fold.test_rows], minlength=4)
        for fold in random_folds(5, LabelledPredictions.parse(p, y))
    ]
    assert np.ptp(shares, axis=0).max() > 2


def test_the_gain_of_many_intercepts_on_calibrated_rows_is_not_flattered():
    """Ten classes and 200 calibrated rows: a map with an intercept for each class does harm, and folds must show it.

    Folds by class hide the error of the intercepts and show no loss at all.
    """
    gains = []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        p = generator.dirichlet(np.ones(10), 200)
        y = (np.log(p) + generator.gumbel(size=p.shape)).argmax(axis=1)
        found = compare(y, p, ["bias-corrected-temperature"], refit=False)
        gains.append(found.results[1].differences["log_loss"].estimate)
    assert np.mean(gains) > 0.01


def test_rounded_scores_are_compared_as_those_before_rounding():
    generator = np.random.default_rng(3)
    p = generator.uniform(0.02, 0.98, 1000)
    y = (generator.random(1000) < p).astype(int)
    losses = [
        compare(y, each, ["isotonic"]).result("isotonic").scores["log_loss"] for each in (p, p.round(1))
    ]
    assert losses[1] == pytest.approx(losses[0], abs=0.02)
