"""Log-loss, Brier score and accuracy against loops, scikit-learn and closed forms."""

from math import exp, inf, log

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant import Predictions
from calibrant.errors import ParameterError
from calibrant.metrics import accuracy, brier_score, log_loss
from strategies import logit_matrices, problems

WEIGHTS = st.one_of(st.none(), hnp.arrays(np.float64, 14, elements=st.floats(0.1, 5)))


def naive_mean(losses, weights):
    weights = [1.0] * len(losses) if weights is None else weights
    return sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)


def random_problem(n_rows, n_classes, dtype=np.float64, seed=0):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(n_classes, 0.7), n_rows).astype(dtype)
    return generator.integers(0, n_classes, n_rows), probabilities, generator.random(n_rows) + 0.1


@given(problem=problems(), weights=WEIGHTS)
def test_log_loss_is_the_mean_of_minus_log_p(problem, weights):
    weights = None if weights is None else weights[: len(problem.labels)]
    of_truth = [min(float(p[y]), 1.0) for p, y in zip(problem.probabilities, problem.labels, strict=True)]
    losses = [-log(p) if p > 0 else inf for p in of_truth]
    result = log_loss(problem.labels, problem.probabilities, sample_weight=weights)
    assert result == pytest.approx(naive_mean(losses, weights), rel=1e-12, abs=1e-15)


@given(problem=problems(), weights=WEIGHTS)
def test_brier_score_is_the_mean_squared_distance_from_the_truth(problem, weights):
    weights = None if weights is None else weights[: len(problem.labels)]
    losses = [
        sum((float(p) - (k == y)) ** 2 for k, p in enumerate(row))
        for row, y in zip(problem.probabilities, problem.labels, strict=True)
    ]
    result = brier_score(problem.labels, problem.probabilities, sample_weight=weights, scale_by_half=False)
    assert result == pytest.approx(naive_mean(losses, weights), rel=1e-12, abs=1e-15)


