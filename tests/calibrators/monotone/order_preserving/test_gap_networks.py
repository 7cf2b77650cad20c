"""Networks that stretch gaps: value and gradient by plain loops, where fits end, and what must not matter."""

from dataclasses import replace
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_map_rows import calibrated_logits

from calibrant import LabelledPredictions, Predictions, TemperatureScaling
from calibrant.calibrators.monotone.order_preserving import gap_networks
from calibrant.calibrators.monotone.order_preserving.gap_networks import (
    FAR_OUT,
    GapFamily,
    GapObjective,
    InputScale,
    fit_gap_network,
)
from calibrant.numerics import row_blocks
from calibrant.numerics.dense_network import DenseNetwork
from calibrant.numerics.row_blocks import BlockSums
from calibrant.solvers import Status

both_families = pytest.mark.parametrize("sees", ["classes", "places"])


def some_rows(n_rows=300, n_classes=4, seed=0, weights=False):
    """Over-confident rows whose confidence lies in the scale of the row: something for a network to find."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(n_rows, n_classes)) * generator.choice([1.0, 6.0], (n_rows, 1))
    labels = (logits / (1 + np.abs(logits)) + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)
    counts = generator.integers(1, 4, n_rows).astype(float) if weights else None
    return LabelledPredictions.parse(Predictions.from_logits(logits), labels, counts)


def some_objective(hidden=(3, 2), activation="elu", n_rows=7, n_classes=4, seed=0, weight_decay=0.02):
    generator = np.random.default_rng(seed)
    gaps = generator.exponential(size=(n_rows, n_classes - 1))
    gaps[generator.random(gaps.shape) < 0.2] = 0.0
    shares = generator.uniform(0.5, 2, n_rows)
    objective = GapObjective(
        network=DenseNetwork((n_classes, *hidden, n_classes - 1), activation),
        inputs=generator.normal(size=(n_rows, n_classes)),
        gaps=gaps,
        places=generator.integers(0, n_classes, n_rows),
        shares=shares / shares.sum(),
        weight_decay=weight_decay,
    )
    return objective, generator.normal(size=objective.network.n_parameters)


def naive_value(objective, theta):
    """The paper's formula, f_(K) = 0 and f_(j) = sum over l >= j of gap times factor, one row after the other."""
    activate = {
        "relu": lambda x: max(x, 0.0),
        "elu": lambda x: x if x > 0 else exp(x) - 1,
        "tanh": np.tanh,
    }[objective.network.activation]
    total = objective.weight_decay * sum(value**2 for value in theta)
    for inputs, gaps, place, share in zip(
        objective.inputs, objective.gaps, objective.places, objective.shares, strict=True
    ):
        signals, start = list(inputs), 0
        for layer, (rows, columns) in enumerate(objective.network.shapes):
            weights = theta[start : start + rows * columns].reshape(rows, columns)
            biases = theta[start + rows * columns : start + (rows + 1) * columns]
            start += (rows + 1) * columns
            signals = [
                sum(signals[row] * weights[row, column] for row in range(rows)) + biases[column]
                for column in range(columns)
            ]
            if layer < len(objective.network.shapes) - 1:
                signals = [activate(signal) for signal in signals]
        factors = [(m + sqrt(m * m + 4)) / 2 for m in signals]
        logits = [sum(gaps[k] * factors[k] for k in range(j, len(gaps))) for j in range(len(gaps) + 1)]
        total += share * (log(sum(exp(logit) for logit in logits)) - logits[place])
    return total


@pytest.mark.parametrize("activation", ["elu", "relu", "tanh"])
@pytest.mark.parametrize("hidden", [(), (3,), (3, 2)])
def test_the_value_is_that_of_the_formula(activation, hidden):
    objective, theta = some_objective(hidden, activation)
    assert objective.expand(theta)[0] == pytest.approx(naive_value(objective, theta), rel=1e-12)


