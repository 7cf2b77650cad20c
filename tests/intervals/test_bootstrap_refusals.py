"""What a bootstrap refuses: options, functions that are no metrics, and data."""

from functools import partial

import numpy as np
import pytest

from calibrant.errors import LabelError, ParameterError, PredictionError, WeightError
from calibrant.intervals import bootstrap
from calibrant.metrics import (
    accuracy,
    calibration_error_lower_bound,
    calibration_gain,
    classwise_ece,
    confidence_ece,
    decompose,
)


def problem(n_rows=60, n_classes=3):
    generator = np.random.default_rng(0)
    return generator.integers(0, n_classes, n_rows), generator.dirichlet(np.ones(n_classes), n_rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.0}, "level must lie strictly between 0 and 1"),
        ({"method": "normal"}, "method must be 'percentile', 'bca' or 'basic', not 'normal'"),
        ({"n_resamples": 39}, "at least 40 for level 0.95"),
        ({"n_resamples": 100.5}, "n_resamples must be an integer"),
        ({"level": "a"}, "level must lie strictly between 0 and 1, such as 0.95, but is 'a'"),
        ({"level": None}, "level must lie strictly between 0 and 1"),
        ({"level": 2}, "level must lie strictly between 0 and 1"),
        ({"random_state": -1}, "random_state must be"),
        ({"random_state": "a"}, "random_state must be"),
        ({"random_state": 1.5}, "random_state must be"),
        ({"random_state": {}}, "random_state must be"),
        ({"stratify": "no"}, "stratify must be True or False, not 'no'"),
        ({"progress": "yes"}, "progress must be a function of two counts, not 'yes'"),
        ({"groups": [0, 1]}, r"groups must have one entry per row, but have shape \(2,\) for 4 rows"),
        ({"groups": [0, 1, np.nan, 2]}, "row 2 has NaN"),
        ({"groups": [0, 0, 1, 1], "stratify": True}, "set stratify=False"),
    ],
)
def test_an_option_without_meaning_is_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        bootstrap(accuracy, [0, 1, 1, 0], [0.2, 0.9, 0.4, 0.1], **options)


def test_what_is_no_metric_is_refused():
    with pytest.raises(ParameterError, match="metric must be a function"):
        bootstrap("accuracy", [0, 1], [0.2, 0.9])
    with pytest.raises(ParameterError, match=r"metric must return one number, .* shape \(2,\)"):
        bootstrap(lambda _, p: p[:2], [0, 1], [0.2, 0.9])


@pytest.mark.parametrize(
    ("function", "found"),
    [(decompose, "a Decomposition"), (calibration_error_lower_bound, "a LowerBound")],
)
def test_a_function_that_returns_more_than_a_number_is_refused(function, found):
    y, p = problem(60, 2)
    with pytest.raises(ParameterError, match=f"one number, but {function.__name__} returned {found};"):
        bootstrap(function, y, p)
    assert bootstrap(
        lambda y, p: decompose(y, p).calibration, y, p, n_resamples=40
    ).estimate == pytest.approx(decompose(y, p).calibration)


@pytest.mark.parametrize("value", ["0.5", None, 1j, np.complex128(1), [1.0], [[1.0], 2], {}])
def test_a_value_that_is_not_a_number_is_refused(value):
    with pytest.raises(ParameterError, match="metric must return one number, but <lambda> returned"):
        bootstrap(lambda *_: value, [0, 1], [0.2, 0.9])


def test_a_function_that_needs_more_than_labels_and_probabilities_is_refused():
    with pytest.raises(
        ParameterError, match=r"calibration_gain\(y_true, y_proba\).*required argument: 'after'"
    ):
        bootstrap(calibration_gain, [0, 1], [0.2, 0.9])
    with pytest.raises(ParameterError, match="unexpected keyword argument 'sample_weight'"):
        bootstrap(lambda _y, _p: 0.0, [0, 1], [0.2, 0.9], sample_weight=[1, 2])
    with pytest.raises(ParameterError, match="may set its options by name only"):
        bootstrap(partial(accuracy, [0, 1]), [0, 1], [0.2, 0.9])


def test_options_that_a_metric_does_not_have_are_refused():
    with pytest.raises(ParameterError, match="confidence_ece has no option 'bins'"):
        bootstrap(partial(confidence_ece, bins=3), [0, 1], [0.2, 0.9])
    with pytest.raises(ParameterError, match="unexpected keyword argument 'bins'"):
        bootstrap(partial(lambda _y, _p: 0.0, bins=3), [0, 1], [0.2, 0.9])


def test_what_a_metric_refuses_is_said_in_its_own_words():
    y, p = problem(60)
    for metric in (partial(classwise_ece, reduction="none"), partial(confidence_ece, norm="a")):
        with pytest.raises(ParameterError) as own:
            bootstrap(metric, y, p)
        assert "metric must" not in str(own.value)
        assert metric.keywords["norm" if "norm" in metric.keywords else "reduction"] in str(own.value)

    def refuses(*_):
        raise ParameterError("not on a Sunday.")

    with pytest.raises(ParameterError, match=r"^not on a Sunday\.$"):
        bootstrap(refuses, y, p)


def test_an_error_inside_a_function_is_not_taken_for_a_wrong_call():
    def broken(y_true, y_proba):
        return len(3)

    with pytest.raises(TypeError, match="has no len"):
        bootstrap(broken, [0, 1], [0.2, 0.9])


def test_weights_that_would_not_be_resampled_are_refused():
    with pytest.raises(ParameterError, match="pass sample_weight= beside the metric"):
        bootstrap(partial(accuracy, sample_weight=[1, 2]), [0, 1], [0.2, 0.9])


def test_data_are_refused_as_metrics_refuse_them():
    with pytest.raises(PredictionError):
        bootstrap(accuracy, [0, 1], [0.2, 1.9])
    with pytest.raises(LabelError):
        bootstrap(accuracy, [0, 1, 1], [0.2, 0.9])
    with pytest.raises(WeightError):
        bootstrap(accuracy, [0, 1], [0.2, 0.9], sample_weight=[1, -1])
