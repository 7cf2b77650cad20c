"""Synthetic tasks: what is drawn follows the distributions it should, and methods rank as expected."""

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from calibrant import DirichletCalibration, Predictions, TemperatureScaling
from calibrant.calibrators.neighbourhood.kernel import KernelCalibration
from calibrant.errors import ParameterError, PredictionError
from calibrant.synthetic import (
    ClassTemperaturesMap,
    IdentityMap,
    ScrambledSobol,
    SyntheticTask,
    TemperatureMap,
    tasks,
    true_errors,
)


def test_shares_of_predictions_are_beta_distributed():
    """One share of Dirichlet(0.5, 1, 2) is Beta(0.5, 3)."""
    rows = SyntheticTask((0.5, 1.0, 2.0), IdentityMap()).sample(4000)
    assert kstest(rows.predictions.probabilities[:, 0], "beta", args=(0.5, 3.0)).pvalue > 0.01


def test_labels_are_drawn_with_the_true_probabilities():
    """Rows in four groups by their true probability of class 0; counts of each class against sums of probabilities."""
    task = tasks()["mixed"]
    rows = task.sample(20_000, random_state=1)
    assert rows.true_probabilities == pytest.approx(task.calibration_map(rows.predictions.probabilities))
    group = np.digitize(rows.true_probabilities[:, 0], [0.1, 0.4, 0.7])
    for number in range(4):
        inside = group == number
        expected = rows.true_probabilities[inside].sum(axis=0)
        observed = np.bincount(rows.labels[inside], minlength=3)
        assert chisquare(observed, expected).pvalue > 0.001


def test_the_same_seed_gives_the_same_rows():
    task = SyntheticTask()
    first, again, other = task.sample(50, 7), task.sample(50, 7), task.sample(50, 8)
    assert (first.predictions.probabilities == again.predictions.probabilities).all()
    assert (first.labels == again.labels).all()
    assert (first.predictions.probabilities != other.predictions.probabilities).any()
    generator = np.random.default_rng(7)
    assert (task.sample(50, generator).labels == first.labels).all()
    assert (task.sample(50, generator).labels != first.labels).any()


def test_labelled_rows_keep_classes_that_were_not_drawn():
    rows = SyntheticTask((0.01, 1.0, 1.0, 1.0), IdentityMap()).sample(5)
    assert rows.labelled.n_classes == 4
    assert repr(rows) == "SyntheticSample(5 rows, 4 classes)"


@pytest.mark.parametrize("n_classes", [2, 3, 10, 1000])
def test_any_number_of_classes(n_classes):
    rows = SyntheticTask((0.5,) * n_classes, TemperatureMap(2.0)).sample(20)
    assert rows.true_probabilities.shape == (20, n_classes)
    assert rows.labels.max() < n_classes


def test_a_function_of_ones_own_is_a_map():
    task = SyntheticTask((1.0, 1.0), lambda rows: rows[:, ::-1])
    assert task.true_probabilities([[0.9, 0.1]]).tolist() == [[0.1, 0.9]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: SyntheticTask((0.5,), IdentityMap()),
        lambda: SyntheticTask((0.5, 0.0), IdentityMap()),
        lambda: SyntheticTask((0.5, np.inf), IdentityMap()),
        lambda: SyntheticTask("ab", IdentityMap()),
        lambda: SyntheticTask((0.5, 0.5), "temperature"),
        lambda: SyntheticTask((0.5, 0.5)),
        lambda: SyntheticTask((0.5, 0.5, 0.5), ClassTemperaturesMap((1.0, 1.0))),
        lambda: SyntheticTask((0.5, 0.5), lambda rows: rows * 2),
        lambda: SyntheticTask((0.5, 0.5), lambda rows: rows - [0.5, -0.5]),
        lambda: SyntheticTask((0.5, 0.5), lambda rows: rows * np.nan),
        lambda: SyntheticTask((0.5, 0.5), lambda rows: rows[:, :1]),
        lambda: SyntheticTask().sample(0),
        lambda: SyntheticTask().sample(5, random_state="seed"),
    ],
)
def test_tasks_without_a_meaning_are_refused(make):
    with pytest.raises(ParameterError):
        make()


@pytest.mark.parametrize(
    "rows",
    [
        [[2.0, 3.0, 5.0]],
        [[0.5, 0.7, -0.2]],
        [[0.5, 0.5]],
        [[np.nan, 0.5, 0.5]],
        [0.2, 0.3],
        [["a", "b", "c"]],
    ],
    ids=str,
)
def test_rows_that_are_no_predictions_of_the_task_are_refused(rows):
    with pytest.raises(PredictionError):
        SyntheticTask().true_probabilities(rows)


def test_truth_of_predictions_and_of_printed_digits():
    """0.333 three times is an even share, and logits are turned into probabilities."""
    task = SyntheticTask((0.5,) * 3, IdentityMap())
    assert task.true_probabilities([[0.333] * 3]) == pytest.approx(1 / 3)
    logits = Predictions.from_logits(np.log([[0.5, 0.25, 0.25]]))
    assert task.true_probabilities(logits) == pytest.approx(np.array([[0.5, 0.25, 0.25]]))


def test_temperature_scaling_finds_the_temperature():
    task = tasks()["over-confident"]
    rows = task.sample(20_000, random_state=2)
    fitted = TemperatureScaling().fit(rows.predictions, rows.labels)
    assert 1 / fitted.inverse_temperature_ == pytest.approx(1.5, rel=0.03)
    assert true_errors(task, fitted, rule=ScrambledSobol(2**12)).excess_log_loss < 1e-4


def test_dirichlet_calibration_finds_the_log_linear_map():
    task = tasks()["log-linear"]
    rows = task.sample(20_000, random_state=3)
    fitted = DirichletCalibration(penalty=None).fit(rows.predictions, rows.labels)
    assert true_errors(task, fitted, rule=ScrambledSobol(2**12)).excess_log_loss < 1e-3


@pytest.fixture(scope="module")
def ranking():
    """True errors of three methods with 5,000 rows, and of doing nothing, from the best to the worst."""
    task, rule = tasks()["mixed"], ScrambledSobol(2**12)
    rows = task.sample(5000, random_state=1)
    methods = [
        KernelCalibration(kernel="dirichlet", bandwidth=0.1),
        DirichletCalibration(penalty=None),
        TemperatureScaling(),
    ]
    fitted = [method.fit(rows.predictions, rows.labels) for method in methods]
    return [true_errors(task, method, rule=rule) for method in (*fitted, None)]


@pytest.mark.parametrize(
    "error", ["confidence", "classwise", "pointwise_confidence", "excess_log_loss", "loss_gap"]
)
def test_the_kernel_is_best_and_one_temperature_worst_of_the_calibrated(ranking, error):
    """The order of Table 1 of Valk (2022) in outline, with their number of rows and bandwidth."""
    found = [getattr(errors, error) for errors in ranking]
    assert found == sorted(found)
    assert found[0] < 0.7 * found[2]


def test_errors_fall_as_rows_grow():
    task, rule = tasks()["mixed"], ScrambledSobol(2**11)
    errors = []
    for n_rows in (250, 1000, 4000):
        rows = task.sample(n_rows, random_state=4)
        fitted = KernelCalibration(kernel="dirichlet", bandwidth=0.1).fit(rows.predictions, rows.labels)
        errors.append(true_errors(task, fitted, rule=rule).excess_log_loss)
    assert errors[0] > 1.5 * errors[1] > 2 * errors[2]
