"""Nearest-neighbour calibration against the tables of Valk's thesis and the figures of its program.

The thesis bins by equal mass, 15 bins, rows with 5,000 images for calibration and 10,000 for testing, and crops at 1e-4;
its program leaves entries between 0 and 1 alone. Folds of the program are those of KFold(10, shuffle, seed 0).
"""

from functools import cache
from itertools import product

import numpy as np
import pytest
from reference_split import figures, halves_of
from sklearn.model_selection import KFold
from thesis import NETWORKS, TABLE_4, TABLES_5_TO_16, Network, Row, network

from calibrant import NearestNeighbourCalibration
from calibrant.calibrators.neighbourhood.nearest_neighbours import NearestMeans
from calibrant.calibrators.neighbourhood.points import KullbackLeibler, SquaredEuclidean, cropped
from calibrant.metrics import average_loss_gap

SIZES = [2**exponent for exponent in range(5, 13)]
PROGRAM = {"crop": "outside", "epsilon": 1e-4, "cv": KFold(10, shuffle=True, random_state=0)}


METHODS = {"kl": "temperature+knn-kl", "euclidean": "temperature+knn-euclidean"}
every_column = pytest.mark.parametrize(("name", "metric"), list(product(NETWORKS, METHODS)))
slow = pytest.mark.slow

# Half of the last digit shown, but for the confidence error of Euclidean neighbours: those of rows that are certain to
# the accuracy of float32 are others, see below.
HALF_A_DIGIT = Row(0.005, 0.005, 5e-4, 5e-4, 5e-4, 5.5e-5)
TOLERANCES = {"kl": HALF_A_DIGIT, "euclidean": HALF_A_DIGIT._replace(confidence_ece=0.03)}


@cache
def composed(name, metric, crop):
    """Return the figures of neighbours after temperature scaling: 256, as cross-validation takes them, see below."""
    rows = network(name, scaled=True)
    fitted = NearestNeighbourCalibration(metric, 256, crop=crop).fit(rows.calibration, rows.labels)
    return Row.of(rows.test_labels, fitted.predict_proba(rows.test))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    ("metric", "crop"),
    [
        ("kl", "clip"),
        pytest.param("kl", "outside", marks=slow),
        pytest.param("euclidean", "clip", marks=slow),
        pytest.param("euclidean", "outside", marks=slow),
    ],
)
def test_tables_of_the_composition(name, metric, crop):
    """The crop hardly matters."""
    published = TABLES_5_TO_16[name, METHODS[metric]]
    np.testing.assert_array_less(composed(name, metric, crop).differences(published), TOLERANCES[metric])


def test_cross_validation_takes_256_neighbours():
    rows = network("c10_densenet40", scaled=True)
    assert NearestNeighbourCalibration().fit(rows.calibration, rows.labels).n_neighbours_ == 256


@slow
@every_column
@pytest.mark.parametrize("crop", ["clip", "outside"])
@pytest.mark.parametrize("cv", [10, PROGRAM["cv"]], ids=["own folds", "folds of the program"])
def test_either_crop_and_either_folds_take_256_neighbours(name, metric, crop, cv):
    rows = network(name, scaled=True)
    fitted = NearestNeighbourCalibration(metric, crop=crop, cv=cv, guard=False)
    assert fitted.fit(rows.calibration, rows.labels).n_neighbours_ == 256


@pytest.mark.parametrize("name", NETWORKS)
def test_the_composition_beats_temperature_scaling_in_confidence(name):
    """And temperature scaling alone has all figures of the thesis to the digits shown."""
    rows = network(name, scaled=True)
    alone = Row.of(rows.test_labels, rows.test)
    assert alone.rounded() == TABLES_5_TO_16[name, "temperature"]
    assert composed(name, "kl", "clip").confidence_ece < alone.confidence_ece - 0.08


@slow
def test_table_4():
    """Neighbours alone on DenseNet-40: log-loss on rows held out takes 128.

    The figures are those of softmax outputs in float32 with the program's crop. Most rows are nearly certain, so that
    their neighbours depend on the last bits of a float32 softmax, and with them the confidence error in its second
    digit; float64 gives 3.25 and Algorithm 2 a log-loss of 0.282.
    """
    rows = network("c10_densenet40", dtype=np.float32)
    fitted = NearestNeighbourCalibration(**{**PROGRAM, "cv": 10}).fit(rows.calibration, rows.labels)
    assert fitted.n_neighbours_ == 128
    found = Row.of(rows.test_labels, fitted.predict_proba(rows.test))
    tolerances = Row(0.06, 5e-4, 5e-4, 1e-3, 5e-4, 5e-4)
    np.testing.assert_array_less(found.differences(TABLE_4["knn-kl"]), tolerances)


# Scores of the program for 32, 64, ..., 4096 neighbours.
SCORES = {
    ("p", "euclidean"): [0.33270, 0.33097, 0.32740, 0.32750, 0.35659, 0.43852, 0.41603, 0.37948],
    ("p", "kl"): [0.32862, 0.30771, 0.31345, 0.31708, 0.35658, 0.40763, 0.40507, 0.37929],
    ("TS", "euclidean"): [0.28490, 0.28526, 0.28157, 0.27969, 0.30704, 0.37285, 0.35409, 0.32112],
    ("TS", "kl"): [0.28043, 0.27839, 0.27988, 0.27935, 0.30205, 0.34341, 0.34383, 0.32109],
}


@cache
def wide_network(stage):
    plain = Network(*halves_of("c10_wideresnet_16_4"))
    return plain if stage == "p" else plain.after_temperature()


@pytest.mark.parametrize(
    ("stage", "metric"),
    [pytest.param(*case, marks=() if case == ("p", "kl") else slow) for case in SCORES],
)
def test_scores_of_cross_validation(stage, metric):
    """To the last digit printed, but for Euclidean neighbours of rows that are certain to the accuracy of float32.

    A quarter of the rows is. Those closer than about 1e-6 count as equally near and share, while the program takes the
    nearest by what rounding left in them; averages over more rows have a lower loss, if anything.
    """
    rows = wide_network(stage)
    fitted = NearestNeighbourCalibration(metric, **PROGRAM).fit(rows.calibration, rows.labels)
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


@slow
def test_exact_differences_give_the_scores_of_the_program():
    """Neighbours by sums of squared differences, which resolve the last bits of float32 rows."""
    rows = wide_network("p")
    X, y = rows.calibration, rows.labels
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
USUAL = {("p", "kl", 64), ("TS", "euclidean", 256)}


@pytest.mark.parametrize(
    ("stage", "metric", "size"),
    [pytest.param(*case, marks=() if case in USUAL else slow) for case in FIXED],
)
def test_figures_for_a_fixed_number_of_neighbours(stage, metric, size):
    """By the parts of the calibrator: with 1024 neighbours it would rather be the identity."""
    rows = wide_network(stage)
    kind = KullbackLeibler if metric == "kl" else SquaredEuclidean
    errors = rows.calibration - np.eye(10)[rows.labels]
    near = NearestMeans(kind(rows.calibration), np.ones(len(errors)), errors)
    blocks = np.array_split(rows.test, 20)
    calibrated = np.vstack(
        [cropped(block - next(near.means(block, [size])), "outside", 1e-4) for block in blocks]
    )
    found = figures(calibrated, rows.test_labels)
    gap = average_loss_gap(rows.test_labels, calibrated)
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
