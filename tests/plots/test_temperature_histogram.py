"""Temperatures of rows as a histogram: counts, groups and medians."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from calibrant import ParameterizedTemperatureScaling, TemperatureScaling
from calibrant.errors import ParameterError
from calibrant.plots import TemperatureHistogramDisplay

P = [[0.9, 0.1]] * 20 + [[0.6, 0.4]] * 20
Y = [0] * 15 + [1] * 5 + [0] * 12 + [1] * 8


@pytest.fixture(scope="module")
def fitted():
    """Temperatures of 2 at 90 % and of 1 at 60 %; see the class itself."""
    return ParameterizedTemperatureScaling(hidden=(), weight_decay=0).fit(P, Y)


def test_rows_are_counted_by_right_and_wrong(fitted):
    display = TemperatureHistogramDisplay.from_estimator(fitted, P, Y)
    assert display.counts["right"][[0, -1]].tolist() == [12, 15]
    assert display.counts["wrong"][[0, -1]].tolist() == [8, 5]
    assert display.medians["right"] == pytest.approx(2, abs=1e-3)
    assert display.medians["wrong"] == pytest.approx(1, abs=1e-3)
    assert_allclose(display.edges[[0, -1]], [1, 2], atol=1e-3)


def test_without_labels_there_is_one_group(fitted):
    display = TemperatureHistogramDisplay.from_estimator(fitted, P, n_bins=7)
    assert list(display.counts) == ["all"]
    assert display.counts["all"].sum() == 40
    assert len(display.edges) == 8


def test_weights_count_rows(fitted):
    weights = np.arange(1, 41)
    display = TemperatureHistogramDisplay.from_estimator(fitted, P, Y, sample_weight=weights)
    assert sum(count.sum() for count in display.counts.values()) == pytest.approx(weights.sum())


def test_equal_temperatures_have_bins_around_them(fitted):
    display = TemperatureHistogramDisplay.from_estimator(fitted, [[0.9, 0.1]], [0])
    assert display.edges[0] < 2 < display.edges[-1]
    assert display.counts["right"].sum() == 1
    assert np.isnan(display.medians["wrong"])


def test_the_single_temperature_is_that_of_the_fit(fitted):
    assert TemperatureHistogramDisplay.from_estimator(fitted, P).single == fitted.temperature_


def test_the_table_has_one_line_per_bin(fitted):
    columns = TemperatureHistogramDisplay.from_estimator(fitted, P, Y, n_bins=5).columns()
    assert set(columns) == {"low", "high", "count_right", "count_wrong"}
    assert_allclose(columns["high"][:-1], columns["low"][1:])


def test_what_has_no_temperatures_of_rows_is_refused(fitted):
    with pytest.raises(ParameterError, match="not a TemperatureScaling"):
        TemperatureHistogramDisplay.from_estimator(TemperatureScaling(), P)
    with pytest.raises(ParameterError, match="pass y"):
        TemperatureHistogramDisplay.from_estimator(fitted, P, sample_weight=np.ones(40))
