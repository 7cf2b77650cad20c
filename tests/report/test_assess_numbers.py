"""Numbers of the report: those of the library's own functions, on rows that no map was fitted to."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from report_rows import drawn, powered
from sklearn.metrics import roc_auc_score

from calibrant import TemperatureScaling, registry
from calibrant.comparison import compare
from calibrant.hypothesis_tests import (
    calibration_slope_intercept,
    classwise_cumulative_tests,
    cumulative_test,
    hosmer_lemeshow_test,
    spiegelhalter_test,
)
from calibrant.intervals import loss_difference
from calibrant.metrics import (
    accuracy,
    brier_score,
    calibration_error_lower_bound,
    class_ece,
    classwise_ece,
    confidence_ece,
    debiased_ece,
    decompose,
    kuiper_calibration_error,
    log_loss,
    smooth_ece,
)
from calibrant.report import assess
from calibrant.report.evaluation_set import EvaluationSet, random_rows, random_rows_by_class
from calibrant.report.event_evidence import EventCounts
from calibrant.report.method_selection import default_methods
from calibrant.report.sections.classes import noise_of_ece
from calibrant.report.sections.scores import area_estimate, capped_bound, roc_area

Y, P = drawn(600, 3)
P = powered(P, 1.8)
METHODS = ["temperature", "shared-vector"]


@pytest.fixture(scope="module")
def found():
    return assess(Y, P, methods=METHODS)


def named(rows, name):
    return next(row for row in rows if row.before.name == name)


def test_scores_before_are_those_of_the_metrics(found):
    expected = {"log-loss": log_loss, "Brier score": brier_score, "accuracy": accuracy}
    for name, metric in expected.items():
        assert named(found.scores, name).before.value == pytest.approx(metric(Y, P), rel=1e-12)
    area = roc_auc_score(Y, P / P.sum(axis=1, keepdims=True), multi_class="ovr")
    assert named(found.scores, "AUROC").before.value == pytest.approx(area, rel=1e-12)


def test_scores_after_are_those_of_rows_held_out(found):
    result = compare(Y, P, METHODS).result(found.recommendation.method)
    for name, metric in {"log-loss": log_loss, "Brier score": brier_score, "accuracy": accuracy}.items():
        assert named(found.scores, name).after.value == pytest.approx(
            metric(Y, result.predictions), rel=1e-12
        )
    difference = loss_difference(Y, P, result.predictions)
    shown = named(found.scores, "log-loss").difference
    assert (shown.value, shown.low, shown.high) == pytest.approx((difference.estimate, *difference))


def test_the_gain_has_an_interval_for_all_methods_at_once(found):
    result = compare(Y, P, METHODS).result(found.recommendation.method)
    wide = loss_difference(Y, P, result.predictions, level=0.975)
    gain = found.recommendation.gain
    assert gain.value == pytest.approx(-wide.estimate)
    # The variance of the fit makes it slightly wider.
    assert gain.low == pytest.approx(-wide.high, rel=0.05)
    assert gain.high == pytest.approx(-wide.low, rel=0.05)
    assert gain.low < -wide.high < -wide.low < gain.high
    assert gain.level == pytest.approx(0.975)
    for text in (gain.note, found.recommendation.sentences[0], found.to_markdown(), found.to_html()):
        assert "adjusted for the choice among 2 methods" in " ".join(text.split())
    assert found.recommendation.gain_share == pytest.approx(gain.value / log_loss(Y, P))


def test_errors_are_those_of_the_metrics(found):
    for name, value in {
        "smooth ECE, predicted class": smooth_ece(Y, P),
        "Kuiper error, predicted class": kuiper_calibration_error(Y, P),
        "ECE of the predicted class": confidence_ece(Y, P),
        "classwise ECE": classwise_ece(Y, P),
        "debiased ECE (L2, 9 bins)": debiased_ece(Y, P, n_bins="cube_root"),
    }.items():
        assert named(found.errors, name).before.value == pytest.approx(value, rel=1e-12)
    bound = calibration_error_lower_bound(Y, P)
    assert named(found.errors, "L1 error, 95 % lower bound").before.value == pytest.approx(bound.limit)
    assert named(found.errors, "L1 error, cross-fitted").before.value == pytest.approx(bound.estimate)


@pytest.mark.parametrize(
    ("estimate", "limit", "shown"), [(0.02, 0.03, 0.02), (0.03, 0.02, 0.02), (-0.01, 0.0, 0.0)]
)
def test_a_lower_bound_is_never_above_its_estimate(estimate, limit, shown):
    """It comes from folds that only earlier ones judge, and may be above the estimate from all folds."""
    bound = calibration_error_lower_bound(Y, P)
    assert capped_bound(replace(bound, estimate=estimate, limit=limit)) == shown


def test_decompositions_add_up_and_are_those_of_decompose(found):
    assert [(row.loss, row.stage) for row in found.decompositions] == [
        ("log-loss", "before"),
        ("log-loss", "after"),
        ("Brier score", "before"),
        ("Brier score", "after"),
    ]
    for row in found.decompositions:
        assert row.score == pytest.approx(row.miscalibration - row.discrimination + row.uncertainty)
        assert row.score == pytest.approx(row.removable.value + row.refinement)
    parts = decompose(Y, P, loss="log", method="recalibration", kind="full", recalibrator="shared-vector")
    assert found.decompositions[0].removable.value == pytest.approx(parts.calibration)


def test_tests_are_those_of_the_library(found):
    p_values = {row.name: row.p_value for row in found.tests}
    assert p_values["Cumulative test (Kuiper)"] == pytest.approx(cumulative_test(Y, P).p_value)
    assert p_values["Spiegelhalter's test"] == pytest.approx(spiegelhalter_test(Y, P).p_value)
    line = calibration_slope_intercept(Y, P)
    assert p_values["Slope and intercept"] == pytest.approx(line.joint_test.p_value)
    assert found.slopes[1].value == pytest.approx(line.slope.value)
    bins = hosmer_lemeshow_test(Y, P, n_bins=15, min_expected=20)
    assert p_values["Chi-square test of bins"] == pytest.approx(bins.p_value)
    assert found.verdict.smallest_detectable == max(one.smallest for one in found.verdict.detectable[:3])


def test_classes_are_tested_as_the_library_does(found):
    tests = classwise_cumulative_tests(Y, P)
    for row in found.classes:
        column = int(row.label)
        assert row.p_value == pytest.approx(tests.results[column].p_value)
        assert row.adjusted_p_value == pytest.approx(tests.adjusted_p_values[column])
        assert row.ece == pytest.approx(class_ece(Y, P, label=column))
        assert row.in_the_large.value == pytest.approx(P[:, column].mean() - (column == Y).mean())
        assert row.share == pytest.approx((column == Y).mean())


def test_the_advice_lists_what_was_tried_and_recommends_a_gain(found):
    advice = found.recommendation
    assert advice.action == "calibrate"
    assert {row.name for row in advice.methods} == {"uncalibrated", *METHODS}
    assert advice.gain.low > 0
    assert advice.changed_decisions == pytest.approx(0 if advice.method == "temperature" else 0.0, abs=0.2)
    assert found.learning.method == advice.method


def test_pictures_are_of_the_predictions_as_given_the_chosen_method_and_single_classes(found):
    main = [curve.method for curve in found.curves if curve.label is None]
    assert main[:2] == ["uncalibrated", found.recommendation.method]
    assert {curve.label for curve in found.curves if curve.label is not None} == {"0", "1", "2"}
    assert sum(found.curves[0].count) == 600
    assert [path.method for path in found.cumulative] == main[:2]
    assert found.cumulative[0].kuiper == pytest.approx(kuiper_calibration_error(Y, P))


def test_calibrated_predictions_are_kept():
    advice = assess(*drawn(500, 3, seed=4), methods=["temperature"]).recommendation
    assert (advice.action, advice.method) == ("keep", "uncalibrated")
    assert advice.gain.low < 0
    assert advice.headline.startswith("Keep")


def test_a_gain_that_may_be_noise_is_not_recommended_even_where_tests_object():
    """40 rows show that the predictions are over-confident, but not that a map fitted to 32 of them helps."""
    y, p = drawn(40, 3, seed=0)
    found = assess(y, powered(p, 1.6), methods=["temperature", "shared-vector"])
    assert found.verdict.status == "miscalibrated"
    assert found.recommendation.gain.low < 0 < found.recommendation.gain.value
    assert found.recommendation.action == "keep"
    assert found.recommendation.headline.startswith(
        "Keep the uncalibrated predictions for now: the tests reject calibration (p"
    )
    assert found.recommendation.headline.endswith("is not significant. More rows are needed to decide.")


def test_without_methods_nothing_is_recommended():
    found = assess(Y, P, methods=[])
    assert found.recommendation.action == "keep"
    assert found.recommendation.methods == ()
    assert all(row.after is None for row in (*found.scores, *found.errors))


def test_a_method_that_fails_is_listed_with_its_reason():
    advice = assess(Y, P, methods=["temperature", TemperatureScaling(loss="hinge")]).recommendation
    failed = next(row for row in advice.methods if row.name != "temperature" and row.error is not None)
    assert "hinge" in failed.error
    assert failed.log_loss is None
    assert advice.method == "temperature"
    assert any(sentence.startswith("The fit failed for ") for sentence in advice.sentences)


def test_the_area_under_the_curve_is_that_of_scikit_learn_with_weights_and_ties():
    generator = np.random.default_rng(0)
    p = generator.integers(0, 5, 200) / 4
    y, weights = (generator.random(200) < p).astype(int), generator.integers(1, 4, 200).astype(float)
    rows = EvaluationSet.parse(y, p, weights, None)
    area = roc_area(rows)
    assert area.value == pytest.approx(roc_auc_score(y, p, sample_weight=weights))
    assert area.influence.sum() == pytest.approx(0, abs=1e-12)


def test_the_interval_of_the_area_covers_it():
    """Scores of two normal distributions one apart: the area is Phi(1 / sqrt 2) = 0.7602."""
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        y = np.arange(200) % 2
        scores = 1 / (1 + np.exp(-(generator.normal(size=200) + y)))
        rows = EvaluationSet.parse(y, scores, None, None)
        found = area_estimate("AUROC", roc_area(rows), None, rows, 0.95, "")
        covered += found.low <= 0.76025 <= found.high
    assert 0.9 <= covered / 200 <= 0.99


def test_the_number_of_events_has_the_binomial_tail_for_equal_probabilities():
    """Two of ten at 1 %: P = 1 - 0.99^10 - 10 0.01 0.99^9, doubled; non-events where events are the rule."""
    tail = 1 - 0.99**10 - 10 * 0.01 * 0.99**9
    happened = np.arange(10) < 2
    assert EventCounts.of(np.full(10, 0.01), happened).p_value == pytest.approx(2 * tail)
    assert EventCounts.of(np.full(10, 0.99), ~happened).p_value == pytest.approx(2 * tail)


def test_the_noise_of_a_binned_error_is_what_calibrated_predictions_have_on_average():
    errors, noise = [], 0.0
    for seed in range(60):
        y, p = drawn(400, 2, seed)
        rows = EvaluationSet.parse(y, p, None, None)
        errors.append(class_ece(y, p, label=1))
        noise = noise_of_ece(rows)[1]
    assert noise == pytest.approx(np.mean(errors), rel=0.1)


def test_samples_keep_groups_whole():
    y, p = drawn(200, 2)
    groups = np.repeat(np.arange(40), 5)
    rows = EvaluationSet.parse(y, p, None, groups)
    chosen = random_rows(rows, 60, 10**6, 0)
    assert len(chosen) == 60
    assert len(np.unique(groups[chosen])) == 12


def test_rows_outside_the_sample_are_mapped_by_what_was_fitted_to_it(monkeypatch):
    monkeypatch.setattr(import_module("calibrant.report.method_selection"), "QUICK_NUMBERS", 300 * P.shape[1])
    found = assess(Y, P, methods=["temperature"])
    chosen = random_rows(EvaluationSet.parse(Y, P, None, None), 300, 10**9, 0)
    others = np.setdiff1d(np.arange(600), chosen)
    fitted = registry.make("temperature").fit(P[chosen], Y[chosen])
    held_out = compare(Y[chosen], P[chosen], ["temperature"]).result("temperature").predictions
    loss = (
        300 * log_loss(Y[others], fitted.predict_proba(P[others])) + 300 * log_loss(Y[chosen], held_out)
    ) / 600
    assert named(found.scores, "log-loss").after.value == pytest.approx(loss)
    assert "Methods were compared on a random sample of 300 of 600 rows" in " ".join(
        pitfall.text for pitfall in found.pitfalls
    )
    assert found.repeatability.settings["rows for the comparison of methods"] == "300"


def test_a_part_of_very_many_rows_is_measured_and_said_so(monkeypatch):
    monkeypatch.setattr(import_module("calibrant.report.assess"), "MEASURED_NUMBERS", 900)
    found = assess(Y, P, methods=[])
    assert found.data.n_rows == 600
    assert found.curves[0].n_rows == 300
    assert any("a random sample of 300 of 600 rows" in pitfall.text for pitfall in found.pitfalls)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 50, 1000])
def test_default_methods_are_known_and_begin_with_the_simplest(n_classes):
    names = default_methods(5000, n_classes)
    assert names[0] == "temperature"
    assert set(names) <= set(registry.calibrators())


# Which rows methods are tried on


def rare_rows(n_rows, rate, seed=0):
    generator = np.random.default_rng(seed)
    p = np.minimum(rate * np.exp(generator.normal(size=n_rows) - 0.5), 0.5)
    return (generator.random(n_rows) < p).astype(int), p


def test_quick_methods_get_all_rows():
    y, p = rare_rows(30_000, 0.002)
    found = assess(y, 3 * p, methods=["temperature", "platt", "isotonic"])
    assert found.repeatability.settings["rows for the comparison of methods"] == "30000"
    own = compare(y, 3 * p, ["temperature", "platt", "isotonic"], refit=False)
    for row in found.recommendation.methods:
        assert row.log_loss == pytest.approx(own.result(row.name).scores["log_loss"])
    assert not any("random sample" in pitfall.text for pitfall in found.pitfalls)


def test_samples_keep_the_rows_of_rare_classes_with_weights_that_restore_their_share():
    y, p = rare_rows(50_000, 0.002)
    rows = EvaluationSet.parse(y, p, None, None)
    drawn_numbers, sample = random_rows_by_class(rows, 10_000, 0)
    assert (y[drawn_numbers] == 1).sum() == y.sum()
    assert len(drawn_numbers) == sample.n_rows <= 10_000
    assert np.average(sample.data.labels, weights=sample.weights) == pytest.approx(y.mean(), rel=1e-3)
    assert sample.weights.mean() == pytest.approx(1)


def test_samples_of_common_classes_are_drawn_as_they_come():
    y, p = drawn(3000, 3)
    numbers, sample = random_rows_by_class(EvaluationSet.parse(y, p, None, None), 1000, 0)
    assert sample.weights is None
    assert numbers.tolist() == random_rows(EvaluationSet.parse(y, p, None, None), 1000, 3000, 0).tolist()


def test_slow_methods_learn_from_all_rare_events(monkeypatch):
    """The odds of 40 events in 20,000 rows are four times too high; a random tenth would have four of them."""
    monkeypatch.setattr(import_module("calibrant.report.method_selection"), "SLOW_ROWS", 2000)
    y, p = rare_rows(20_000, 0.002)
    found = assess(y, 4 * p / (1 + 3 * p), methods=["bias-corrected-temperature"])
    fitted = registry.make("bias-corrected-temperature").fit(4 * p / (1 + 3 * p), y)
    everything = log_loss(y, fitted.predict_proba(4 * p / (1 + 3 * p)))
    after = named(found.scores, "log-loss").after.value
    assert after == pytest.approx(everything, rel=0.02)
    assert "with rare classes oversampled and weighted back to their frequencies" in found.recommendation.how


# What is worth doing


def test_a_gain_that_is_beyond_noise_but_tiny_is_not_worth_it():
    """A temperature of 1.08 in 60,000 rows gains one in a thousand of the log-loss."""
    y, p = drawn(60_000, 2)
    found = assess(y, powered(p, 1.08), methods=["temperature"])
    assert found.recommendation.gain.low > 0
    assert found.recommendation.action == "keep"
    assert found.recommendation.headline.startswith(
        "Keep the uncalibrated predictions: temperature would lower the log-loss by only 0.000"
    )
    assert not found.recommendation.more_rows.startswith("More rows would improve")


def test_decisions_about_two_classes_are_those_at_one_half():
    y, p = drawn(3000, 2)
    sentences = " ".join(assess(y, powered(p, 2.0), methods=["temperature"]).recommendation.sentences)
    assert (
        "No probability crosses 50 %, so all predicted classes stay the same; decisions at other thresholds may change."
        in sentences
    )
    assert "and thus the accuracy" not in sentences
    y, p = drawn(3000, 3)
    sentences = " ".join(assess(y, powered(p, 2.0), methods=["temperature"]).recommendation.sentences)
    assert "All predicted classes, and thus the accuracy, stay the same" in sentences