@given(problem=problems(), weights=WEIGHTS)
def test_accuracy_is_the_share_of_rows_predicted_right(problem, weights):
    weights = None if weights is None else weights[: len(problem.labels)]
    hits = [
        float(row.tolist().index(max(row)) == y)
        for row, y in zip(problem.probabilities, problem.labels, strict=True)
    ]
    result = accuracy(problem.labels, problem.probabilities, sample_weight=weights)
    assert result == pytest.approx(naive_mean(hits, weights), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
class TestScikitLearnAgrees:
    def problem(self, n_classes, dtype, weighted):
        labels, probabilities, weights = random_problem(200, n_classes, dtype)
        return labels, probabilities, weights if weighted else None

    def test_on_log_loss_with_its_own_floor(self, n_classes, dtype, weighted):
        """Every tenth row excludes its true class, which scikit-learn counts as epsilon."""
        labels, probabilities, weights = self.problem(n_classes, dtype, weighted)
        probabilities = probabilities.copy()
        probabilities[::10] = np.eye(n_classes, dtype=dtype)[(labels[::10] + 1) % n_classes]
        theirs = sklearn.metrics.log_loss(
            labels, probabilities, sample_weight=weights, labels=range(n_classes)
        )
        eps = float(np.finfo(dtype).eps)
        ours = log_loss(labels, probabilities, sample_weight=weights, floor=eps)
        assert ours == pytest.approx(theirs, rel=4 * eps, abs=4 * eps)
        assert log_loss(labels, probabilities, sample_weight=weights) == inf

    @pytest.mark.parametrize("scale_by_half", ["auto", True, False])
    def test_on_the_brier_score(self, n_classes, dtype, weighted, scale_by_half):
        labels, probabilities, weights = self.problem(n_classes, dtype, weighted)
        theirs = sklearn.metrics.brier_score_loss(
            labels,
            probabilities,
            sample_weight=weights,
            labels=range(n_classes),
            scale_by_half=scale_by_half,
        )
        ours = brier_score(labels, probabilities, sample_weight=weights, scale_by_half=scale_by_half)
        assert ours == pytest.approx(theirs, rel=16 * float(np.finfo(dtype).eps))

    def test_on_accuracy(self, n_classes, dtype, weighted):
        labels, probabilities, weights = self.problem(n_classes, dtype, weighted)
        theirs = sklearn.metrics.accuracy_score(labels, probabilities.argmax(axis=1), sample_weight=weights)
        assert accuracy(labels, probabilities, sample_weight=weights) == pytest.approx(theirs, rel=1e-12)


def test_binary_brier_score_is_the_squared_error_of_the_positive_class():
    """((0.2 - 0)^2 + (0.7 - 1)^2) / 2 = 0.065, also as scikit-learn has it for one column."""
    assert brier_score([0, 1], [0.2, 0.7]) == pytest.approx(0.065)
    assert sklearn.metrics.brier_score_loss([0, 1], [0.2, 0.7]) == pytest.approx(0.065)


def test_small_brier_scores_keep_their_digits():
    """Two classes at 1 - d and d give 2 d^2; squares and products added up apart would cancel to zero."""
    distance = 2.0**-40
    score = brier_score([0], [[1 - distance, distance]], scale_by_half=False)
    assert score == pytest.approx(2 * distance**2, rel=1e-12)


def test_an_impossible_event_costs_infinity_unless_there_is_a_floor():
    probabilities = [[1.0, 0.0], [0.5, 0.5]]
    assert log_loss([1, 0], probabilities) == inf
    assert log_loss([1, 0], probabilities, floor=1e-15) == pytest.approx((15 * log(10) + log(2)) / 2)


def test_the_floor_of_the_predictions_does_not_hide_an_impossible_event():
    predictions = Predictions.from_probabilities([[1.0, 0.0]], floor=1e-3)
    assert log_loss([1], predictions) == inf


def test_an_impossible_event_of_weight_zero_costs_nothing():
    assert log_loss([1, 0], [[1.0, 0.0], [0.5, 0.5]], sample_weight=[0, 1]) == pytest.approx(log(2))


def test_logits_whose_softmax_is_zero_have_a_finite_exact_loss():
    """log softmax of (2000, 0) for the second class is -2000 up to exp(-2000)."""
    for dtype in (np.float32, np.float64):
        predictions = Predictions.from_logits(np.array([[2000.0, 0.0]], dtype=dtype))
        assert predictions.probabilities[0, 1] == 0
        assert log_loss([1], predictions) == 2000.0
        assert log_loss([1], predictions, floor=exp(-100)) == pytest.approx(100.0)


@given(logits=logit_matrices(n_rows=6, bound=300.0), data=st.data())
def test_float32_logits_lose_nothing_against_float64(logits, data):
    labels = data.draw(hnp.arrays(np.intp, 6, elements=st.integers(0, logits.shape[1] - 1)))
    as_float32 = logits.astype(np.float32)
    same_numbers = as_float32.astype(np.float64)
    assert log_loss(labels, Predictions.from_logits(as_float32)) == log_loss(
        labels, Predictions.from_logits(same_numbers)
    )


def test_many_rows_and_classes_go_through_several_blocks():
    """Large enough for more than one block of rows, and for threads: the result is that of one pass."""
    labels, probabilities, weights = random_problem(3000, 100)
    with np.errstate(divide="ignore"):
        logits = np.maximum(np.log(probabilities), -700.0)
    of_truth = np.log(probabilities[np.arange(3000), labels])
    predictions = Predictions.from_logits(logits)
    assert log_loss(labels, predictions, sample_weight=weights) == pytest.approx(
        -np.average(of_truth, weights=weights), rel=1e-9
    )
    squares = ((probabilities - np.eye(100)[labels]) ** 2).sum(axis=1)
    assert brier_score(labels, probabilities, sample_weight=weights) == pytest.approx(
        np.average(squares, weights=weights), rel=1e-12
    )


def test_a_probability_above_one_by_rounding_counts_as_certain():
    above = np.nextafter(np.float32(1), np.float32(2))
    assert log_loss([0], np.array([[above, 0.0]], dtype=np.float32)) == 0.0


def test_a_perfect_log_loss_is_positive_zero():
    assert str(log_loss([0, 1], [[1.0, 0.0], [0.0, 1.0]])) == "0.0"


def test_of_equal_probabilities_the_first_column_is_predicted():
    assert accuracy([0, 1], [[0.5, 0.5], [0.5, 0.5]]) == 0.5
    assert accuracy([0, 0], [[0.5, 0.5], [0.5, 0.5]]) == 1.0


@pytest.mark.parametrize("floor", [-0.1, 1.0, 2.0, np.nan, "small", None])
def test_a_floor_must_be_a_probability_below_one(floor):
    with pytest.raises(ParameterError, match="floor must be a number of at least 0"):
        log_loss([0, 1], [0.2, 0.7], floor=floor)


def test_scale_by_half_must_be_known():
    with pytest.raises(ParameterError, match="scale_by_half must be"):
        brier_score([0, 1], [0.2, 0.7], scale_by_half="always")
