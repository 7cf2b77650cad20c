"""The study of known maps in Valk's thesis (2022): its recipe, its tasks, and what its page says of the results."""

import csv
from pathlib import Path

import numpy as np
import pytest

from calibrant.studies import plan, read_recipe
from calibrant.studies.own_code import load_object

FOLDER = Path(__file__).parents[3] / "studies" / "valk2022-synthetic"
NEIGHBOURHOODS = ("forest", "KNN", "kernel")


def found(name: str) -> dict[str, dict[str, float]]:
    """Return measure -> calibrator -> what we found, of one of the tables in the manner of Table 1."""
    table: dict[str, dict[str, float]] = {}
    with (FOLDER / "results" / "tables" / f"{name}.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            if line["ours"]:
                table.setdefault(line["measure"], {})[line["calibrator"]] = float(line["ours"])
    return table


def test_recipe_needs_no_data_in_its_small_form():
    """The mixed map is made by the library."""
    small = plan(read_recipe(FOLDER, "small"), FOLDER)
    assert not small.absent
    assert {unit.labels["data"] for unit in small.units} == {"mixed"}
    whole = plan(read_recipe(FOLDER), FOLDER)
    assert {name for name, _ in whole.absent} == {"learnt", "perfect calibration, learnt map"}
    assert {unit.key for unit in small.units} < {unit.key for unit in whole.units}


def test_rows_are_drawn_anew_for_another_seed():
    """And are the same for the same one."""
    rows = load_object("tasks.py:rows", FOLDER)
    options = {"data_folder": FOLDER, "task": "mixed", "calibration_rows": 50, "test_rows": 20}
    first, again, other = (rows(seed=seed, **options) for seed in (0, 0, 1))
    assert (len(first.calibration), len(first.test)) == (50, 20)
    np.testing.assert_array_equal(first.test.predictions.scores, again.test.predictions.scores)
    assert not np.array_equal(first.calibration.predictions.scores, other.calibration.predictions.scores)


def test_perfect_calibration_has_no_error():
    """The true map: no calibration error, and the entropy of the labels for a log-loss."""
    perfect = load_object("tasks.py:perfect", FOLDER)
    values = perfect(data_folder=FOLDER, data="mixed", seed=0, calibrator="cal")
    none = {name for name, value in values.items() if abs(value) < 1e-12}
    assert none == {*(name for name in values if name.endswith("CE")), "average loss gap", "excess log-loss"}
    assert values["log-loss"] == pytest.approx(0.7827, abs=1e-4)


@pytest.mark.parametrize("name", ["table-01-mixed", "table-01-learnt"])
def test_order_of_methods(name):
    """No method does harm, a temperature is the worst, the kernel first; neighbourhoods beat what is parametric."""
    table = found(name)
    for measure in ("confidence CE", "classwise CE", "Brier score", "log-loss", "average loss gap"):
        own = {
            method: value for method, value in table[measure].items() if method not in ("cal", "average rank")
        }
        assert max(own, key=own.get) == "uncal"
    for measure in ("Brier score", "log-loss"):
        own = table[measure]
        assert max(own[method] for method in NEIGHBOURHOODS) < min(
            own[method] for method in ("TS", "DIR", "IOP")
        )
        assert own["TS"] == max(value for method, value in own.items() if method != "uncal")
        assert own["cal"] == min(own.values())


def test_why_errors_row_by_row_stand_beside_those_of_the_thesis():
    """Confidence errors are nowhere below classwise ones in Table 1, nor row by row but for one pair; conditional ones are."""
    errors: dict[tuple[str, str], dict[str, float]] = {}
    with (FOLDER / "results" / "tables" / "definitions.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            errors.setdefault((line["data"], line["calibrator"]), {})[line["measure"]] = float(line["ours"])
    with (FOLDER / "figures" / "table_01.csv").open(newline="") as file:
        printed = {line["measure"]: line for line in csv.DictReader(line for line in file if line[0] != "#")}
    methods = [name for name in printed["confidence CE"] if name not in ("measure", "cal")]
    assert all(
        float(printed["confidence CE"][name]) >= float(printed["classwise CE"][name]) for name in methods
    )
    pairs = [errors[task, name] for task in ("mixed", "learnt") for name in methods]
    for prefix, number in (("", 15), ("conditional ", 6)):
        above = [pair[f"{prefix}confidence CE"] >= pair[f"{prefix}classwise CE"] for pair in pairs]
        assert (len(above), sum(above)) == (16, number)
