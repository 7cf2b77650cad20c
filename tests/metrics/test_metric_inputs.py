"""What every metric takes in and refuses, in one body of tests."""

from inspect import signature

import numpy as np
import pandas as pd
import polars as pl
import pytest

import calibrant.metrics
from calibrant import Predictions, TemperatureScaling, registry
from calibrant.errors import LabelError, PredictionError, WeightError
from calibrant.metrics.declaration import traits_of

METRICS = [getattr(calibrant.metrics, name) for name in registry.metrics()]
COUNTING = [metric for metric in METRICS if traits_of(metric).weights_are_counts]
every_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)


def random_problem(n_classes=3, dtype=np.float64):
    generator = np.random.default_rng(3)
    probabilities = generator.dirichlet(np.ones(n_classes), 60).astype(dtype)
    labels = (probabilities.cumsum(axis=1)[:, :-1] < generator.random((60, 1))).sum(axis=1)
    return labels, probabilities


def test_the_registry_finds_the_metrics():
    assert {"accuracy", "brier_score", "classwise_ece", "confidence_ece", "log_loss"} <= set(
        registry.metrics()
    )


@every_metric
def test_all_metrics_are_called_alike(metric):
    first, second, *others = signature(metric).parameters.values()
    assert (first.name, second.name, others[0].name) == ("y_true", "y_proba", "sample_weight")
    assert all(other.kind is other.KEYWORD_ONLY and other.default is not other.empty for other in others)


@pytest.mark.parametrize("metric", COUNTING, ids=lambda metric: metric.__name__)
def test_a_weight_of_two_is_a_repeated_row(metric):
    labels, probabilities = random_problem()
    times = np.random.default_rng(0).integers(1, 4, len(labels))
    weighted = metric(labels, probabilities, sample_weight=times)
    assert weighted == pytest.approx(
        metric(np.repeat(labels, times), np.repeat(probabilities, times, axis=0))
    )


@every_metric
def test_a_weight_of_zero_is_an_absent_row(metric):
    labels, probabilities = random_problem()
    keep = np.arange(len(labels)) % 3 > 0
    weighted = metric(labels, probabilities, sample_weight=keep.astype(float))
    assert weighted == pytest.approx(metric(labels[keep], probabilities[keep]))


@every_metric
@pytest.mark.parametrize("factor", [1e-6, 0.1, 1e6])
def test_only_relative_weights_matter(metric, factor):
    labels, probabilities = random_problem()
    weights = np.random.default_rng(0).random(len(labels)) + 0.1
    assert metric(labels, probabilities, sample_weight=factor * weights) == pytest.approx(
        metric(labels, probabilities, sample_weight=weights)
    )


@every_metric
def test_string_labels_match_the_sorted_classes(metric):
    labels, probabilities = random_problem()
    names = np.array(["ant", "bee", "cat"])
    assert metric(names[labels], probabilities) == metric(labels, probabilities)


@every_metric
def test_class_names_of_the_predictions_are_followed(metric):
    labels, probabilities = random_problem()
    names = np.array(["cat", "ant", "bee"])
    named = Predictions.from_probabilities(probabilities, classes=names)
    assert metric(names[labels], named) == metric(labels, probabilities)


@every_metric
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_are_taken_with_their_column_names(metric, frame):
    labels, probabilities = random_problem()
    names = np.array(["cat", "ant", "bee"])
    table = frame(dict(zip(names.tolist(), probabilities.T, strict=True)))
    assert metric(names[labels], table) == pytest.approx(metric(labels, probabilities), rel=1e-12)


@every_metric
def test_one_column_is_the_positive_class_of_two(metric):
    labels, probabilities = random_problem(2)
    positive = probabilities[:, 1]
    both = metric(labels, np.column_stack([1 - positive, positive]))
    assert metric(labels, positive) == both
    assert metric(labels, positive[:, np.newaxis]) == both


@every_metric
def test_lists_will_do(metric):
    labels, probabilities = random_problem()
    assert metric(labels.tolist(), probabilities.tolist()) == metric(labels, probabilities)


@every_metric
def test_calibrated_predictions_are_taken_as_they_come(metric):
    labels, probabilities = random_problem()
    fitted = TemperatureScaling().fit(probabilities, labels)
    assert metric(labels, fitted.transform(probabilities)) == pytest.approx(
        metric(labels, fitted.predict_proba(probabilities))
    )


@every_metric
def test_float32_gives_what_float64_gives_up_to_its_rounding(metric):
    labels, probabilities = random_problem(dtype=np.float32)
    assert metric(labels, probabilities) == pytest.approx(
        metric(labels, probabilities.astype(np.float64)), rel=1e-5
    )


@every_metric
def test_the_result_is_a_plain_float(metric):
    labels, probabilities = random_problem(dtype=np.float32)
    assert type(metric(labels, probabilities)) is float
    assert type(metric(labels, probabilities, sample_weight=np.ones(60, dtype=np.float32))) is float


@every_metric
def test_one_row_is_enough(metric):
    assert np.isfinite(metric([1], [[0.2, 0.5, 0.3]])) or not traits_of(metric).always_defined


@every_metric
def test_inputs_are_left_as_they_were(metric):
    labels, probabilities = random_problem()
    weights = np.linspace(0, 1, 60)
    copies = labels.copy(), probabilities.copy(), weights.copy()
    metric(labels, probabilities, sample_weight=weights)
    for array, copy in zip((labels, probabilities, weights), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
        assert array.flags.writeable


@every_metric
@pytest.mark.parametrize(
    ("labels", "probabilities", "weights", "error"),
    [
        ([0, 1], [[1.5, -2.0], [0.3, 3.0]], None, PredictionError),
        ([0, 1], [[0.5, np.nan], [0.5, 0.5]], None, PredictionError),
        ([0, 1], [[0.5, 0.4], [0.5, 0.5]], None, PredictionError),
        ([0, 1], [0.5, 1.5], None, PredictionError),
        ([], np.empty((0, 2)), None, PredictionError),
        ([0, 1, 1], [[0.5, 0.5], [0.5, 0.5]], None, LabelError),
        ([0, 3], [[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]], None, LabelError),
        (["a", "b"], [[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]], None, LabelError),
        ([0, np.nan], [[0.5, 0.5], [0.5, 0.5]], None, LabelError),
        ([[1, 0], [0, 1]], [[0.5, 0.5], [0.5, 0.5]], None, LabelError),
        ([0, 1], [[0.5, 0.5], [0.5, 0.5]], [1, -1], WeightError),
        ([0, 1], [[0.5, 0.5], [0.5, 0.5]], [0, 0], WeightError),
        ([0, 1], [[0.5, 0.5], [0.5, 0.5]], [1, 2, 3], WeightError),
    ],
)
def test_bad_input_gives_the_error_a_calibrator_would_give(metric, labels, probabilities, weights, error):
    with pytest.raises(error) as ours:
        metric(labels, probabilities, sample_weight=weights)
    with pytest.raises(error) as calibrators:
        TemperatureScaling().fit(probabilities, labels, sample_weight=weights)
    assert str(ours.value) == str(calibrators.value)
