"""BinaryMapDisplay: its numbers are those of the calibrators, and the plot shows them."""

import numpy as np
import pytest

from calibrant import BetaCalibration, IsotonicCalibration, TemperatureScaling
from calibrant.errors import ParameterError
from calibrant.plots import BinaryMapDisplay

GENERATOR = np.random.default_rng(0)
P = GENERATOR.random(500)
Y = (GENERATOR.random(500) < P**2).astype(int)


def test_the_numbers_are_those_of_the_calibrators():
    fitted = {"beta": BetaCalibration().fit(P, Y), "isotonic": IsotonicCalibration().fit(P, Y)}
    display = BinaryMapDisplay.from_estimator(fitted, truth=np.square, n_points=11)
    columns = display.columns()
    assert columns["method"].tolist() == ["beta"] * 11 + ["isotonic"] * 11 + ["truth"] * 11
    grid = np.linspace(0, 1, 11)
    for name, calibrator in fitted.items():
        np.testing.assert_array_equal(
            columns["calibrated"][columns["method"] == name], calibrator.predict_proba(grid)[:, 1]
        )
    np.testing.assert_allclose(columns["calibrated"][-11:], grid**2)


def test_the_plot_shows_every_map_the_truth_and_the_diagonal():
    pytest.importorskip("matplotlib")
    display = BinaryMapDisplay.from_estimator(BetaCalibration().fit(P, Y), truth=np.square).plot()
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["true map", "BetaCalibration"]
    lines = {line.get_label(): line.get_ydata() for line in display.ax_.get_lines()}
    np.testing.assert_array_equal(lines["BetaCalibration"], display.calibrated["BetaCalibration"])


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (
            TemperatureScaling().fit(
                [[0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.3, 0.5, 0.2]] * 6, [0, 2, 1, 0, 1, 1] * 3
            ),
            "fitted to 3 classes",
        ),
        ("beta", "is a str"),
    ],
)
def test_other_estimators_are_refused(estimator, words):
    with pytest.raises(ParameterError, match=words):
        BinaryMapDisplay.from_estimator({"it": estimator})
