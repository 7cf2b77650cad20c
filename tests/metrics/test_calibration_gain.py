"""Calibration gain: closed forms, its place among the scores, and real networks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import Predictions, TemperatureScaling
from calibrant.errors import CalibrationWarning, LabelError, ParameterError, PredictionError
from calibrant.intervals import loss_difference
from calibrant.metrics import brier_score, log_loss, spherical_loss
from calibrant.metrics.proper import calibration_gain
from data import load
from strategies import probability_matrices, problems


def test_from_ninety_to_seventy_five_percent_when_three_of_four_are_right():
    """The squared error at probability p falls by 2 (p - 3/4)^2, from p = 0.9 to 3/4."""
    gain = calibration_gain([0, 0, 0, 1], [[0.9, 0.1]] * 4, [[0.75, 0.25]] * 4)
    assert gain == pytest.approx(2 * 0.15**2, rel=1e-12)


@settings(max_examples=25)
@given(problem=problems(), data=st.data())
def test_it_is_a_loop_over_rows_and_classes(problem, data):
    before, labels = problem
    after = data.draw(probability_matrices(*before.shape))
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(labels), max_size=len(labels)))

    def squared_error(row, label):
        return sum((float(p) - (k == label)) ** 2 for k, p in enumerate(row))

    gains = [
        w * (squared_error(f, y) - squared_error(g, y))
        for f, g, y, w in zip(before, after, labels, weights, strict=True)
    ]
    expected = sum(gains) / sum(weights)
    assert calibration_gain(labels, before, after, sample_weight=weights) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_it_is_the_difference_of_two_scores(n_classes):
    generator = np.random.default_rng(0)
    before, after = generator.dirichlet(np.ones(n_classes), (2, 50))
    labels = generator.integers(0, n_classes, 50)
    weights = generator.random(50)
    scores = {
        "brier": lambda p: brier_score(labels, p, sample_weight=weights, scale_by_half=False),
        "log": lambda p: log_loss(labels, p, sample_weight=weights),
        "spherical": lambda p: spherical_loss(labels, p, sample_weight=weights),
    }
    for loss, score in scores.items():
        gain = calibration_gain(labels, before, after, sample_weight=weights, loss=loss)
        assert gain == pytest.approx(score(before) - score(after), abs=1e-12)
        assert calibration_gain(labels, after, before, sample_weight=weights, loss=loss) == pytest.approx(
            -gain
        )
        assert calibration_gain(labels, before, before, loss=loss) == 0


def test_impossible_events_that_happen():
    """Refuted before: infinite gain; after: infinite harm; both, in the same or in other rows: no value."""
    wrong, honest = [[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]
    assert calibration_gain([1, 1], wrong, honest, loss="log") == np.inf
    assert calibration_gain([1, 1], honest, wrong, loss="log") == -np.inf
    assert np.isnan(calibration_gain([1, 1], wrong, [[1.0, 0.0], [0.25, 0.75]], loss="log"))
    assert np.isnan(calibration_gain([1, 1], wrong, wrong[::-1], loss="log"))


@pytest.mark.parametrize("loss", ["log", "brier", "spherical"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_is_the_difference_of_losses_with_the_other_sign_and_the_brier_loss_of_two_classes_doubled(
    loss, n_classes
):
    generator = np.random.default_rng(0)
    before, after = generator.dirichlet(np.ones(n_classes), (2, 40))
    labels = generator.integers(0, n_classes, 40)
    scale = 2 if loss == "brier" and n_classes == 2 else 1
    difference = loss_difference(labels, before, after, loss=loss).estimate
    assert calibration_gain(labels, before, after, loss=loss) == pytest.approx(-scale * difference)


@pytest.mark.parametrize(
    ("before", "after"),
    [([0.0, 0.5], [0.5, 0.5]), ([0.5, 0.5], [0.0, 0.5]), ([0.0, 0.5], [0.0, 0.9]), ([0.0, 0.5], [0.5, 0.0])],
)
def test_infinities_are_those_of_the_difference_of_losses(before, after):
    with pytest.warns(CalibrationWarning, match="infinite loss"):
        difference = loss_difference([1, 1], before, after, loss="log").estimate
    np.testing.assert_equal(calibration_gain([1, 1], before, after, loss="log"), -difference)


def test_rows_and_classes_must_be_the_same():
    with pytest.raises(PredictionError, match="2 classes before calibration but 3 after"):
        calibration_gain([0, 1], [0.5, 0.5], [[0.2, 0.3, 0.5]] * 2)
    with pytest.raises(LabelError, match="3 rows of predictions but 2 labels"):
        calibration_gain([0, 1], [0.5, 0.5], [0.5, 0.5, 0.5])
    with pytest.raises(ParameterError, match="loss must be"):
        calibration_gain([0, 1], [0.5, 0.5], [0.5, 0.5], loss="hinge")


@pytest.mark.parametrize(
    ("name", "published"), [("c10_resnet110", 0.01102 - 0.00979), ("c100_convnet", 0.00425 - 0.00358)]
)
def test_temperature_scaling_gains_what_the_published_brier_scores_say(name, published):
    """Kull et al. (2019) print the Brier score per class of both, rounded to five decimals."""
    arrays = load(f"kull_nn/{name}")
    before = Predictions.from_logits(arrays["test_logits"])
    fitted = TemperatureScaling().fit(Predictions.from_logits(arrays["val_logits"]), arrays["val_y"])
    gain = calibration_gain(arrays["test_y"], before, fitted.transform(before))
    assert gain / before.n_classes == pytest.approx(published, abs=1.1e-5)
