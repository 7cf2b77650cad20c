"""The study of the limits of Valk's methods (2022): its recipe and its tasks."""

from pathlib import Path

import numpy as np
import pytest

from calibrant.studies import plan, read_recipe
from calibrant.studies.own_code import load_object

FOLDER = Path(__file__).parents[3] / "studies" / "valk2022-limits"


def test_recipe_needs_no_data_and_covers_classes_rows_and_shapes():
    whole = plan(read_recipe(FOLDER), FOLDER)
    assert not whole.absent
    assert {unit.key for unit in plan(read_recipe(FOLDER, "small"), FOLDER).units} <= {
        unit.key for unit in whole.units
    }
    assert {unit.labels["data"] for unit in whole.units} == {
        "3 classes",
        "10 classes",
        "30 classes",
        "10 classes, 500 rows",
        "10 classes, confident",
        "10 classes, uncertain",
    }


@pytest.mark.parametrize(("n_classes", "concentration"), [(2, 0.5), (7, 0.1), (30, 2.0)])
def test_tasks_of_any_number_of_classes(n_classes, concentration):
    task = load_object("tasks.py:task", FOLDER)(n_classes, concentration)
    rows = task.sample(2000, random_state=0)
    truth = task.true_probabilities(rows.predictions)
    np.testing.assert_allclose(truth.sum(axis=1), 1)
    assert np.abs(truth - rows.predictions.probabilities).max() > 0.1
