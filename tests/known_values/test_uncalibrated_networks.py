"""Published figures of four uncalibrated networks, to every printed digit.

Source: Kull et al. (2019), supplement, tables 13 to 20, rows c10_resnet110, c10_densenet40, c10_convnet
and c100_convnet. Confidence-ECE has 15 equal-width bins closed on the right. Classwise-ECE is the sum over
classes, with 14 equal-width bins on [0, 1) and one for probabilities of exactly one. The Brier score is the
mean over rows and classes. The log-loss was computed with probabilities clipped at 1e-15.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import logsumexp

from calibrant import Predictions
from calibrant.binning import EqualWidth, FixedEdges
from calibrant.metrics import accuracy, brier_score, classwise_ece, confidence_ece, log_loss
from data import load


class Published(NamedTuple):
    """One row of the tables, as printed."""

    error_percent: str
    log_loss: str
    confidence_ece: str
    classwise_ece: str
    brier_score: str


PUBLISHED = {
    "c10_resnet110": Published("6.44", "0.35827", "0.04750", "0.09846", "0.01102"),
    "c10_densenet40": Published("7.58", "0.42821", "0.05500", "0.11430", "0.01274"),
    "c10_convnet": Published("6.18", "0.39098", "0.04760", "0.10375", "0.01090"),
    "c100_convnet": Published("26.12", "1.64120", "0.17614", "0.42414", "0.00425"),
}
FOURTEEN_BINS_AND_ONE = FixedEdges((*np.linspace(0, 1, 15), 1.0))

each_network = pytest.mark.parametrize("network", PUBLISHED)


@cache
def test_set(network: str) -> tuple[np.ndarray, Predictions]:
    arrays = load(f"kull_nn/{network}")
    return arrays["test_y"], Predictions.from_logits(arrays["test_logits"])


test_set.__test__ = False


@each_network
def test_error_rate(network):
    assert f"{100 * (1 - accuracy(*test_set(network))):.2f}" == PUBLISHED[network].error_percent


@each_network
def test_log_loss(network):
    assert f"{log_loss(*test_set(network), floor=1e-15):.5f}" == PUBLISHED[network].log_loss


@pytest.mark.parametrize(("network", "exact"), [("c10_densenet40", "0.43006"), ("c10_convnet", "0.39231")])
def test_log_loss_without_the_clip_is_larger_than_printed(network, exact):
    """Each network gives a few true classes less than 1e-15; the whole array at once says the same."""
    labels, predictions = test_set(network)
    logits = predictions.scores.astype(np.float64)
    direct = np.mean(logsumexp(logits, axis=1) - logits[np.arange(len(labels)), labels])
    assert log_loss(labels, predictions) == pytest.approx(direct, rel=1e-12)
    assert f"{direct:.5f}" == exact


@each_network
def test_confidence_ece(network):
    error = confidence_ece(*test_set(network), binning=EqualWidth(15, closed="right"))
    assert f"{error:.5f}" == PUBLISHED[network].confidence_ece


@each_network
def test_classwise_ece(network):
    error = classwise_ece(*test_set(network), binning=FOURTEEN_BINS_AND_ONE, reduction="sum")
    assert f"{error:.5f}" == PUBLISHED[network].classwise_ece


def test_fifteen_true_bins_give_another_classwise_ece():
    """0.09829 instead of the published 0.09846."""
    assert f"{classwise_ece(*test_set('c10_resnet110'), reduction='sum'):.5f}" == "0.09829"


@each_network
def test_brier_score(network):
    labels, predictions = test_set(network)
    score = brier_score(labels, predictions, scale_by_half=False) / predictions.n_classes
    assert f"{score:.5f}" == PUBLISHED[network].brier_score


@pytest.mark.parametrize(
    ("network", "confidence", "classwise"),
    [("c10_densenet40", "5.49", "0.44"), ("c10_resnet110", "4.75", "0.36")],
)
def test_equal_mass_figures_of_the_thesis(network, confidence, classwise):
    """Valk (2022), tables 4 to 16: 15 bins of equal size, mean over classes, times 100."""
    labels, predictions = test_set(network)
    assert f"{100 * confidence_ece(labels, predictions, strategy='quantile'):.2f}" == confidence
    assert f"{100 * classwise_ece(labels, predictions, strategy='quantile'):.2f}" == classwise


@pytest.mark.parametrize(
    ("network", "published"),
    [
        ("kull_densenet40_c10", "0.05500"),
        ("kull_resnet110_c10", "0.04750"),
        ("kull_densenet40_c100", "0.21156"),
        ("kull_resnet110_c100", "0.18480"),
    ],
)
def test_confidence_ece_from_confidences_alone(network, published):
    """Kull et al. (2019), table 15, by way of the bins: no other columns are needed."""
    arrays = load(f"toplabel/{network}")
    bins = EqualWidth(15, closed="right").bins(arrays["confidence"], arrays["pred"] == arrays["y"])
    assert f"{bins.share @ np.abs(bins.gap):.5f}" == published
