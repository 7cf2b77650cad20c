"""The monitor: e-values, a bounded rate of false alarms, and alarms where calibration is lost."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit, logsumexp

from calibrant import Predictions
from calibrant.errors import LabelError, ParameterError, PredictionError, WeightError
from calibrant.online import CalibrationMonitor
from calibrant.online.e_process import bin_alternatives, class_alternatives, global_alternatives
from data import load

KINDS = ["any-time", "change"]
every_kind = pytest.mark.parametrize("kind", KINDS)
ALTERNATIVES = [global_alternatives(), bin_alternatives(), class_alternatives()]


def event_rows(n_rows, seed=0, slope=1.0, shift=0.0):
    generator = np.random.default_rng(seed)
    z = generator.normal(0, 2, n_rows)
    return generator.random(n_rows) < expit(slope * z + shift), expit(z)


def class_rows(n_rows, n_classes=4, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(n_classes, 0.7), n_rows)
    return (np.log(p) + generator.gumbel(size=p.shape)).argmax(axis=1), p


# Likelihood ratios are e-values


@given(
    p=st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 1e-12, 1 - 1e-12])),
    weight=st.floats(0, 1),
    floor=st.sampled_from([1e-6, 1e-4, 0.01]),
)
def test_a_bet_is_fair_for_every_forecast_and_never_loses_more_than_it_has(p, weight, floor):
    """p times what is left after the event, and 1 - p times what is left otherwise, are one together."""
    for alternatives in ALTERNATIVES:
        logs = [
            alternatives.log_likelihood_ratios(np.array([p]), np.array([y]), np.array([weight]), floor)[0]
            for y in (0.0, 1.0)
        ]
        left = np.exp(logs)
        assert (left >= 0).all()
        assert_allclose((1 - p) * left[0] + p * left[1], 1, atol=1e-9)


def test_a_bet_is_a_ratio_of_likelihoods():
    p, y = np.array([0.2, 0.7, 0.7]), np.array([1.0, 1.0, 0.0])
    alternatives = global_alternatives()
    q = expit(alternatives.slope * np.log(p / (1 - p))[:, None] + alternatives.shift)
    wanted = np.where(y[:, None] == 1, q / p[:, None], (1 - q) / (1 - p[:, None]))
    assert_allclose(np.exp(alternatives.log_likelihood_ratios(p, y, None, 1e-6)), wanted, rtol=1e-9)
    assert alternatives.prior.sum() == pytest.approx(1)


def naive_evidence(kind, y, p, floor=1e-3):
    """E-value after each row by plain loops, for one event."""
    every, bins = global_alternatives(), bin_alternatives()
    evidence = [
        np.full(len(alternatives.prior), 1.0 if kind == "any-time" else 0.0) for alternatives in (every, bins)
    ]
    path = []
    for outcome, forecast in zip(y, p, strict=True):
        for alternatives, own in zip((every, bins), evidence, strict=True):
            factor = np.exp(
                alternatives.log_likelihood_ratios(
                    np.array([forecast]), np.array([float(outcome)]), None, floor
                )[0]
            )
            own[:] = (own if kind == "any-time" else own + 1) * factor
        total = 0.75 * every.prior @ evidence[0]
        if kind == "any-time":
            total += 0.25 * np.prod([0.5 + 0.5 * evidence[1][b * 6 : b * 6 + 6].mean() for b in range(10)])
        else:
            total += 0.25 * evidence[1].mean()
        path.append(np.log(total))
    return np.array(path)


@every_kind
def test_evidence_is_that_of_plain_loops_in_whatever_batches(kind):
    y, p = event_rows(300, slope=0.8)
    p[:3], y[:3] = [0.0, 1.0, 0.0], [True, False, False]
    path = naive_evidence(kind, y, p)
    monitor = CalibrationMonitor(kind, alpha=1e-9, run_length=1e9)
    for start in range(0, 300, 50):
        monitor.update(y[start : start + 50], p[start : start + 50])
        assert monitor.evidence == pytest.approx(path[start + 49], abs=1e-8)
    assert CalibrationMonitor(kind).update(y, p).evidence == pytest.approx(path[-1], abs=1e-8)


@every_kind
def test_the_alarm_is_raised_by_the_first_row_that_reaches_the_threshold(kind):
    y, p = event_rows(1500, slope=0.4)
    monitor = CalibrationMonitor(kind, alpha=0.01, run_length=1000).update(y, p)
    path = naive_evidence(kind, y, p)
    assert monitor.threshold == pytest.approx(np.log(100 if kind == "any-time" else 1000))
    assert monitor.alarm_row == np.flatnonzero(path >= monitor.threshold)[0]
    if kind == "any-time":
        assert monitor.p_value == pytest.approx(np.exp(-path.max()))


# False alarms


@pytest.mark.parametrize("target", ["event", "top-label", "classes"])
def test_false_alarms_are_rarer_than_alpha(target):
    """100 streams of 500 calibrated rows at alpha = 0.2: more than 32 alarms have a chance of 0.3 % at most."""
    alarms, rows = 0, event_rows if target == "event" else class_rows
    monitor = CalibrationMonitor(alpha=0.2, target=target)
    for seed in range(100):
        alarms += monitor.restart().update(*rows(500, seed=seed)).alarm
    assert alarms <= 32


def test_false_alarms_of_a_change_are_rarer_than_rows_over_run_length():
    """Within 500 rows at most a fifth for a run length of 2,500."""
    monitor = CalibrationMonitor("change", run_length=2500)
    alarms = sum(monitor.restart().update(*event_rows(500, seed=seed)).alarm for seed in range(100))
    assert alarms <= 32


@every_kind
def test_the_mean_e_value_is_that_of_a_martingale(kind):
    """After 20 rows: one unit, or one for each row. The mean of 1,000 streams, whose likelihood ratios vary little here."""
    generator = np.random.default_rng(0)
    e_values = []
    for _ in range(1000):
        p = generator.uniform(0.3, 0.7, 20)
        monitor = CalibrationMonitor(kind).update(generator.random(20) < p, p)
        e_values.append(np.exp(monitor.evidence))
    wanted = 1.0 if kind == "any-time" else 20.0
    assert np.mean(e_values) == pytest.approx(wanted, abs=4 * np.std(e_values) / np.sqrt(1000))


@pytest.mark.slow
def test_false_alarms_over_a_thousand_long_streams():
    """10,000 rows at alpha = 0.05: 71 of 1,000 would be three standard errors above."""
    monitor = CalibrationMonitor()
    assert sum(monitor.restart().update(*event_rows(10000, seed=seed)).alarm for seed in range(1000)) <= 71


# Alarms


@pytest.mark.parametrize(
    ("slope", "shift", "words"),
    [
        (0.5, 0.0, "overconfident"),
        (2.0, 0.0, "underconfident"),
        (1.0, -0.7, "less often than forecast"),
        (1.0, 0.7, "more often than forecast"),
    ],
)
def test_what_is_wrong_is_found_and_said(slope, shift, words):
    monitor = CalibrationMonitor().update(*event_rows(3000, slope=slope, shift=shift))
    assert monitor.alarm
    assert words in monitor.explain()
    assert f"alarm at row {monitor.alarm_row + 1} of 3000 (counted from 1)" in monitor.explain()
    assert f"alarm_row={monitor.alarm_row}" in repr(monitor)


def test_a_part_of_the_range_that_is_wrong_is_found():
    """Forecasts from 0.7 to 0.8 come true in half of the cases."""
    generator = np.random.default_rng(0)
    p = generator.random(6000)
    y = generator.random(6000) < np.where((p > 0.7) & (p < 0.8), 0.5, p)
    monitor = CalibrationMonitor().update(y, p)
    assert monitor.alarm
    assert "less often than forecasts between 0.7 and 0.8" in monitor.explain()


def test_a_class_that_is_wrong_is_named():
    """Class 'c' takes most of what is forecast for 'd', of neither of which a row is predicted to be."""
    generator = np.random.default_rng(0)
    p = generator.dirichlet([6, 1, 1, 1], 8000)
    true = p + 0.7 * p[:, [3]] * [0, 0, 1, -1]
    y = np.array(list("abcd"))[(np.log(true) + generator.gumbel(size=p.shape)).argmax(axis=1)]
    monitor = CalibrationMonitor(classes=list("abcd")).update(y, p)
    assert monitor.alarm
    assert re.search("class 'c' occurs more often|class 'd' occurs less often", monitor.explain())


def test_a_change_is_noticed_sooner_by_the_kind_that_is_made_for_it():
    """10,000 good rows, then log-odds that are twice too large."""
    y, p = event_rows(10000, seed=3)
    late, q = event_rows(3000, seed=4, slope=0.5)
    found = {}
    for kind in KINDS:
        monitor = CalibrationMonitor(kind, alpha=0.01).update(y, p)
        assert not monitor.alarm
        found[kind] = monitor.update(late, q).alarm_row - 10000
    assert 0 <= found["change"] < 600
    assert found["change"] < found["any-time"]


def test_an_impossible_event_is_evidence_but_no_alarm_by_itself():
    monitor = CalibrationMonitor().update([1], [0.0])
    assert 0 < monitor.evidence < monitor.threshold
    assert not monitor.alarm
    assert monitor.update([1, 1], [0.0, 0.0]).alarm


def test_a_network_is_found_too_sure():
    data = load("cifar_netcal/c10_wideresnet_16_4")
    p, y = data["probs"].astype(np.float64)[:3000], data["y"][:3000]
    for target in ("auto", "top-label"):
        monitor = CalibrationMonitor(target=target).update(y, p)
        assert monitor.alarm
        assert "overconfident" in monitor.explain()


# Use


@every_kind
def test_a_state_goes_through_json_and_on(kind):
    y, p = class_rows(900, 3)
    names = np.array(["x", "y", "z"])
    monitor = CalibrationMonitor(kind, classes=names).update(names[y[:400]], p[:400])
    twin = CalibrationMonitor.from_state(json.loads(json.dumps(monitor.state(), allow_nan=False)))
    for each in (monitor, twin):
        each.update(names[y[400:]], p[400:])
    assert twin.state() == monitor.state()
    unstarted = json.loads(json.dumps(CalibrationMonitor(kind).state(), allow_nan=False))
    assert CalibrationMonitor.from_state(unstarted).state() == CalibrationMonitor(kind).state()
    assert CalibrationMonitor.from_state(unstarted).evidence == CalibrationMonitor(kind).evidence
    ruined = CalibrationMonitor(kind).update([1, 0], [0.0, 1.0])
    twin = CalibrationMonitor.from_state(json.loads(json.dumps(ruined.state(), allow_nan=False)))
    assert twin.update([1], [0.4]).state() == ruined.update([1], [0.4]).state()


def test_a_restart_forgets_everything():
    monitor = CalibrationMonitor().update(*event_rows(3000, slope=0.4))
    assert monitor.alarm
    fresh = CalibrationMonitor().update(*event_rows(500))
    assert monitor.restart().update(*event_rows(500)).state() == fresh.state()


def test_a_weight_is_the_part_that_is_staked():
    y, p = event_rows(500)
    half = CalibrationMonitor().update(y, p, np.full(500, 0.5))
    factors = global_alternatives().log_likelihood_ratios(p, y.astype(float), np.full(500, 0.5), 1e-3)
    share = logsumexp(factors.sum(axis=0) + np.log(global_alternatives().prior * 0.75))
    assert half.evidence > share
    assert_allclose(
        CalibrationMonitor().update(y, p, np.ones(500)).evidence, CalibrationMonitor().update(y, p).evidence
    )
    left_out = CalibrationMonitor().update(y, p, (np.arange(500) < 200).astype(float))
    assert_allclose(left_out.evidence, CalibrationMonitor().update(y[:200], p[:200]).evidence)
    for wrong in ([2.0] * 500, [-1.0] * 500, [1.0] * 3, [np.nan] * 500):
        with pytest.raises(WeightError):
            CalibrationMonitor().update(y, p, wrong)


def test_logits_float32_and_empty_batches():
    y, p = event_rows(300)
    wanted = CalibrationMonitor().update(y, p).evidence
    logits = Predictions.from_logits(np.log(p) - np.log(1 - p))
    assert CalibrationMonitor().update(y, logits).evidence == pytest.approx(wanted)
    monitor = CalibrationMonitor().update([], []).update(y, p.astype(np.float32))
    assert monitor.evidence == pytest.approx(wanted, rel=1e-3)


@every_kind
def test_the_meaning_of_the_e_value_is_explained_before_an_alarm(kind):
    words = CalibrationMonitor(kind).update(*event_rows(100)).explain()
    assert words.startswith("No alarm in 100 rows")
    assert f"its mean is {'1' if kind == 'any-time' else 'the number of rows'}" in words
    assert ("1 / alpha = 20" if kind == "any-time" else "run length 100000") in words
    assert CalibrationMonitor(kind).explain().startswith("No alarm in 0 rows")


def test_single_numbers_are_rows_and_a_swap_is_seen():
    single = CalibrationMonitor()
    y, p = event_rows(20)
    for outcome, forecast in zip(y, p, strict=True):
        single.update(outcome, forecast)
    assert single.evidence == pytest.approx(CalibrationMonitor().update(y, p).evidence)
    assert single.update(1, 0.3).n_rows == 21
    with pytest.raises(LabelError, match="outcomes first"):
        single.update(p, y)


def test_many_classes_are_played_in_blocks():
    y, p = class_rows(600, 300)
    monitor = CalibrationMonitor().update(y, p)
    assert np.isfinite(monitor.evidence)
    assert not monitor.alarm


def test_what_does_not_fit_is_refused_and_changes_nothing():
    y, p = class_rows(50, 3)
    monitor = CalibrationMonitor().update(y, p)
    before = monitor.state()
    with pytest.raises(PredictionError, match="3 classes so far"):
        monitor.update([0, 1], [0.5, 0.5])
    with pytest.raises(LabelError):
        monitor.update([7] * 50, p)
    assert monitor.state() == before
    with pytest.raises(PredictionError, match="two classes"):
        CalibrationMonitor(target="event").update(y, p)
    for wrong in ({"kind": "now"}, {"alpha": 1}, {"run_length": 0}, {"target": "top"}, {"floor": 0.7}):
        with pytest.raises(ParameterError):
            CalibrationMonitor(**wrong)
    with pytest.raises(ParameterError, match="p-value"):
        _ = CalibrationMonitor("change").p_value
    with pytest.raises(ParameterError, match="not a state"):
        CalibrationMonitor.from_state({})
