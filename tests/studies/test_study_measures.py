"""Measures of units."""

import numpy as np
import pytest

from calibrant import Predictions, TemperatureScaling
from calibrant.conventions import convention
from calibrant.errors import RecipeError, StudyError
from calibrant.hypothesis_tests import consistency_test
from calibrant.metrics import calibration_gain, confidence_ece, smooth_ece
from calibrant.studies.calibration import Calibrated
from calibrant.studies.measures import TRUE_NAMES, check_measure, higher_by_default, measure, measure_all
from calibrant.studies.outputs import BaseOutputs, Part
from calibrant.studies.specifications import MeasureSpec
from calibrant.synthetic import SyntheticTask, TemperatureMap, true_errors

TASK = SyntheticTask((0.5, 0.5, 0.5), TemperatureMap(1.5))
ROWS = TASK.sample(4000, random_state=0)


def value(metric, **other):
    spec = MeasureSpec(
        "m", metric, other.pop("parameters", {}), other.pop("test", False), other.pop("resamples", 1000)
    )
    check_measure(spec)
    return measure(spec, **{"labels": ROWS.labels, "predictions": ROWS.predictions, **other})


@pytest.mark.parametrize("name", ["log_loss", "brier_score", "confidence_ece", "classwise_ece", "error_rate"])
def test_metrics_of_conventions(name):
    expected = convention("kull2019").metrics[name](ROWS.labels, ROWS.predictions)
    assert value(f"kull2019.{name}") == expected


def test_metrics_with_and_without_parameters():
    assert value("smooth_ece") == smooth_ece(ROWS.labels, ROWS.predictions)
    by_hand = confidence_ece(ROWS.labels, ROWS.predictions, n_bins=20, strategy="quantile")
    assert value("confidence_ece", parameters={"n_bins": 20, "strategy": "quantile"}) == by_hand


def test_labels_are_columns_also_where_classes_do_not_occur():
    few = Predictions.from_probabilities([[0.2, 0.3, 0.5]] * 4)
    assert value("accuracy", labels=np.array([2, 2, 1, 2]), predictions=few) == 0.75


def test_p_values_are_those_of_the_consistency_test():
    function = convention("kull2019").metrics["classwise_ece"]
    expected = consistency_test(
        function, ROWS.labels, ROWS.predictions, n_resamples=200, random_state=4
    ).p_value
    assert value("kull2019.classwise_ece", test=True, resamples=200, seed=4) == expected
    share = value("kull2019.classwise_ece", test=True, resamples=200, seed=4, parameters={"p_value": "share"})
    assert share == 0 < expected


def test_the_gain_is_against_the_uncalibrated_rows():
    after = TemperatureScaling().fit(ROWS.predictions, ROWS.labels).transform(ROWS.predictions)
    found = value("calibration_gain", predictions=after, uncalibrated=ROWS.predictions)
    assert found == calibration_gain(ROWS.labels, ROWS.predictions, after) > 0
    log = value(
        "calibration_gain", predictions=after, uncalibrated=ROWS.predictions, parameters={"loss": "log"}
    )
    assert log == calibration_gain(ROWS.labels, ROWS.predictions, after, loss="log")
    with pytest.raises(StudyError, match="before calibration"):
        value("calibration_gain")


def test_true_errors_of_a_task_are_integrals():
    fitted = TemperatureScaling().fit(ROWS.predictions, ROWS.labels)
    expected = true_errors(TASK, fitted)
    names = ("confidence", "multiclass", "excess_log_loss", "loss_gap")
    outputs = BaseOutputs((Part(ROWS.predictions, ROWS.labels, ROWS.predictions),), ROWS.labels, 3, TASK)
    calibrated = Calibrated(ROWS.predictions, 0.0, 0.0, [{}], fitted.transform)
    found = measure_all([MeasureSpec(name, f"true.{name}") for name in names], outputs, calibrated, 0)
    assert found == pytest.approx({name: getattr(expected, name) for name in names}, rel=1e-6)
    with pytest.raises(StudyError, match="one fitted map"):
        value("true.confidence", truth=TASK)
    with pytest.raises(StudyError, match="only for generated data with a truth"):
        value("true.confidence")


