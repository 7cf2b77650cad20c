"""True errors by integration against closed forms, one-dimensional integrals, and the metrics on weighted labels."""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import beta

from calibrant import TemperatureScaling, VectorScaling, metrics
from calibrant.errors import ParameterError, PredictionError
from calibrant.synthetic import (
    ClassTemperaturesMap,
    ConfusionMap,
    GaussJacobi,
    IdentityMap,
    RegionMap,
    RotationMap,
    ScrambledSobol,
    SyntheticTask,
    TemperatureMap,
    TrueErrors,
    tasks,
    true_errors,
)

THREE = (0.5, 0.5, 0.5)


class RememberedSobol(ScrambledSobol):
    """Places its nodes once for all tests."""

    replicates = cache(ScrambledSobol.replicates)


FULL = RememberedSobol()
QUICK = RememberedSobol(2**13)
SIZES = [name for name in TrueErrors.__dataclass_fields__ if name not in ("integration_errors", "n_nodes")]


def exact_errors_of_a_temperature(temperature: float) -> tuple[float, float]:
    """Return confidence and classwise error of Dirichlet(1/2, 1/2, 1/2) predictions under a temperature map.

    Given P_1 = s, the rest is split by V ~ Beta(1/2, 1/2), that is V = sin^2 t with t uniform on [0, pi/2], and
    P_1 ~ Beta(1/2, 1) has the density s^(-1/2) / 2. P_1 is the largest if V and 1 - V are at most s / (1 - s); by
    symmetry the density of the maximum is three times that of P_1 with the mass of such V.
    """

    nodes, weights = np.polynomial.legendre.leggauss(200)

    def truth(s, low, high):
        ends = np.arcsin(np.sqrt([low, high]))
        v = np.sin(ends.mean() + nodes * (ends[1] - ends[0]) / 2) ** 2
        powers = np.array([np.full_like(v, s), (1 - s) * v, (1 - s) * (1 - v)]) ** (1 / temperature)
        return powers[0] / powers.sum(axis=0) @ weights / 2, (ends[1] - ends[0]) / (np.pi / 2)

    def confidence(s):
        most = min(1.0, s / (1 - s))
        expected, mass = truth(s, 1 - most, most)
        return 1.5 * s**-0.5 * mass * abs(s - expected)

    # P_1 = q^2 with q uniform takes the singularity away.
    classwise = quad(lambda q: abs(q * q - truth(q * q, 0, 1)[0]), 0, 1, epsabs=1e-6, points=[0.4, 0.6])[0]
    return quad(confidence, 1 / 3 + 1e-12, 1 - 1e-12, points=[0.5], epsabs=1e-6)[0], classwise


@pytest.mark.parametrize("temperature", [1.5, 0.7])
def test_one_dimensional_integrals_of_a_temperature(temperature):
    confidence, classwise = exact_errors_of_a_temperature(temperature)
    found = true_errors(SyntheticTask(THREE, TemperatureMap(temperature)), rule=FULL, n_losses=10)
    assert found.confidence == pytest.approx(confidence, abs=5e-6)
    assert found.classwise == pytest.approx(classwise, abs=2e-5)
    assert abs(found.confidence - confidence) <= 3 * found.integration_errors["confidence"] + 1e-7
    assert abs(found.classwise - classwise) <= 3 * found.integration_errors["classwise"] + 1e-7


@pytest.mark.parametrize("n_cells", [100, 127, 128, 129])
def test_two_classes_by_an_integral_however_cells_lie_about_the_change_of_sign(n_cells):
    """One share of (1/2, 1) is q^2 with q uniform, and right on average at 1/2 only; 64 and 128 cells lose as much there."""
    task = tasks()["two-classes"]

    def gap(q):
        return q * q - task.calibration_map([[q * q, 1 - q * q]])[0, 0]

    parts = [quad(gap, *ends, epsabs=1e-10)[0] for ends in ((0, np.sqrt(0.5)), (np.sqrt(0.5), 1))]
    root = np.sqrt(quad(lambda q: gap(q) ** 2, 0, 1, epsabs=1e-10)[0])
    found = true_errors(task, rule=FULL, n_cells=n_cells, n_losses=1)
    for size, exact in (("classwise", np.abs(parts).sum()), ("classwise_l2", root)):
        assert abs(getattr(found, size) - exact) < found.integration_errors[size] < 1e-4


