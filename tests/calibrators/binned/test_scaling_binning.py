"""Scaling-binning: means of a map in bins of its outputs, without loss of digits and for any map."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import (
    HistogramBinning,
    Identity,
    OneVsRest,
    PlattScaling,
    Predictions,
    ScalingBinning,
    TemperatureScaling,
    VectorScaling,
    registry,
)
from calibrant.binning import EqualWidth, FixedEdges
from calibrant.errors import ParameterError
from data import load


def some_scores(n_rows=300, seed=0, decimals=None):
    generator = np.random.default_rng(seed)
    p = generator.beta(0.5, 0.7, n_rows).clip(0.001, 0.999)
    p = p if decimals is None else p.round(decimals).clip(0.1, 0.9)
    y = generator.uniform(size=n_rows) < 0.1 + 0.7 * p
    y[:2] = [False, True]
    return p, y.astype(int)


def event(calibrator, p):
    return calibrator.predict_proba(p)[:, 1]


def test_the_identity_gives_the_mean_score_of_each_bin():
    """Scores 0.1, 0.2, 0.3 and 0.6, 0.9: three and two rows, whose means are 0.2 and 0.75, whatever the labels."""
    p = [0.1, 0.2, 0.3, 0.6, 0.9]
    for y in ([0, 0, 0, 1, 1], [1, 1, 1, 0, 0]):
        fitted = ScalingBinning(Identity(), n_bins=2).fit(p, y)
        np.testing.assert_allclose(fitted.values_, [0.2, 0.75])
        np.testing.assert_allclose(fitted.complements_, [0.8, 0.25])
        np.testing.assert_array_equal(fitted.counts_, [3, 2])
        np.testing.assert_allclose(event(fitted, [0.0, 0.44, 0.46, 1.0]), [0.2, 0.2, 0.75, 0.75])


@settings(max_examples=15)
@given(seed=st.integers(0, 200), decimals=st.sampled_from([None, 1]))
def test_a_loop_over_rows_gives_the_same(seed, decimals):
    """Mean of Platt's outputs over the rows whose outputs share a bin."""
    p, y = some_scores(60, seed, decimals)
    weights = np.random.default_rng(seed).integers(1, 4, 60).astype(float)
    fitted = ScalingBinning(n_bins=6).fit(p, y, weights)
    outputs = event(PlattScaling().fit(p, y, weights), p)

    def bin_of(output):
        return sum(output >= edge for edge in fitted.edges_[1:-1])

    for output, value in zip(outputs, event(fitted, p), strict=True):
        inside = [i for i in range(60) if bin_of(outputs[i]) == bin_of(output)]
        expected = sum(weights[i] * outputs[i] for i in inside) / sum(weights[i] for i in inside)
        assert value == pytest.approx(expected, rel=1e-9)


def test_the_mean_of_all_values_is_the_base_rate():
    """Platt's intercept makes the outputs add up to the number of events, and means of means keep the sum."""
    p, y = some_scores(1000, seed=1)
    fitted = ScalingBinning(n_bins=13).fit(p, y)
    assert event(fitted, p).mean() == pytest.approx(y.mean(), abs=1e-9)


def test_with_a_bin_for_every_row_it_is_the_map_itself():
    p, y = some_scores(80, seed=2)
    fitted = ScalingBinning(n_bins=80).fit(p, y)
    np.testing.assert_allclose(event(fitted, p), event(PlattScaling().fit(p, y), p), rtol=1e-12)


def test_a_map_that_turns_scores_around():
    """Platt's slope may be negative; bins are bins of outputs, and values increase."""
    p, y = some_scores(200, seed=3)
    fitted = ScalingBinning(n_bins=5).fit(p, 1 - y)
    assert fitted.scaling_.slope_ < 0
    assert (np.diff(fitted.values_) > 0).all()
    low, high = event(fitted, [0.01, 0.99])
    assert low > high


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_outputs_next_to_one_keep_their_complement(dtype):
    """Log-odds of 40 and more: one minus the probability is below the spacing of floats at one, and not zero."""
    log_odds = np.array([-60, -50, -45, -40, 40, 45, 50, 60], dtype=dtype)
    given = Predictions.from_logits(log_odds)
    fitted = ScalingBinning(Identity(), n_bins=4).fit(given, [0] * 4 + [1] * 4)
    calibrated = fitted.predict_proba(given)
    assert calibrated.dtype == dtype
    assert calibrated.min() > 0
    mean = (np.exp(-60.0) + np.exp(-50.0)) / 2
    np.testing.assert_allclose(calibrated[[0, 1]], [[1, mean]] * 2, rtol=1e-6)
    np.testing.assert_allclose(calibrated[-1, 0], np.exp([-40.0, -45, -50, -60]).mean(), rtol=1e-6)


