"""The difference of two mean losses against loops, scipy and closed forms."""

from math import inf, sqrt

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from calibrant import Predictions
from calibrant.errors import CalibrationWarning, LabelError, ParameterError
from calibrant.intervals import loss_difference
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import log_loss
from calibrant.metrics.row_losses import row_losses
from calibrant.numerics.cluster_variance import UnitMean


def problem(n_rows=80, n_classes=3, seed=0):
    generator = np.random.default_rng(seed)
    first, second = (generator.dirichlet(np.ones(n_classes), n_rows) for _ in range(2))
    return generator.integers(0, n_classes, n_rows), first, second, generator.random(n_rows) + 0.1


def differences(y, first, second, loss):
    return row_losses(LabelledPredictions.parse(second, y), loss) - row_losses(
        LabelledPredictions.parse(first, y), loss
    )


def transformed(t, a):
    """Hall's transformation of a statistic with asymmetry a."""
    return t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6


def satterthwaite(weights):
    """Degrees of freedom of the variance estimate, a quadratic form, from its complete matrix."""
    shares = weights / weights.sum()
    residuals = np.eye(len(shares)) - np.outer(shares, np.ones(len(shares)))
    form = np.diag((1 - shares) ** -2) @ residuals @ np.diag(shares**2) @ residuals.T
    return np.trace(form) ** 2 / np.trace(form @ form)


@pytest.mark.parametrize("loss", ["log", "brier", "spherical"])
def test_the_interval_is_that_of_scipy_s_t_test_corrected_for_skewness(loss):
    """At both ends the transformed statistic is the quantile of t; scipy has the statistic and the skewness."""
    y, first, second, _ = problem()
    d = differences(y, first, second, loss)
    ours = loss_difference(y, first, second, loss=loss, level=0.9)
    assert ours.standard_error == pytest.approx(scipy.stats.sem(d), rel=1e-10)
    a = scipy.stats.skew(d) / sqrt(len(d))
    quantile = scipy.stats.t.ppf(0.95, len(d) - 1)
    at_ends = [transformed((d.mean() - end) / scipy.stats.sem(d), a) for end in ours]
    assert at_ends == pytest.approx([quantile, -quantile], rel=1e-9)
    statistic = scipy.stats.ttest_1samp(d, 0.0).statistic
    p_value = 2 * scipy.stats.t.sf(abs(transformed(statistic, a)), len(d) - 1)
    assert ours.p_value == pytest.approx(p_value, rel=1e-9)
    name = "Brier loss, halved for two classes" if loss == "brier" else f"{loss} loss"
    assert ours.definition == f"{name}, second minus first"


def test_symmetric_differences_have_the_interval_of_scipy_s_t_test():
    y, first, second = [0, 1] * 10, [0.5] * 20, [0.3, 0.7, 0.6, 0.4] * 5
    d = differences(y, np.array(first), np.array(second), "log")
    d = np.concatenate([d, d[::-1]])
    theirs = scipy.stats.ttest_1samp(np.concatenate([d, 2 * d.mean() - d]), 0.0)
    found = UnitMean.of(np.concatenate([d, 2 * d.mean() - d]), None, None)
    assert found.limits(0.95) == pytest.approx(tuple(theirs.confidence_interval(0.95)), rel=1e-9)
    assert found.p_value == pytest.approx(theirs.pvalue, rel=1e-9)


def test_seven_events_are_covered():
    """Odds too high by two at a rate of 1:200, 1,400 rows; of 300 intervals at most 8 % miss (92 % was the coverage)."""
    missed = 0
    for seed in range(300):
        generator = np.random.default_rng(seed)
        p = np.exp(generator.normal(size=1400) - 0.5) / 200
        q = 2 * p / (1 + p)
        y = (generator.random(1400) < p).astype(int)
        exact = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
        observed = np.where(y == 1, np.log(p / q), np.log((1 - p) / (1 - q)))
        low, high = UnitMean.of(observed, None, None).limits(0.95)
        missed += not low <= exact.mean() <= high
    assert missed <= 24