def test_two_classes_whose_level_sets_mix_two_predictions():
    """Confidence s comes from p = s and from p = 1 - s, which the map treats differently: mix them by their densities."""
    calibration_map = ClassTemperaturesMap((2.0, 0.8), (0.3, 0.0))

    def density(p):
        return p * (1 - p) ** 0.5 / beta(2.0, 1.5)

    def truth(p, k):
        return calibration_map([[p, 1 - p]])[0, k]

    def gap(s):
        return density(s) * (s - truth(s, 0)) + density(1 - s) * (s - truth(1 - s, 1))

    absolute = quad(lambda s: abs(gap(s)), 0.5, 1, limit=200)[0]
    squared = quad(lambda s: gap(s) ** 2 / (density(s) + density(1 - s)), 0.5, 1, limit=200)[0]
    found = true_errors(SyntheticTask((2.0, 1.5), calibration_map), n_losses=10)
    assert found.confidence == pytest.approx(absolute, abs=2e-5)
    assert found.confidence_l2 == pytest.approx(np.sqrt(squared), abs=2e-5)
    unmixed = quad(lambda s: density(s) * abs(max(s, 1 - s) - truth(s, int(s < 0.5))), 0, 1, points=[0.5])[0]
    assert found.pointwise_confidence == pytest.approx(unmixed, abs=2e-5)
    assert unmixed > 1.1 * absolute


@pytest.mark.parametrize("name", tasks())
def test_the_true_map_has_no_error(name):
    task = tasks()[name]
    found = true_errors(task, task.true_probabilities, rule=QUICK, n_losses=50)
    for size in SIZES:
        if size not in ("log_loss", "brier_score", "accuracy"):
            assert getattr(found, size) == pytest.approx(0.0, abs=1e-12), size
    assert found.log_loss > 0


def test_a_rotation_is_invisible_to_confidence_and_classes():
    """Given one share, the two others are exchangeable, so that E[c_k | p_k] = p_k.

    The excess Brier score is a^2 times the sum over k of E p_k^2 (p_{k+1} - p_{k-1})^2; with moments of
    Dirichlet(1/2, 1/2, 1/2) that is 3 (2 x 9/16 - 2 x 3/16) / (3/2 5/2 7/2 9/2) = 4/105.
    """
    task = SyntheticTask(THREE, RotationMap(0.8))
    found = true_errors(task, rule=FULL, n_losses=10)
    assert found.confidence < 2 * found.integration_errors["confidence"] < 0.004
    assert found.classwise < 2 * found.integration_errors["classwise"] < 0.002
    assert found.excess_brier_score == pytest.approx(0.64 * 4 / 105, rel=1e-5)
    assert found.multiclass_l2 == pytest.approx(0.8 * np.sqrt(4 / 105), rel=1e-5)
    assert found.pointwise_confidence > 0.02
    gauss = true_errors(task, rule=GaussJacobi(12), n_losses=10)
    assert gauss.excess_brier_score == pytest.approx(0.64 * 4 / 105, rel=1e-12)
    assert gauss.integration_errors["excess_brier_score"] < 1e-14


def test_a_constant_answer():
    """g = q: one level set, so that classwise error is |q_k - E c_k|, with E c = mean prediction times rates."""
    rates = ((0.9, 0.1, 0.0), (0.0, 1.0, 0.0), (0.3, 0.3, 0.4))
    concentration = (1.0, 2.0, 3.0)
    answer = np.array([0.2, 0.5, 0.3])
    mean = np.array(concentration) / 6 @ np.array(rates)
    task = SyntheticTask(concentration, ConfusionMap(rates))
    found = true_errors(
        task, lambda rows: np.tile(answer, (len(rows), 1)), rule=ScrambledSobol(2**14), n_losses=10
    )
    assert found.classwise == pytest.approx(np.abs(answer - mean).mean(), abs=1e-5)
    assert found.classwise_l2 == pytest.approx(np.abs(answer - mean).mean(), abs=1e-5)
    assert found.confidence == pytest.approx(abs(0.5 - mean[1]), abs=1e-5)
    assert found.accuracy == pytest.approx(mean[1], abs=1e-5)
    assert found.log_loss == pytest.approx(-mean @ np.log(answer), abs=1e-5)


