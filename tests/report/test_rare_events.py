"""Rare events: a factor counts and not points, and too few of them are a verdict of its own."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import poisson

from calibrant.report import assess, event_evidence
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.event_evidence import EventCounts, events_for_factor
from calibrant.report.evidence import evidence_of


def rare(n_rows, rate, factor=1.0, seed=0):
    """Return outcomes drawn from log-normal probabilities of a mean rate, and these times a factor."""
    generator = np.random.default_rng(seed)
    p = np.minimum(rate * np.exp(generator.normal(size=n_rows) - 0.5), 0.2)
    return (generator.random(n_rows) < p).astype(int), factor * p


def status(*arguments):
    return assess(*rare(*arguments), methods=[]).verdict.status


# The number of events


def test_the_p_value_is_that_of_the_sum_of_independent_events():
    """Told again by adding up the events one after another."""
    generator = np.random.default_rng(0)
    p = generator.beta(0.3, 3, 200)
    mass = np.ones(1)
    for each in p:
        mass = np.convolve(mass, [1 - each, each])
    for observed in (0, 5, 18, 40):
        counts = EventCounts.of(p, np.arange(200) < observed)
        expected = min(1.0, 2 * min(mass[: observed + 1].sum(), mass[observed:].sum()))
        assert counts.p_value == pytest.approx(expected, rel=1e-6, abs=1e-13)


def test_the_expansion_for_many_events_agrees_with_the_exact_tails(monkeypatch):
    """Up to three standard deviations, of 30 events each, within two in a hundred."""
    p = np.full(90_000, 0.01)
    for observed in (810, 860, 900, 950, 990):
        exact = EventCounts.of(p, np.arange(len(p)) < observed).p_value
        with monkeypatch.context() as patch:
            patch.setattr(event_evidence, "ENOUGH_VARIANCE", 100.0)
            assert EventCounts.of(p, np.arange(len(p)) < observed).p_value == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("expected", [4, 12, 40])
@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 4.0])
def test_the_power_is_that_of_the_poisson_distribution(expected, factor):
    """With a hundred thousand rows it is its limit."""
    counts = EventCounts.of(np.full(100_000, expected / 1e5), np.zeros(100_000, dtype=bool))
    numbers = np.arange(400)
    p_values = 2 * np.minimum(poisson.cdf(numbers, expected), poisson.sf(numbers - 1, expected))
    power = poisson.pmf(numbers, factor * expected)[p_values <= 0.05].sum()
    assert counts.power(factor, 0.05) == pytest.approx(power, abs=2e-3)


def test_factors_that_are_seen_have_the_power():
    counts = EventCounts.of(np.full(10_000, 0.002), np.zeros(10_000, dtype=bool))
    high, low = counts.detectable_factors(0.05)
    assert counts.power(1 / high, 0.05) >= 0.8 > counts.power(1 / (0.9 * high), 0.05)
    assert counts.power(low, 0.05) >= 0.8 > counts.power(0.9 * low, 0.05)
    assert (
        EventCounts.of(np.full(1000, 0.003), np.zeros(1000, dtype=bool)).detectable_factors(0.05)[0] is None
    )


def test_the_events_that_are_needed_show_the_factor():
    needed = events_for_factor(2.0, 0.01)
    for expected, enough in ((needed, True), (needed - 1, False)):
        critical = poisson.ppf(0.005, expected) - 1
        assert (poisson.cdf(critical, expected / 2) >= 0.8) == enough


# The verdict


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0, 3.0])
def test_three_events_in_three_thousand_rows_never_pass_for_calibrated(factor):
    for seed in range(6):
        assert status(3000, 0.001, factor, seed) in ("too-few-events", "miscalibrated")


def test_too_few_events_are_said_with_their_numbers():
    found = assess(*rare(3000, 0.001), methods=[])
    verdict = found.verdict
    assert verdict.status == "too-few-events"
    events = verdict.events
    assert verdict.headline == (
        f"Too few events to tell: {events.expected:.2g} rows of class 1 expected, {events.observed} observed. Probabilities "
        "that are too high or too low by a factor of two could go undetected."
    )
    assert "To detect a factor of two, about " in verdict.sentences[-1]
    assert "Too few events to tell" in found.to_html()
    assert "Too few events to tell" in found.to_markdown()


def test_a_factor_of_four_is_no_trifle():
    """0.3 points too high, which is three times the rate."""
    statuses, headlines = [], []
    for seed in range(10):
        verdict = assess(*rare(3000, 0.001, 4.0, seed), methods=[]).verdict
        statuses.append(verdict.status)
        headlines.append(verdict.headline)
    assert statuses.count("miscalibrated") >= 6
    assert "calibrated" not in statuses
    assert not any("the error is small" in headline for headline in headlines)
    found = [headline for headline in headlines if headline.startswith("Not calibrated")]
    assert all("too high on average" in headline for headline in found)


def test_enough_rare_events_are_called_calibrated_with_the_factor():
    verdict = assess(*rare(80_000, 0.001), methods=[]).verdict
    assert verdict.status == "calibrated"
    assert verdict.events.factor_too_high <= 2
    assert "a factor of 1." in verdict.headline


def test_mistakes_of_a_sure_classifier_are_rare_events_too():
    generator = np.random.default_rng(0)
    p = np.full((1500, 3), 0.001)
    p[np.arange(1500), generator.integers(0, 3, 1500)] = 0.998
    y = (np.log(p) + generator.gumbel(size=p.shape)).argmax(axis=1)
    verdict = assess(y, p, methods=[]).verdict
    assert verdict.status == "too-few-events"
    assert verdict.headline.startswith("Too few mistakes to tell: 3 mistakes expected")


def test_a_rare_class_that_is_off_by_a_factor_is_the_worst():
    """Three times too high, but by fewer points than its neighbours are too low."""
    generator = np.random.default_rng(0)
    scores = 1.5 * generator.normal(size=(30_000, 3)) - [0, 0, 6]
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    y = (np.log(p) + generator.gumbel(size=p.shape)).argmax(axis=1)
    q = p * [1, 0.9, 3]
    verdict = assess(y, q / q.sum(axis=1, keepdims=True), methods=[]).verdict
    assert "; the worst by a factor is class 2, too high: " in verdict.headline


def test_rare_events_of_groups_are_worth_fewer():
    """Ten copies of every row tell no more than one."""
    y, p = rare(20_000, 0.003)
    times = np.repeat(np.arange(len(y)), 10)
    alone, copied = (
        EvaluationSet.parse(y, p, None, None),
        EvaluationSet.parse(y[times], p[times], None, times),
    )
    factors = [evidence_of(rows, rows, 0.95, 0).events.factor_too_high for rows in (alone, copied)]
    assert factors[1] == pytest.approx(factors[0], rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(("n_rows", "rate"), [(3000, 0.001), (3000, 0.01), (10_000, 0.001)])
def test_calibrated_rare_events_are_seldom_called_miscalibrated(n_rows, rate):
    """At most 5 % of 300 data sets, plus three standard errors of such a share."""
    called = 0
    for seed in range(300):
        y, p = rare(n_rows, rate, seed=seed)
        rows = EvaluationSet.parse(y, p, None, None)
        called += evidence_of(rows, rows, 0.95, seed).p_value <= 0.05
    assert called / 300 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


# What is shown


def test_diagrams_of_rare_events_have_bins_of_equal_mass_and_axes_that_end_above_them():
    found = assess(*rare(20_000, 0.004, 2.0), methods=["platt"])
    for curve in found.curves:
        assert "bins of equal mass" in curve.definition
        highest = max(value for value in (*curve.mean_score, *curve.mean_outcome) if value is not None)
        assert highest < curve.limit <= 0.1
        assert curve.histogram_edges[-1] == curve.limit
        assert sum(curve.histogram_count) == 20_000
    common = assess(*rare(2000, 0.15), methods=[]).curves[0]
    assert "bins of equal width" in common.definition
    assert common.limit == 1


def test_diagrams_before_and_after_have_the_same_axes():
    found = assess(*rare(20_000, 0.004, 2.0), methods=["platt"])
    before, after = found.curves[0], replace(found.curves[1], limit=0.01)
    page = replace(found, curves=(replace(before, limit=0.05), after)).to_html()
    pictures = re.findall(r'<svg class="chart reliability".*?</svg>', page, re.DOTALL)
    assert len(pictures) == 2
    assert all(">0.05<" in picture for picture in pictures)


def test_tiles_show_the_predicted_and_the_observed_rate():
    y, p = rare(20_000, 0.004, 2.0)
    page = assess(y, p, methods=[]).to_html()
    for name, rate in (("Predicted rate", p.mean()), ("Observed rate", y.mean())):
        assert name in page
        assert f"{100 * rate:.2f}\N{NO-BREAK SPACE}%" in page