def test_few_rows_of_a_rare_class_have_no_interval():
    y, p = np.zeros(500, dtype=int), np.full(500, 0.02)
    none = loss_difference(y, p, p / 2)
    assert np.isnan([none.low, none.high, none.p_value]).all()
    assert "no interval, since there are only 0 rows of the rarer class" in none.note
    y[:5] = 1
    assert loss_difference(y, p, p / 2).note is None


def test_unlikely_outcomes_leave_no_interval_unless_they_are_observed():
    """Both predictions are nearly certain, so that mistakes decide, and effectively none is expected."""
    generator = np.random.default_rng(0)
    p = generator.uniform(0.999, 0.9999, 300)
    y = (np.arange(300) % 2).astype(int)
    first = np.where(y == 1, p, 1 - p)
    second = np.where(y == 1, 1 - (1 - p) ** 1.2, (1 - p) ** 1.2)
    none = loss_difference(y, first, second)
    assert np.isnan(none.low)
    assert "of the less probable outcomes are expected" in none.note
    wrong = np.where(np.arange(300) % 10 == 0, 1 - y, y)
    assert loss_difference(wrong, first, second).note is None


@pytest.mark.parametrize("scale", [1e-60, 1e-200, 1e60])
def test_the_unit_of_weights_is_arbitrary(scale):
    y = np.tile([0, 0, 1, 1], 10)
    p = np.full((40, 3), 1 / 3)
    q = p + np.array([0.1, 0.0, -0.1])
    weighted = loss_difference(y, p, q, loss="brier", sample_weight=np.full(40, scale))
    plain = loss_difference(y, p, q, loss="brier")
    assert (weighted.low, weighted.high) == pytest.approx((plain.low, plain.high))


def test_tiny_differences_of_a_row_do_not_underflow():
    y = np.tile([0, 0, 1, 1], 10)
    p = np.full((40, 3), 1e-110)
    p[np.arange(40), y] = 1 - 2e-110
    q = p.copy()
    q[::2, 2] *= 1.5
    assert loss_difference(y, p, q, loss="brier").note is None


@given(seed=st.integers(0, 30), n_groups=st.integers(2, 9), weighted=st.booleans())
def test_the_clustered_error_equals_a_loop(seed, n_groups, weighted):
    y, first, second, weights = problem(30, seed=seed)
    groups = np.random.default_rng(seed).integers(0, n_groups, 30)
    groups[:2] = 0, 1
    d = differences(y, first, second, "brier")
    w = weights if weighted else np.ones(30)
    mean = sum(w * d) / sum(w)
    names = sorted(set(groups.tolist()))
    shares = {g: sum(w[groups == g]) / sum(w) for g in names}
    squares = sum(
        sum(w[i] * (d[i] - mean) for i in range(30) if groups[i] == g) ** 2 / (1 - shares[g]) ** 2
        for g in names
    )
    error = sqrt((1 - 1 / len(names)) * squares) / sum(w)
    options = {"groups": groups, "sample_weight": weights if weighted else None, "uncorrected": True}
    ours = loss_difference(y, first, second, loss="brier", **options)
    assert ours.estimate == pytest.approx(mean, rel=1e-9)
    assert ours.standard_error == pytest.approx(error, rel=1e-9)
    quantile = scipy.stats.t.ppf(0.975, satterthwaite(np.array(list(shares.values()))))
    sums = np.array([sum((w * (d - mean))[groups == g]) for g in names])
    a = (sums**3).sum() / (sums**2).sum() ** 1.5
    assert transformed((mean - ours.high) / error, a) == pytest.approx(-quantile, rel=1e-6)
    assert ours.n_groups == len(names)


