"""Random calibration forests against the thesis that proposed them and against its program.

Trees are random, so figures can only agree within their spread over seeds. Over six seeds the standard deviation is 0.04
per cent for the confidence-ECE after temperature scaling and 0.1 without, 0.006 and 0.014 per cent for the classwise one,
0.0001 for the Brier score, 0.0005 for the log-loss; tolerances are a few times that, and more where the choice between
the two ways to grow changes the figure.
"""

import numpy as np
import pytest
import thesis
from reference_split import figures, halves_of
from sklearn.model_selection import KFold

from calibrant import RandomCalibrationForest, TemperatureScaling
from calibrant.metrics import average_loss_gap

NETWORKS = ("c10_densenet40", "c10_resnet110")

# Confidence-ECE and classwise-ECE in per cent, Brier score, log-loss, accuracy, average loss gap: tables 11 to 16 of
# Valk (2022), the column of the forest after temperature scaling.
AFTER_TEMPERATURE = {
    "c10_densenet40": (0.92, 0.25, 0.110, 0.227, 0.924, 0.0040),
    "c10_resnet110": (0.90, 0.19, 0.097, 0.207, 0.936, 0.0035),
}
SPREAD = (0.12, 0.035, 0.0008, 0.002, 0.0012, 0.0006)

# Table 4: the forest alone.
ALONE = (3.201, 0.436, 0.120, 0.292, 0.924, 0.011)
SPREAD_ALONE = (0.4, 0.045, 0.0008, 0.003, 0.0012, 0.0016)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("growth", "n_bins"), [("bins", 128), ("depth", 256)])
def test_tables_11_to_16_of_the_thesis(network, growth, n_bins):
    """Numbers of bins at which the held-out loss is within 0.001 of its lowest, see the slow test."""
    rows, labels, test, test_labels = thesis.network(network, scaled=True)
    fitted = RandomCalibrationForest(250, n_bins, growth=growth).fit(rows, labels)
    found = np.array(thesis.Row.of(test_labels, fitted.predict_proba(test)))
    assert (np.abs(found - AFTER_TEMPERATURE[network]) < SPREAD).all(), found


@pytest.mark.parametrize("crop", ["clip", "outside"])
def test_table_4_of_the_thesis(crop):
    rows, labels, test, test_labels = thesis.network("c10_densenet40", scaled=False)
    fitted = RandomCalibrationForest(250, 256, crop=crop).fit(rows, labels)
    found = np.array(thesis.Row.of(test_labels, fitted.predict_proba(test)))
    assert (np.abs(found - ALONE) < SPREAD_ALONE).all(), found


# Log-loss, Brier score, confidence-ECE, classwise-ECE, accuracy, average loss gap: the program of the thesis with 250
# trees on the second half of a wide residual network's outputs.
PROGRAM = {
    (False, 32): (0.31311, 0.13064, 0.03311, 0.009325, 0.9174, 0.00672369),
    (False, 256): (0.30019, 0.12758, 0.03091, 0.008727, 0.9178, 0.00499476),
    (True, 32): (0.26857, 0.12177, 0.03180, 0.010719, 0.9184, 0.0139584),
    (True, 256): (0.25747, 0.11930, 0.02671, 0.009016, 0.9198, 0.0113186),
}
SPREAD_OF_PROGRAM = (0.006, 0.0005, 0.004, 0.0008, 0.0012, 0.0006)


@pytest.mark.parametrize(("scaled", "n_bins"), PROGRAM)
def test_the_program_at_depth_five_and_eight(scaled, n_bins):
    rows, labels, test, test_labels = halves_of("c10_wideresnet_16_4")
    if scaled:
        temperature = TemperatureScaling().fit(rows, labels)
        rows, test = temperature.predict_proba(rows), temperature.predict_proba(test)
    fitted = RandomCalibrationForest(250, n_bins, growth="depth", crop="outside").fit(rows, labels)
    calibrated = fitted.predict_proba(test)
    found = figures(calibrated, test_labels)
    gap = average_loss_gap(test_labels, calibrated)
    differences = np.abs(np.array([*found[1:], gap]) - PROGRAM[scaled, n_bins])
    assert (differences < SPREAD_OF_PROGRAM).all(), differences


def test_the_programs_scores_by_cross_validation():
    """Log-loss by depth, 1 to 8, with other folds and other trees."""
    rows, labels, _, _ = halves_of("c10_wideresnet_16_4")
    sizes = [2**depth for depth in range(1, 9)]
    fitted = RandomCalibrationForest(250, sizes, growth="depth", crop="outside", guard=False).fit(
        rows, labels
    )
    scores = [0.36945, 0.36387, 0.35608, 0.34633, 0.33951, 0.33416, 0.32929, 0.32591]
    np.testing.assert_allclose(fitted.search_["loss"], scores, rtol=0, atol=0.004)
    assert fitted.n_bins_ == 256


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("growth", ["bins", "depth"])
def test_tables_11_to_16_with_the_number_of_bins_chosen_by_folds(network, growth):
    rows, labels, test, test_labels = thesis.network(network, scaled=True)
    # The folds of the program. Sizes from 128 to 512 are within 0.002 of each other, and other folds prefer others.
    folds = KFold(10, shuffle=True, random_state=1)
    fitted = RandomCalibrationForest(growth=growth, cv=folds, guard=False).fit(rows, labels)
    loss = dict(zip(fitted.search_["n_bins"].tolist(), fitted.search_["loss"], strict=True))
    assert loss[128 if growth == "bins" else 256] < loss[fitted.n_bins_] + 0.002
    found = np.array(thesis.Row.of(test_labels, fitted.predict_proba(test)))
    assert (np.abs(found - AFTER_TEMPERATURE[network]) < SPREAD).all(), found


@pytest.mark.slow
def test_table_4_with_the_number_of_bins_chosen_by_folds():
    """The printed confidence-ECE lies between those of the text's trees, about 2.3, and of the program's, about 3.7."""
    rows, labels, test, test_labels = thesis.network("c10_densenet40", scaled=False)
    found = {}
    for growth in ("bins", "depth"):
        fitted = RandomCalibrationForest(growth=growth, guard=False).fit(rows, labels)
        found[growth] = np.array(thesis.Row.of(test_labels, fitted.predict_proba(test)))
        assert (np.abs(found[growth] - ALONE)[1:] < SPREAD_ALONE[1:]).all(), found
    assert found["bins"][0] < ALONE[0] < found["depth"][0]