@pytest.mark.parametrize("activation", ["elu", "relu", "tanh"])
@pytest.mark.parametrize("hidden", [(), (3,), (3, 2)])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_gradient_is_that_of_finite_differences(activation, hidden, n_classes):
    objective, theta = some_objective(hidden, activation, n_classes=n_classes)
    gradient = objective.expand(theta)[1]
    step = 1e-6
    differences = [
        (objective.expand(theta + step * unit)[0] - objective.expand(theta - step * unit)[0]) / (2 * step)
        for unit in np.eye(len(theta))
    ]
    np.testing.assert_allclose(gradient, differences, rtol=0, atol=2e-8)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000))
def test_value_and_gradient_do_not_depend_on_blocks(seed):
    objective, theta = some_objective(n_rows=50, seed=seed)
    blocks = [slice(start, start + 7) for start in range(0, 50, 7)]
    whole, parts = objective.expand(theta), objective.expand(theta, BlockSums(blocks, None))
    assert parts[0] == pytest.approx(whole[0], rel=1e-13)
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-10, atol=1e-14)


@both_families
def test_a_network_of_zeros_is_temperature_scaling(sees):
    data = some_rows()
    temperature = TemperatureScaling().fit_labelled(data)
    fitted = fit_gap_network(data, GapFamily(sees), np.inf)
    assert not fitted.theta.any()
    assert fitted.solution.loss == pytest.approx(temperature.solution_.loss, rel=1e-12)
    np.testing.assert_allclose(
        Predictions.from_logits(calibrated_logits(fitted, data.predictions)).probabilities,
        temperature.predict_proba(data.predictions),
        rtol=0,
        atol=1e-10,
    )


@both_families
@pytest.mark.parametrize("weight_decay", [0.3, 1e-2, 1e-3])
def test_a_fit_has_a_lower_loss_than_temperature_scaling_and_reports_it(sees, weight_decay):
    data = some_rows()
    temperature = TemperatureScaling().fit_labelled(data).solution_
    fitted = fit_gap_network(data, GapFamily(sees), weight_decay)
    solution = fitted.solution
    assert solution.converged
    assert solution.loss < temperature.loss < solution.identity_loss
    assert solution.value <= temperature.loss
    assert solution.value == pytest.approx(solution.loss + weight_decay * (fitted.theta @ fitted.theta))
    assert data.log_loss(
        Predictions.from_logits(calibrated_logits(fitted, data.predictions))
    ) == pytest.approx(solution.loss)
    assert data.log_loss() == pytest.approx(solution.identity_loss)


@both_families
def test_every_start_ends_at_nearly_the_same_value(sees):
    """Ten seeds: within 1e-4 nats of each other, and far below temperature scaling."""
    data = some_rows(n_rows=400)
    values = [fit_gap_network(data, GapFamily(sees), 3e-3, seed=seed).solution.value for seed in range(10)]
    assert max(values) - min(values) < 1e-4
    assert max(values) < TemperatureScaling().fit_labelled(data).solution_.loss - 0.01


def test_of_several_starts_the_lowest_is_kept():
    data = some_rows(n_rows=100)
    family = GapFamily("places", (2, 2), "relu")
    first, several = (fit_gap_network(data, family, 1e-3, restarts=restarts).solution for restarts in (1, 4))
    assert several.value <= first.value
    assert several.n_evaluations > first.n_evaluations


def test_two_kinds_of_rows_get_their_frequencies():
    """Rows of one kind are all alike, so without decay each gets the frequencies of its labels.

    Sure rows have labels in the proportions 7 : 2 : 1 and unsure ones in 5 : 3 : 2; the order of the classes in a row
    is that of the frequencies, so an order-preserving map can give them exactly.
    """
    p = [[0.98, 0.015, 0.005]] * 10 + [[0.5, 0.3, 0.2]] * 10
    y = [0] * 7 + [1] * 2 + [2] + [0] * 5 + [1] * 3 + [2] * 2
    data = LabelledPredictions.parse(p, y)
    for sees in ("classes", "places"):
        fitted = fit_gap_network(data, GapFamily(sees), 0.0, tolerance=1e-12)
        calibrated = Predictions.from_logits(
            calibrated_logits(fitted, data.predictions.take([0, 10]))
        ).probabilities
        np.testing.assert_allclose(calibrated, [[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]], rtol=0, atol=1e-3)