def test_groups_of_equal_rows_count_as_one_row_each():
    y, first, second, _ = problem(40)
    alone = loss_difference(y, first, second)
    copies = loss_difference(
        *(np.repeat(rows, 3, axis=0) for rows in (y, first, second)), groups=np.repeat(np.arange(40), 3)
    )
    assert tuple(copies) == pytest.approx(tuple(alone), rel=1e-10)
    assert copies.p_value == pytest.approx(alone.p_value, rel=1e-9)
    assert (copies.n_rows, copies.n_groups, alone.n_groups) == (120, 40, None)


def test_groups_of_single_rows_change_nothing():
    y, first, second, weights = problem()
    alone = loss_difference(y, first, second, sample_weight=weights)
    grouped = loss_difference(y, first, second, sample_weight=weights, groups=[f"row {i}" for i in range(80)])
    assert tuple(grouped) == pytest.approx(tuple(alone), rel=1e-12)


def test_only_ratios_of_weights_matter_and_zeros_leave_rows_out():
    y, first, second, weights = problem()
    weights[::4] = 0
    keep, groups = weights > 0, np.arange(80) // 3
    found = loss_difference(y, first, second, sample_weight=weights, groups=groups)
    scaled = loss_difference(y, first, second, sample_weight=1e3 * weights, groups=groups)
    without = loss_difference(
        y[keep], first[keep], second[keep], sample_weight=weights[keep], groups=groups[keep]
    )
    assert tuple(found) == pytest.approx(tuple(scaled), rel=1e-10)
    assert tuple(found) == pytest.approx(tuple(without), rel=1e-12)
    assert found.n_rows == 60


def test_logits_and_their_softmax_are_the_same():
    y, first, second, _ = problem()
    given_logits = loss_difference(y, first, Predictions.from_logits(np.log(second)))
    assert tuple(given_logits) == pytest.approx(tuple(loss_difference(y, first, second)), rel=1e-9)


