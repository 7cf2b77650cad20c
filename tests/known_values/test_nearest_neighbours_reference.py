"""Nearest-neighbour calibration against the tables of Valk's thesis and the figures of its program.

The thesis bins by equal mass, 15 bins, rows with 5,000 images for calibration and 10,000 for testing, and crops at 1e-4;
its program leaves entries between 0 and 1 alone. Folds of the program are those of KFold(10, shuffle, seed 0).
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from reference_split import figures, halves_of
from sklearn.model_selection import KFold

from calibrant import NearestNeighbourCalibration, Predictions, TemperatureScaling
from calibrant.calibrators.neighbourhood.crop import cropped
from calibrant.calibrators.neighbourhood.distances import KullbackLeibler, SquaredEuclidean
from calibrant.calibrators.neighbourhood.nearest_means import NearestMeans
from calibrant.metrics import average_loss_gap, brier_score, classwise_ece, confidence_ece, log_loss
from data import load

SIZES = [2**exponent for exponent in range(5, 13)]
PROGRAM = {"crop": "outside", "epsilon": 1e-4, "cv": KFold(10, shuffle=True, random_state=0)}


class Row(NamedTuple):
    """What the thesis prints; both errors in per cent."""

    confidence_ece: float
    classwise_ece: float
    brier_score: float
    log_loss: float
    accuracy: float
    loss_gap: float


def row_of(labels, rows):
    return Row(
        100 * confidence_ece(labels, rows, strategy="quantile"),
        100 * classwise_ece(labels, rows, strategy="quantile"),
        brier_score(labels, rows),
        log_loss(labels, rows),
        float(np.mean(rows.argmax(axis=1) == labels)),
        average_loss_gap(labels, rows),
    )


# Tables 11 to 16, the composition with temperature scaling.
AFTER_TEMPERATURE = {
    ("c10_densenet40", "kl"): Row(0.52, 0.24, 0.110, 0.229, 0.925, 0.0046),
    ("c10_densenet40", "euclidean"): Row(0.72, 0.24, 0.110, 0.228, 0.925, 0.0046),
    ("c10_resnet110", "kl"): Row(0.84, 0.17, 0.097, 0.205, 0.936, 0.0035),
    ("c10_resnet110", "euclidean"): Row(0.88, 0.18, 0.097, 0.206, 0.936, 0.0033),
}
TEMPERATURE_ALONE = {
    "c10_densenet40": Row(
        0.924, 0.255, 0.110, 0.225, 0.924, 0.0063
    ),  # three digits of the errors are in Table 4
    "c10_resnet110": Row(0.94, 0.22, 0.098, 0.209, 0.936, 0.0056),
}

# About half of the last digit printed, and for the confidence error what the crop, and equal scores that stay together in
# one bin here and not there, explain.
TOLERANCES = Row(0.04, 0.006, 6e-4, 8e-4, 6e-4, 1e-4)


class Network(NamedTuple):
    calibration: Predictions
    labels: np.ndarray
    test: Predictions
    test_labels: np.ndarray


@cache
def network(name, dtype=np.float64):
    arrays = load(f"kull_nn/{name}")
    return Network(
        Predictions.from_logits(arrays["val_logits"].astype(dtype)),
        arrays["val_y"].ravel(),
        Predictions.from_logits(arrays["test_logits"].astype(dtype)),
        arrays["test_y"].ravel(),
    )


@cache
def after_temperature(name):
    """Rows for calibration and for testing, with temperature scaling applied to both."""
    rows = network(name)
    scaling = TemperatureScaling().fit(rows.calibration, rows.labels)
    return (
        Predictions.from_probabilities(scaling.predict_proba(rows.calibration)),
        Predictions.from_probabilities(scaling.predict_proba(rows.test)),
    )


@pytest.mark.parametrize(("name", "metric"), AFTER_TEMPERATURE)
@pytest.mark.parametrize("crop", ["clip", pytest.param("outside", marks=pytest.mark.slow)])
def test_tables_of_the_composition(name, metric, crop):
    """With 256 neighbours, as cross-validation takes them, see below; the crop hardly matters."""
    calibration, test = after_temperature(name)
    rows = network(name)
    fitted = NearestNeighbourCalibration(metric, 256, crop=crop).fit(calibration, rows.labels)
    found = row_of(rows.test_labels, fitted.predict_proba(test))
    np.testing.assert_array_less(np.abs(np.subtract(found, AFTER_TEMPERATURE[name, metric])), TOLERANCES)


def test_cross_validation_takes_256_neighbours():
    calibration, _ = after_temperature("c10_densenet40")
    labels = network("c10_densenet40").labels
    assert NearestNeighbourCalibration().fit(calibration, labels).n_neighbours_ == 256


@pytest.mark.slow
@pytest.mark.parametrize(("name", "metric"), AFTER_TEMPERATURE)
@pytest.mark.parametrize("crop", ["clip", "outside"])
@pytest.mark.parametrize("cv", [10, PROGRAM["cv"]], ids=["own folds", "folds of the program"])
def test_either_crop_and_either_folds_take_256_neighbours(name, metric, crop, cv):
    calibration, _ = after_temperature(name)
    fitted = NearestNeighbourCalibration(metric, crop=crop, cv=cv).fit(calibration, network(name).labels)
    assert fitted.n_neighbours_ == 256


@pytest.mark.parametrize("name", TEMPERATURE_ALONE)
def test_the_composition_beats_temperature_scaling_in_confidence(name):
    calibration, test = after_temperature(name)
    rows = network(name)
    alone = row_of(rows.test_labels, test.probabilities)
    np.testing.assert_array_less(np.abs(np.subtract(alone, TEMPERATURE_ALONE[name])), TOLERANCES)
    composed = NearestNeighbourCalibration(n_neighbours=256).fit(calibration, rows.labels).predict_proba(test)
    assert 100 * confidence_ece(rows.test_labels, composed, strategy="quantile") < alone.confidence_ece - 0.08


def test_table_4():
    """Neighbours alone on DenseNet-40: log-loss on rows held out takes 128.

    The figures are those of softmax outputs in float32 with the program's crop. Most rows are nearly certain, so that
    their neighbours depend on the last bits of a float32 softmax, and with them the confidence error in its second
    digit; float64 gives 3.25 and Algorithm 2 a log-loss of 0.282.
    """
    rows = network("c10_densenet40", np.float32)
    fitted = NearestNeighbourCalibration(**{**PROGRAM, "cv": 10}).fit(rows.calibration, rows.labels)
    assert fitted.n_neighbours_ == 128
    found = row_of(rows.test_labels, fitted.predict_proba(rows.test))
    published = Row(3.342, 0.393, 0.118, 0.298, 0.924, 0.016)
    np.testing.assert_array_less(
        np.abs(np.subtract(found, published)), Row(0.1, 0.004, 6e-4, 1.5e-3, 6e-4, 6e-4)
    )


# Scores of the program for 32, 64, ..., 4096 neighbours.
SCORES = {
    ("p", "euclidean"): [0.33270, 0.33097, 0.32740, 0.32750, 0.35659, 0.43852, 0.41603, 0.37948],
    ("p", "kl"): [0.32862, 0.30771, 0.31345, 0.31708, 0.35658, 0.40763, 0.40507, 0.37929],
    ("TS", "euclidean"): [0.28490, 0.28526, 0.28157, 0.27969, 0.30704, 0.37285, 0.35409, 0.32112],
    ("TS", "kl"): [0.28043, 0.27839, 0.27988, 0.27935, 0.30205, 0.34341, 0.34383, 0.32109],
}


@cache
def wide_network(stage):
    halves = halves_of("c10_wideresnet_16_4")
    if stage == "p":
        return halves
    scaling = TemperatureScaling().fit(halves.calibration, halves.labels)
    return halves._replace(
        calibration=scaling.predict_proba(halves.calibration), test=scaling.predict_proba(halves.test)
    )


@pytest.mark.parametrize(
    ("stage", "metric"),
    [pytest.param(*case, marks=pytest.mark.slow if case == ("TS", "euclidean") else ()) for case in SCORES],
)
def test_scores_of_cross_validation(stage, metric):
    """To the last digit printed, but for Euclidean neighbours of rows that are certain to the accuracy of float32.

    A quarter of the rows is. Those closer than about 1e-6 count as equally near and share, while the program takes the
    nearest by what rounding left in them; averages over more rows have a lower loss, if anything.
    """
    halves = wide_network(stage)
    fitted = NearestNeighbourCalibration(metric, **PROGRAM).fit(halves.calibration, halves.labels)
    scores = np.array(SCORES[stage, metric])
    found = fitted.search_["loss"]
    np.testing.assert_array_equal(fitted.search_["n_neighbours"], SIZES)
    if (stage, metric) == ("p", "euclidean"):
        np.testing.assert_allclose(found, scores, rtol=0, atol=4e-3)
        np.testing.assert_allclose(found[3:], scores[3:], rtol=0, atol=4e-5)
        assert (found < scores + 2e-4).all()
    else:
        np.testing.assert_allclose(found, scores, rtol=0, atol=1.2e-5)
    assert fitted.n_neighbours_ == SIZES[np.argmin(scores)]


@pytest.mark.slow
def test_exact_differences_give_the_scores_of_the_program():
    """Neighbours by sums of squared differences, which resolve the last bits of float32 rows."""
    halves = wide_network("p")
    X, y = halves.calibration, halves.labels
    errors = X - np.eye(10)[y]
    losses = []
    for train, test in PROGRAM["cv"].split(X):
        squares = sum((X[test, k, np.newaxis] - X[train, k]) ** 2 for k in range(10))
        nearest = np.argpartition(squares, 128, axis=1)[:, :128]
        moved = cropped(X[test] - errors[train][nearest].mean(axis=1), "outside", 1e-4)
        losses.append(-np.log(moved[np.arange(len(test)), y[test]]).mean())
    assert np.mean(losses) == pytest.approx(0.32740, abs=6e-6)


# log-loss, Brier score, confidence error, class-wise error, accuracy, loss gap of the program for fixed k
FIXED = {
    ("p", "kl", 64): (0.28491, 0.11907, 0.01327, 0.004909, 0.9204, 0.00541681),
    ("p", "kl", 256): (0.27770, 0.12372, 0.02302, 0.006509, 0.9198, 0.0109718),
    ("p", "kl", 1024): (0.37603, 0.13455, 0.05036, 0.015316, 0.9172, 0.020309),
    ("p", "euclidean", 128): (0.28105, 0.12367, 0.02135, 0.006216, 0.9190, 0.00993917),
    ("p", "euclidean", 256): (0.28314, 0.12685, 0.02912, 0.007697, 0.9192, 0.0148416),
    ("p", "euclidean", 1024): (0.40619, 0.13989, 0.08459, 0.022338, 0.9174, 0.0359425),
    ("TS", "kl", 64): (0.25555, 0.11600, 0.01107, 0.004828, 0.9228, 0.00414265),
    ("TS", "kl", 256): (0.24753, 0.11762, 0.01229, 0.005404, 0.9198, 0.00636372),
    ("TS", "kl", 1024): (0.30993, 0.12634, 0.06295, 0.017378, 0.9192, 0.0339209),
    ("TS", "euclidean", 256): (0.24910, 0.11959, 0.01069, 0.005533, 0.9192, 0.00872381),
    ("TS", "euclidean", 1024): (0.34287, 0.13144, 0.08849, 0.022205, 0.9194, 0.0463956),
}


@pytest.mark.parametrize(("stage", "metric", "size"), FIXED)
def test_figures_for_a_fixed_number_of_neighbours(stage, metric, size):
    """By the parts of the calibrator: with 1024 neighbours it would rather be the identity."""
    halves = wide_network(stage)
    kind = KullbackLeibler if metric == "kl" else SquaredEuclidean
    errors = halves.calibration - np.eye(10)[halves.labels]
    near = NearestMeans(kind(halves.calibration), np.ones(len(errors)), errors)
    blocks = np.array_split(halves.test, 20)
    rows = np.vstack([cropped(block - next(near.means(block, [size])), "outside", 1e-4) for block in blocks])
    found = figures(rows, halves.test_labels)
    gap = average_loss_gap(halves.test_labels, rows)
    columns = (
        found.log_loss,
        found.brier_score,
        found.confidence_ece,
        found.classwise_ece,
        found.accuracy,
        gap,
    )
    is_exact = (stage, metric) != ("p", "euclidean")
    tolerances = (2e-5, 2e-5, 2e-5, 2e-6, 1e-4, 2e-5) if is_exact else (3e-4, 3e-5, 3e-4, 5e-5, 1e-4, 1e-4)
    np.testing.assert_array_less(np.abs(np.subtract(columns, FIXED[stage, metric, size])), tolerances)
