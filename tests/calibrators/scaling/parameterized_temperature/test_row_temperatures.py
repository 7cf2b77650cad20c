"""Losses of rows at temperatures of their own, what temperatures depend on, and the objective made of both."""

from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import (
    LabelledPredictions,
    ParameterizedTemperatureScaling,
    Predictions,
    TemperatureScaling,
)
from calibrant.calibrators.scaling import parameterized_temperature as row_temperature_fit
from calibrant.calibrators.scaling.parameterized_temperature.losses import (
    ExactRowLosses,
    TabulatedRowLosses,
    row_losses,
)
from calibrant.calibrators.scaling.parameterized_temperature.network import (
    RowTemperatures,
    StandardInputs,
    TemperatureLink,
    lowest_minimum,
    row_inputs,
)
from calibrant.numerics.dense_network import DenseNetwork
from strategies import logit_matrices

LOSSES = ["log", "brier"]
LINKS = ["softplus", "absolute", "exponential"]
ALL = slice(None)


def some_rows(n_rows=40, n_classes=4, seed=0, scale=3.0):
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=scale, size=(n_rows, n_classes))
    return logits, (logits / 2 + generator.gumbel(size=logits.shape)).argmax(axis=1)


def naive_loss(row, label, temperature, loss):
    """Plain loops, one row at a time."""
    top = max(row)
    terms = [exp((score - top) / temperature) for score in row]
    p = [term / sum(terms) for term in terms]
    if loss == "log":
        return -log(p[label])
    return sum((share - (k == label)) ** 2 for k, share in enumerate(p))


def naive_objective(theta, widths, activation, link, rows, inputs, loss, start, decay, weights):
    """The formula of the objective with lists and loops; layers are (weights, biases) in turn."""
    bend = {
        "relu": lambda x: max(x, 0.0),
        "elu": lambda x: x if x > 0 else exp(x) - 1,
        "tanh": lambda x: float(np.tanh(x)),
    }[activation]
    shift = log(exp(1) - 1)
    rho = {
        "softplus": lambda g: log(1 + exp(g + shift)),
        "absolute": lambda g: abs(1 + g),
        "exponential": exp,
    }
    total, squares = 0.0, 0.0
    for (row, label), given_inputs, weight in zip(rows, inputs, weights, strict=True):
        values, place, squares = list(given_inputs), 0, 0.0
        for layer, (before, after) in enumerate(pairwise(widths)):
            sums = [theta[place + before * after + unit] for unit in range(after)]
            for i in range(before):
                for unit in range(after):
                    sums[unit] += values[i] * theta[place + i * after + unit]
                    squares += theta[place + i * after + unit] ** 2
            place += (before + 1) * after
            values = sums if layer == len(widths) - 2 else [bend(x) for x in sums]
        temperature = exp(start) * rho[link](values[0])
        total += weight * naive_loss(row, label, temperature, loss)
    return total / sum(weights) + decay * squares


def some_objective(loss="log", activation="tanh", link="softplus", decay=0.01, weighted=True, n_rows=30):
    logits, labels = some_rows(n_rows)
    inputs = np.random.default_rng(1).normal(size=(n_rows, 3))
    return RowTemperatures(
        network=DenseNetwork((3, 4, 2, 1), activation),
        link=TemperatureLink(link, (0.01, 100.0)),
        inputs=inputs,
        losses=ExactRowLosses(logits, labels, loss),
        start=0.4,
        weight_decay=decay,
        weights=np.random.default_rng(2).uniform(0.5, 2, n_rows) if weighted else None,
    ), list(zip(logits.tolist(), labels.tolist(), strict=True))


