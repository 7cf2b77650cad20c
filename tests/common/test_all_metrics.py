"""Every metric through one body of tests."""

import inspect
import re
from functools import partial
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from methods import problem

import calibrant.metrics
from calibrant import Predictions, TemperatureScaling, registry
from calibrant.errors import LabelError, ParameterError, PredictionError, WeightError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import evaluator, options_of, parts_of, traits_of
from calibrant.streaming import streaming_metrics
from strategies import problems

METRICS = {name: getattr(calibrant.metrics, name) for name in registry.metrics()}
every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)


def metrics_that(claim):
    """Every metric of which the claim holds."""
    chosen = {name: metric for name, metric in METRICS.items() if claim(traits_of(metric))}
    return pytest.mark.parametrize("metric", chosen.values(), ids=chosen)


# The same sum taken in another order.
ROUNDING = 1e-12


def test_the_registry_finds_the_metrics():
    assert {"accuracy", "brier_score", "classwise_ece", "confidence_ece", "log_loss"} <= METRICS.keys()


@every_metric
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_it_returns_a_finite_float(metric, n_classes):
    X, y = problem(n_classes)
    value = metric(y, X)
    assert type(value) is float
    assert np.isfinite(value)
    assert type(metric(y, X, sample_weight=np.ones(len(y), dtype=np.float32))) is float


@every_metric
def test_everything_after_the_probabilities_is_by_keyword_with_a_default(metric):
    y_true, y_proba, *others = inspect.signature(metric).parameters.values()
    assert (y_true.name, y_proba.name, others[0].name) == ("y_true", "y_proba", "sample_weight")
    for parameter in others:
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default is not inspect.Parameter.empty


@every_metric
def test_it_has_a_formula_and_an_example(metric):
    text = metric.__doc__ or ""
    assert ">>>" in text, (
        f"the docstring of {metric.__name__} has no example; add a section Examples with code that runs"
    )
    assert re.search(r"\.\. math::|:math:", text), (
        f"the docstring of {metric.__name__} has no formula; add '.. math::'"
    )


@every_metric
def test_it_describes_every_parameter_once(metric):
    """Shared descriptions are inserted by ``calibrant.shared_parameters``."""
    section = inspect.getdoc(metric).partition("Parameters\n----------\n")[2].partition("\n\nReturns\n")[0]
    heads = [line.partition(" : ")[0] for line in section.split("\n") if line[:1].strip()]
    described = [name for head in heads for name in head.split(", ")]
    assert sorted(described) == sorted(inspect.signature(metric).parameters)


@metrics_that(lambda traits: traits.weights_are_counts)
def test_integer_weights_count_as_repetitions(metric):
    X, y = problem(3)
    counts = np.arange(len(y)) % 4
    repeated = metric(np.repeat(y, counts), np.repeat(X, counts, axis=0))
    assert metric(y, X, sample_weight=counts) == pytest.approx(repeated, abs=ROUNDING)


@every_metric
def test_a_weight_of_zero_is_an_absent_row(metric):
    X, y = problem(3)
    keep = np.arange(len(y)) % 3 > 0
    weighted = metric(y, X, sample_weight=keep.astype(float))
    assert weighted == pytest.approx(metric(y[keep], X[keep]), abs=ROUNDING)


@every_metric
@pytest.mark.parametrize("scale", [0.1, 1e-6, 1e6])
def test_only_the_ratios_of_weights_matter(metric, scale):
    X, y = problem(3)
    assert metric(y, X, sample_weight=np.full(len(y), scale)) == pytest.approx(metric(y, X), abs=ROUNDING)
    weights = np.random.default_rng(0).random(len(y)) + 0.1
    scaled = metric(y, X, sample_weight=scale * weights)
    assert scaled == pytest.approx(metric(y, X, sample_weight=weights), rel=1e-9, abs=ROUNDING)


@every_metric
def test_unequal_weights_change_the_value(metric):
    X, y = problem(3)
    right = X.argmax(axis=1) == y
    early = np.arange(len(y)) < len(y) // 2  # the right rows alone need not change a maximum over bins
    changes = [metric(y, X, sample_weight=np.where(rows, 9.0, 0.1)) - metric(y, X) for rows in (right, early)]
    assert max(map(abs, changes)) > 1e-3


@every_metric
def test_the_order_of_rows_does_not_matter(metric):
    X, y = problem(3)
    order = np.random.default_rng(4).permutation(len(y))
    weights = np.linspace(0.5, 2.0, len(y))
    expected = metric(y, X, sample_weight=weights)
    shuffled = metric(y[order], X[order], sample_weight=weights[order])
    assert shuffled == pytest.approx(expected, abs=ROUNDING)


@metrics_that(lambda traits: traits.commutes_with_permutations)
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


@metrics_that(lambda traits: traits.weights_are_counts)
def test_float32_sums_are_kept_in_float64(metric):
    """A quarter of a million rows: a running float32 sum would be off by more than this."""
    X, y = problem(3)
    single = X.astype(np.float32)
    weighted = metric(y, single, sample_weight=np.full(len(y), 800.0))
    assert metric(np.tile(y, 800), np.tile(single, (800, 1))) == pytest.approx(weighted, abs=1e-6)


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
    assert metric(y.tolist(), X.tolist()) == metric(y, X)


@every_metric
def test_frames_whose_columns_name_the_classes(metric):
    X, y = problem(3)
    words = ["dog", "cat", "ant"]
    labels = np.array(words)[y]
    assert metric(pd.Series(labels), pd.DataFrame(X, columns=words)) == metric(y, X)
    assert metric(pl.Series(labels), pl.DataFrame(X, schema=words)) == metric(y, X)
    assert metric(labels, Predictions.from_probabilities(X, classes=np.array(words))) == metric(y, X)


