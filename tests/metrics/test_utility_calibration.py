"""Utility calibration against loops, and the errors of which it is the common form."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant import Predictions
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.cumulative import ks_calibration_error, kuiper_calibration_error
from calibrant.metrics.declaration import describe, evaluator
from calibrant.metrics.utility import (
    OneClass,
    OptimalDecision,
    Prospect,
    TopClasses,
    utility_calibration_error,
)
from strategies import problems

# Sums of the same numbers in another order, which may make or break a tie.
SAME = 1e-9


def naive_error(promises, residuals, weights):
    """Go through all intervals of promises, those closer than 1e-9 being equal."""
    worst = 0.0
    for a in promises:
        for b in promises:
            inside = [i for i, v in enumerate(promises) if a - SAME <= v <= b + SAME]
            worst = max(worst, abs(sum(weights[i] * residuals[i] for i in inside)))
    return worst / sum(weights)


def naive_top(row, k):
    """Return the columns of the k largest, the first of equals first."""
    return sorted(range(len(row)), key=lambda column: (-row[column], column))[:k]


def random_problem(n_rows=300, n_classes=4, dtype=np.float64, seed=0):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(n_classes, 0.5), n_rows).astype(dtype)
    return generator.integers(0, n_classes, n_rows), probabilities


@given(
    problem=problems(),
    k=st.integers(1, 3),
    weights=st.one_of(st.none(), hnp.arrays(np.float64, 14, elements=st.floats(0.1, 5))),
)
def test_top_classes_are_a_loop_over_sets(problem, k, weights):
    probabilities, labels = problem
    k = min(k, probabilities.shape[1] - 1)
    weights = np.ones(len(labels)) if weights is None else weights[: len(labels)]
    sets = [naive_top(row.tolist(), k) for row in probabilities]
    promises = [min(sum(float(row[c]) for c in top), 1) for row, top in zip(probabilities, sets, strict=True)]
    residuals = [(y in top) - v for y, top, v in zip(labels, sets, promises, strict=True)]
    result = utility_calibration_error(labels, probabilities, sample_weight=weights, utility=TopClasses(k))
    assert result == pytest.approx(naive_error(promises, residuals, weights), rel=1e-9, abs=1e-7)


@given(problem=problems(), data=st.data(), n_decisions=st.integers(1, 4))
def test_the_optimal_decision_is_a_loop_over_decisions(problem, data, n_decisions):
    probabilities, labels = problem
    shape = (n_decisions, probabilities.shape[1])
    costs = data.draw(hnp.arrays(np.float64, shape, elements=st.integers(-3, 3).map(float)))
    promises, residuals = [], []
    for row, y in zip(probabilities.astype(np.float64), labels, strict=True):
        means = [sum(p * c for p, c in zip(row, line, strict=True)) / sum(row) for line in costs]
        best = next(d for d, mean in enumerate(means) if mean <= min(means) + SAME)
        promises.append(-means[best])
        residuals.append(-costs[best, y] - promises[-1])
    expected = naive_error(promises, residuals, np.ones(len(labels)))
    result = utility_calibration_error(labels, probabilities, utility=OptimalDecision(costs))
    assert result == pytest.approx(expected, rel=1e-9, abs=1e-7)


@given(problem=problems())
def test_the_predicted_class_has_the_error_of_its_confidence(problem):
    for error, statistic in ((kuiper_calibration_error, "kuiper"), (ks_calibration_error, "ks")):
        expected = error(*problem[::-1])
        assert utility_calibration_error(*problem[::-1], statistic=statistic) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_decision_per_class_that_costs_one_if_wrong_is_the_predicted_class(dtype):
    """The promise is the confidence minus one, up to the sum of a row."""
    labels, probabilities = random_problem(dtype=dtype)
    result = utility_calibration_error(labels, probabilities, utility=OptimalDecision(1 - np.eye(4)))
    assert result == pytest.approx(utility_calibration_error(labels, probabilities), abs=1e-7)


def test_one_class_by_itself_is_what_the_classwise_error_averages():
    labels, probabilities = random_problem(n_classes=19)
    errors = [utility_calibration_error(labels, probabilities, utility=OneClass(k)) for k in range(19)]
    assert np.mean(errors) == pytest.approx(kuiper_calibration_error(labels, probabilities, kind="classwise"))


def test_all_but_one_of_the_classes_are_the_least_probable_one_mirrored():
    """The true class is among K - 1 unless it is the last: the path of that event, read backwards."""
    labels, probabilities = random_problem()
    least = probabilities.argmin(axis=1)
    error = kuiper_calibration_error(labels == least, probabilities.min(axis=1), kind="positive")
    assert utility_calibration_error(labels, probabilities, utility=TopClasses(3)) == pytest.approx(error)


def test_costs_of_one_decision_are_a_mean_that_needs_no_choice():
    """Costs 0 and 1 of a single decision: the probability of the second class, whose error it is."""
    labels, probabilities = random_problem(n_classes=2)
    result = utility_calibration_error(labels, probabilities, utility=OptimalDecision([[0, 1]]))
    assert result == pytest.approx(kuiper_calibration_error(labels, probabilities, kind="positive"))


def test_a_decision_of_known_cost_has_no_error():
    assert utility_calibration_error(
        *random_problem(), utility=OptimalDecision([[2.0] * 4])
    ) == pytest.approx(0)


def test_the_unit_and_the_origin_of_costs_do_not_matter():
    labels, probabilities = random_problem()
    costs = np.random.default_rng(1).normal(size=(3, 4))
    error = utility_calibration_error(labels, probabilities, utility=OptimalDecision(costs))
    moved = utility_calibration_error(labels, probabilities, utility=OptimalDecision(1e3 * (costs + 7)))
    assert moved == pytest.approx(1e3 * error, rel=1e-9)
    printed = probabilities.round(4)  # rows sum to one within 2e-4
    rounded = utility_calibration_error(labels, printed, utility=OptimalDecision(costs))
    assert utility_calibration_error(labels, printed, utility=OptimalDecision(costs + 7)) == pytest.approx(
        rounded
    )


def test_the_order_of_decisions_and_of_classes_with_their_costs_does_not_matter():
    labels, probabilities = random_problem()
    costs = np.random.default_rng(1).normal(size=(3, 4))
    error = utility_calibration_error(labels, probabilities, utility=OptimalDecision(costs))
    assert utility_calibration_error(
        labels, probabilities, utility=OptimalDecision(costs[::-1])
    ) == pytest.approx(error)
    order = np.array([2, 0, 3, 1])
    moved = utility_calibration_error(
        np.argsort(order)[labels], probabilities[:, order], utility=OptimalDecision(costs[:, order])
    )
    assert moved == pytest.approx(error)


@pytest.mark.parametrize("utility", [TopClasses(2), OptimalDecision(np.arange(28.0).reshape(4, 7) ** 0.5)])
def test_equal_rows_are_ties_wherever_they_stand(utility):
    """Seven kinds of rows, ten thousand times: products of matrices round them differently at block ends."""
    kinds = np.random.default_rng(0).dirichlet(np.ones(7), 7)
    rows = np.random.default_rng(1).integers(0, 7, 70_001)
    labels = np.random.default_rng(2).integers(0, 7, 70_001)
    error = utility_calibration_error(labels, kinds[rows], utility=utility)
    order = np.argsort(rows)
    assert utility_calibration_error(labels[order], kinds[rows[order]], utility=utility) == pytest.approx(
        error, rel=1e-9
    )


def test_variances_are_those_of_the_utility():
    predictions = Predictions.parse([[0.5, 0.25, 0.25]])
    prospect = OptimalDecision([[0, 4, 8]]).prospect(predictions)
    assert prospect.expected.tolist() == [-3.0]
    assert prospect.variance.tolist() == [0.5 * 9 + 0.25 * 1 + 0.25 * 25]
    assert prospect.span == 8.0
    assert TopClasses(2).prospect(predictions).variance.tolist() == [0.75 * 0.25]
    assert OneClass(2).prospect(predictions).variance.tolist() == [0.25 * 0.75]


def test_logits_that_saturate_still_rank_the_classes():
    """Both softmaxes are one for class 1; class 0 comes before class 2 only by its logit."""
    predictions = Predictions.from_logits([[-2000.0, 0.0, -3000.0], [-2000.0, 0.0, -3000.0]])
    assert utility_calibration_error([0, 1], predictions, utility=TopClasses(2)) == 0.0
    assert utility_calibration_error([2, 1], predictions, utility=TopClasses(2)) == 0.5


@pytest.mark.parametrize(
    "utility", [TopClasses(1), TopClasses(2), OneClass(0), OptimalDecision(1 - np.eye(3))]
)
def test_saturated_float32_logits_promise_what_their_exact_softmax_does(utility):
    """A class 20 above two others has the chance 1 - 2 exp(-20), which float32 rounds to a certainty."""
    logits = np.array([[20.0, 0.0, 0.0], [30.0, 1.0, 0.0], [1.0, 0.5, -3.0]], dtype=np.float32)
    single = utility.prospect(Predictions.from_logits(logits))
    double = utility.prospect(Predictions.from_logits(logits.astype(np.float64)))
    assert single.expected == pytest.approx(double.expected, rel=1e-7, abs=0)
    assert single.variance == pytest.approx(double.variance, rel=1e-7, abs=0)
    assert (single.variance > 0).all()
    others = np.exp([[-20.0, -20.0], [-29.0, -30.0], [-0.5, -4.0]])
    left = others[:, 1:] if utility == TopClasses(2) else others
    total = 1 + others.sum(axis=1)
    chance = left.sum(axis=1) / total
    assert single.variance == pytest.approx(chance * (1 - chance), rel=1e-7, abs=0)


def test_logits_far_from_each_other_leave_a_variance_that_no_float_type_could_subtract():
    prospect = TopClasses().prospect(Predictions.from_logits([[100.0, 0.0, 0.0]]))
    assert prospect.expected.tolist() == [1.0]
    assert prospect.variance == pytest.approx([2 * np.exp(-100)], rel=1e-9, abs=0)


def test_each_class_is_recomputed_only_where_it_is_predicted():
    """So that all classes together cost one pass over the logits, not one each."""
    logits = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32) * 40
    predictions = Predictions.from_logits(logits)
    exact = np.exp(logits - logits.max(axis=1, keepdims=True).astype(np.float64))
    exact /= exact.sum(axis=1, keepdims=True)
    for column in range(5):
        prospect = OneClass(column).prospect(predictions)
        assert prospect.expected == pytest.approx(exact[:, column], rel=1e-5, abs=1e-37)
        rest = np.delete(exact, column, axis=1).sum(axis=1)
        assert prospect.variance == pytest.approx(exact[:, column] * rest, rel=1e-5, abs=1e-37)


class _SquaredDistance:
    """A utility of one's own: minus the Brier loss."""

    claim = "the Brier loss is what the probabilities say"

    def prospect(self, predictions):
        p = predictions.probabilities
        losses = (p**2).sum(axis=1)[:, np.newaxis] - 2 * p + 1
        expected = -(p * losses).sum(axis=1)
        variance = (p * (losses + expected[:, np.newaxis]) ** 2).sum(axis=1)
        return Prospect(expected, variance, lambda labels: -losses[np.arange(len(p)), labels], 2.0, 1e-12)


