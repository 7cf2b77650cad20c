"""What an interval knows and how it reads."""

from dataclasses import FrozenInstanceError
from functools import partial
from json import dumps

import numpy as np
import pytest

from calibrant.intervals import Interval, bootstrap, loss_difference, paired_bootstrap
from calibrant.metrics import brier_score, confidence_ece


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
