"""Spline calibration beside temperature scaling on real networks, and beside the authors' program."""

import numpy as np
import pytest
from reference_split import figures
from scipy.interpolate import CubicSpline

from calibrant import Predictions, SplineCalibration, TemperatureScaling
from calibrant.metrics import ks_calibration_error
from data import load

NETWORKS = ["c10_resnet110", "c10_densenet40", "c10_convnet", "c100_convnet"]
every_form = pytest.mark.parametrize("form", ["one-vs-rest", "top-label"])


def row_losses(rows, labels):
    own = rows[np.arange(len(labels)), labels].astype(np.float64)
    return -np.log(own), (rows.astype(np.float64) ** 2).sum(axis=1) - 2 * own + 1


@every_form
@pytest.mark.parametrize("network", NETWORKS)
def test_on_rows_it_has_not_seen_it_is_at_or_below_temperature_scaling(network, form):
    """Log-loss and Brier score exceed those of the temperature by no more than twice their standard error."""
    arrays = load(f"kull_nn/{network}")
    given, labels = Predictions.from_logits(arrays["val_logits"]), arrays["val_y"]
    test, test_labels = Predictions.from_logits(arrays["test_logits"]), arrays["test_y"]
    fitted = SplineCalibration(form).fit(given, labels).predict_proba(test)
    tempered = TemperatureScaling().fit(given, labels).predict_proba(test)
    for ours, theirs in zip(row_losses(fitted, test_labels), row_losses(tempered, test_labels), strict=True):
        difference = ours - theirs
        # Where nothing is to be repaired the two are equal but for the digits of float32.
        assert difference.mean() <= 2 * difference.std() / np.sqrt(len(difference)) + 1e-6


def test_classes_of_a_network_whose_errors_belong_to_classes(halves):
    """Temperature scaling has 0.26033 and 0.12569 here; one spline for each class is far below both."""
    calibration, labels, test, test_labels = halves
    found = figures(SplineCalibration().fit(calibration, labels).predict_proba(test), test_labels)
    assert found.log_loss < 0.240
    assert found.brier_score < 0.1175
    assert found.accuracy > 0.917


def test_the_largest_probability(halves):
    calibration, labels, test, test_labels = halves
    found = figures(SplineCalibration("top-label").fit(calibration, labels).predict_proba(test), test_labels)
    assert found.log_loss < 0.26033 + 5e-5
    assert found.brier_score < 0.12569 + 5e-5
    assert found.accuracy == 0.9152


# The authors' program, written anew from its description: it recalibrates scores of one event.


def program(scores, outcomes, x, *, n_knots=6, swapped=True):
    """Return what becomes of ``x``; ``swapped`` gives each neighbour the weight of the other, as the program does."""
    order = np.argsort(scores, kind="stable")
    scores, outcomes = scores[order], outcomes[order]
    percentile = np.linspace(0, 1, len(scores))
    curve = np.cumsum(outcomes - scores) / len(scores)
    knots = np.linspace(0, 1, n_knots)
    basis = CubicSpline(knots, np.eye(n_knots), bc_type="natural")
    values = np.linalg.lstsq(basis(percentile), curve, rcond=None)[0]
    mapped = scores + basis(percentile, 1) @ values
    above = np.clip(np.searchsorted(scores, x), 1, len(scores) - 1)
    share = (x - scores[above - 1]) / (scores[above] - scores[above - 1])
    share = 1 - share if swapped else share
    between = share * mapped[above] + (1 - share) * mapped[above - 1]
    result = np.where(x >= scores[-1], mapped[-1], np.where(x <= scores[0], mapped[0], between))
    return np.clip(result, 0, 1)


def largest(rows, labels):
    """Return the largest probability of every row and whether it is right, without the certain rows: all tied at one."""
    scores, right = rows.max(axis=1), rows.argmax(axis=1) == labels
    distinct = np.unique(scores, return_index=True)[1]
    return scores[distinct][:-1], right[distinct][:-1].astype(float)


def test_the_plain_estimate_is_the_map_of_the_program_with_its_weights_put_right(halves):
    """On distinct scores. The program's percentiles are k / (n - 1) where the paper has k / n: a share of 1/n."""
    scores, right = largest(*halves[:2])
    x, _ = largest(*halves[2:])
    fitted = SplineCalibration(temperature=False, estimate="plain", monotone=False).fit(
        scores, right.astype(int)
    )
    ours = fitted.predict_proba(x)[:, 1]
    expected = program(scores, right, x, swapped=False)
    inside = (expected > 0.01) & (expected < 0.99)
    assert inside.mean() > 0.5
    np.testing.assert_allclose(ours[inside], expected[inside], rtol=0, atol=5e-3)
    assert ours.max() < 1


def test_the_program_maps_every_calibration_score_to_the_value_of_its_neighbour(halves):
    """The swapped weights: at a score the share of the score itself is zero, and between two the map runs backwards."""
    scores, right = largest(*halves[:2])
    right_way = program(scores, right, scores, swapped=False)
    as_it_is = program(scores, right, scores[1:-1])
    np.testing.assert_allclose(as_it_is, right_way[:-2], rtol=0, atol=1e-9)
    gap = np.diff(scores).argmax()
    inside = np.linspace(scores[gap], scores[gap + 1], 5)[1:-1]
    falls = np.diff(program(scores, right, inside)) * (right_way[gap + 1] - right_way[gap])
    assert (falls < 0).all()


def test_the_calibration_error_that_the_paper_minimises_falls(halves):
    """Kolmogorov and Smirnov's, of the largest probability, on rows that were not used for the fit."""
    calibration, labels, test, test_labels = halves
    before = ks_calibration_error(test_labels, test / test.sum(axis=1, keepdims=True))
    for calibrator in (
        SplineCalibration("top-label", temperature=False, estimate="plain", monotone=False),
        SplineCalibration("top-label"),
    ):
        after = ks_calibration_error(test_labels, calibrator.fit(calibration, labels).predict_proba(test))
        assert after < before / 3