def test_a_utility_of_ones_own():
    """All rows alike: the mean Brier loss minus the sum of p (1 - p)."""
    labels, probabilities = [0, 0, 1, 2], np.tile([0.5, 0.3, 0.2], (4, 1))
    losses = [0.38, 0.38, 0.78, 0.98]
    error = utility_calibration_error(labels, probabilities, utility=_SquaredDistance())
    assert error == pytest.approx(np.mean(losses) - 0.62)


@pytest.mark.parametrize(
    "utility", [TopClasses(1), TopClasses(3), OneClass(2), OptimalDecision(1 - np.eye(6))]
)
def test_a_prepared_error_is_the_same(utility):
    labels, probabilities = random_problem(n_classes=6)
    weights = np.linspace(0.1, 2, len(labels))
    prepared = evaluator(
        partial(utility_calibration_error, utility=utility), LabelledPredictions.parse(probabilities, labels)
    )
    assert prepared(labels, weights) == utility_calibration_error(
        labels, probabilities, utility=utility, sample_weight=weights
    )


@pytest.mark.parametrize("utility", [TopClasses(5), OptimalDecision(1 - np.eye(400))])
def test_memory_stays_below_one_copy_of_the_predictions(utility):
    labels, probabilities = random_problem(8000, 400, np.float32)
    predictions = Predictions.from_probabilities(probabilities)
    tracemalloc.start()
    utility_calibration_error(labels, predictions, utility=utility)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < probabilities.nbytes / 3


