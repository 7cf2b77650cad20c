"""Parameterized temperature scaling as published: Adam from random temperatures, with the paper's family."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import softmax

from calibrant import ParameterizedTemperatureScaling, Predictions
from calibrant.calibrators.scaling.parameterized_temperature.losses import ExactRowLosses
from calibrant.calibrators.scaling.parameterized_temperature.network import RowTemperatures, TemperatureLink
from calibrant.errors import ParameterError
from calibrant.metrics import confidence_ece, log_loss
from calibrant.numerics.dense_network import DenseNetwork
from data import load


def rows(n_rows=60, n_classes=4):
    generator = np.random.default_rng(3)
    logits = generator.normal(0.0, 3.0, (n_rows, n_classes))
    return Predictions.from_logits(logits), (logits / 2 + generator.gumbel(size=logits.shape)).argmax(axis=1)


def published(**settings):
    return ParameterizedTemperatureScaling.as_published().set_params(**settings)


def test_the_temperature_is_the_absolute_output_of_the_network():
    """A naive forward pass on the sorted logits, with the bias that the link shifts by one."""
    given, labels = rows()
    fitted = published(max_iterations=40).fit(given, labels)
    hidden = np.sort(given.logits, axis=1)[:, ::-1]
    for weights, biases in zip(fitted.weights_[:-1], fitted.intercepts_[:-1], strict=True):
        hidden = np.maximum(hidden @ weights + biases, 0)
    outputs = (hidden @ fitted.weights_[-1] + fitted.intercepts_[-1] + 1)[:, 0]
    temperatures = np.clip(np.abs(outputs), 1e-12, 1e12)
    assert fitted.temperatures(given) == pytest.approx(temperatures, rel=1e-9)
    expected = softmax(given.logits / temperatures[:, np.newaxis], axis=1)
    assert fitted.predict_proba(given) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("weights", [None, np.random.default_rng(5).uniform(0.5, 2.0, 60)])
def test_gradients_of_batches_average_to_that_of_the_objective(weights):
    given, labels = rows()
    network = DenseNetwork((4, 3, 1), "tanh")
    objective = RowTemperatures(
        network=network,
        link=TemperatureLink("absolute", (1e-12, 1e12)),
        inputs=np.sort(given.logits, axis=1)[:, ::-1],
        losses=ExactRowLosses(given.logits, labels, "brier"),
        start=0.0,
        weight_decay=0.1,
        weights=weights,
    )
    theta = network.glorot_start(np.random.default_rng(0), 0.5)
    batches = np.random.default_rng(1).permutation(60).reshape(3, 20)
    mean = np.mean([objective.batch_gradient(theta, batch) for batch in batches], axis=0)
    assert mean == pytest.approx(objective(theta)[1], rel=1e-10, abs=1e-13)
    assert mean == pytest.approx(approx_fprime(theta, lambda at: objective(at)[0], 1e-7), rel=1e-4, abs=1e-6)


def test_it_learns_and_depends_on_the_seed_alone():
    given, labels = rows(400)
    short, long = (published(max_iterations=steps).fit(given, labels).solution_ for steps in (1, 3000))
    assert long.loss < short.loss
    again = published(max_iterations=3000).fit(given, labels).solution_
    np.testing.assert_array_equal(again.theta, long.theta)
    other = published(max_iterations=3000, random_state=1).fit(given, labels).solution_
    assert (other.theta != long.theta).any()


def test_it_does_not_promise_the_identity_and_has_no_cross_validation():
    assert not published().traits.contains_identity
    with pytest.raises(ParameterError, match='weight_decay="cv" needs training="quasi-newton"'):
        published(weight_decay="cv").fit(*rows())
    with pytest.raises(ParameterError, match="training"):
        published(training="sgd").fit(*rows())


@pytest.mark.slow
def test_a_network_of_ten_classes_is_as_good_as_the_authors_program_says():
    """The authors' program gives ECE 0.0066 and log-loss 0.208 on these logits; seeds differ in the last digits."""
    data = load("kull_nn/c10_resnet110")
    fitted = ParameterizedTemperatureScaling.as_published().fit(
        Predictions.from_logits(data["val_logits"]), data["val_y"]
    )
    calibrated = fitted.predict_proba(Predictions.from_logits(data["test_logits"]))
    assert confidence_ece(data["test_y"], calibrated) == pytest.approx(0.0066, abs=0.0015)
    assert log_loss(data["test_y"], calibrated) == pytest.approx(0.208, abs=0.003)
