"""What an interval knows and how it reads."""

from dataclasses import FrozenInstanceError
from functools import partial
from json import dumps

import numpy as np
import pytest

from calibrant.errors import ParameterError
from calibrant.intervals import Interval, bootstrap, loss_difference, paired_bootstrap
from calibrant.metrics import brier_score, classwise_ece, confidence_ece


def problem(n_rows=60, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.random(n_rows)
    return (generator.random(n_rows) < p).astype(int), p


def test_it_unpacks_into_its_ends():
    low, high = Interval(0.5, 0.4, 0.7, 0.95, "t interval", "brier loss", 10, 0.1)
    assert (low, high) == (0.4, 0.7)


def test_it_contains_its_ends_and_what_lies_between():
    interval = Interval(0.5, 0.4, 0.7, 0.95, "t interval", "brier loss", 10, 0.1)
    assert 0.4 in interval
    assert 0.7 in interval
    assert 0.39 not in interval
    assert interval.width == pytest.approx(0.3)


def test_it_cannot_be_changed():
    interval = Interval(0.5, 0.4, 0.7, 0.95, "t interval", "brier loss", 10, 0.1)
    with pytest.raises(FrozenInstanceError):
        interval.low = 0.0


def test_it_says_which_metric_it_is_about_with_all_options():
    y, p = problem()
    metric = partial(confidence_ece, n_bins=5, norm=2)
    interval = bootstrap(metric, y, p, n_resamples=50)
    assert interval.definition == "confidence_ece(n_bins=5, strategy='uniform', norm=2)"
    assert interval.estimate == metric(y, p)
    assert interval.definition in str(interval)


def test_it_is_one_line_with_everything_that_matters():
    y, p = problem()
    groups = np.arange(60) // 3
    text = str(paired_bootstrap(brier_score, y, p, 0.5 + 0 * p, n_resamples=50, groups=groups, level=0.9))
    assert "\n" not in text
    for part in (
        "brier_score(",
        "second minus first",
        "90 % interval",
        "60 rows",
        "20 groups",
        "50 resamples",
    ):
        assert part in text
    assert "second better in" in text
    assert "p = " in str(loss_difference(y, p, 0.5 + 0 * p))


def test_it_becomes_plain_data():
    y, p = problem()
    interval = bootstrap(brier_score, y, p, n_resamples=50)
    plain = interval.to_dict()
    assert Interval(**plain) == interval
    dumps(plain)


def test_an_interval_above_its_own_estimate_says_so():
    """Calibrated predictions: every class-wise bin has noise, and twice as much of it in a resample."""
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(5), 500)
    y = (p.cumsum(axis=1)[:, :-1] < generator.random((500, 1))).sum(axis=1)
    assert "is positive by noise alone" in bootstrap(classwise_ece, y, p, n_resamples=200).note
    interval = bootstrap(classwise_ece, y, p, n_resamples=200, uncorrected=True)
    assert interval.low > interval.estimate
    assert interval.excludes_estimate is True
    words = "; the estimate lies outside: this metric increases under resampling; see the notes of bootstrap"
    assert str(interval).endswith(words)
    assert "\n" not in str(interval)
    reflected = bootstrap(classwise_ece, y, p, n_resamples=200, method="basic", uncorrected=True)
    assert reflected.high < reflected.estimate
    assert str(reflected).endswith(words)


def test_an_interval_around_its_estimate_says_nothing_of_it():
    y, p = problem()
    interval = bootstrap(brier_score, y, p, n_resamples=50)
    assert interval.excludes_estimate is False
    assert str(interval).endswith("50 resamples)")


@pytest.mark.parametrize(
    ("method", "estimate", "words"),
    [
        ("percentile bootstrap", 0.9, "this metric decreases"),
        ("bca bootstrap", 0.9, "this metric increases"),
        ("paired percentile bootstrap by group", 0.1, "this difference increases"),
        ("some other interval", 0.1, "the estimate lies outside"),
    ],
)
def test_it_says_where_resampling_moves_the_metric(method, estimate, words):
    interval = Interval(estimate, 0.4, 0.7, 0.95, method, "error()", 10, 0.1)
    assert interval.excludes_estimate
    assert words in str(interval)


@pytest.mark.parametrize(
    ("estimate", "low", "high"),
    [
        (0.1 + 0.2, 0.3, 0.3),  # the same up to rounding
        (np.nan, np.nan, np.nan),
        (np.nan, 0.0, 1.0),
        (1.0, np.nan, np.nan),
        (np.inf, 0.1, np.inf),
        (np.inf, np.inf, np.inf),
    ],
)
def test_rounding_and_what_is_not_a_number_do_not_lie_outside(estimate, low, high):
    assert not Interval(
        estimate, low, high, 0.95, "percentile bootstrap", "error()", 10, 0.1
    ).excludes_estimate


def test_one_of_anything_is_in_the_singular():
    words = str(Interval(0.5, 0.4, 0.7, 0.95, "t interval", "error()", 1, 0.1, n_groups=1, p_value=0.0))
    assert words.endswith("(t interval, 1 row, 1 group, p < 1e-300)")
    with pytest.raises(ParameterError, match="for 1 row;"):
        loss_difference([1], [0.5], [0.75], groups=[1, 2])