def test_frequencies_against_the_order_make_a_tie():
    """The least probable class is right most often: the best order-preserving map makes all equal, 1/3 each."""
    data = LabelledPredictions.parse([[0.5, 0.3, 0.2]] * 10, [0] + [1] * 3 + [2] * 6)
    fitted = fit_gap_network(data, GapFamily("places"), 0.0, tolerance=1e-12)
    calibrated = Predictions.from_logits(calibrated_logits(fitted, data.predictions.take([0]))).probabilities
    np.testing.assert_allclose(calibrated, np.full((1, 3), 1 / 3), rtol=0, atol=1e-3)
    assert np.diff(calibrated[0]).max() <= 0


@both_families
def test_a_weight_of_two_is_a_repeated_row(sees):
    data = some_rows(n_rows=150, weights=True)
    counts = data.weights.astype(int)
    repeated = LabelledPredictions(
        data.predictions.take(np.repeat(np.arange(150), counts)), np.repeat(data.labels, counts), data.classes
    )
    weighted, plain = (fit_gap_network(rows, GapFamily(sees), 1e-2) for rows in (data, repeated))
    assert weighted.solution.value == pytest.approx(plain.solution.value, rel=1e-8)
    logits = [
        Predictions.from_logits(calibrated_logits(fitted, data.predictions)) for fitted in (weighted, plain)
    ]
    np.testing.assert_allclose(logits[0].probabilities, logits[1].probabilities, rtol=0, atol=1e-5)


@both_families
def test_the_order_of_rows_does_not_matter(sees):
    data = some_rows()
    order = np.random.default_rng(1).permutation(data.n_rows)
    fits = [fit_gap_network(rows, GapFamily(sees), 1e-2) for rows in (data, data.take(order))]
    logits = [Predictions.from_logits(calibrated_logits(fitted, data.predictions)) for fitted in fits]
    np.testing.assert_allclose(logits[0].probabilities, logits[1].probabilities, rtol=0, atol=1e-5)


def test_sorted_inputs_do_not_tell_classes_apart_and_others_do():
    data = some_rows()
    order = np.array([2, 0, 3, 1])
    permuted = LabelledPredictions(
        Predictions.from_logits(data.predictions.scores[:, order]),
        np.argsort(order)[data.labels],
        data.classes,
    )
    changes = []
    for sees in ("places", "classes"):
        fitted = fit_gap_network(data, GapFamily(sees), 1e-2)
        again = fit_gap_network(permuted, GapFamily(sees), 1e-2)
        assert again.solution.value == pytest.approx(fitted.solution.value, abs=1e-6)
        mapped = calibrated_logits(fitted, data.predictions)
        changes.append(np.abs(calibrated_logits(fitted, permuted.predictions) - mapped[:, order]).max())
    assert changes[0] < 1e-12
    assert changes[1] > 0.01


@pytest.mark.parametrize("scale", [1e-3, 1e3, 1e6])
@both_families
def test_the_size_of_logits_does_not_matter(sees, scale):
    """The temperature takes it up, and inputs of the network are standardised."""
    data = some_rows()
    scaled = replace(data, predictions=Predictions.from_logits(scale * data.predictions.scores))
    plain, other = (fit_gap_network(rows, GapFamily(sees), 1e-2) for rows in (data, scaled))
    assert other.solution.loss == pytest.approx(plain.solution.loss, rel=1e-6)
    assert other.inverse_temperature * scale == pytest.approx(plain.inverse_temperature, rel=1e-6)