def test_other_bins_of_the_outputs():
    """Of the outputs 0.1, 0.3 and 0.8 one is in [0, 0.25), one in [0.25, 0.5), none in [0.5, 0.75)."""
    fitted = ScalingBinning(Identity(), binning=EqualWidth(4)).fit([0.1, 0.3, 0.8], [0, 1, 1])
    np.testing.assert_allclose(fitted.values_, [0.1, 0.3, 0.625, 0.8])
    np.testing.assert_allclose(fitted.complements_, [0.9, 0.7, 0.375, 0.2])
    right = ScalingBinning(Identity(), binning=FixedEdges((0, 0.3, 1), closed="right")).fit(
        [0.1, 0.3, 0.8], [0, 1, 1]
    )
    np.testing.assert_allclose(right.values_, [0.2, 0.8])
    np.testing.assert_allclose(event(right, [0.3, 0.31]), [0.2, 0.8])


def test_any_calibrator_can_be_the_map():
    p, y = some_scores(400, seed=4)
    for scaling in (TemperatureScaling(), HistogramBinning(n_bins=7), VectorScaling()):
        fitted = ScalingBinning(scaling, n_bins=400).fit(p, y)
        assert type(fitted.scaling_) is type(scaling)
        assert not hasattr(scaling, "classes_")
        if isinstance(scaling, HistogramBinning):  # seven different outputs, each a bin of its own
            np.testing.assert_allclose(event(fitted, p), event(fitted.scaling_, p), rtol=1e-12)


def test_raw_logits_matter_where_they_matter_to_the_map():
    assert not ScalingBinning().traits.uses_raw_logits
    assert not ScalingBinning(TemperatureScaling()).traits.uses_raw_logits
    assert ScalingBinning(VectorScaling()).traits.uses_raw_logits == VectorScaling().traits.uses_raw_logits


def test_a_hundred_classes_need_a_hundred_bins():
    """Ten bins lose half of the right answers, a hundred next to none."""
    arrays = load("kull_nn/c100_convnet")
    p, test = (Predictions.from_logits(arrays[key][:2500]) for key in ("val_logits", "test_logits"))
    y, labels = arrays["val_y"][:2500], arrays["test_y"][:2500]
    before = (test.predicted == labels).mean()
    few, many = (ScalingBinning(n_bins=n).fit(p, y).predict(test) for n in (10, 100))
    assert (few == labels).mean() < before / 2
    assert (many == labels).mean() > before - 0.02


def test_the_name_of_the_registry():
    assert registry.make("scaling-binning", n_bins=20).n_bins == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scaling": "platt"}, r"scaling must be a calibrator such as PlattScaling\(\)"),
        ({"n_bins": 0}, "n_bins must be an integer"),
        ({"n_bins": "auto"}, "n_bins must be an integer"),
        ({"binning": 10}, "binning must be a scheme"),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_parameters_without_meaning_are_refused(options, message, n_classes):
    p = np.random.default_rng(0).dirichlet(np.ones(n_classes), 30)
    with pytest.raises(ParameterError, match=message):
        ScalingBinning(**options).fit(p, np.arange(30) % n_classes)


def test_equal_scores_share_a_bin_however_the_rest_of_the_classes_is_rounded():
    """Scores in tenths of three classes: the other two add up to the same number but for the last bit."""
    generator = np.random.default_rng(0)
    scores = generator.multinomial(10, [0.3, 0.3, 0.4], 400) / 10
    labels = (scores.cumsum(axis=1) > generator.random((400, 1))).argmax(axis=1)
    for n_bins in (5, 10, 100):
        fitted = OneVsRest(ScalingBinning(n_bins=n_bins)).fit(scores, labels)
        separate = fitted.class_probabilities(scores)
        for column in range(3):
            for score in np.unique(scores[:, column]):
                assert np.ptp(separate[scores[:, column] == score, column]) < 1e-12