def test_metrics_on_weighted_labels_agree():
    """A node with each label in turn, weighted by its true probability, is an expectation over labels."""
    task = SyntheticTask(THREE, RegionMap(8, 0.5))
    rule = ScrambledSobol(2**9, n_replicates=2)
    rows = task.sample(300, random_state=3)
    fitted = VectorScaling().fit(rows.predictions, rows.labels)
    points = np.vstack([nodes.points for nodes in rule.replicates(THREE)])
    given = np.repeat(fitted.predict_proba(points), 3, axis=0)
    labels, weights = np.tile(np.arange(3), len(points)), task.true_probabilities(points).ravel()
    found = true_errors(task, fitted, rule=rule)
    assert found.log_loss == pytest.approx(metrics.log_loss(labels, given, sample_weight=weights))
    assert found.brier_score == pytest.approx(metrics.brier_score(labels, given, sample_weight=weights))
    assert found.accuracy == pytest.approx(metrics.accuracy(labels, given, sample_weight=weights))
    plain = metrics.average_loss_gap(labels, given, sample_weight=weights)
    assert found.loss_gap == pytest.approx(plain, abs=found.integration_errors["loss_gap"] + 1e-12)
    other = true_errors(task, fitted, rule=rule, n_decisions=3, n_losses=50, random_state=4)
    plain = metrics.average_loss_gap(
        labels, given, sample_weight=weights, n_decisions=3, n_losses=50, random_state=4
    )
    assert other.loss_gap == pytest.approx(plain, abs=other.integration_errors["loss_gap"] + 1e-12)


def test_loss_gap_of_one_replicate_is_that_of_the_metric():
    """A Gauss rule has no replicates and nothing to correct for: the two figures are the same."""
    task = SyntheticTask(THREE, TemperatureMap(1.5))
    nodes = GaussJacobi(12).replicates(THREE)[0]
    weights = (nodes.weights[:, np.newaxis] * task.true_probabilities(nodes.points)).ravel()
    labels, given = np.tile(np.arange(3), len(nodes.points)), np.repeat(nodes.points, 3, axis=0)
    found = true_errors(task, rule=GaussJacobi(12), n_losses=100)
    expected = metrics.average_loss_gap(labels, given, sample_weight=weights, n_losses=100)
    assert found.loss_gap == pytest.approx(expected, rel=1e-10)


CONDITIONAL = ("confidence", "confidence_l2", "classwise", "classwise_l2")


def test_a_rule_of_one_set_of_nodes_does_not_claim_conditional_errors():
    """Nodes of a product rule lie on lines; a mean over those in a cell is not one over a level set."""
    found = true_errors(tasks()["mixed"], rule=GaussJacobi(12), n_losses=10)
    for size in SIZES:
        unknown = np.isnan([getattr(found, size), found.integration_errors[size]])
        assert unknown.tolist() == [size in CONDITIONAL] * 2, size
    assert str(found).count("nan +- nan") == 4


def test_errors_of_one_set_of_nodes_with_nothing_to_compare_are_unknown():
    """The product rule of order 2 is the coarsest there is."""
    found = true_errors(tasks()["mixed"], rule=GaussJacobi(2), n_losses=10)
    assert np.isfinite([found.log_loss, found.loss_gap, found.multiclass_l2]).all()
    assert np.isnan(list(found.integration_errors.values())).all()


@pytest.mark.parametrize("name", ["regions", "mixed", "confused"])
def test_errors_of_a_gauss_rule_are_not_small_by_chance(name):
    """Kinks and jumps: a single coarser rule often agrees to a tenth of the error of both."""
    reference = true_errors(tasks()[name], rule=QUICK, n_losses=20)
    for order in (16, 24, 36, 48, 64):
        found = true_errors(tasks()[name], rule=GaussJacobi(order), n_losses=20)
        for size in set(SIZES) - set(CONDITIONAL):
            error = found.integration_errors[size] + reference.integration_errors[size]
            assert abs(getattr(found, size) - getattr(reference, size)) <= 3 * error, (size, order)


def test_two_rules_agree_within_their_errors():
    task = tasks()["mixed"]
    sobol = true_errors(task, rule=ScrambledSobol(2**15), n_losses=10)
    gauss = true_errors(task, rule=GaussJacobi(128), n_losses=10)
    for size in ("log_loss", "excess_log_loss", "brier_score", "excess_brier_score"):
        error = sobol.integration_errors[size] + gauss.integration_errors[size]
        assert getattr(sobol, size) == pytest.approx(getattr(gauss, size), abs=4 * error)
        assert (
            error < 5e-4
        )  # the logarithm of a prediction near zero where truth is not: hard for a Gauss rule
    assert sobol.accuracy == pytest.approx(gauss.accuracy, abs=2e-3)