def test_a_description_says_which_utility_it_was():
    metric = partial(utility_calibration_error, utility=OptimalDecision([[0, 4], [1, 1]]))
    assert describe(metric) == (
        "utility_calibration_error(utility=OptimalDecision(costs=[[0.0, 4.0], [1.0, 1.0]]), statistic='kuiper')"
    )
    assert repr(OptimalDecision(np.eye(5))) == "OptimalDecision(costs=<5 x 5>)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TopClasses(0), "k must be an integer of at least 1"),
        (lambda: TopClasses(1.5), "k must be an integer"),
        (lambda: TopClasses(True), "k must be an integer"),
        (lambda: OneClass(-1), "column must be an integer of at least 0"),
        (lambda: OptimalDecision([1, 2]), "costs must be a table of finite numbers"),
        (lambda: OptimalDecision([[1, np.nan]]), "costs must be a table of finite numbers"),
        (lambda: OptimalDecision([[1, 2], [3]]), "costs must be a table of numbers"),
        (lambda: OptimalDecision(np.empty((0, 3))), "costs must be a table"),
    ],
)
def test_utilities_without_meaning_are_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"utility": TopClasses(4)}, "k must be less than the number of classes, 4"),
        ({"utility": OneClass(4)}, "column must be less than the number of classes, 4"),
        ({"utility": OptimalDecision(np.eye(3))}, "costs must have one column per class, 4, but have 3"),
        ({"utility": "top-1"}, "utility must be TopClasses"),
        ({"utility": TopClasses}, "utility must be TopClasses"),
        ({"statistic": "mean"}, "statistic must be 'kuiper' or 'ks'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        utility_calibration_error(*random_problem(), **arguments)
