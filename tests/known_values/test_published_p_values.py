"""Published p-values of temperature-scaled networks, inside the Monte-Carlo error of both sides.

Source: Kull et al. (2019), supplement, tables 19 and 20, column TempS. A p-value there is the share of resampled
errors above the observed one. Table 19 prints three digits: the share of 1,000 draws, for a confidence-ECE of
*ten* equal-width bins, which is the default of the function that the authors' programs pass on; their table 15 has
fifteen. Table 20 prints four digits: 10,000 draws, for the classwise-ECE of table 16.
"""

from functools import cache, partial
from math import sqrt

import numpy as np
import pytest

from calibrant import Predictions, TemperatureScaling
from calibrant.binning import EqualWidth, FixedEdges
from calibrant.hypothesis_tests.consistency import consistency_test
from calibrant.metrics import classwise_ece, confidence_ece
from data import load

P_CONFIDENCE = {"c10_convnet": 0.032, "c10_densenet40": 0.002, "c10_resnet110": 0.000, "c100_convnet": 0.174}
P_CLASSWISE = {"c10_convnet": 0.0104, "c10_densenet40": 0.0, "c10_resnet110": 0.0, "c100_convnet": 0.0770}

TEN_BINS = partial(confidence_ece, binning=EqualWidth(10, closed="right"))
FIFTEEN_BINS = partial(confidence_ece, binning=EqualWidth(15, closed="right"))
FOURTEEN_BINS_AND_ONE = partial(
    classwise_ece, binning=FixedEdges((*np.linspace(0, 1, 15), 1.0)), reduction="sum"
)

each_network = pytest.mark.parametrize("network", P_CONFIDENCE)


@cache
def calibrated(network):
    arrays = load(f"kull_nn/{network}")
    fitted = TemperatureScaling().fit(Predictions.from_logits(arrays["val_logits"]), arrays["val_y"])
    return arrays["test_y"], fitted.predict_proba(Predictions.from_logits(arrays["test_logits"]))


def assert_agrees(metric, network, published, n_published, n_resamples, digits):
    """Two shares of draws from one distribution differ by at most three standard errors, and rounding."""
    ours = consistency_test(metric, *calibrated(network), n_resamples=n_resamples, p_value="share").p_value
    pooled = (ours * n_resamples + published * n_published) / (n_resamples + n_published)
    error = sqrt(pooled * (1 - pooled) * (1 / n_resamples + 1 / n_published))
    assert ours == pytest.approx(published, abs=3 * error + 0.5 * 10.0**-digits)


@each_network
def test_p_confidence_ece(network):
    assert_agrees(TEN_BINS, network, P_CONFIDENCE[network], 1000, 1500, digits=3)


@each_network
def test_p_classwise_ece(network):
    assert_agrees(FOURTEEN_BINS_AND_ONE, network, P_CLASSWISE[network], 10_000, 1500, digits=4)


def test_fifteen_bins_give_another_p_value():
    """About 0.54 instead of the published 0.174."""
    result = consistency_test(FIFTEEN_BINS, *calibrated("c100_convnet"), n_resamples=1500)
    assert result.p_value == pytest.approx(0.54, abs=0.05)


@pytest.mark.slow
@each_network
def test_p_values_with_ten_thousand_draws(network):
    assert_agrees(TEN_BINS, network, P_CONFIDENCE[network], 1000, 10_000, digits=3)
    assert_agrees(FOURTEEN_BINS_AND_ONE, network, P_CLASSWISE[network], 10_000, 10_000, digits=4)


@pytest.mark.slow
def test_an_uncalibrated_network_is_rejected():
    arrays = load("kull_nn/c10_resnet110")
    result = consistency_test(
        confidence_ece, arrays["test_y"], Predictions.from_logits(arrays["test_logits"]), n_resamples=500
    )
    assert result.p_value == pytest.approx(1 / 501)
