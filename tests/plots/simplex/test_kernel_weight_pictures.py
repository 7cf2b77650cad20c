"""Pictures of kernel weights: the kernels by their formulas, and weights that give the calibrated row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import dirichlet

from calibrant import KernelCalibration, TemperatureScaling
from calibrant.errors import ParameterError, PredictionError
from calibrant.plots import KernelWeightsDisplay
from calibrant.synthetic import SyntheticTask

POINT = np.array([0.75, 0.2, 0.05])


@pytest.fixture(scope="module")
def rows():
    return SyntheticTask().sample(800, random_state=0)


def test_the_gaussian_kernel_falls_with_the_squared_distance():
    """exp(-30 d^2), relative to its value in the cell that is nearest."""
    display = KernelWeightsDisplay.from_kernel(POINT, kernel="rbf", bandwidth=30.0, n_cells=20)
    squares = ((display.cells.mean(axis=1) - POINT) ** 2).sum(axis=1)
    assert_allclose(display.values, np.exp(-30 * (squares - squares.min())))


def test_the_dirichlet_kernel_is_a_density_with_its_mode_at_the_point():
    """Figure 11b of the thesis: h = 0.1, scaled between 0 and 1."""
    display = KernelWeightsDisplay.from_kernel(POINT, bandwidth=0.1, n_cells=20)
    middles = display.cells.mean(axis=1)
    naive = np.array([dirichlet.pdf(q / q.sum(), POINT / 0.1 + 1) for q in middles])
    assert_allclose(display.values, naive / naive.max())


def test_the_mode_may_be_at_the_other_prediction():
    display = KernelWeightsDisplay.from_kernel(POINT, bandwidth=0.2, centre="calibration", n_cells=10)
    naive = np.array([dirichlet.pdf(POINT, q / 0.2 + 1) for q in display.cells.mean(axis=1)])
    assert_allclose(display.values, naive / naive.max())


def test_tiny_bandwidths_leave_one_cell():
    display = KernelWeightsDisplay.from_kernel(POINT, bandwidth=1e-7)
    assert display.values.max() == 1
    assert display.values.sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf", "bandwidth": 20.0}, {"centre": "calibration"}])
def test_weights_of_rows_are_those_that_calibrate(rows, options):
    """q = p - sum of w_i (p_i - y_i), which stays inside of the simplex here; the crop then only cuts at 1e-4."""
    fitted = KernelCalibration(**{"bandwidth": 0.05, "guard": False, **options}).fit(
        rows.predictions, rows.labels
    )
    point = np.array([0.4, 0.35, 0.25])
    display = KernelWeightsDisplay.from_estimator(fitted, point)
    assert display.weights.sum() == pytest.approx(1)
    corrected = point - display.weights @ fitted.errors_
    assert_allclose(fitted.predict_proba(point[np.newaxis])[0], corrected, atol=1e-9)


def test_effective_rows_count_equal_weights(rows):
    """A kernel that is flat gives all rows the same weight, and so as many rows as there are."""
    fitted = KernelCalibration("rbf", bandwidth=1e-12, guard=False).fit(rows.predictions, rows.labels)
    display = KernelWeightsDisplay.from_estimator(fitted, POINT)
    assert display.effective_rows == pytest.approx(800)


def test_a_kept_identity_has_a_kernel_and_no_rows():
    fitted = KernelCalibration(bandwidth=0.1).fit(
        [[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]] * 2, [0, 1, 2] * 2
    )
    fitted.identity_kept_ = True
    for name in ("points_", "errors_", "point_weights_"):
        setattr(fitted, name, getattr(fitted, name)[:0])
    display = KernelWeightsDisplay.from_estimator(fitted, POINT)
    assert display.effective_rows == 0
    assert len(display.rows) == 0


def test_other_classes_keep_their_share():
    display = KernelWeightsDisplay.from_kernel([0.3, 0.3, 0.2, 0.2], classes=[0, 1, 3], n_cells=10)
    middles = display.cells.mean(axis=1) * 0.8
    full = np.insert(middles, 2, 0.2, axis=1)
    naive = np.array([dirichlet.pdf(q / q.sum(), np.array([0.3, 0.3, 0.2, 0.2]) / 0.1 + 1) for q in full])
    assert_allclose(display.values, naive / naive.max())


def test_the_table_has_cells_and_rows(rows):
    fitted = KernelCalibration(bandwidth=0.1, guard=False).fit(rows.predictions, rows.labels)
    columns = KernelWeightsDisplay.from_estimator(fitted, POINT, n_cells=5).columns()
    assert (columns["part"] == "cell").sum() == 25
    assert columns["weight"][columns["part"] == "row"].sum() == pytest.approx(1)


def test_what_has_no_kernel_is_refused():
    with pytest.raises(ParameterError, match="fitted KernelCalibration, not a TemperatureScaling"):
        KernelWeightsDisplay.from_estimator(TemperatureScaling(), POINT)


def test_points_of_another_shape_are_refused(rows):
    with pytest.raises(PredictionError, match="three classes"):
        KernelWeightsDisplay.from_kernel([0.3, 0.7])
    with pytest.raises(ParameterError, match="one prediction"):
        KernelWeightsDisplay.from_kernel([POINT, POINT])
    fitted = KernelCalibration(bandwidth=0.1, guard=False).fit(rows.predictions, rows.labels)
    with pytest.raises(ParameterError, match="each of 3 classes, not 4"):
        KernelWeightsDisplay.from_estimator(fitted, [0.25] * 4)
