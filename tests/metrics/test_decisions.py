"""Decisions, their costs and the gap between promise and outcome, against plain loops."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import Predictions
from calibrant.errors import ParameterError, WeightError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import accuracy, loss_gap
from calibrant.metrics.decisions import bayes_decisions, cost_gap, expected_cost, realised_cost
from calibrant.metrics.declaration import evaluator
from calibrant.metrics.loss_gap import average_loss_gap
from data import load
from strategies import problems

WAIT_OR_TREAT = [[0, 10], [1, 1]]


def plan(row, costs):
    """Return the first decision of least expected cost, and that cost."""
    total = sum(row)
    prices = [sum(c * p for c, p in zip(line, row, strict=True)) / total for line in costs]
    least = min(prices)
    tolerance = 1e-12 * max(abs(c) for line in costs for c in line)
    return next((d, price) for d, price in enumerate(prices) if price <= least + tolerance)


def loop(probabilities, labels, weights, costs):
    """Return mean promised and mean realised cost."""
    plans = [plan(row, costs) for row in probabilities.astype(float).tolist()]
    promised = sum(w * price for (_, price), w in zip(plans, weights, strict=True)) / sum(weights)
    paid = sum(w * costs[d][y] for (d, _), y, w in zip(plans, labels, weights, strict=True)) / sum(weights)
    return promised, paid


def random_problem(n_rows=200, n_classes=4, seed=0):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(n_classes, 0.5), n_rows)
    return generator.integers(0, n_classes, n_rows), probabilities


@st.composite
def decision_problems(draw):
    """Probabilities, labels, weights and whole-numbered costs, so that equal prices are frequent."""
    probabilities, labels = draw(problems())
    n_decisions = draw(st.integers(1, 4))
    line = st.lists(st.integers(-3, 5), min_size=probabilities.shape[1], max_size=probabilities.shape[1])
    costs = draw(st.lists(line, min_size=n_decisions, max_size=n_decisions))
    weights = draw(st.lists(st.integers(1, 4), min_size=len(labels), max_size=len(labels)))
    return probabilities, labels, np.array(weights, dtype=float), costs


@given(problem=decision_problems())
def test_costs_are_those_of_a_loop(problem):
    probabilities, labels, weights, costs = problem
    promised, paid = loop(*problem)
    call = {"y_true": labels, "y_proba": probabilities, "sample_weight": weights, "costs": costs}
    np.testing.assert_array_equal(
        bayes_decisions(probabilities, costs),
        [plan(row, costs)[0] for row in probabilities.astype(float).tolist()],
    )
    assert expected_cost(probabilities, costs, sample_weight=weights) == pytest.approx(promised, abs=1e-12)
    assert realised_cost(**call) == pytest.approx(paid, abs=1e-12)
    assert cost_gap(**call) == pytest.approx(abs(paid - promised), abs=1e-12)
    assert cost_gap(**call, signed=True) == pytest.approx(paid - promised, abs=1e-12)


@given(problem=decision_problems())
def test_the_gap_of_one_loss_is_the_gap_of_its_costs(problem):
    probabilities, labels, weights, costs = problem
    call = {"y_true": labels, "y_proba": probabilities, "sample_weight": weights}
    assert average_loss_gap(**call, losses=[costs]) == pytest.approx(cost_gap(**call, costs=costs), abs=1e-12)


def test_treat_from_one_in_ten():
    """Waiting costs 10 p and treating 1."""
    np.testing.assert_array_equal(bayes_decisions([0.0, 0.0999, 0.1001, 1.0], WAIT_OR_TREAT), [0, 0, 1, 1])
    assert expected_cost([0.05, 0.5], WAIT_OR_TREAT) == pytest.approx((0.5 + 1) / 2)
    assert realised_cost([1, 0], [0.05, 0.5], costs=WAIT_OR_TREAT) == pytest.approx((10 + 1) / 2)


def test_of_equal_prices_the_first_decision_is_taken():
    """Ten classes of one tenth: sums of tenths differ in the last bit, and must not decide."""
    costs = 1 - np.eye(10)
    np.testing.assert_array_equal(bayes_decisions(np.full((50, 10), 0.1), costs), 0)
    np.testing.assert_array_equal(bayes_decisions([[0.1] * 10], costs[::-1] * 1e9), 0)


def test_by_default_a_wrong_class_costs_one():
    labels, probabilities = random_problem()
    assert realised_cost(labels, probabilities) == pytest.approx(1 - accuracy(labels, probabilities))
    assert realised_cost(labels, probabilities) == realised_cost(labels, probabilities, costs=1 - np.eye(4))
    gap = probabilities.max(axis=1).mean() - accuracy(labels, probabilities)
    assert cost_gap(labels, probabilities, signed=True) == pytest.approx(gap, abs=1e-12)
    assert cost_gap(labels, probabilities, signed=True) == pytest.approx(
        cost_gap(labels, probabilities, signed=True, costs=1 - np.eye(4)), abs=1e-12
    )


@pytest.mark.parametrize("constant", [1.0, 1e4])
def test_a_constant_added_to_all_costs_leaves_no_gap(constant):
    """Rows that sum to 0.9995 promise the constant itself, not 0.9995 of it."""
    labels, probabilities = random_problem()
    short = probabilities * 0.9995
    costs = np.random.default_rng(1).normal(size=(3, 4))
    assert cost_gap(labels, short, costs=costs + constant) == pytest.approx(
        cost_gap(labels, probabilities, costs=costs), abs=1e-10
    )
    assert average_loss_gap(labels, short, losses=[costs + constant]) == pytest.approx(
        average_loss_gap(labels, probabilities, losses=[costs]), abs=1e-10
    )
    assert cost_gap(labels, short) == pytest.approx(cost_gap(labels, probabilities), abs=1e-12)


@given(problem=problems(), n_decisions=st.integers(1, 4), seed=st.integers(0, 99))
def test_the_average_gap_is_a_loop_over_losses(problem, n_decisions, seed):
    probabilities, labels = problem
    losses = np.random.RandomState(seed).normal(size=(7, n_decisions, probabilities.shape[1]))
    gaps = []
    for matrix in losses.tolist():
        promised, paid = loop(probabilities, labels, np.ones(len(labels)), matrix)
        gaps.append(abs(promised - paid))
    value = average_loss_gap(labels, probabilities, n_losses=7, n_decisions=n_decisions, random_state=seed)
    assert value == pytest.approx(np.mean(gaps), abs=1e-12)


@pytest.mark.parametrize("n_decisions", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_rows_and_losses_add_up(monkeypatch, n_decisions, weighted):
    labels, probabilities = random_problem(1000)
    options = {"n_losses": 30, "n_decisions": n_decisions}
    if weighted:
        options["sample_weight"] = np.random.default_rng(2).random(1000)
    whole = average_loss_gap(labels, probabilities, **options)
    monkeypatch.setattr(loss_gap, "LOSSES_AT_A_TIME", 7)
    monkeypatch.setattr(loss_gap, "ROWS_AT_LEAST", 1)
    monkeypatch.setattr("calibrant.numerics.row_blocks.BLOCK_BYTES", 2000)
    assert average_loss_gap(labels, probabilities, **options) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("n_decisions", [1, 2, 3])
@pytest.mark.parametrize("most_bytes", [2**28, 0])
def test_prepared_for_other_labels_it_is_the_same(monkeypatch, n_decisions, most_bytes):
    monkeypatch.setattr(loss_gap, "MAX_CACHE_BYTES", most_bytes)
    labels, probabilities = random_problem()
    function = partial(average_loss_gap, n_losses=600, n_decisions=n_decisions)
    prepared = evaluator(function, LabelledPredictions.parse(probabilities, labels))
    generator = np.random.default_rng(5)
    for _ in range(2):
        other = generator.integers(0, 4, len(labels))
        weights = generator.integers(0, 3, len(labels)).astype(float)
        assert prepared(other, None) == pytest.approx(function(other, probabilities), rel=1e-12)
        assert prepared(other, weights) == pytest.approx(
            function(other, probabilities, sample_weight=weights), rel=1e-12
        )


@pytest.mark.parametrize("function", [realised_cost, cost_gap])
@pytest.mark.parametrize("costs", [None, [[0, 1, 4, 2], [3, 0, 1, 1]]])
def test_prepared_costs_are_the_same(function, costs):
    labels, probabilities = random_problem()
    prepared = evaluator(partial(function, costs=costs), LabelledPredictions.parse(probabilities, labels))
    other = np.random.default_rng(5).integers(0, 4, len(labels))
    weights = np.linspace(0, 2, len(labels))
    assert prepared(other, None) == function(other, probabilities, costs=costs)
    expected = function(other, probabilities, costs=costs, sample_weight=weights)
    assert prepared(other, weights) == pytest.approx(expected, rel=1e-13)


def test_float32_decides_as_float64_does_for_the_same_numbers():
    labels, probabilities = random_problem(5000)
    single = probabilities.astype(np.float32)
    double = single.astype(np.float64)
    costs = np.random.default_rng(0).normal(size=(3, 4))
    assert average_loss_gap(labels, single) == average_loss_gap(labels, double)
    assert cost_gap(labels, single, costs=costs) == cost_gap(labels, double, costs=costs)
    assert cost_gap(labels, single) == pytest.approx(cost_gap(labels, double), abs=1e-12)


def test_calibrated_predictions_have_a_gap_of_one_over_the_root_of_n():
    """Labels drawn from the probabilities: a gap of each loss of about its standard deviation / sqrt(n)."""
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(5), 20_000)
    labels = (probabilities.cumsum(axis=1)[:, :-1] < generator.random((20_000, 1))).sum(axis=1)
    assert 0.1 / np.sqrt(20_000) < average_loss_gap(labels, probabilities) < 2 / np.sqrt(20_000)
    assert average_loss_gap(labels, probabilities**3 / (probabilities**3).sum(axis=1, keepdims=True)) > 0.05


def test_seeds_and_generators():
    labels, probabilities = random_problem()
    default = average_loss_gap(labels, probabilities)
    assert default == average_loss_gap(labels, probabilities, random_state=0)
    assert default == average_loss_gap(labels, probabilities, random_state=np.random.RandomState(0))
    assert default == average_loss_gap(
        labels, probabilities, losses=np.random.RandomState(0).normal(size=(500, 2, 4))
    )
    other = average_loss_gap(labels, probabilities, random_state=1)
    fresh = average_loss_gap(labels, probabilities, random_state=np.random.default_rng(0))
    assert len({default, other, fresh}) == 3
    assert other == pytest.approx(default, rel=0.2)


def test_names_of_classes_are_followed():
    labels, probabilities = random_problem()
    names = np.array(["d", "a", "c", "b"])
    named = Predictions.from_probabilities(probabilities, classes=names)
    costs = np.arange(8.0).reshape(2, 4) % 5
    assert cost_gap(names[labels], named, costs=costs) == cost_gap(labels, probabilities, costs=costs)
    assert expected_cost(named, costs) == expected_cost(probabilities, costs)


def test_a_network_promises_less_loss_than_it_brings():
    """An over-confident network: the sign of the gap for the error rate, and its size in Kull's table 15."""
    arrays = load("kull_nn/c10_resnet110")
    test = arrays["test_y"], Predictions.from_logits(arrays["test_logits"])
    assert cost_gap(*test, signed=True) == pytest.approx(0.0475, abs=1e-4)


