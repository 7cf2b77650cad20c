"""Calibrated networks of Kull et al. 2019, supplement, Tables 13 and 15, on the authors' own logits and split."""

import numpy as np
import pytest

from calibrant import DirichletCalibration, MatrixScaling, Predictions, TemperatureScaling, VectorScaling
from calibrant.binning import EqualWidth
from calibrant.metrics import confidence_ece, log_loss
from data import load

NETWORKS = ["c10_resnet110", "c10_densenet40", "c10_convnet", "c100_convnet"]

# Test log-loss and confidence-ECE of temperature scaling, to all digits printed.
TEMPERATURE = {
    "c10_resnet110": (0.20926, 0.01132),
    "c10_densenet40": (0.22509, 0.00946),
    "c10_convnet": (0.19497, 0.01065),
    "c100_convnet": (0.94162, 0.01367),
}

# Test log-loss in Table 13.
PUBLISHED = {
    "dirichlet-odir": (0.20511, 0.22371, 0.19536, 0.96121),
    "matrix-odir": (0.20375, 0.22240, 0.19634, 0.96141),
    "vector": (0.20595, 0.22270, 0.19743, 0.96369),
}


def parts(network):
    arrays = load(f"kull_nn/{network}")
    return (
        Predictions.from_logits(arrays["val_logits"]),
        arrays["val_y"],
        Predictions.from_logits(arrays["test_logits"]),
        arrays["test_y"],
    )


@pytest.mark.parametrize("network", NETWORKS)
def test_temperature_scaling_to_all_printed_digits(network):
    val, val_labels, test, test_labels = parts(network)
    calibrated = TemperatureScaling().fit(val, val_labels).predict_proba(test)
    loss, error = TEMPERATURE[network]
    assert round(log_loss(test_labels, calibrated), 5) == loss
    assert round(confidence_ece(test_labels, calibrated, binning=EqualWidth(15, closed="right")), 5) == error


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    ("name", "calibrator"),
    [
        ("dirichlet-odir", DirichletCalibration()),
        ("matrix-odir", MatrixScaling()),
        ("vector", VectorScaling()),
    ],
    ids=["dirichlet-odir", "matrix-odir", "vector"],
)
def test_log_loss_is_at_most_half_a_percent_above_the_paper(network, name, calibrator):
    """The authors' optimiser stopped early, so the digits differ; see the docstring of DirichletCalibration."""
    val, val_labels, test, test_labels = parts(network)
    calibrated = calibrator.fit(val, val_labels).transform(test)
    assert log_loss(test_labels, calibrated) <= 1.005 * PUBLISHED[name][NETWORKS.index(network)]


@pytest.mark.parametrize(
    ("network", "published"),
    [("c10_resnet110", 0.20537), ("c10_densenet40", 0.22240), ("c10_convnet", 0.19632)],
)
def test_zeroed_off_diagonals_as_in_table_21(network, published):
    """MS-ODIR-zero, replication 1; with 100 classes ours is lower by 0.007, since the fit goes to its optimum."""
    val, val_labels, test, test_labels = parts(network)
    zeroed = MatrixScaling().fit(val, val_labels).zeroed()
    assert log_loss(test_labels, zeroed.transform(test)) == pytest.approx(published, abs=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_the_papers_own_folds_give_the_paper_too(network):
    """Five shuffled folds with the authors' seed, as in their programs."""
    from sklearn.model_selection import KFold

    val, val_labels, test, test_labels = parts(network)
    folds = KFold(5, shuffle=True, random_state=15)
    for name, kind in (("dirichlet-odir", DirichletCalibration), ("matrix-odir", MatrixScaling)):
        calibrated = kind(cv=folds).fit(val, val_labels).transform(test)
        assert log_loss(test_labels, calibrated) <= 1.005 * PUBLISHED[name][NETWORKS.index(network)]


@pytest.mark.filterwarnings("ignore:MatrixScaling. some parameters grow:calibrant.errors.ConvergenceWarning")
def test_weakly_regularised_matrix_scaling_destroys_a_network_with_a_hundred_classes():
    """Why the penalty must be strong: 10,100 parameters on 1,250 rows fit the labels and nothing else."""
    val, val_labels, test, test_labels = parts("c100_convnet")
    rows = np.arange(0, 5000, 4)
    over_fitted = MatrixScaling(penalty="odir", reg_lambda=1.0, reg_mu=1.0).fit(
        val.take(rows), val_labels[rows]
    )
    assert log_loss(test_labels, over_fitted.transform(test)) > 1.5 * TEMPERATURE["c100_convnet"][0]
