"""Net benefit and decision curves: cases worked by hand, loops, coverage of the intervals by simulation."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from calibrant.errors import ParameterError
from calibrant.intervals import bootstrap, decision_curve
from calibrant.metrics import bayes_decisions, net_benefit, realised_cost
from calibrant.plots import DecisionCurveDisplay

UNITS = st.integers(0, 20).map(lambda k: k / 20)


def naive_net_benefit(y, p, threshold, weights):
    """Count true and false positives row by row (Vickers and Elkin, 2006)."""
    true = sum(w for o, q, w in zip(y, p, weights, strict=True) if q >= threshold and o == 1)
    false = sum(w for o, q, w in zip(y, p, weights, strict=True) if q >= threshold and o == 0)
    return (true - false * threshold / (1 - threshold)) / sum(weights)


@given(
    rows=st.lists(st.tuples(st.integers(0, 1), UNITS, st.floats(0.1, 5)), min_size=1, max_size=12),
    threshold=st.integers(1, 19).map(lambda k: k / 20),
)
def test_net_benefit_counts_positives(rows, threshold):
    """Thresholds and probabilities share a grid, so that rows at the threshold are met; they count as acted on."""
    y, p, w = map(list, zip(*rows, strict=True))
    expected = naive_net_benefit(y, p, threshold, w)
    assert net_benefit(y, p, threshold=threshold, sample_weight=w) == pytest.approx(expected, abs=1e-12)
    curve = decision_curve(y, p, thresholds=[threshold], sample_weight=w)
    assert curve.net_benefit[0] == pytest.approx(expected, abs=1e-9)
    assert curve.low[0] <= curve.net_benefit[0] + 1e-12
    assert curve.net_benefit[0] <= curve.high[0] + 1e-12
    everyone = naive_net_benefit(y, [1.0] * len(y), threshold, w)
    assert curve.treat_all[0] == pytest.approx(everyone, abs=1e-9)


def test_net_benefit_is_the_saving_against_never_acting():
    """With costs 1 per false positive and 4 per miss the threshold is 1/5; the saving per row is 4 times the benefit."""
    generator = np.random.default_rng(0)
    p = generator.random(200)
    y = (generator.random(200) < p).astype(int)
    costs = [[0, 4], [1, 0]]  # do not act, act
    saving = 4 * y.mean() - realised_cost(y, p, costs=costs)
    assert 4 * net_benefit(y, p, threshold=0.2) == pytest.approx(saving, abs=1e-12)
    assert ((p >= 0.2) == bayes_decisions(p, costs)).all()


@pytest.mark.parametrize(("n_rows", "prevalence"), [(60, 0.3), (500, 0.3), (500, 0.04)])
@pytest.mark.parametrize("threshold", [0.05, 0.2, 0.6])
def test_the_interval_covers_the_true_net_benefit(n_rows, prevalence, threshold):
    """Two Gaussian scores; at 95 % at least 92.5 % of 400 sets, the lowest count that chance leaves at 94.5 %."""
    generator = np.random.default_rng(7)

    def drawn(n):
        y = (generator.random(n) < prevalence).astype(int)
        x = generator.normal(1.5 * y, 1.0)
        return y, 1 / (1 + np.exp(-(1.5 * x - 1.125 + np.log(prevalence / (1 - prevalence)))))

    truth = net_benefit(*drawn(400_000), threshold=threshold)
    curves = [decision_curve(*drawn(n_rows), thresholds=[threshold]) for _ in range(400)]
    covered = sum(curve.low[0] <= truth <= curve.high[0] for curve in curves)
    assert covered >= binom.ppf(0.01, 400, 0.945)


def test_the_interval_agrees_with_the_bootstrap_for_many_rows():
    generator = np.random.default_rng(1)
    p = generator.random(4000)
    y = (generator.random(4000) < p).astype(int)
    curve = decision_curve(y, p, thresholds=[0.3])
    low, high = bootstrap(partial(net_benefit, threshold=0.3), y, p, n_resamples=1000)
    assert (curve.low[0], curve.high[0]) == pytest.approx((low, high), abs=0.003)


def test_a_weight_scales_nothing_and_equal_weights_are_none():
    y, p = [1, 0, 1, 0, 0], [0.8, 0.4, 0.3, 0.2, 0.6]
    plain, weighted = decision_curve(y, p), decision_curve(y, p, sample_weight=[3.0] * 5)
    for name, values in plain.columns().items():
        np.testing.assert_allclose(weighted.columns()[name], values, atol=1e-12)


def test_without_positives_or_false_positives_there_is_still_an_interval():
    curve = decision_curve([0] * 20, [0.1] * 20, thresholds=[0.5])
    assert curve.net_benefit[0] == 0
    assert curve.low[0] < 0 < curve.high[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: net_benefit([0, 1], [0.1, 0.9], threshold=1.0),
            "threshold must lie strictly between 0 and 1",
        ),
        (lambda: net_benefit([0, 1, 2], np.eye(3), threshold=0.5), "net benefit is for two classes"),
        (lambda: decision_curve([0, 1, 2], np.eye(3)), "a decision curve is for two classes"),
        (lambda: decision_curve([0, 1], [0.1, 0.9], thresholds=[0, 0.5]), "strictly between 0 and 1"),
        (lambda: decision_curve([0, 1], [0.1, 0.9], thresholds=[]), "one or more numbers"),
        (lambda: decision_curve([0, 1], [0.1, 0.9], level=2), "level must lie strictly"),
    ],
)
def test_bad_options_are_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_the_display_draws_every_model_and_both_defaults():
    y, p = [1, 0, 1, 0, 0], np.array([0.8, 0.4, 0.3, 0.2, 0.6])
    display = DecisionCurveDisplay.from_predictions(y, {"before": p, "after": 0.2 + 0.5 * p}).plot()
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["before", "after", "act on all rows", "act on no row"]
    assert set(display.columns()["model"]) == {"before", "after"}
