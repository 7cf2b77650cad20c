"""Metrics of several labels: per label, macro, micro and weighted, against loops."""

import numpy as np
import pytest

from calibrant.errors import ParameterError
from calibrant.metrics import brier_score, classwise_ece, log_loss, multilabel_score

Y = np.array([[1, 0, 1], [0, 0, np.nan], [1, 1, 0], [1, 0, 1], [0, np.nan, 0]])
P = np.array([[0.8, 0.2, 0.6], [0.3, 0.1, 0.5], [0.9, 0.7, 0.4], [0.6, 0.3, 0.8], [0.2, 0.4, 0.1]])
W = np.array([1.0, 2.0, 1.0, 0.5, 3.0])


@pytest.mark.parametrize("metric", [log_loss, brier_score, classwise_ece])
@pytest.mark.parametrize("weights", [None, W])
def test_averages_equal_loops(metric, weights):
    known = ~np.isnan(Y)
    own = np.ones(5) if weights is None else weights
    each = [metric(Y[k, j].astype(int), P[k, j], sample_weight=own[k]) for j, k in enumerate(known.T)]
    positive = [own[Y[:, j] == 1].sum() for j in range(3)]
    options = {"sample_weight": weights}
    assert multilabel_score(metric, Y, P, average="none", **options) == pytest.approx(each)
    assert multilabel_score(metric, Y, P, **options) == pytest.approx(np.mean(each))
    assert multilabel_score(metric, Y, P, average="weighted", **options) == pytest.approx(
        np.average(each, weights=positive)
    )
    rows, columns = np.nonzero(known)
    micro = metric(Y[rows, columns].astype(int), P[rows, columns], sample_weight=own[rows])
    assert multilabel_score(metric, Y, P, average="micro", **options) == pytest.approx(micro)


def test_labels_without_known_outcomes():
    some = Y.copy()
    some[:, 1] = np.nan
    values = multilabel_score(log_loss, some, P, average="none")
    assert np.isnan(values).tolist() == [False, True, False]
    assert multilabel_score(log_loss, some, P) == pytest.approx(np.nanmean(values))
    nothing = np.zeros_like(Y)
    assert np.isnan(multilabel_score(log_loss, nothing, P, average="weighted"))


def test_logits_and_options():
    logits = np.log(P / (1 - P))
    assert multilabel_score(log_loss, Y, logits, space="logits") == pytest.approx(
        multilabel_score(log_loss, Y, P)
    )
    wide, narrow = (multilabel_score(classwise_ece, Y, P, n_bins=n) for n in (1, 15))
    assert wide < narrow


def test_invalid_options():
    with pytest.raises(ParameterError, match="average"):
        multilabel_score(log_loss, Y, P, average="samples")
    with pytest.raises(ParameterError, match="metric"):
        multilabel_score("log_loss", Y, P)