def test_equal_predictions_do_not_differ():
    y, first, _, _ = problem()
    found = loss_difference(y, first, first)
    assert (found.estimate, *found, found.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_a_difference_that_is_the_same_in_every_row_is_certain():
    found = loss_difference([0, 0, 1], [0.5] * 3, [0.25, 0.25, 0.75], loss="brier")
    assert tuple(found) == (-0.1875, -0.1875)
    assert found.p_value == 0.0


def test_one_row_or_group_leaves_the_interval_open():
    with pytest.warns(CalibrationWarning, match="cannot be estimated from one row"):
        found = loss_difference([1], [0.5], [0.75], loss="brier")
    assert found.estimate == -0.1875
    assert tuple(found) == (-inf, inf)
    assert np.isnan(found.p_value)
    with pytest.warns(CalibrationWarning, match="cannot be estimated from one group"):
        loss_difference([1, 1], [0.5, 0.5], [0.75, 0.7], loss="brier", groups=["a", "a"])


def test_an_infinite_loss_decides_and_a_warning_says_so():
    with pytest.warns(
        CalibrationWarning, match=r"infinite loss, in 1 row of the second predictions: .* is infinite.*floor="
    ) as w:
        found = loss_difference([1, 1], [0.5, 0.5], [0.0, 0.9])
    assert found.estimate == inf
    assert tuple(found) == (-inf, inf)
    assert found.note is not None
    assert found.note in str(found)
    with pytest.warns(
        CalibrationWarning, match=r"infinite loss, in 2 rows of the first predictions"
    ) as other:
        assert loss_difference([1, 1], [0.0, 0.0], [0.5, 0.9]).estimate == -inf
    assert {warning.filename for warning in [*w, *other]} == {__file__}


@pytest.mark.parametrize("rows", [([0.0, 0.5], [0.0, 0.9]), ([0.0, 0.5], [0.5, 0.0])])
def test_two_infinite_means_have_no_difference_and_a_floor_gives_them_one(rows):
    """Also when different rows are refuted; with the floor f a zero costs -log f."""
    with pytest.warns(
        CalibrationWarning,
        match=r"in 1 row of the first predictions and 1 row of the second predictions: "
        r"the difference of two infinite means is undefined; set floor=",
    ):
        found = loss_difference([1, 1], *rows)
    assert np.isnan([found.estimate, *found, found.p_value]).all()
    assert not found.excludes_estimate
    assert found.note in str(found)
    floored = loss_difference([1, 1], *rows, floor=0.01)
    expected = np.mean(np.log(np.maximum(rows[0], 0.01)) - np.log(np.maximum(rows[1], 0.01)))
    assert floored.estimate == pytest.approx(expected, rel=1e-12)
    assert np.isfinite(tuple(floored)).all()
    assert floored.definition == "log loss with floor 0.01, second minus first"
    assert floored.note is None


def test_the_floor_is_the_one_of_the_log_loss():
    generator = np.random.default_rng(0)
    first, second = (generator.multinomial(5, [0.5, 0.3, 0.2], 80) / 5 for _ in range(2))
    y = generator.integers(0, 3, 80)
    found = loss_difference(y, first, second, floor=1e-4)
    assert found.estimate == pytest.approx(log_loss(y, second, floor=1e-4) - log_loss(y, first, floor=1e-4))


def test_bad_input_is_refused():
    y, first, second, _ = problem()
    with pytest.raises(ParameterError, match="loss must be"):
        loss_difference(y, first, second, loss="zero-one")
    for level in (95, "a", None, 2, [0.9, 0.95]):
        with pytest.raises(ParameterError, match="level must lie"):
            loss_difference(y, first, second, level=level)
    for floor in (-0.1, 1.0, "a", None, np.nan):
        with pytest.raises(ParameterError, match="floor must be a number of at least 0 and below 1"):
            loss_difference(y, first, second, floor=floor)
    with pytest.raises(ParameterError, match="floor is for loss='log', since the brier loss is finite"):
        loss_difference(y, first, second, loss="brier", floor=1e-6)
    with pytest.raises(LabelError):
        loss_difference(y, first, second[:-1])
    with pytest.raises(ParameterError, match="one entry per row"):
        loss_difference(y, first, second, groups=[1, 2])


def test_unequal_weights_leave_fewer_degrees_of_freedom():
    """Two rows of weight 1 and one of weight 2, by hand; the skewness is that of the rows, and of powers of the weights."""
    p_first, p_second = [0.5, 0.5, 0.5], [0.4, 0.3, 0.1]
    options = {"loss": "brier", "sample_weight": [1, 1, 2]}
    found = loss_difference([0, 0, 0], p_first, p_second, uncorrected=True, **options)
    by_row = np.array([0.16, 0.09, 0.01]) - 0.25
    shares = np.array([0.25, 0.25, 0.5])
    mean = shares @ by_row
    error = np.sqrt(2 / 3 * (shares**2 * (by_row - mean) ** 2 / (1 - shares) ** 2).sum())
    assert found.standard_error == pytest.approx(error)
    a = ((by_row - mean) ** 3).mean() / ((by_row - mean) ** 2).mean() ** 1.5
    a *= (shares**3).sum() / (shares**2).sum() ** 1.5
    quantile = scipy.stats.t.ppf(0.975, satterthwaite(shares))
    at_ends = [transformed((mean - end) / error, a) for end in found]
    assert at_ends == pytest.approx([quantile, -quantile])
    none = loss_difference([0, 0, 0], p_first, p_second, **options)
    assert np.isnan([none.low, none.high, none.p_value]).all()
    assert "the variance rests on effectively 2 rows, fewer than 5" in str(none)


def test_equal_weights_change_nothing():
    generator = np.random.default_rng(0)
    y, p, q = generator.integers(0, 2, 50), generator.random(50), generator.random(50)
    plain, weighted = loss_difference(y, p, q), loss_difference(y, p, q, sample_weight=np.full(50, 3.0))
    assert tuple(plain) == pytest.approx(tuple(weighted))
    assert plain.p_value == pytest.approx(weighted.p_value)
