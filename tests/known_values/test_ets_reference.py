"""Ensemble temperature scaling of a wide residual network, CIFAR-10, against published programs.

The rows are softmax outputs; their optima were computed elsewhere in float64. The test figures come from the
Mix-n-Match program, as it is and with its squared error replaced by log-loss.
"""

import numpy as np
import pytest
from reference_split import figures

from calibrant import EnsembleTemperatureScaling

# loss: temperature, weights of tempered, given and uniform predictions, loss on the calibration rows
OPTIMA = {
    "brier": (2.078566863, ("0.998663", "0.000000", "0.001337"), 0.1364663075),
    "log": (2.067436618, ("0.999525", "0.000000", "0.000475"), 0.2878140918),
}
TEST_FIGURES = {
    "brier": ("0.26118", "0.12569", "0.00856", "0.009085", "0.9152"),
    "log": ("0.26061", "0.12569", "0.00895", "0.009002", "0.9152"),
}

both_losses = pytest.mark.parametrize("loss", OPTIMA)


@both_losses
def test_the_optimum(halves, loss):
    """The program stops its temperature at a change of 1e-7; the weights agree to all printed digits."""
    temperature, weights, value = OPTIMA[loss]
    fitted = EnsembleTemperatureScaling(loss=loss).fit(*halves[:2])
    assert fitted.temperature_ == pytest.approx(temperature, rel=1e-7)
    assert tuple(f"{weight:.6f}" for weight in fitted.weights_) == weights
    assert fitted.weights_[1] == 0
    assert fitted.solution_.loss == pytest.approx(value, abs=1.5e-10)
    assert fitted.solution_.decrement <= 1e-10


@both_losses
def test_the_test_rows(halves, loss):
    probabilities, labels = halves[2:]
    calibrated = EnsembleTemperatureScaling(loss=loss).fit(*halves[:2]).predict_proba(probabilities)
    assert figures(calibrated, labels).printed() == TEST_FIGURES[loss]


def test_the_range_of_the_program_changes_nothing_here(halves):
    """T between 0.05 and 5 contains the optimum."""
    program, ours = (
        EnsembleTemperatureScaling(bounds=bounds).fit(*halves[:2]) for bounds in [(0.2, 20.0), (1e-3, 1e3)]
    )
    np.testing.assert_allclose(program.weights_, ours.weights_, atol=1e-6)
    assert program.temperature_ == pytest.approx(ours.temperature_, rel=1e-6)
