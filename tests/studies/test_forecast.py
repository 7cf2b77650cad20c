"""Time left: means of finished cells, and a model of the others by method, classifier and size of the data."""

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from study_folders import GRID, write_study

from calibrant.studies import plan, read_recipe
from calibrant.studies.execution import Schedule
from calibrant.studies.forecast import TimeLeft, sizes_of

SIZES = {
    "iris": (150, 3),
    "car": (1728, 4),
    "yeast": (1484, 10),
    "optdigits": (5620, 10),
    "shuttle": (58000, 7),
}
CALIBRATORS = {"uncalibrated": 1e-5, "beta": 1e-4, "dirichlet": 2e-3}
CLASSIFIERS = {"tree": 1e-5, "forest": 2e-4, "mlp": 1e-3}
FOLDS = range(5)


def made_units(noise=0.0):
    """Return labels and seconds of all trainings and units in the order of a run.

    A unit takes c n^0.8 K^1.2 seconds, and a training c n^1.1.
    """
    generator, found = np.random.default_rng(0), []
    for data, (rows, classes) in SIZES.items():
        for classifier, rate in CLASSIFIERS.items():
            for fold in FOLDS:
                where = {"data": data, "classifier": classifier}
                found.append((where, rate * rows**1.1 * np.exp(noise * generator.normal())))
                for calibrator, cost in CALIBRATORS.items():
                    seconds = cost * rows**0.8 * classes**1.2 * np.exp(noise * generator.normal())
                    found.append(({**where, "calibrator": calibrator, "repeat": 0, "fold": fold}, seconds))
    return found


def forecast_and_rest(units, n_done):
    left = TimeLeft(1, SIZES.get)
    for labels, _ in units:
        left.expect(labels)
    for labels, seconds in units[:n_done]:
        left.ended(labels, seconds)
    return left.seconds(), sum(seconds for _, seconds in units[n_done:])


@pytest.mark.parametrize("n_sets", [2, 3, 4])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_sets_that_have_not_begun_are_forecast_within_a_factor_of_one_and_a_half(n_sets, noise):
    """The largest set comes last and takes most of the time; the mean of all finished units is far too low."""
    units = made_units(noise)
    n_done = n_sets * len(units) // len(SIZES)
    forecast, rest = forecast_and_rest(units, n_done)
    assert 1 / 1.5 < forecast / rest < 1.5
    mean = sum(seconds for _, seconds in units[:n_done]) / n_done
    assert mean * (len(units) - n_done) < rest / 1.5


def test_a_classifier_that_has_not_run_on_a_set_is_forecast_from_other_sets():
    """Of optdigits, the tree has run; forest and network are known from three other sets."""
    units = [unit for unit in made_units() if unit[0]["data"] != "shuttle"]
    n_done = len(units) * 10 // 12
    forecast, rest = forecast_and_rest(units, n_done)
    assert 1 / 1.2 < forecast / rest < 1.2


def test_finished_cells_count_with_their_mean():
    left = TimeLeft(jobs=1)
    for data, calibrator in (("a", "beta"), ("a", "beta"), ("b", "beta")):
        left.expect({"data": data, "calibrator": calibrator})
    left.seen({"data": "a", "calibrator": "beta"}, 1.0)
    left.seen({"data": "b", "calibrator": "beta"}, 2.0)
    left.seen({"data": "b", "calibrator": "beta"}, 4.0)
    assert left.seconds() == pytest.approx(2 * 1.0 + 3.0)


def test_sizes_of_the_calibration_set_are_sizes():
    """Twice as many rows take twice as long: 2 + 4 + 8 seconds are known, 16 is the next."""
    left = TimeLeft(jobs=1)
    for rows in (1000, 2000, 4000, 8000):
        left.seen({"data": "a", "calibrator": "beta", "calibration_rows": rows}, rows / 500)
    left.expect({"data": "a", "calibrator": "beta", "calibration_rows": 16000})
    assert 32 / 1.2 < left.seconds() < 32 * 1.2


