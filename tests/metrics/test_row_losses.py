"""Losses row by row against loops and the mean scores."""

from math import inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import Predictions
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import brier_score, log_loss
from calibrant.metrics.row_losses import row_losses
from strategies import logit_matrices, problems

LOSSES = st.sampled_from(["log", "brier", "spherical"])


def naive(loss, row, label):
    p = [float(entry) for entry in row]
    if loss == "log":
        return -log(min(p[label], 1.0)) if p[label] > 0 else inf
    if loss == "brier":
        return sum((entry - (k == label)) ** 2 for k, entry in enumerate(p)) / (2 if len(p) == 2 else 1)
    return 1 - p[label] / sqrt(sum(entry**2 for entry in p))


@given(problem=problems(), loss=LOSSES)
def test_losses_of_probabilities_equal_a_loop(problem, loss):
    data = LabelledPredictions.parse(problem.probabilities, problem.labels)
    expected = [naive(loss, *row) for row in zip(problem.probabilities, problem.labels, strict=True)]
    result = row_losses(data, loss)
    assert result.dtype == np.float64
    assert result == pytest.approx(np.array(expected), rel=1e-12, abs=1e-12)
    assert (result >= 0).all()


@given(logits=logit_matrices(n_rows=6, n_classes=3, bound=300.0), loss=LOSSES)
def test_losses_of_logits_are_those_of_their_softmax_in_float64(logits, loss):
    labels = [0, 1, 2, 0, 1, 2]
    exact = Predictions.from_logits(logits.astype(np.float64)).probabilities
    result = row_losses(LabelledPredictions.parse(Predictions.from_logits(logits), labels), loss)
    expected = row_losses(LabelledPredictions.parse(exact, labels), loss)
    assert result == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_log_loss_of_logits_is_finite_where_the_softmax_is_zero():
    data = LabelledPredictions.parse(Predictions.from_logits(np.float32([[2000, 0], [0, 2000]])), [1, 1])
    assert row_losses(data, "log").tolist() == [2000.0, 0.0]


def test_the_spherical_loss_of_a_nearly_certain_truth_is_not_lost_to_rounding():
    """1 - p/sqrt(p^2 + q^2) = q^2 / 2 up to terms of higher order, for p = 1 - q."""
    data = LabelledPredictions.parse([[1.0, 1e-12]], [0])
    assert row_losses(data, "spherical")[0] == pytest.approx(0.5e-24, rel=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_means_are_the_proper_scores(n_classes, dtype):
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(n_classes), 5000).astype(dtype)
    labels, weights = generator.integers(0, n_classes, 5000), generator.random(5000)
    data = LabelledPredictions.parse(probabilities, labels)
    for loss, score in (("log", log_loss), ("brier", brier_score)):
        expected = score(labels, probabilities, sample_weight=weights)
        assert np.average(row_losses(data, loss), weights=weights) == pytest.approx(expected, rel=1e-12)


def test_the_predictions_are_not_written_to():
    probabilities = np.array([[0.2, 0.8], [0.5, 0.5]])
    before = probabilities.copy()
    for loss in ("log", "brier", "spherical"):
        row_losses(LabelledPredictions.parse(probabilities, [0, 1]), loss)
    assert np.array_equal(probabilities, before)


def test_an_unknown_loss_is_refused():
    with pytest.raises(ParameterError, match="loss must be 'log', 'brier' or 'spherical', not 'hinge'"):
        row_losses(LabelledPredictions.parse([0.5], [1]), "hinge")