@pytest.mark.parametrize("loss", LOSSES)
def test_exact_losses_are_those_of_a_loop(loss):
    logits, labels = some_rows()
    logarithms = np.random.default_rng(1).uniform(-1, 1, len(labels))
    values, _ = ExactRowLosses(logits, labels, loss)(ALL, logarithms)
    expected = [
        naive_loss(row, label, exp(u), loss)
        for row, label, u in zip(logits.tolist(), labels, logarithms, strict=True)
    ]
    np.testing.assert_allclose(values, expected, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_and_curvatures_against_finite_differences(loss):
    logits, labels = some_rows()
    exact, step = ExactRowLosses(logits, labels, loss), 1e-5
    logarithms = np.random.default_rng(1).uniform(-1, 1, len(labels))
    _, slopes, curvatures = exact.expanded(ALL, logarithms)
    above, below = (exact.expanded(ALL, logarithms + sign * step) for sign in (1, -1))
    np.testing.assert_allclose(slopes, (above[0] - below[0]) / (2 * step), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(curvatures, (above[1] - below[1]) / (2 * step), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=15)
@given(logits=logit_matrices(n_rows=5, n_classes=4), logarithm=st.floats(-3, 3))
def test_losses_of_any_logits_are_finite(loss, logits, logarithm):
    exact = ExactRowLosses(logits, np.arange(5) % 4, loss)
    for part in exact(ALL, np.full(5, logarithm)):
        assert part.dtype == np.float64
        assert np.isfinite(part).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_table_gives_what_a_softmax_gives(loss):
    """Polynomials of degree five between exact values: an error of the sixth power of the spacing."""
    logits, labels = some_rows(400, 120, scale=4.0)
    exact = ExactRowLosses(logits, labels, loss)
    table = TabulatedRowLosses(exact, len(labels), (-1.0, 2.0))
    logarithms = np.random.default_rng(1).uniform(-1, 2, len(labels))
    logarithms[:2] = -1.0, 2.0
    for known, looked_up, accuracy in zip(
        exact(ALL, logarithms), table(ALL, logarithms), (2e-5, 5e-4), strict=True
    ):
        np.testing.assert_allclose(looked_up, known, rtol=0, atol=accuracy)
        assert np.abs(looked_up - known).mean() < accuracy / 20
        np.testing.assert_allclose(looked_up[:2], known[:2], rtol=1e-9)


def test_a_table_of_some_rows_is_a_part_of_the_whole():
    logits, labels = some_rows(50, 120)
    table = TabulatedRowLosses(ExactRowLosses(logits, labels, "log"), 50, (-1.0, 1.0))
    logarithms = np.linspace(-1, 1, 50)
    whole = table(ALL, logarithms)
    for part, expected in zip(table(slice(20, 35), logarithms[20:35]), whole, strict=True):
        np.testing.assert_array_equal(part, expected[20:35])


@pytest.mark.parametrize(("n_classes", "kind"), [(10, ExactRowLosses), (200, TabulatedRowLosses)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_table_is_made_where_it_is_smaller_than_the_rows(n_classes, kind, dtype):
    logits, labels = some_rows(30, n_classes)
    data = LabelledPredictions.parse(Predictions.from_logits(logits.astype(dtype)), labels)
    losses = row_losses(data, "brier", (-1.5, 1.5))
    assert type(losses) is kind
    values, _ = losses(ALL, np.zeros(30))
    expected = [
        naive_loss(row, label, 1.0, "brier") for row, label in zip(logits.tolist(), labels, strict=True)
    ]
    np.testing.assert_allclose(values, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", LINKS)
def test_an_output_of_zero_is_the_single_temperature(kind):
    logarithms, _ = TemperatureLink(kind, (0.1, 10.0))(np.zeros(1))
    assert logarithms[0] == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("kind", LINKS)
@given(outputs=st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=5))
def test_temperatures_are_within_bounds_for_any_output(kind, outputs):
    logarithms, slopes = TemperatureLink(kind, (0.25, 8.0))(np.array(outputs))
    assert (logarithms >= log(0.25)).all()
    assert (logarithms <= log(8.0)).all()
    assert np.isfinite(slopes).all()
    assert (slopes[np.isin(logarithms, [log(0.25), log(8.0)])] == 0).all()


@pytest.mark.parametrize("kind", LINKS)
def test_slopes_of_links_against_finite_differences(kind):
    link, step = TemperatureLink(kind, (1e-3, 1e3)), 1e-6
    outputs = np.array([-3.0, -0.7, 0.0, 0.4, 2.5])
    slopes = (link(outputs + step)[0] - link(outputs - step)[0]) / (2 * step)
    np.testing.assert_allclose(link(outputs)[1], slopes, rtol=1e-7)


@given(logits=logit_matrices(bound=100.0), top_k=st.integers(2, 6))
def test_inputs_are_those_of_sorted_lists(logits, top_k):
    predictions = Predictions.from_logits(logits)
    largest = [sorted(row, reverse=True)[:top_k] for row in logits.astype(np.float64).tolist()]
    np.testing.assert_array_equal(row_inputs(predictions, "logits", top_k, 1.0), largest)
    gaps = [[row[0] - score for score in row[1:]] for row in largest]
    np.testing.assert_array_equal(row_inputs(predictions, "gaps", top_k, 1.0), gaps)


def test_entropies_in_closed_form():
    """Even shares have the largest entropy, certainty none; (3/4, 1/4) at T = 1/2 is (9/10, 1/10)."""
    given_rows = Predictions.from_probabilities([[0.5, 0.5], [1.0, 0.0], [0.75, 0.25]], floor=1e-30)
    expected = [[1.0], [0.0], [-(0.9 * log(0.9) + 0.1 * log(0.1)) / log(2)]]
    np.testing.assert_allclose(row_inputs(given_rows, "entropy", 10, 2.0), expected, atol=1e-12)


def test_standard_inputs_have_mean_zero_and_variance_one_by_weight():
    inputs = np.random.default_rng(0).gamma(2.0, size=(50, 3))
    weights = np.arange(1.0, 51.0)
    standard = StandardInputs.of(inputs, weights)
    repeated = np.repeat(standard(inputs), weights.astype(int), axis=0)
    np.testing.assert_allclose(repeated.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(repeated.std(axis=0), 1, rtol=1e-12)
    np.testing.assert_array_equal(standard(inputs + 1e9), standard(np.tile(inputs.max(axis=0), (50, 1))))


def test_an_input_that_does_not_vary_is_zero():
    inputs = np.column_stack([np.full(4, 0.1 + 0.2), np.arange(4.0)])
    np.testing.assert_allclose(StandardInputs.of(inputs, None)(inputs)[:, 0], 0, atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("activation", ["relu", "elu", "tanh"])
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_is_that_of_plain_loops(loss, activation, link, weighted):
    objective, rows = some_objective(loss, activation, link, weighted=weighted, n_rows=8)
    theta = np.random.default_rng(3).normal(scale=0.4, size=objective.network.n_parameters)
    weights = [1.0] * 8 if objective.weights is None else objective.weights.tolist()
    expected = naive_objective(
        theta.tolist(),
        (3, 4, 2, 1),
        activation,
        link,
        rows,
        objective.inputs.tolist(),
        loss,
        0.4,
        0.01,
        weights,
    )
    assert objective(theta)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("activation", ["relu", "elu", "tanh"])
@pytest.mark.parametrize("link", LINKS)
def test_the_gradient_against_finite_differences(loss, activation, link):
    objective, _ = some_objective(loss, activation, link)
    theta = np.random.default_rng(3).normal(scale=0.4, size=objective.network.n_parameters)
    step = 1e-6
    differences = [
        (objective(theta + step * unit)[0] - objective(theta - step * unit)[0]) / (2 * step)
        for unit in np.eye(len(theta))
    ]
    np.testing.assert_allclose(objective(theta)[1], differences, rtol=1e-5, atol=1e-9)


def test_the_gradient_from_a_table_against_finite_differences():
    logits, labels = some_rows(30, 120)
    objective, _ = some_objective()
    objective.losses = TabulatedRowLosses(
        ExactRowLosses(logits, labels, "log"), 30, (0.4 + log(0.01), 0.4 + log(100.0))
    )
    theta = np.random.default_rng(3).normal(scale=0.4, size=objective.network.n_parameters)
    differences = [
        (objective(theta + 1e-6 * unit)[0] - objective(theta - 1e-6 * unit)[0]) / 2e-6
        for unit in np.eye(len(theta))
    ]
    np.testing.assert_allclose(objective(theta)[1], differences, rtol=1e-5, atol=1e-9)


def test_sums_over_blocks_are_those_of_all_rows_at_once():
    objective, _ = some_objective(n_rows=20_000)
    theta = np.random.default_rng(3).normal(scale=0.4, size=objective.network.n_parameters)
    value, gradient = objective(theta)
    with objective.open():
        in_blocks = objective(theta)
    assert in_blocks[0] == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(in_blocks[1], gradient, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("decay", [0.0, 1e-3, 10.0])
def test_no_search_ends_above_the_single_temperature(decay):
    """A network of zeros costs no decay, wherever a search with weights in it may end."""
    objective, _ = some_objective(decay=decay)
    starts = [objective.network.start(np.random.default_rng(seed), 0.0) for seed in range(2)]
    single = objective(np.zeros(objective.network.n_parameters))[0]
    found = lowest_minimum(objective, starts, max_iterations=50)
    assert found.value <= single
    assert found.value == pytest.approx(objective(found.theta)[0], rel=1e-12)
    largest = np.abs(found.theta[objective.network.is_weight]).max()
    assert largest < 1e-6 if decay == 10 else largest > 0.1


def test_a_search_from_a_sample_ends_below_the_single_temperature_of_all_rows():
    """Even one of a sample that says the opposite; of several starts only the best goes on."""
    objective, _ = some_objective(n_rows=200)
    misleading, _ = some_objective(n_rows=20)
    misleading.losses = ExactRowLosses(*opposite_rows(20), "log")
    starts = [objective.network.start(np.random.default_rng(seed), 0.0) for seed in range(2)]
    found = lowest_minimum(objective, starts, sample=misleading)
    assert found.value <= objective(np.zeros(objective.network.n_parameters))[0]
    assert found.value == pytest.approx(objective(found.theta)[0], rel=1e-12)


def opposite_rows(n_rows):
    logits, labels = some_rows(n_rows)
    return -logits, labels


def test_a_sample_belongs_to_the_rows_and_not_to_their_order(monkeypatch):
    monkeypatch.setattr(row_temperature_fit, "SAMPLE_ROWS", 100)
    logits, labels = some_rows(1000)
    order, columns = np.random.default_rng(0).permutation(1000), np.array([2, 0, 3, 1])

    def sampled(some_logits, some_labels):
        data = LabelledPredictions.parse(Predictions.from_logits(some_logits), some_labels)
        inputs = row_inputs(data.predictions, "gaps", 10, 1.0)
        return row_temperature_fit._sample(inputs, data)

    rows = sampled(logits, labels)
    assert len(np.unique(rows)) == 100
    moved = sampled(logits[order][:, columns], np.argsort(columns)[labels[order]])
    np.testing.assert_array_equal(np.sort(order[moved]), rows)
    # Three rows of four are the same but for their labels, of which one in three is 1: so it is in the sample.
    logits[:750], labels[:750] = [3.0, 0.0, 0.0, 0.0], np.arange(750) % 3 == 0
    rows = sampled(logits, labels)
    assert 65 <= (rows < 750).sum() <= 85
    assert 0.25 < labels[rows[rows < 750]].mean() < 0.42


@pytest.mark.parametrize("loss", LOSSES)
def test_with_many_rows_a_sample_finds_the_map_of_all(monkeypatch, loss):
    """As low as without a sample, up to what the search leaves on the table, and far below the single temperature."""
    generator = np.random.default_rng(0)
    honest = generator.normal(scale=1.5, size=(4000, 3))
    labels = (honest + generator.gumbel(size=honest.shape)).argmax(axis=1)
    # Rows with a large spread are three times too steep.
    given_rows = Predictions.from_logits(np.where(np.ptp(honest, axis=1, keepdims=True) > 3, 3, 1) * honest)
    calibrator = ParameterizedTemperatureScaling((3,), loss=loss, restarts=2)
    whole = calibrator.fit(given_rows, labels).solution_
    monkeypatch.setattr(row_temperature_fit, "MANY_ROWS", 3000)
    monkeypatch.setattr(row_temperature_fit, "SAMPLE_ROWS", 1000)
    sampled = calibrator.fit(given_rows, labels).solution_
    assert sampled.n_evaluations < whole.n_evaluations
    assert sampled.value == pytest.approx(whole.value, abs=5e-4)
    single = TemperatureScaling(loss).fit(given_rows, labels).solution_
    assert sampled.loss < single.loss - 5e-3