@every_metric
def test_calibrated_predictions_are_taken_as_they_come(metric):
    X, y = problem(3)
    fitted = TemperatureScaling().fit(X, y)
    assert metric(y, fitted.transform(X)) == pytest.approx(metric(y, fitted.predict_proba(X)))


@every_metric
def test_a_class_that_never_occurs_and_one_row(metric):
    X, y = problem(4)
    assert np.isfinite(metric(np.where(y == 2, 0, y), X))
    assert np.isfinite(metric(y[:1], X[:1])) or not traits_of(metric).always_defined


@every_metric
@settings(max_examples=25)
@given(data=st.data())
def test_zeros_ones_and_ties_give_a_number_whatever_the_order(metric, data):
    """Infinite only where something happened that was called impossible; never NaN."""
    X, y = data.draw(problems())
    order = np.array(data.draw(st.permutations(range(len(y)))))
    value = metric(y, X)
    if np.isnan(value) and not traits_of(metric).always_defined:
        return
    refuted = (X[np.arange(len(y)), y] == 0).any()
    assert np.isfinite(value) or (refuted and value == np.inf)
    assert metric(y[order], X[order]) == pytest.approx(value, abs=1e-5 if X.dtype == np.float32 else 1e-9)


@every_metric
def test_prepared_predictions_give_the_same_value_for_any_labels_and_weights(metric):
    X, y = problem(3)
    data = LabelledPredictions.parse(X, y)
    prepared = evaluator(metric, data)
    others, weights = np.roll(y, 7), np.linspace(0.5, 2.0, len(y))
    for labels in (y, others, y):
        for chosen in (None, weights, 3 * weights[::-1], None):
            expected = metric(labels, X, sample_weight=chosen)
            assert prepared(labels, chosen) == pytest.approx(expected, abs=ROUNDING)


@every_metric
def test_prepared_predictions_notice_that_weights_have_changed_in_place(metric):
    X, y = problem(3)
    prepared = evaluator(metric, LabelledPredictions.parse(X, y))
    weights = np.linspace(0.5, 2.0, len(y))
    prepared(y, weights)
    weights[:] = weights[::-1].copy()
    assert prepared(y, weights) == pytest.approx(metric(y, X, sample_weight=weights), abs=ROUNDING)


@every_metric
def test_a_prepared_row_of_weight_zero_plays_no_part(metric):
    """Also where the row was refuted, with an infinite log-loss."""
    X, y = (array.copy() for array in problem(3))
    X[0] = [1.0, 0.0, 0.0]
    y[0] = 1
    weights = np.ones(len(y))
    weights[0] = 0.0
    prepared = evaluator(metric, LabelledPredictions.parse(X, y))
    assert prepared(y, weights) == pytest.approx(metric(y[1:], X[1:]), abs=1e-3)


@every_metric
def test_prepared_logits_give_the_same_value(metric):
    X, y = problem(3)
    logits = Predictions.from_logits(np.log(X) + np.linspace(-3, 3, len(y))[:, np.newaxis])
    prepared = evaluator(metric, LabelledPredictions.parse(logits, y))
    assert prepared(y, None) == pytest.approx(metric(y, logits), abs=ROUNDING)


@pytest.mark.parametrize("name", streaming_metrics())
def test_sums_of_batches_give_the_value_of_all_rows(name):
    metric = METRICS[name]
    if "strategy" in options_of(metric):
        metric = partial(metric, strategy="uniform")  # bins that are known before the first batch
    parts = parts_of(metric)
    X, y = problem(3)
    weights = np.linspace(0.5, 2.0, len(y))
    batches = [slice(0, 1), slice(1, 100), slice(100, None)]
    sums = [parts.of(LabelledPredictions.parse(X[rows], y[rows], weights[rows])) for rows in batches]
    assert parts.value(sums[0] + sums[1] + sums[2]) == pytest.approx(
        metric(y, X, sample_weight=weights), abs=ROUNDING
    )


@every_metric
def test_its_description_names_every_option_that_has_a_value(metric):
    described = calibrant.metrics.describe(metric)
    assert described.startswith(metric.__name__)
    for option, value in options_of(metric).items():
        assert (value is None) == (re.search(rf"\b{option}=", described) is None)


@metrics_that(lambda traits: traits.proper)
def test_nothing_beats_the_truth_in_expectation(metric):
    """One row for each class, weighted by its true probability, all with the same prediction."""
    generator = np.random.default_rng(0)
    for truth in generator.dirichlet(np.ones(4), 20):

        def expected(prediction, truth=truth):
            return metric(np.arange(4), np.tile(prediction, (4, 1)), sample_weight=truth)

        for other in generator.dirichlet(np.ones(4), 20):
            assert expected(truth) < expected(other)


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


def takes_words(hint):
    """Return whether an option is one of several words, or may be."""
    return get_origin(hint) is Literal or any(map(takes_words, get_args(hint)))


@every_metric
def test_options_without_meaning_are_refused_by_name(metric):
    """A word that is none of the choices, a number of zero, and the positive class of three."""
    X, y = problem(3)
    hints = get_type_hints(metric)
    wrong = {
        name: "bogus" for name, hint in hints.items() if takes_words(hint) and name in options_of(metric)
    }
    numbers = {"n_bins", "k", "n_folds", "block_size", "n_losses", "n_decisions"} & options_of(metric).keys()
    for name, value in [*wrong.items(), *((name, 0) for name in numbers)]:
        with pytest.raises(ParameterError, match=rf"^{name} must be"):
            metric(y, X, **{name: value})
    if "kind" in wrong:
        with pytest.raises(ParameterError, match="for two classes, but there are 3"):
            metric(y, X, kind="positive")


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
