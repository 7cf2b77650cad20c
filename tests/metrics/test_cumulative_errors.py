"""KS and Kuiper calibration errors against loops over all intervals, a peer and closed forms."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant import Predictions
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.cumulative import ks_calibration_error, kuiper_calibration_error
from calibrant.metrics.declaration import evaluator
from data import load
from strategies import problems

ERRORS = [ks_calibration_error, kuiper_calibration_error]
every_error = pytest.mark.parametrize("error", ERRORS)
WEIGHTS = st.one_of(st.none(), hnp.arrays(np.float64, 14, elements=st.floats(0.1, 5)))
KINDS = ["confidence", "classwise"]


def naive_cutoff_error(scores, outcomes, weights):
    """Go through all intervals [a, b] that begin and end with a score, and through all rows for each."""
    worst = 0.0
    for a in set(scores):
        for b in set(scores):
            inside = [i for i, s in enumerate(scores) if a <= s <= b]
            worst = max(
                worst, abs(sum(weights[i] * (outcomes[i] - min(float(scores[i]), 1)) for i in inside))
            )
    return worst / sum(weights)


def naive_ks(scores, outcomes, weights):
    """Go through all thresholds, and through all rows for each."""
    sums = [
        sum(w * (o - min(float(s), 1)) for s, o, w in zip(scores, outcomes, weights, strict=True) if s <= t)
        for t in scores
    ]
    return max(abs(total) for total in sums) / sum(weights)


def events(problem, kind):
    """Return scores and outcomes of every event of a kind."""
    probabilities, labels = problem
    if kind == "confidence":
        first = [row.tolist().index(max(row)) for row in probabilities]
        outcomes = [float(k == y) for k, y in zip(first, labels, strict=True)]
        return [([max(row) for row in probabilities], outcomes)]
    return [(list(column), (labels == k).astype(float)) for k, column in enumerate(probabilities.T)]


def random_problem(n_rows=300, n_classes=4, dtype=np.float64, seed=0):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(n_classes, 0.5), n_rows).astype(dtype)
    return generator.integers(0, n_classes, n_rows), probabilities


@given(problem=problems(), weights=WEIGHTS, kind=st.sampled_from(KINDS))
def test_kuiper_is_the_cutoff_error_of_the_worst_interval(problem, weights, kind):
    weights = np.ones(len(problem.labels)) if weights is None else weights[: len(problem.labels)]
    expected = np.mean([naive_cutoff_error(*event, weights) for event in events(problem, kind)])
    result = kuiper_calibration_error(*problem[::-1], sample_weight=weights, kind=kind)
    assert result == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(problem=problems(), weights=WEIGHTS, kind=st.sampled_from(KINDS))
def test_ks_is_the_error_below_the_worst_threshold(problem, weights, kind):
    weights = np.ones(len(problem.labels)) if weights is None else weights[: len(problem.labels)]
    expected = np.mean([naive_ks(*event, weights) for event in events(problem, kind)])
    result = ks_calibration_error(*problem[::-1], sample_weight=weights, kind=kind)
    assert result == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(problem=problems(), kind=st.sampled_from(KINDS))
def test_kuiper_is_between_once_and_twice_ks_and_both_are_at_most_one(problem, kind):
    ks, kuiper = (error(*problem[::-1], kind=kind) for error in ERRORS)
    assert 0 <= ks <= kuiper + 1e-12
    assert kuiper <= min(1 + 1e-9, 2 * ks + 1e-12)


@every_error
@given(problem=problems(), data=st.data())
def test_the_order_of_rows_does_not_matter_even_among_ties(error, problem, data):
    probabilities, labels = problem
    rows = np.array(data.draw(st.permutations(range(len(labels)))))
    for kind in KINDS:
        before = error(labels, probabilities, kind=kind)
        assert error(labels[rows], probabilities[rows], kind=kind) == pytest.approx(before, abs=1e-12)


@every_error
def test_constant_scores_give_the_mean_residual(error):
    """Three of ten at 0.2: 0.1 whichever rows they are."""
    for labels in ([1] * 3 + [0] * 7, [0] * 7 + [1] * 3):
        assert error(labels, [0.2] * 10, kind="positive") == pytest.approx(0.1)


def test_up_and_down_again():
    """Residuals 0.8 and -0.8 of four rows: the path rises to 0.2 and returns; down first, it dips to -0.2."""
    rising = [[0.6, 0.4], [0.6, 0.4], [0.9, 0.1], [0.9, 0.1]]
    assert kuiper_calibration_error([0, 0, 0, 1], rising) == pytest.approx(0.2)
    assert ks_calibration_error([0, 0, 0, 1], rising) == pytest.approx(0.2)


def test_kuiper_adds_what_lies_above_zero_and_below():
    """Residuals -0.6, 0.3 + 0.3 + 0.1 at scores 0.6, 0.7, 0.7, 0.9: from -0.15 to 0.025."""
    labels, probabilities = [1, 0, 0, 0], [[0.6, 0.4], [0.7, 0.3], [0.7, 0.3], [0.9, 0.1]]
    assert ks_calibration_error(labels, probabilities) == pytest.approx(0.15)
    assert kuiper_calibration_error(labels, probabilities) == pytest.approx(0.175)


@every_error
def test_certain_and_right_is_zero_and_certain_and_wrong_is_one(error):
    labels = np.array([0, 1, 1, 0])
    assert error(labels, np.eye(2, dtype=np.float32)[labels]) == 0.0
    assert error(labels, np.eye(2, dtype=np.float32)[1 - labels]) == 1.0


def test_kuiper_of_two_classes_is_that_of_either():
    """Read from the other end, the path of one class is that of the other."""
    labels, probabilities = random_problem(n_classes=2)
    positive = kuiper_calibration_error(labels, probabilities, kind="positive")
    assert kuiper_calibration_error(labels, probabilities, kind="classwise") == pytest.approx(
        positive, rel=1e-12
    )
    assert kuiper_calibration_error(1 - labels, probabilities[:, ::-1], kind="positive") == pytest.approx(
        positive
    )


@every_error
@pytest.mark.parametrize("kind", ["confidence", "classwise", "positive"])
def test_a_prepared_error_is_the_same(error, kind):
    labels, probabilities = random_problem(n_classes=2 if kind == "positive" else 17, dtype=np.float32)
    weights = np.linspace(0.1, 2, len(labels))
    data = LabelledPredictions.parse(probabilities, labels)

    def with_kind(*arguments, **keywords):
        return error(*arguments, kind=kind, **keywords)

    prepared = evaluator(partial(error, kind=kind), data)
    other = np.roll(labels, 5)
    assert prepared(labels, None) == with_kind(labels, probabilities)
    assert prepared(other, weights) == with_kind(other, probabilities, sample_weight=weights)


def test_mapie_agrees_on_sums_over_both_signs():
    """MAPIE 1.6.0 on the rows below: KS and Kuiper in standard deviations, 1.76814289040 and 1.88734433807.

    Its Kuiper leaves out the zero before the first score; here the path has both signs.
    """
    i = np.arange(500)
    p = ((i * 0.6180339887498949) % 1) ** 2 * 0.98 + 0.01
    y = (((i * 0.7548776662466927) % 1) < p**1.15).astype(int)
    deviation = np.sqrt((p * (1 - p)).sum()) / 500
    assert ks_calibration_error(y, p, kind="positive") / deviation == pytest.approx(
        1.7681428904036454, rel=1e-9
    )
    assert kuiper_calibration_error(y, p, kind="positive") / deviation == pytest.approx(
        1.8873443380717452, rel=1e-9
    )


def test_mapie_agrees_on_a_network():
    """MAPIE 1.6.0, ResNet-110 on CIFAR-10: top label 0.0475035, class 0 0.0033337 and 0.0056799.

    It adds noise of about 1e-7 to the scores in order to break ties.
    """
    network = load("kull_nn/c10_resnet110")
    logits, labels = network["test_logits"].astype(np.float64), network["test_y"].ravel()
    predictions = Predictions.from_logits(logits)
    assert ks_calibration_error(labels, predictions) == pytest.approx(0.04750350841402304, abs=1e-7)
    first = predictions.probabilities[:, 0]
    assert ks_calibration_error(labels == 0, first, kind="positive") == pytest.approx(0.0033336541, abs=1e-7)
    assert kuiper_calibration_error(labels == 0, first, kind="positive") == pytest.approx(
        0.0056798760, abs=1e-7
    )


@every_error
def test_memory_stays_far_below_one_copy_of_the_predictions(error):
    labels, probabilities = random_problem(4000, 400, np.float32)
    predictions = Predictions.from_probabilities(probabilities)
    tracemalloc.start()
    error(labels, predictions, kind="classwise")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < probabilities.nbytes / 4
