"""Box plots of class probabilities: quantiles by a second way, weights, and the choice of classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

from calibrant.errors import ParameterError
from calibrant.plots import ClassProbabilityBoxDisplay
from calibrant.plots.class_probability_boxes import SHARES, weighted_quantile
from strategies import problems

STATISTICS = ("low", "lower_quartile", "median", "upper_quartile", "high", "mean", "deviation")


@given(
    values=hnp.arrays(
        np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=st.integers(0, 5).map(float)
    )
)
def test_quantiles_are_those_of_numpy(values):
    """The averaged inverse of the distribution function."""
    expected = np.quantile(values, SHARES, axis=0, method="averaged_inverted_cdf")
    assert_allclose(weighted_quantile(values, SHARES), expected)


@given(
    values=hnp.arrays(np.float64, (6, 1), elements=st.floats(0, 1)),
    weights=hnp.arrays(np.int64, 6, elements=st.integers(1, 4)),
)
def test_a_weight_is_a_number_of_rows(values, weights):
    repeated = weighted_quantile(np.repeat(values, weights, axis=0), SHARES)
    assert_allclose(weighted_quantile(values, SHARES, weights.astype(float)), repeated)


@given(problem=problems())
def test_boxes_are_those_of_the_rows_of_each_class(problem):
    statistics = ClassProbabilityBoxDisplay.from_predictions(problem.labels, problem.probabilities).statistics
    for true_class in np.unique(problem.labels):
        rows = problem.probabilities[problem.labels == true_class].astype(float)
        assert statistics.count[true_class] == len(rows)
        assert_allclose(statistics.mean[true_class], rows.mean(axis=0))
        assert_allclose(statistics.deviation[true_class], rows.std(axis=0), atol=1e-9)
        assert_allclose(
            statistics.median[true_class], np.quantile(rows, 0.5, axis=0, method="averaged_inverted_cdf")
        )


@given(problem=problems(), weights=st.lists(st.integers(1, 3), min_size=14, max_size=14))
def test_weighted_rows_are_repeated_rows(problem, weights):
    weights = np.array(weights[: len(problem.labels)])
    weighted = ClassProbabilityBoxDisplay.from_predictions(
        *reversed(problem), sample_weight=weights
    ).statistics
    repeated = ClassProbabilityBoxDisplay.from_predictions(
        np.repeat(problem.labels, weights), np.repeat(problem.probabilities, weights, axis=0)
    ).statistics
    for name in STATISTICS:
        assert_allclose(getattr(weighted, name), getattr(repeated, name), atol=1e-9)


def test_certain_and_right_predictions_have_boxes_at_one_and_zero():
    statistics = ClassProbabilityBoxDisplay.from_predictions(
        [0, 1, 2] * 5, np.tile(np.eye(3), (5, 1))
    ).statistics
    for name in STATISTICS[:-1]:
        assert_allclose(getattr(statistics, name), np.eye(3))
    assert_allclose(statistics.notch, 0)


def test_a_class_without_rows_has_an_empty_group():
    display = ClassProbabilityBoxDisplay.from_predictions([0, 1], [[0.5, 0.3, 0.2]] * 2)
    assert display.statistics.count.tolist() == [1, 1, 0]
    assert np.isnan(display.statistics.median[2]).all()


def test_chosen_classes_come_in_the_order_chosen():
    p = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]]
    display = ClassProbabilityBoxDisplay.from_predictions(["a", "b", "c"], p, classes=["c", "a"])
    assert display.names == ("c", "a")
    assert_allclose(display.statistics.median, [[0.6, 0.2], [0.2, 0.5]])


def test_of_many_classes_the_worst_are_drawn():
    """Of twelve classes, rows of the first six are given 0.9 of their own class and others 0.1."""
    labels = np.arange(12)
    p = np.full((12, 12), 0.1 / 11)
    p[labels, labels] = 0.9
    p[6:] = 0.9 / 11
    p[labels[6:], labels[6:]] = 0.1
    display = ClassProbabilityBoxDisplay.from_predictions(labels, p / p.sum(axis=1, keepdims=True))
    assert display.names == ("6", "7", "8", "9", "10", "11")
    assert display.title.endswith("the 6 worst of 12 classes")


def test_unknown_classes_are_refused():
    with pytest.raises(ParameterError, match="'z' is not one of 'a', 'b'"):
        ClassProbabilityBoxDisplay.from_predictions(["a", "b"], [[0.5, 0.5]] * 2, classes=["z"])


def test_the_table_has_one_line_per_box():
    columns = ClassProbabilityBoxDisplay.from_predictions([0, 1], [[0.7, 0.3], [0.4, 0.6]]).columns()
    assert columns["true_class"].tolist() == ["0", "0", "1", "1"]
    assert_allclose(columns["median"], [0.7, 0.3, 0.4, 0.6])