def test_true_errors_of_rows_are_near_those_integrals():
    """4,000 rows; the conditional errors are taken in cells of 128 rows."""
    expected = true_errors(TASK)
    for name in set(TRUE_NAMES) - {"loss_gap"}:
        found = value(f"true.{name}", truth=ROWS.true_probabilities)
        assert found == pytest.approx(getattr(expected, name), rel=0.1, abs=0.003), name
    with pytest.raises(StudyError, match="needs the task"):
        value("true.loss_gap", truth=ROWS.true_probabilities)


def test_the_truth_itself_has_no_error():
    perfect = Predictions.from_probabilities(ROWS.true_probabilities)
    for name in ("multiclass", "excess_log_loss", "confidence", "classwise", "lost_accuracy"):
        assert value(f"true.{name}", predictions=perfect, truth=ROWS.true_probabilities) == pytest.approx(
            0, abs=1e-12
        )


def test_zeros_that_the_truth_has_too_cost_nothing():
    sure = Predictions.from_probabilities([[1.0, 0.0], [0.0, 1.0]])
    labels, truth = np.array([0, 1]), np.eye(2)
    assert value("true.log_loss", labels=labels, predictions=sure, truth=truth) == 0
    assert value("true.log_loss", labels=labels, predictions=sure, truth=truth[::-1]) == np.inf


def test_all_measures_of_a_unit():
    part = Part(ROWS.predictions, ROWS.labels, ROWS.predictions)
    outputs = BaseOutputs((part,), ROWS.labels, 3, ROWS.true_probabilities)
    fitted = TemperatureScaling().fit(ROWS.predictions, ROWS.labels)
    calibrated = Calibrated(fitted.transform(ROWS.predictions), 0.0, 0.0, [{}], fitted.transform)
    specs = [
        MeasureSpec("ll", "log_loss"),
        MeasureSpec("p", "confidence_ece", test=True, resamples=50),
        MeasureSpec("gain", "calibration_gain"),
        MeasureSpec("true", "true.multiclass"),
    ]
    found = measure_all(specs, outputs, calibrated, 0)
    assert list(found) == ["ll", "p", "gain", "true"]
    assert all(type(number) is float for number in found.values())
    assert found["gain"] > 0


@pytest.mark.parametrize(
    ("metric", "test", "higher"),
    [
        ("accuracy", False, True),
        ("log_loss", False, False),
        ("kull2019.confidence_ece", False, False),
        ("kull2019.confidence_ece", True, True),
        ("calibration_gain", False, True),
        ("true.accuracy", False, True),
        ("true.confidence", False, False),
    ],
)
def test_what_is_better(metric, test, higher):
    assert higher_by_default(metric, test) is higher


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (MeasureSpec("m", "log_los"), "did you mean 'log_loss'?"),
        (MeasureSpec("m", "zzz"), "known are accuracy"),
        (MeasureSpec("m", "kull2018.log_loss"), "did you mean 'kull2019'?"),
        (MeasureSpec("m", "kull2019.logloss"), "did you mean 'log_loss'?"),
        (MeasureSpec("m", "true.confidense"), "did you mean 'confidence'?"),
        (MeasureSpec("m", "confidence_ece", {"bins": 3}), "no option 'bins'"),
        (MeasureSpec("m", "kull2019.error_rate", {"bins": 3}), "no option 'bins'"),
        (MeasureSpec("m", "calibration_gain", {"bins": 3}), "only the parameter loss"),
        (MeasureSpec("m", "true.confidence", test=True), "no test"),
        (MeasureSpec("m", "log_loss", test=True, resamples=0), "at least 1"),
        (MeasureSpec("m", "log_loss", {"p_value": "share"}), "no option 'p_value'"),
    ],
)
def test_complaints(spec, words):
    with pytest.raises(RecipeError) as caught:
        check_measure(spec)
    text = str(caught.value)
    assert words in text
    assert text.startswith("measure 'm': ")
    assert "\n" not in text
