"""Isotonic miscalibration against loops, scikit-learn and what theory says of it."""

from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sklearn_log_loss

from calibrant import Predictions
from calibrant.metrics.miscalibration import miscalibration
from calibrant.numerics.isotonic import isotonic_fit
from data import load
from strategies import problems

LOSSES = ["brier", "log"]
WEIGHTS = st.one_of(st.none(), hnp.arrays(np.float64, 14, elements=st.integers(1, 5).map(float)))


def one_loss(name, score, outcome):
    if name == "brier":
        return (score - outcome) ** 2
    happened = min(score if outcome else 1 - score, 1)
    return -log(happened) if happened > 0 else inf


def pooled(scores, outcomes, weights):
    """Pool adjacent violators one by one, among rows of equal score first; return the value of each score."""
    blocks = []
    for score in sorted(set(scores)):
        rows = [i for i, s in enumerate(scores) if s == score]
        weight = sum(weights[i] for i in rows)
        blocks.append([[score], weight, sum(weights[i] * outcomes[i] for i in rows)])
        while len(blocks) > 1 and blocks[-2][2] * blocks[-1][1] >= blocks[-1][2] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [blocks[-1][0] + last[0], blocks[-1][1] + last[1], blocks[-1][2] + last[2]]
    return {score: hits / weight for scores, weight, hits in blocks for score in scores}


def naive(loss, scores, outcomes, weights):
    scores = [float(s) for s in scores]
    best = pooled(scores, outcomes, weights)
    rows = list(zip(scores, outcomes, weights, strict=True))
    given = sum(w * one_loss(loss, s, o) for s, o, w in rows)
    return max(given - sum(w * one_loss(loss, best[s], o) for s, o, w in rows), 0) / sum(weights)


def confidence_event(probabilities, labels):
    predicted = probabilities.argmax(axis=1)
    return probabilities.max(axis=1), (predicted == labels).astype(int).tolist()


@given(problem=problems(), weights=WEIGHTS, loss=st.sampled_from(LOSSES))
def test_it_is_a_loop_over_pooled_blocks(problem, weights, loss):
    probabilities, labels = problem
    w = [1.0] * len(labels) if weights is None else weights[: len(labels)].tolist()
    arguments = {"sample_weight": None if weights is None else w, "loss": loss}
    tolerance = 1e-6 if probabilities.dtype == np.float32 else 1e-10
    scores, outcomes = confidence_event(probabilities, labels)
    # A rounded confidence of one can be wrong and leave something to the others; loops cannot see that.
    if not any(s >= 1 and not o for s, o in zip(scores, outcomes, strict=True)):
        expected = naive(loss, scores, outcomes, w)
        assert miscalibration(labels, probabilities, **arguments) == pytest.approx(expected, abs=tolerance)
    classes = [
        naive(loss, column, (labels == k).astype(int).tolist(), w) for k, column in enumerate(probabilities.T)
    ]
    result = miscalibration(labels, probabilities, kind="classwise", **arguments)
    if np.isfinite(classes).all():
        assert result == pytest.approx(np.mean(classes), abs=tolerance)
    elif probabilities.dtype == np.float64:
        assert result == inf


def test_nine_of_ten_at_eighty_percent():
    """One block of value 0.9: (0.8 - 0.9)^2, and the relative entropy of (0.9, 0.1) to (0.8, 0.2)."""
    labels, probabilities = [0] * 9 + [1], [[0.8, 0.2]] * 10
    assert miscalibration(labels, probabilities) == pytest.approx(0.01)
    expected = 0.9 * log(0.9 / 0.8) + 0.1 * log(0.1 / 0.2)
    assert miscalibration(labels, probabilities, loss="log") == pytest.approx(expected)


def test_the_wrong_order_leaves_only_the_mean():
    """Outcomes 1, 0 at scores 0.2, 0.8: losses 0.64 each, and 0.25 at the pooled 1/2."""
    assert miscalibration([1, 0], [0.2, 0.8], kind="positive") == pytest.approx(0.64 - 0.25)
    assert miscalibration([1, 0], [0.2, 0.8], kind="positive", loss="log") == pytest.approx(log(2.5))


