"""Small networks: what they compute, and their gradients."""

import numpy as np
import pytest

from calibrant.numerics.dense_network import DenseNetwork

ACTIVATIONS = {
    "relu": lambda x: max(x, 0.0),
    "elu": lambda x: x if x > 0 else np.exp(x) - 1,
    "tanh": np.tanh,
}
WIDTHS = [(3, 2), (3, 4, 1), (2, 5, 3, 4)]


def by_loops(network, theta, row):
    """One row through all layers, unit by unit."""
    inside = list(row)
    for number, (weights, biases) in enumerate(network.layers(theta)):
        units = [
            bias + sum(x * w for x, w in zip(inside, column, strict=True))
            for column, bias in zip(weights.T, biases, strict=True)
        ]
        last = number == len(network.widths) - 2
        inside = units if last else [ACTIVATIONS[network.activation](unit) for unit in units]
    return inside


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("widths", WIDTHS)
def test_outputs_are_those_of_plain_loops(widths, activation):
    generator = np.random.default_rng(1)
    network = DenseNetwork(widths, activation)
    theta = generator.standard_normal(network.n_parameters)
    inputs = generator.standard_normal((7, widths[0]))
    expected = [by_loops(network, theta, row) for row in inputs]
    np.testing.assert_allclose(network.run(theta, inputs).outputs, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("widths", WIDTHS)
def test_gradients_agree_with_finite_differences(widths, activation):
    generator = np.random.default_rng(2)
    network = DenseNetwork(widths, activation)
    theta = generator.standard_normal(network.n_parameters)
    inputs = generator.standard_normal((6, widths[0]))
    slopes = generator.standard_normal((6, widths[-1]))
    gradient = network.gradient(theta, network.run(theta, inputs), slopes)
    for place in range(network.n_parameters):
        step = np.zeros_like(theta)
        step[place] = 1e-6
        difference = network.run(theta + step, inputs).outputs - network.run(theta - step, inputs).outputs
        assert gradient[place] == pytest.approx((slopes * difference).sum() / 2e-6, rel=1e-6, abs=1e-6)


def test_a_start_gives_the_wanted_outputs_for_every_input_and_has_no_dead_layer():
    network = DenseNetwork((4, 6, 5, 2))
    generator = np.random.default_rng(3)
    theta = network.start(generator, np.array([0.5, -1.0]))
    inputs = generator.standard_normal((50, 4))
    run = network.run(theta, inputs)
    np.testing.assert_array_equal(run.outputs, np.tile([0.5, -1.0], (50, 1)))
    assert all((layer.max(axis=0) > 0).any() for layer in run.layers[1:])
    assert network.gradient(theta, run, np.ones((50, 2)))[-12:].all()


def test_weights_and_biases_are_told_apart():
    network = DenseNetwork((2, 3, 1))
    assert network.n_parameters == 2 * 3 + 3 + 3 + 1
    np.testing.assert_array_equal(np.flatnonzero(~network.is_weight), [6, 7, 8, 12])


def test_float32_inputs_are_worked_on_in_float32():
    network = DenseNetwork((2, 3, 1))
    theta = network.start(np.random.default_rng(0), 1.0)
    run = network.run(theta, np.ones((4, 2), dtype=np.float32))
    assert run.outputs.dtype == np.float32
    assert network.gradient(theta, run, np.ones((4, 1), dtype=np.float32)).dtype == np.float64
