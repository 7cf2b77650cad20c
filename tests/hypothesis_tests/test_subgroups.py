"""Calibration of subgroups: closed forms, the level over many segments, the power for one bad segment of two hundred."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom

from calibrant.errors import ParameterError
from calibrant.hypothesis_tests import subgroup_calibration
from calibrant.intervals import clopper_pearson

N_SETS = 400


def calibrated(generator, n_rows):
    p = generator.beta(1, 2, n_rows)
    return (generator.random(n_rows) < p).astype(int), p


def test_z_is_that_of_its_formula():
    p = np.repeat([0.2, 0.5], 40)
    y = np.tile([1, 0, 0, 0, 1], 16)
    side = {"half": np.repeat(["low", "high"], 40)}
    found = subgroup_calibration(y, p, side, n_resamples=200)
    for name, rows in (("half = low", p == 0.2), ("half = high", p == 0.5)):
        at = found.segment.index(name)
        assert found.z[at] == pytest.approx((y - p)[rows].sum() / np.sqrt((p * (1 - p))[rows].sum()))
        assert found.predicted[at] == pytest.approx(p[rows].mean())
        assert found.observed[at] == pytest.approx(y[rows].mean())
        low, high = clopper_pearson(y[rows].sum(), rows.sum(), 1 - 0.05 / 2)
        assert (found.low[at], found.high[at]) == pytest.approx((low - p[rows].mean(), high - p[rows].mean()))


def test_one_segment_has_the_p_value_of_the_binomial_test():
    """Sixty of a hundred at one half: P(|X - 50| >= 10) = 0.0569."""
    y = np.repeat([1, 0], [60, 40])
    found = subgroup_calibration(y, np.full(100, 0.5), {"all": np.zeros(100, int)}, n_resamples=20_000)
    exact = 2 * binom.sf(59, 100, 0.5)
    assert found.test.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact / 20_000))
    assert found.segment == ("all = 0",)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_calibrated_set_has_a_rejection_in_at_most_a_twentieth_of_the_cases(depth):
    """400 sets: more than 5 % only as chance allows at the 1 % level; not far below either, so the test is not idle."""
    generator = np.random.default_rng(0)
    rejected = uncovered = 0
    for number in range(N_SETS):
        y, p = calibrated(generator, 600)
        side = {name: generator.integers(0, 6, 600) for name in "abc"}
        found = subgroup_calibration(y, p, side, depth=depth, n_resamples=199, random_state=number)
        rejected += bool(found.rejected)
        # The expected frequency is the mean prediction, a difference of zero.
        uncovered += bool(((found.low > 0) | (found.high < 0)).any())
    assert binom.ppf(0.005, N_SETS, 0.04) <= rejected <= binom.ppf(0.99, N_SETS, 0.05)
    assert uncovered <= binom.ppf(0.99, N_SETS, 0.05)


def test_the_worst_of_two_hundred_segments_is_found():
    """60 rows with events of 40 % where 15 % are predicted: of 20 sets, at least the 1 % quantile at a power of 0.8."""
    generator = np.random.default_rng(1)
    n_sets, found_first = 20, 0
    for number in range(n_sets):
        site = np.repeat(np.arange(200), 60)
        p = np.full(len(site), 0.15)
        y = (generator.random(len(site)) < np.where(site == 17, 0.40, p)).astype(int)
        found = subgroup_calibration(y, p, {"site": site.astype(str)}, n_resamples=199, random_state=number)
        assert len(found.segment) == 200
        found_first += found.segment[0] == "site = 17" and found.p_value[0] <= 0.05
    assert found_first >= binom.ppf(0.01, n_sets, 0.8)


def test_several_bad_segments_are_all_rejected():
    generator = np.random.default_rng(2)
    site = np.repeat(np.arange(10), 300)
    p = generator.random(len(site))
    y = (generator.random(len(site)) < np.where(site < 3, 0.6 * p, p)).astype(int)
    found = subgroup_calibration(y, p, {"site": site})
    assert set(found.rejected) == {"site = 0", "site = 1", "site = 2"}
    assert (np.diff(found.p_value) >= 0).all()


def test_numbers_are_cut_at_their_quantiles_and_missing_values_are_a_segment():
    generator = np.random.default_rng(3)
    y, p = calibrated(generator, 400)
    age = np.arange(400.0)
    age[:40] = np.nan
    found = subgroup_calibration(y, p, {"age": age, "sex": np.array(["f", None] * 200, dtype=object)})
    assert set(found.segment) == {
        "age <= 129",
        "age = 129 to 219",
        "age = 219 to 309",
        "age > 309",
        "age is missing",
        "sex = f",
        "sex is missing",
    }
    assert sorted(found.n_rows) == [40, 90, 90, 90, 90, 200, 200]


def test_crossings_leave_out_small_segments_and_repeated_ones():
    y, p = calibrated(np.random.default_rng(4), 200)
    side = {
        "a": np.repeat(["x", "y"], 100),
        "b": np.repeat(["x", "y"], 100),
        "c": np.repeat([0, 1], [180, 20]),
    }
    found = subgroup_calibration(y, p, side, depth=2)
    assert set(found.segment) == {"a = x", "a = y", "c = 0", "a = y and c = 0"}
    assert found.n_left_out == 3


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, dict])
def test_data_frames_and_mappings_give_the_same(frame):
    y, p = calibrated(np.random.default_rng(5), 120)
    side = {"site": ["a", "b", "c"] * 40}
    found = subgroup_calibration(y, p, frame(side), n_resamples=99)
    assert found.segment == subgroup_calibration(y, p, side, n_resamples=99).segment


def test_rows_of_weight_zero_play_no_part():
    generator = np.random.default_rng(6)
    y, p = calibrated(generator, 300)
    site, weights = generator.integers(0, 3, 300), generator.integers(0, 3, 300).astype(float)
    kept = weights > 0
    weighted = subgroup_calibration(y, p, {"site": site}, sample_weight=weights)
    reduced = subgroup_calibration(y[kept], p[kept], {"site": site[kept]}, sample_weight=weights[kept])
    for name, values in weighted.columns().items():
        assert list(values) == list(reduced.columns()[name])


def test_several_classes_use_the_predicted_class():
    generator = np.random.default_rng(7)
    p = generator.dirichlet(np.ones(4), 500)
    y = np.array([generator.choice(4, p=row) for row in p])
    found = subgroup_calibration(y, p, {"site": generator.integers(0, 3, 500)}, n_resamples=99)
    assert found.event == "the predicted class is correct"
    assert found.test.n_resamples == 99


def test_an_impossible_outcome_is_the_strongest_evidence():
    p = np.repeat([0.0, 0.5], 50)
    y = np.concatenate([[1], np.zeros(49, int), np.tile([0, 1], 25)])
    found = subgroup_calibration(y, p, {"part": np.repeat(["zero", "half"], 50)})
    assert found.segment[0] == "part = zero"
    assert found.z[0] == np.inf
    assert found.rejected == ("part = zero",)


def test_the_summary_names_the_worst_segment():
    y, p = calibrated(np.random.default_rng(8), 200)
    shown = str(subgroup_calibration(y, p, {"site": ["a", "b"] * 100}))
    assert shown.startswith(
        "0 segments of 2 miscalibrated at the 5 % level, adjusted for the search; event: class 1 occurs."
    )
    assert len(shown.splitlines()) == 2


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({}, {}, "columns must be a data frame or a mapping"),
        ([1, 2], {}, "columns must be a data frame or a mapping of names to arrays .* not list"),
        ({"a": [1]}, {}, r"side column 'a' must have one value per row, but has shape \(1,\) for 2 rows"),
        ({"a": [1, 2]}, {}, "every segment has fewer than 30 rows"),
        ({"a": [1, 2]}, {"depth": 0}, "depth must be an integer of at least 1"),
        ({"a": [1, 2]}, {"n_quantiles": 1}, "n_quantiles must be an integer of at least 2"),
        ({"a": [1, 2]}, {"kind": "class"}, "kind must be"),
    ],
)
def test_bad_input_is_refused(columns, options, message):
    with pytest.raises(ParameterError, match=message):
        subgroup_calibration([0, 1], [0.2, 0.8], columns, **options)


def test_positive_needs_two_classes():
    with pytest.raises(ParameterError, match="kind='positive' is for two classes"):
        subgroup_calibration([0, 1, 2], np.eye(3), {"a": [1, 1, 1]}, kind="positive", min_rows=1)
