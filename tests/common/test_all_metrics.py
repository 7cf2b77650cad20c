"""Every metric through one body of tests."""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from methods import problem

import calibrant.metrics
from calibrant import Predictions, registry
from calibrant.errors import LabelError, PredictionError, WeightError
from strategies import problems

METRICS = {name: getattr(calibrant.metrics, name) for name in registry.metrics()}
every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)

# The same sum taken in another order.
ROUNDING = 1e-12


@every_metric
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_it_returns_a_finite_float(metric, n_classes):
    X, y = problem(n_classes)
    value = metric(y, X)
    assert type(value) is float
    assert np.isfinite(value)


@every_metric
def test_everything_after_the_probabilities_is_by_keyword_with_a_default(metric):
    y_true, y_proba, *others = inspect.signature(metric).parameters.values()
    assert (y_true.name, y_proba.name) == ("y_true", "y_proba")
    assert "sample_weight" in {parameter.name for parameter in others}
    for parameter in others:
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default is not inspect.Parameter.empty


@every_metric
def test_it_has_a_formula_and_an_example(metric):
    assert ">>>" in metric.__doc__
    assert ".. math::" in metric.__doc__ or ":math:" in metric.__doc__


@every_metric
def test_integer_weights_count_as_repetitions(metric):
    X, y = problem(3)
    counts = np.arange(len(y)) % 4
    repeated = metric(np.repeat(y, counts), np.repeat(X, counts, axis=0))
    assert metric(y, X, sample_weight=counts) == pytest.approx(repeated, abs=ROUNDING)


@every_metric
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_only_the_ratios_of_weights_matter(metric, scale):
    X, y = problem(3)
    assert metric(y, X, sample_weight=np.full(len(y), scale)) == pytest.approx(metric(y, X), abs=ROUNDING)


@every_metric
def test_unequal_weights_change_the_value(metric):
    X, y = problem(3)
    right = X.argmax(axis=1) == y
    assert abs(metric(y, X, sample_weight=np.where(right, 5.0, 1.0)) - metric(y, X)) > 1e-3


@every_metric
def test_the_order_of_rows_does_not_matter(metric):
    X, y = problem(3)
    order = np.random.default_rng(4).permutation(len(y))
    weights = np.linspace(0.5, 2.0, len(y))
    expected = metric(y, X, sample_weight=weights)
    shuffled = metric(y[order], X[order], sample_weight=weights[order])
    assert shuffled == pytest.approx(expected, abs=ROUNDING)


@every_metric
def test_the_order_of_classes_does_not_matter(metric):
    X, y = problem(3)
    order = np.array([2, 0, 1])
    assert metric(np.argsort(order)[y], X[:, order]) == pytest.approx(metric(y, X), abs=ROUNDING)


@every_metric
def test_float32_gives_the_value_of_float64(metric):
    """The numbers are the same in both types; logarithms in float32 are good to 1e-7 of their size."""
    X, y = problem(3)
    value = metric(y, X.astype(np.float32))
    assert type(value) is float
    assert value == pytest.approx(metric(y, X), abs=1e-6)


@every_metric
def test_float32_sums_are_kept_in_float64(metric):
    """A quarter of a million rows: a running float32 sum would be off by more than this."""
    X, y = problem(3)
    many = np.tile(X.astype(np.float32), (800, 1))
    assert metric(np.tile(y, 800), many) == pytest.approx(metric(y, X), abs=1e-6)


@every_metric
def test_inputs_are_left_unchanged_and_may_be_read_only(metric):
    X, y = (array.copy() for array in problem(3))
    weights = np.linspace(0.5, 1.5, len(y))
    copies = [array.copy() for array in (X, y, weights)]
    value = metric(y, X, sample_weight=weights)
    for array, copied in zip((X, y, weights), copies, strict=True):
        np.testing.assert_array_equal(array, copied)
        array.flags.writeable = False
    assert metric(y, X, sample_weight=weights) == value


@every_metric
def test_two_classes_as_vector_as_one_column_and_as_two(metric):
    X, y = problem(2)
    assert metric(y, X[:, 1]) == metric(y, X)
    assert metric(y, X[:, 1:]) == metric(y, X)


@every_metric
def test_logits_are_taken_when_declared(metric):
    X, y = problem(3)
    logits = Predictions.from_logits(np.log(X) + np.linspace(-3, 3, len(y))[:, np.newaxis])
    assert metric(y, logits) == pytest.approx(metric(y, X), abs=1e-9)


@every_metric
def test_labels_as_strings(metric):
    X, y = problem(3)
    assert metric(np.array(["ant", "bee", "cat"])[y], X) == metric(y, X)


@every_metric
def test_frames_whose_columns_name_the_classes(metric):
    X, y = problem(3)
    words = ["dog", "cat", "ant"]
    labels = np.array(words)[y]
    assert metric(pd.Series(labels), pd.DataFrame(X, columns=words)) == metric(y, X)
    assert metric(pl.Series(labels), pl.DataFrame(X, schema=words)) == metric(y, X)


@every_metric
def test_a_class_that_never_occurs_and_one_row(metric):
    X, y = problem(4)
    assert np.isfinite(metric(np.where(y == 2, 0, y), X))
    assert np.isfinite(metric(y[:1], X[:1]))


@every_metric
@settings(max_examples=25)
@given(data=st.data())
def test_zeros_ones_and_ties_give_a_number_whatever_the_order(metric, data):
    """Infinite only where something happened that was called impossible; never NaN."""
    X, y = data.draw(problems())
    order = np.array(data.draw(st.permutations(range(len(y)))))
    value = metric(y, X)
    refuted = (X[np.arange(len(y)), y] == 0).any()
    assert np.isfinite(value) or (refuted and value == np.inf)
    assert metric(y[order], X[order]) == pytest.approx(value, abs=1e-5 if X.dtype == np.float32 else 1e-9)


@every_metric
def test_bad_input_is_refused(metric):
    X, y = problem(3)
    with pytest.raises(PredictionError, match="rows must sum to 1"):
        metric(y, 2 * X)
    with pytest.raises(PredictionError, match=r"must not be negative.*from_logits"):
        metric(y, np.log(X))
    with pytest.raises(PredictionError, match="must be finite, but row 0, column 1 is nan"):
        metric(y[:1], [[0.5, np.nan, 0.5]])
    with pytest.raises(LabelError, match="320 rows of predictions but 319 labels"):
        metric(y[:-1], X)
    with pytest.raises(LabelError, match=r"column numbers 0\.\.2, but row 0 has 3"):
        metric(np.full(len(y), 3), X)
    with pytest.raises(WeightError, match="not negative"):
        metric(y, X, sample_weight=np.full(len(y), -1.0))
    with pytest.raises(WeightError, match="one number per row"):
        metric(y, X, sample_weight=[1.0])
    with pytest.raises(PredictionError, match="empty"):
        metric([], np.empty((0, 3)))