@pytest.mark.parametrize("loss", LOSSES)
def test_certain_and_right_is_exactly_zero(loss):
    labels = np.array([0, 1, 2, 0, 2])
    for kind in ("confidence", "classwise"):
        assert miscalibration(labels, np.eye(3)[labels], kind=kind, loss=loss) == 0.0


@given(problem=problems(), loss=st.sampled_from(LOSSES))
def test_nothing_is_left_after_isotonic_regression(problem, loss):
    scores, outcomes = confidence_event(*problem)
    recalibrated = isotonic_fit(scores, np.array(outcomes))(scores)
    assert miscalibration(outcomes, recalibrated, kind="positive", loss=loss) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("power", [0.5, 2.0])
def test_an_increasing_map_changes_it_by_what_it_changes_the_loss(power):
    """The best non-decreasing function of a score is the same for an increasing map of the score."""
    generator = np.random.default_rng(0)
    scores = generator.uniform(0.05, 0.95, 400)
    labels = (generator.random(400) < scores).astype(int)
    for loss, mean_loss in (("brier", brier_score_loss), ("log", sklearn_log_loss)):
        before, after = (
            miscalibration(labels, mapped, kind="positive", loss=loss) for mapped in (scores, scores**power)
        )
        change = mean_loss(labels, scores**power) - mean_loss(labels, scores)
        assert after - before == pytest.approx(change, abs=1e-12)


def test_the_positive_class_of_two_stands_for_both():
    generator = np.random.default_rng(1)
    scores = generator.random(300).round(2)
    labels = (generator.random(300) < scores).astype(int)
    for loss in LOSSES:
        one = miscalibration(labels, scores, kind="positive", loss=loss)
        assert miscalibration(labels, scores, kind="classwise", loss=loss) == pytest.approx(one, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_agrees_with_scikit_learn_on_a_network(dtype):
    data = load("kull_nn/c10_resnet110")
    predictions = Predictions.from_logits(data["test_logits"].astype(dtype))
    labels = data["test_y"].ravel()
    scores = predictions.probabilities.max(axis=1).astype(np.float64)
    right = (predictions.predicted == labels).astype(float)
    fitted = IsotonicRegression().fit(scores, right).predict(scores)
    expected = np.mean((scores - right) ** 2) - np.mean((fitted - right) ** 2)
    # scikit-learn merges float32 scores that are a few roundings apart.
    assert miscalibration(labels, predictions) == pytest.approx(expected, abs=1e-7)


def test_a_refuted_certainty_is_infinite_in_logarithms_only():
    assert miscalibration([1], [[1.0, 0.0]], loss="log") == inf
    assert miscalibration([1], [[1.0, 0.0]]) == 1.0
    assert miscalibration([2, 0], [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], kind="classwise", loss="log") == inf
    assert np.isfinite(miscalibration([2, 0], [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], loss="log"))


def test_a_rounded_certainty_is_not_refuted():
    """The float32 row leaves 1e-10 to the others: -log(1e-10). Two logits 2000 apart: a loss of 2000."""
    rounded = np.array([[1.0, 1e-10, 0.0]], dtype=np.float32)
    assert miscalibration([1], rounded, loss="log") == pytest.approx(10 * log(10), rel=1e-6)
    # Each of the two events costs this much, the third is right and costs nothing.
    assert miscalibration([1], rounded, kind="classwise", loss="log") == pytest.approx(
        20 * log(10) / 3, rel=1e-6
    )
    logits = Predictions.from_logits([[2000.0, 0.0]])
    for kind in ("confidence", "classwise", "positive"):
        assert miscalibration([1], logits, kind=kind, loss="log") == pytest.approx(2000.0)


@pytest.mark.slow
def test_noise_alone_shrinks_with_the_power_two_thirds_of_rows():
    """Sixty-four times the rows, a sixteenth of the value; 200 means of known spread are within 4 errors."""
    generator = np.random.default_rng(0)
    means, errors = [], []
    for n_rows in (250, 16_000):
        values = []
        for _ in range(200):
            scores = generator.random(n_rows)
            labels = (generator.random(n_rows) < scores).astype(int)
            values.append(miscalibration(labels, scores, kind="positive"))
        means.append(np.mean(values))
        errors.append(np.std(values) / 200**0.5 / means[-1])
    assert means[0] / means[1] == pytest.approx(16, rel=4 * np.hypot(*errors) + 0.05)
