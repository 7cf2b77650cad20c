"""The study of real networks in Valk's thesis (2022): its recipe, and what its page says of the results."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from calibrant.studies import plan, read_recipe
from calibrant.studies.own_code import load_object
from data import DATA_FOLDER

FOLDER = Path(__file__).parents[3] / "studies" / "valk2022-real"
RESULTS = FOLDER / "results" / "tables"
MEASURES = ["confidence ECE", "classwise ECE", "Brier score", "log-loss", "accuracy", "average loss gap"]
# Half of the last digit printed, by measure.
HALVES = dict(zip(MEASURES, [0.005, 0.005, 5e-4, 5e-4, 5e-4, 5e-5], strict=True))
NETWORKS = ["DenseNet-40", "ResNet-110"]


def lines_of(path: Path) -> list[dict[str, str]]:
    """Return a table without comments."""
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def published(number: int) -> Iterator[dict[str, str]]:
    """Give what we found beside the figures of a table of networks."""
    for line in lines_of(RESULTS / f"table-{number:02d}.csv"):
        if line["network"] in NETWORKS and line["paper"]:
            yield line


def off(number: int, calibrator: str) -> float:
    """Return the largest difference from a table of the thesis, in units of half the last digit."""
    half = HALVES[MEASURES[(number - 5) % 6]]
    found = [
        abs(float(line["difference"])) / half
        for line in published(number)
        if line["calibrator"] == calibrator
    ]
    assert len(found) == len(NETWORKS)
    return max(found)


def test_every_table_is_that_of_a_figures_file():
    """Tables 4 to 16, whose columns are calibrators of the recipe."""
    recipe = read_recipe(FOLDER)
    names = {spec.name for spec in recipe.calibrators} | {"TS+DEC program"}
    tables = {table.name: table for table in recipe.tables}
    for number in range(4, 17):
        table = tables[f"table-{number:02d}"]
        columns = [
            name for name in lines_of(FOLDER / table.figures)[0] if name not in ("set", "network", "measure")
        ]
        assert table.where["calibrator"] == columns
        assert set(columns) <= names
    for name in ("program", "defaults"):
        assert {line["calibrator"] for line in lines_of(FOLDER / tables[name].figures)} <= names


def test_figures_of_programs_and_defaults_are_those_of_the_tables():
    """The two files repeat, under other names, what the tables of the thesis say."""
    printed = {}
    for number in range(5, 17):
        for line in lines_of(FOLDER / "figures" / f"table_{number:02d}.csv"):
            for column, cell in line.items():
                printed[line["set"], line["network"], column, MEASURES[(number - 5) % 6]] = cell
    for line in lines_of(FOLDER / "figures" / "table_04.csv"):
        for column in ("forest", "KNN", "kernel"):
            printed["C-10", "DenseNet-40", column, line["measure"]] = line[column]
    for name in ("program", "defaults"):
        for line in lines_of(FOLDER / "figures" / f"{name}.csv"):
            method = line["calibrator"].rsplit(" ", 1)[0]
            for measure in MEASURES:
                key = line["set"], line["network"], method, measure
                assert float(line[measure]) == float(printed[key]), key


def test_small_form_is_a_part_of_the_whole():
    """The same units, so that they are not run twice."""
    if not (DATA_FOLDER / "kull_nn" / "c10_resnet110.npz").exists():
        pytest.skip(f"the networks are not in {DATA_FOLDER}; set CALIBRANT_DATA to their folder")
    whole, small = (plan(read_recipe(FOLDER, form), DATA_FOLDER) for form in (None, "small"))
    keys = {unit.key for unit in whole.units}
    assert {unit.key for unit in small.units} < keys
    assert len(keys) == len(whole.units)


@pytest.mark.parametrize("calibrator", ["uncal", "TS", "TS+KNN"])
@pytest.mark.parametrize("number", range(5, 11))
def test_what_agrees_to_the_last_digit(number, calibrator):
    """No calibration, a temperature, and neighbours after it."""
    assert off(number, calibrator) <= 1


@pytest.mark.parametrize("number", range(5, 11))
def test_what_agrees_nearly(number):
    """A unit of the last digit for vector scaling; the penalised maps differ a little, since they are fitted to the end."""
    assert off(number, "VS") <= 2
    limits = dict(zip(MEASURES, [0.06, 0.013, 0.001, 0.001, 0.001, 0.00021], strict=True))
    measure = MEASURES[number - 5]
    assert max(off(number, name) for name in ("DIR", "MS")) * HALVES[measure] <= limits[measure]


def test_kernels_of_the_program_agree_to_the_last_digit():
    """With its folds, its centre of the kernel and its cropping; Table 4 has other digits."""
    found = [
        line for line in lines_of(RESULTS / "program.csv") if "kernel" in line["calibrator"] and line["paper"]
    ]
    assert len(found) == 5 * len(MEASURES)
    alone = dict(zip(MEASURES, [5e-4] * 6, strict=True))
    for line in found:
        half = (HALVES if line["calibrator"].startswith("TS+") else alone)[line["measure"]]
        assert abs(float(line["difference"])) <= 1.1 * half, line


def test_order_of_the_thesis():
    """Neighbours after a temperature have the lowest confidence-ECE and loss gap, matrix scaling the lowest log-loss."""
    for number, best in ((5, "TS+KNN"), (10, "TS+KNN"), (8, "MS")):
        for network in NETWORKS:
            own = {
                line["calibrator"]: float(line["ours"])
                for line in published(number)
                if line["network"] == network
            }
            assert own[best] == pytest.approx(min(own.values()), abs=5e-4 if number == 8 else 0)


@pytest.mark.slow
def test_repairs_are_those_of_the_lowest_brier_score():
    """The trial reads the same rows as the recipe and takes the best of what it lists."""
    if not (DATA_FOLDER / "kull_nn" / "c10_densenet40.npz").exists():
        pytest.skip(f"the networks are not in {DATA_FOLDER}; set CALIBRANT_DATA to their folder")
    run = load_object("repairs_by_test_rows.py:run", FOLDER)
    found = run(seed=0, data_folder=DATA_FOLDER, set="C-10", network="DenseNet-40", calibrator="")
    series = found["series"]
    best = int(np.argmin(series["Brier score"]))
    assert found["repairs"] == series["repairs"][best]
    assert found["Brier score"] == series["Brier score"][best] < 0.1102
    assert found["log-loss"] == series["log-loss"][best] > 0.25
