"""TestSums: tests from sums over batches, against those of all rows at once."""

import pickle
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import Predictions
from calibrant.errors import ParameterError, PredictionError
from calibrant.hypothesis_tests import (
    TestSums,
    calibration_slope_intercept,
    classwise_cumulative_tests,
    cumulative_test,
    spiegelhalter_test,
)
from calibrant.metrics import OneClass

WIDTH = 1 / 1024


def rows(n_rows=4000, n_classes=3, seed=0):
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 2, (n_rows, n_classes))
    labels = (logits / 1.3 + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return labels, Predictions.from_logits(logits)


def on_the_grid(n_rows=3000, seed=0):
    """Return events whose log-odds are multiples of the width of a cell, for which cells lose nothing."""
    generator = np.random.default_rng(seed)
    log_odds = WIDTH * np.round(generator.normal(0, 2, n_rows) / WIDTH)
    labels = (generator.logistic(size=n_rows) < 0.8 * log_odds).astype(int)
    logits = np.stack([np.zeros(n_rows), log_odds], axis=1)
    return labels, Predictions.from_logits(logits), generator.gamma(2.0, 1.0, n_rows)


def in_batches(labels, predictions, weights=None, ends=(0, 700, 2999), **options):
    batches = np.split(np.arange(len(labels)), ends)
    return [
        TestSums.of_rows(
            labels[batch],
            predictions.take(batch),
            sample_weight=None if weights is None else weights[batch],
            **options,
        )
        for batch in batches
        if len(batch)
    ]


def same(found, expected, tolerance=1e-9):
    assert found.statistic == pytest.approx(expected.statistic, rel=tolerance, abs=1e-12)
    assert found.p_value == pytest.approx(expected.p_value, rel=1e3 * tolerance, abs=1e-12)
    assert (found.n_rows, found.caution) == (expected.n_rows, expected.caution)


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_on_the_grid_give_the_tests_of_all_rows(weighted):
    labels, predictions, weights = on_the_grid()
    given = weights if weighted else None
    sums = reduce(add, in_batches(labels, predictions, given))
    same(sums.spiegelhalter(), spiegelhalter_test(labels, predictions, sample_weight=given))
    kuiper = cumulative_test(labels, predictions, sample_weight=given, utility=OneClass(1))
    same(sums.cumulative(), kuiper)
    line = calibration_slope_intercept(labels, predictions, sample_weight=given, interval="wald", level=0.9)
    found = sums.slope_intercept(level=0.9)
    for name in ("slope", "intercept", "in_the_large"):
        one, other = getattr(found, name), getattr(line, name)
        assert (one.value, one.standard_error, one.low, one.high) == pytest.approx(
            (other.value, other.standard_error, other.low, other.high), rel=1e-6
        )
    same(found.slope_test, line.slope_test, 1e-6)
    same(found.in_the_large_test, line.in_the_large_test, 1e-6)
    assert found.event == line.event == "class 1"


def test_other_scores_move_by_less_than_stated():
    """The statistic is at most that of all rows, and less by at most twice the sum of residuals of a cell."""
    labels, predictions = rows()
    sums = reduce(add, in_batches(labels, predictions, classwise=True))
    same(sums.spiegelhalter(), spiegelhalter_test(labels, predictions))
    exact = cumulative_test(labels, predictions)
    assert exact.statistic - 2 * 5 / 4000 < sums.cumulative().statistic <= exact.statistic + 1e-12
    line, found = calibration_slope_intercept(labels, predictions), sums.slope_intercept()
    assert found.event == line.event == "predicted class"
    assert found.slope.value == pytest.approx(line.slope.value, abs=WIDTH / 2)
    assert found.slope.value == pytest.approx(line.slope.value, rel=1e-4)
    every, classes = classwise_cumulative_tests(labels, predictions), sums.classwise()
    for one, other in zip(classes.results, every.results, strict=True):
        assert other.statistic - 2 * 5 / 4000 < one.statistic <= other.statistic + 1e-12
    assert classes.adjusted_p_values == pytest.approx(every.adjusted_p_values, abs=0.05)


@given(seed=st.integers(0, 1000), ends=st.lists(st.integers(0, 300), max_size=4).map(sorted))
def test_how_rows_are_divided_does_not_matter(seed, ends):
    labels, predictions = rows(300, seed=seed)
    whole = TestSums.of_rows(labels, predictions)
    parts = [pickle.loads(pickle.dumps(part)) for part in in_batches(labels, predictions, ends=ends)]
    merged = reduce(add, parts[::-1])
    assert merged.n_rows == 300
    assert merged.cumulative().statistic == pytest.approx(whole.cumulative().statistic, abs=1e-12)
    assert merged.spiegelhalter().statistic == pytest.approx(whole.spiegelhalter().statistic, rel=1e-9)
    assert merged.slope_intercept().slope.value == pytest.approx(
        whole.slope_intercept().slope.value, rel=1e-9
    )


def test_certain_predictions_count_as_they_do_in_memory():
    """Twelve levels on the grid, and rows at zero and one in a batch of their own."""
    labels, predictions, _ = on_the_grid(200)
    p = np.concatenate([predictions.probabilities[:, 1], [0.0, 0.0, 1.0, 1.0, 1.0]])
    y = np.concatenate([labels, [0, 1, 1, 1, 0]])
    sums = TestSums.of_rows(y[200:], p[200:]) + TestSums.of_rows(y[:200], p[:200])
    line, found = calibration_slope_intercept(y, p, interval="wald"), sums.slope_intercept()
    assert found.slope.value == pytest.approx(line.slope.value, rel=1e-6)
    assert "5 probabilities of exactly 0 or 1" in found.slope_test.caution
    same(sums.cumulative(), cumulative_test(y, p, utility=OneClass(1)))
    with pytest.raises(PredictionError, match="exactly 0 or 1"):
        TestSums.of_rows(y[200:], p[200:]).slope_intercept()


def test_log_odds_beyond_the_largest_count_as_that():
    logits = np.array([[0.0, 500.0], [0.0, -500.0], [0.0, 1.0], [0.0, -1.0]] * 10)
    labels = np.array([1, 0, 1, 0] * 9 + [0, 1, 0, 1])
    found = TestSums.of_rows(labels, Predictions.from_logits(logits))
    bounded = TestSums.of_rows(labels, Predictions.from_logits(np.clip(logits, -64, 64)))
    assert found.slope_intercept().slope.value == bounded.slope_intercept().slope.value


def test_what_does_not_add_up_is_refused():
    labels, predictions = rows(50)
    sums = TestSums.of_rows(labels, predictions)
    with pytest.raises(ParameterError, match="pass classwise=True"):
        sums.classwise()
    with pytest.raises(ParameterError, match="same columns and classwise"):
        _ = sums + TestSums.of_rows(labels, predictions, classwise=True)
    with pytest.raises(ParameterError, match="two classes are one event"):
        TestSums.of_rows([0, 1], [0.2, 0.7], classwise=True).classwise()