def test_memory_does_not_grow_with_the_losses():
    """200,000 rows by 200 losses would be 320 MB at once."""
    labels, probabilities = random_problem(200_000, 5)
    predictions = Predictions.from_probabilities(probabilities)
    tracemalloc.start()
    average_loss_gap(labels, predictions, n_losses=200)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y, p: cost_gap(y, p, costs=[0, 1]), "costs must be a table of finite numbers"),
        (lambda y, p: cost_gap(y, p, costs=[[0, 1, np.nan, 0]]), "costs must be a table of finite numbers"),
        (lambda y, p: cost_gap(y, p, costs=[["a"] * 4]), "costs must be a table of numbers"),
        (
            lambda y, p: cost_gap(y, p, costs=WAIT_OR_TREAT),
            "costs must have one column per class, 4, but have 2",
        ),
        (lambda y, p: cost_gap(y, p, signed="yes"), "signed must be"),
        (lambda _, p: bayes_decisions(p, np.empty((0, 4))), "costs must be a table of finite"),
        (lambda y, p: average_loss_gap(y, p, n_losses=0), "n_losses must be"),
        (lambda y, p: average_loss_gap(y, p, n_decisions=2.0), "n_decisions must be"),
        (lambda y, p: average_loss_gap(y, p, random_state=None), "random_state must be"),
        (lambda y, p: average_loss_gap(y, p, random_state=-1), "random_state must be"),
        (lambda y, p: average_loss_gap(y, p, losses=np.zeros((2, 4))), "losses must be finite"),
        (lambda y, p: average_loss_gap(y, p, losses=np.full((1, 2, 4), np.inf)), "losses must be finite"),
        (lambda y, p: average_loss_gap(y, p, losses=[[["a"]]]), "losses must be numbers"),
        (lambda y, p: average_loss_gap(y, p, losses=np.zeros((1, 2, 3))), "losses are for 3 classes"),
    ],
)
def test_bad_options_are_refused_with_a_sentence(call, message):
    with pytest.raises(ParameterError, match=message):
        call(*random_problem())


def test_bad_weights_are_refused_as_everywhere():
    with pytest.raises(WeightError, match="one number per row"):
        expected_cost([0.5, 0.5], WAIT_OR_TREAT, sample_weight=[1.0])