def test_a_fit_in_float32_is_the_fit_in_float64_of_the_same_numbers():
    data = some_rows()
    single = replace(data, predictions=Predictions.from_logits(data.predictions.scores.astype(np.float32)))
    double = replace(data, predictions=Predictions.from_logits(single.predictions.scores.astype(np.float64)))
    fits = [fit_gap_network(rows, GapFamily("classes"), 1e-2) for rows in (single, double)]
    np.testing.assert_array_equal(fits[0].theta, fits[1].theta)
    narrow, wide = (calibrated_logits(fits[i], rows.predictions) for i, rows in enumerate((single, double)))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, wide, rtol=1e-6)


def test_predicting_works_in_blocks(monkeypatch):
    data = some_rows()
    fitted = fit_gap_network(data, GapFamily("places"), 1e-2)
    whole = calibrated_logits(fitted, data.predictions)
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", 1000)
    np.testing.assert_allclose(calibrated_logits(fitted, data.predictions), whole, rtol=1e-12)


def test_inputs_are_standardised_with_weights_and_limited():
    """Weighted mean of 0, 4 with shares 3/4, 1/4 is 1, the variance 3; a constant column becomes zero."""
    scale = InputScale.of(np.array([[0.0, 7.0], [4.0, 7.0]]), np.array([0.75, 0.25]))
    np.testing.assert_allclose(scale.means, [1.0, 7.0])
    np.testing.assert_allclose(scale.spreads, [sqrt(3), 1.0])
    np.testing.assert_allclose(scale.standardised(np.array([[1 + sqrt(3), 7.0]])), [[1.0, 0.0]])
    np.testing.assert_allclose(scale.standardised(np.array([[1e9, -1e9]])), [[FAR_OUT, -FAR_OUT]])


def test_rows_far_outside_get_the_factors_at_the_edge():
    """Gaps grow a thousandfold and the factors stay in their range, so logits grow a thousandfold."""
    data = some_rows()
    fitted = fit_gap_network(data, GapFamily("places"), 1e-3)
    inside, outside = (
        calibrated_logits(fitted, Predictions.from_logits(scale * data.predictions.scores))
        for scale in (1e6, 1e9)
    )
    np.testing.assert_allclose(outside, 1e3 * inside, rtol=1e-6)


def test_rows_that_are_all_alike_in_all_classes_leave_nothing_to_learn():
    data = LabelledPredictions.parse(np.full((6, 3), 1 / 3), [0, 1, 2, 0, 1, 2])
    fitted = fit_gap_network(data, GapFamily("classes"), 1e-2)
    assert fitted.solution.n_iterations == 0
    assert fitted.solution.loss == pytest.approx(log(3))
    np.testing.assert_array_equal(calibrated_logits(fitted, data.predictions), np.zeros((6, 3)))


def test_rows_that_are_all_right_end_at_the_price_of_the_weights():
    """Without decay the loss goes to zero and the fit stops; with decay it stays above, and so do the weights."""
    data = some_rows()
    right = replace(data, labels=data.predictions.predicted)
    free = fit_gap_network(right, GapFamily("places"), 0.0)
    assert free.solution.loss < 1e-5
    assert np.isfinite(calibrated_logits(free, right.predictions)).all()
    priced = fit_gap_network(right, GapFamily("places"), 1e-2)
    assert 1e-3 < priced.solution.loss < priced.solution.identity_loss
    assert priced.solution.converged


def test_a_fit_that_is_worse_than_doing_nothing_is_not_kept(monkeypatch):
    """It cannot be but for rounding, so the loss of doing nothing is made zero here."""
    data = some_rows()
    found = gap_networks.TemperedScores.of(data, "log-probabilities")
    monkeypatch.setattr(gap_networks.TemperedScores, "of", lambda *_: replace(found, identity_loss=0.0))
    fitted = fit_gap_network(data, GapFamily("places"), 1e-2)
    assert fitted.solution.status is Status.IDENTITY
    assert fitted.inverse_temperature == 1.0
    assert not fitted.theta.any()


def test_a_fit_that_is_cut_short_says_so():
    solution = fit_gap_network(some_rows(), GapFamily("classes"), 0.0, max_iterations=3).solution
    assert solution.status is Status.OUT_OF_ITERATIONS
    assert not solution.converged