def test_time_left_is_shared_by_the_workers():
    left = TimeLeft(jobs=4)
    for _ in range(8):
        left.expect({"trial": "a"})
    left.ended({"trial": "a"}, 2.0)
    assert left.seconds() == pytest.approx(7 * 2.0 / 4)


def test_trainings_are_counted_separately():
    left = TimeLeft(jobs=1)
    left.expect({"data": "a", "classifier": "mlp"})
    left.expect({"data": "a", "classifier": "mlp", "calibrator": "beta"})
    left.seen({"data": "b", "classifier": "mlp"}, 10.0)
    left.seen({"data": "a", "classifier": "knn", "calibrator": "beta"}, 1.0)
    assert left.seconds() == pytest.approx(11.0)


def test_nothing_is_left_when_all_has_ended_without_being_run():
    left = TimeLeft(jobs=1)
    left.expect({"trial": "a"})
    assert left.seconds() is None
    left.ended({"trial": "a"}, None)
    assert left.seconds() == 0.0


def test_sizes_are_read_from_the_files(tmp_path):
    units = plan(read_recipe(write_study(tmp_path / "study", GRID))).units
    size = sizes_of(units)
    for unit in units:
        data = unit.work.request.loaded()
        assert size(unit.labels["data"]) == (data.n_rows, data.n_classes)
    assert size("no such set") is None


@pytest.fixture(scope="module")
def recorded():
    """Seconds of trainings and units of the UCI study, medians over five folds on a busy machine."""
    with (Path(__file__).parent / "uci_times.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def recorded_run(recorded, scheduled, noise, seed):
    """Return labels and seconds in the order of a run of five folds, and the sizes of the data sets."""
    generator = np.random.default_rng(seed)
    calibrators = list(recorded[0])[5:]
    units = [
        SimpleNamespace(
            key=f"{row['data']} {row['classifier']} {calibrator} {fold}",
            labels={name: row[name] for name in ("data", "classifier")}
            | {"calibrator": calibrator, "repeat": 0, "fold": fold},
            work=None,
            seconds=float(row[calibrator]),
            training=float(row["training"]),
        )
        for row in recorded
        for fold in range(5)
        for calibrator in calibrators
    ]
    sizes = {row["data"]: (int(row["rows"]), int(row["classes"])) for row in recorded}
    if scheduled:
        by_key = {unit.key: unit for unit in units}
        units = [by_key[task.key] for task in Schedule(units, set().__contains__, sizes.get).tasks()]
    found = []
    for unit in units:
        if unit.labels["calibrator"] == calibrators[0]:
            where = {name: unit.labels[name] for name in ("data", "classifier")}
            found.append((where, unit.training * np.exp(noise * generator.normal())))
        found.append((unit.labels, unit.seconds * np.exp(noise * generator.normal())))
    return found, sizes


def forecast_ratios(run, sizes, shares):
    """Return forecast / truth when these shares of units and trainings have ended."""
    left, rest, ratios = TimeLeft(1, sizes.get), sum(seconds for _, seconds in run), []
    for labels, _ in run:
        left.expect(labels)
    ends = [round(share * len(run)) for share in shares]
    for number, (labels, seconds) in enumerate(run, start=1):
        left.ended(labels, seconds)
        rest -= seconds
        if number in ends:
            ratios.append(left.seconds() / rest)
    return np.array(ratios)


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_uci_study_is_forecast_within_a_factor_of_one_and_a_half_from_5_to_95_percent(
    recorded, noise, seed
):
    run, sizes = recorded_run(recorded, True, noise, seed)
    ratios = forecast_ratios(run, sizes, np.arange(0.05, 0.951, 0.05))
    assert len(ratios) == 19
    assert np.all(np.abs(np.log(ratios)) < np.log(1.5)), ratios.round(2)


def test_data_set_by_data_set_the_first_tenth_tells_too_little(recorded):
    """Why units of the first fold run first: the largest set comes first here, then smaller ones."""
    run, sizes = recorded_run(recorded, False, 0.0, 0)
    ratios = forecast_ratios(run, sizes, [0.05])
    assert abs(np.log(ratios)) > np.log(1.5)