@pytest.mark.parametrize("name", ["mixed", "regions", "two-classes", "ten-classes"])
def test_error_estimates_tell_how_far_other_scramblings_are(name):
    task = tasks()[name]
    reference = true_errors(task, rule=ScrambledSobol(2**14, random_state=99), n_losses=50)
    far = 0
    for seed in range(3):
        found = true_errors(task, rule=ScrambledSobol(2**11, random_state=seed), n_losses=50)
        for size in SIZES:
            error = found.integration_errors[size] + reference.integration_errors[size]
            distance = abs(getattr(found, size) - getattr(reference, size))
            far += distance > 3 * error + 1e-12
            assert distance <= 8 * error + 1e-12, (size, seed)
    assert far <= 0.1 * 3 * len(SIZES)


def test_excess_losses_are_differences_from_the_best():
    task = tasks()["asymmetric"]
    found, best = (true_errors(task, given, rule=QUICK, n_losses=1) for given in (None, task.calibration_map))
    assert found.excess_log_loss == pytest.approx(found.log_loss - best.log_loss)
    assert found.excess_brier_score == pytest.approx(found.brier_score - best.brier_score)
    assert found.lost_accuracy == pytest.approx(best.accuracy - found.accuracy)
    assert found.multiclass_l2**2 == pytest.approx(found.excess_brier_score)
    assert found.pointwise_classwise == pytest.approx(found.multiclass / 3)
    assert found.classwise <= found.pointwise_classwise
    assert found.confidence <= found.pointwise_confidence


def test_a_large_sample_agrees():
    task = tasks()["mixed"]
    rows = task.sample(50_000, random_state=8)
    found = true_errors(task, rule=QUICK)
    assert metrics.log_loss(rows.labels, rows.predictions) == pytest.approx(found.log_loss, abs=0.008)
    assert metrics.accuracy(rows.labels, rows.predictions) == pytest.approx(found.accuracy, abs=0.005)
    assert metrics.confidence_ece(rows.labels, rows.predictions) == pytest.approx(found.confidence, abs=0.006)
    assert metrics.average_loss_gap(rows.labels, rows.predictions) == pytest.approx(found.loss_gap, abs=0.003)


def test_a_refuted_zero_costs_infinitely_much_and_a_true_one_nothing():
    task = SyntheticTask((1.0, 1.0), IdentityMap())
    certain = lambda rows: np.eye(2)[rows.argmax(axis=1)]  # noqa: E731
    assert true_errors(task, certain, rule=QUICK, n_losses=1).log_loss == np.inf
    right = SyntheticTask((1.0, 1.0), certain)
    found = true_errors(right, certain, rule=QUICK, n_losses=1)
    assert found.log_loss == 0.0
    assert found.accuracy == 1.0


def test_calibrators_functions_and_nothing_are_accepted():
    task = SyntheticTask(THREE, TemperatureMap(2.0))
    rows = task.sample(500)
    fitted = TemperatureScaling().fit(rows.predictions, rows.labels)
    by_object = true_errors(task, fitted, rule=QUICK, n_losses=50)
    by_function = true_errors(task, fitted.predict_proba, rule=QUICK, n_losses=50)
    assert by_object.log_loss == pytest.approx(by_function.log_loss)
    assert by_object.confidence == pytest.approx(by_function.confidence)
    nothing = true_errors(task, rule=QUICK, n_losses=50)
    same = true_errors(task, lambda rows: rows, rule=QUICK, n_losses=50)
    assert nothing.to_dict() == same.to_dict()
    assert str(nothing).count("+-") == len(SIZES)
    assert set(nothing.integration_errors) == set(SIZES)


def test_a_thousand_classes():
    task = SyntheticTask((0.02,) * 1000, TemperatureMap(1.5))
    found = true_errors(task, rule=ScrambledSobol(2**6, n_replicates=2), n_losses=20)
    assert 0 < found.excess_log_loss < found.log_loss < np.log(1000)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"n_cells": 0}, ParameterError),
        ({"n_losses": 0.5}, ParameterError),
        ({"random_state": -1}, ParameterError),
        ({"calibrator": "temperature"}, ParameterError),
        ({"rule": 5}, ParameterError),
        ({"task": "mixed"}, ParameterError),
        ({"calibrator": lambda rows: rows[:, :2] / rows[:, :2].sum(axis=1, keepdims=True)}, PredictionError),
    ],
)
def test_what_has_no_meaning_is_refused(options, error):
    with pytest.raises(error):
        true_errors(**{"task": SyntheticTask(), "rule": ScrambledSobol(64), **options})
