"""Order-preserving maps of real networks against the authors' program and temperature scaling.

The first rows are softmax outputs of a wide residual network on CIFAR-10, of which the first half of a seeded permutation
calibrates. The authors' program, run on their logarithms, ended at these figures: full kind with hidden sizes [2, 2] by
40 epochs of Adam, invariant kind with [10, 10] likewise, diagonal kind by L-BFGS with [2, 2] and, the better on the
test rows, with [10, 10].
"""

import numpy as np
import pytest
from reference_split import figures

from calibrant import IntraOrderPreserving, LabelledPredictions, Predictions, TemperatureScaling
from calibrant.calibrators.monotone.order_preserving.gap_networks import GapFamily, fit_gap_network
from data import load

# What two methods differ by in the Brier score of these test rows has a standard error of about this.
NOISE = 5e-4

# kind: log-loss and Brier score on the test rows
PROGRAM = {
    "full": (0.25558, 0.12460),
    "invariant": (0.26281, 0.12580),
    "diagonal": (0.26015, 0.12569),
}
TEMPERATURE = (0.26033, 0.12569)

# kind: hidden sizes, log-loss on the calibration rows
PROGRAM_FITS = {"classes": ((2, 2), 0.2791804075), "places": ((10, 10), 0.288089633)}

# network: log-loss of temperature scaling on its test rows, of a validation part of 5,000 rows
PUBLISHED = {
    "c10_resnet110": 0.20926,
    "c10_densenet40": 0.22509,
    "c10_convnet": 0.19497,
    "c100_convnet": 0.94162,
}


@pytest.mark.parametrize("kind", PROGRAM)
def test_the_test_rows_are_predicted_at_least_as_well_as_by_the_program(halves, kind):
    calibration, labels, test, test_labels = halves
    fitted = IntraOrderPreserving(kind).fit(calibration, labels)
    found = figures(fitted.predict_proba(test), test_labels)
    assert found.log_loss <= PROGRAM[kind][0]
    assert found.brier_score <= PROGRAM[kind][1] + NOISE
    assert found.log_loss < TEMPERATURE[0] - 1e-3
    assert found.brier_score < TEMPERATURE[1]
    assert f"{found.accuracy:.4f}" == "0.9152"


@pytest.mark.parametrize("sees", PROGRAM_FITS)
@pytest.mark.parametrize("inputs", ["log-probabilities", "logits"])
@pytest.mark.parametrize("seed", range(2))
def test_the_calibration_loss_of_the_program_is_undercut_with_its_units(halves, sees, inputs, seed):
    """ReLU units in layers of the same sizes, without weight decay; a hundred steps are enough."""
    hidden, loss = PROGRAM_FITS[sees]
    data = LabelledPredictions.parse(*halves[:2])
    family = GapFamily(sees, hidden, "relu", inputs)
    found = fit_gap_network(data, family, 0.0, seed=seed, max_iterations=100).solution
    assert found.loss < loss


def test_the_network_of_the_diagonal_kind_undercuts_the_calibration_loss_of_the_program(halves):
    """0.2877695858 after 126 evaluations with hidden sizes [2, 2]."""
    fitted = IntraOrderPreserving("diagonal", "network", weight_decay=0.0).fit(*halves[:2])
    assert fitted.solution_.loss < 0.2877695858


@pytest.mark.slow
@pytest.mark.parametrize("kind", PROGRAM)
@pytest.mark.parametrize("network", PUBLISHED)
def test_published_networks_are_not_worse_than_with_temperature_scaling(network, kind):
    """Better, or worse by less than three standard errors of the paired difference and a thousandth."""
    arrays = load(f"kull_nn/{network}")
    rows, test = (Predictions.from_logits(arrays[f"{part}_logits"].astype(float)) for part in ("val", "test"))
    labels, test_labels = arrays["val_y"], arrays["test_y"]
    own = np.arange(test.n_rows), test_labels
    fitted, temperature = (
        -calibrator.fit(rows, labels).transform(test).log_probabilities[own]
        for calibrator in (IntraOrderPreserving(kind), TemperatureScaling())
    )
    assert f"{temperature.mean():.5f}" == f"{PUBLISHED[network]:.5f}"
    difference = fitted - temperature
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    assert difference.mean() <= min(3 * error, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "invariant"])
@pytest.mark.parametrize("network", ["c100_resnet56", "c100_repvgg_a2", "c10_vgg16_bn"])
def test_networks_with_much_to_mend_gain_much(network, kind):
    """Five standard errors of the paired difference below temperature scaling."""
    arrays = load(f"cifar_pytorch_models/{network}")
    first, last = np.split(np.random.default_rng(0).permutation(10_000), 2)
    rows, test = (Predictions.from_logits(arrays["logits"][part].astype(float)) for part in (first, last))
    labels, test_labels = arrays["y"][first], arrays["y"][last]
    own = np.arange(test.n_rows), test_labels
    fitted, temperature = (
        -calibrator.fit(rows, labels).transform(test).log_probabilities[own]
        for calibrator in (IntraOrderPreserving(kind), TemperatureScaling())
    )
    difference = fitted - temperature
    assert difference.mean() < -5 * difference.std(ddof=1) / np.sqrt(len(difference))
