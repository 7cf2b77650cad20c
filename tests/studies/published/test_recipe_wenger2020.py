"""The figures copied from Wenger et al. (2020) agree with each other and with the authors' scores."""

import csv
from pathlib import Path

import numpy as np
import pytest

from calibrant.studies import read_recipe

STUDY = Path(__file__).parents[3] / "studies" / "wenger2020"
METHODS = ["Uncal", "Platt", "Isotonic", "Beta", "BBQ", "Temp", "GPcalib", "GPcalib mean"]
ROUNDED = 5.001e-5
# Printed once for ResNet-50 and once, it seems, from the row below.
CONTRADICTED = ("ImageNet", "ResNet-50", "Temp")


def cells_of(name: str, n_labels: int = 2) -> dict[tuple[str, ...], float]:
    """Return (labels of the row, column) -> number."""
    with (STUDY / "figures" / f"{name}.csv").open(newline="") as file:
        rows = list(csv.reader(line for line in file if not line.startswith("#")))
    return {
        (*row[:n_labels], column): float(cell)
        for row in rows[1:]
        for column, cell in zip(rows[0][n_labels:], row[n_labels:], strict=True)
        if cell
    }


def scores() -> dict[tuple[str, str, str], dict[str, float]]:
    """Return (data, classifier, calibrator) -> the authors' scores."""
    with (STUDY / "figures" / "scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    labels = ("data", "classifier", "calibrator")
    return {
        tuple(row[label] for label in labels): {
            key: float(cell) for key, cell in row.items() if key not in labels and cell
        }
        for row in rows
    }


@pytest.mark.parametrize(("name", "n_rows"), [("s2", 10), ("s3", 10), ("s4", 23), ("s5", 23)])
def test_tables_are_whole(name, n_rows):
    """Every row has all methods, and standard deviations of all but the first."""
    means, deviations = cells_of(f"table_{name}"), cells_of(f"table_{name}_sd")
    assert len(means) == n_rows * len(METHODS)
    assert set(means) - set(deviations) == {key for key in means if key[-1] == "Uncal"}
    assert all(0 <= value <= 1 for value in means.values())
    assert all(0 < value < 0.05 for value in deviations.values())


def test_first_table_is_the_last_of_the_supplement():
    """But for one cell."""
    first, last = cells_of("table_1"), cells_of("table_s5")
    assert {key for key, value in first.items() if value != last[key]} == {CONTRADICTED}


@pytest.mark.parametrize("name", ["s2", "s4"])
def test_temperature_keeps_the_accuracy(name):
    """It cannot change which class is the likeliest."""
    means = cells_of(f"table_{name}")
    assert all(means[*key[:2], "Temp"] == value for key, value in means.items() if key[-1] == "Uncal")


@pytest.mark.parametrize(
    ("name", "measure"), [("s2", "accuracy"), ("s3", "ECE"), ("s4", "accuracy"), ("s5", "ECE")]
)
def test_binary_methods_have_the_scores_of_the_authors(name, measure):
    """Of methods without random numbers; on MNIST the classifiers behind the scores were trained anew."""
    kept = scores()
    compared = 0
    for (data, classifier, method), value in cells_of(f"table_{name}").items():
        trained_anew = data == "MNIST" and classifier not in ("AdaBoost", "XGBoost")
        if method not in ("Uncal", "Platt", "Isotonic", "Beta") or trained_anew:
            continue
        other = kept[data, classifier, method][measure]
        # The largest difference is that of isotonic regression for the network on KITTI.
        assert value == pytest.approx(other, abs=2.1e-4), (data, classifier, method)
        compared += 1
    assert compared == (40 if name in ("s2", "s3") else 80)


@pytest.mark.parametrize(("name", "measure"), [("fit", "fit_time"), ("predict", "cal_time")])
def test_seconds_are_means_of_the_scores_of_the_authors(name, measure):
    """Of the methods that are the same in both, to a third: the authors timed them more than once."""
    kept = scores()
    for (data, method), value in cells_of(f"table_s1_{name}", 1).items():
        times = [
            row[measure] for (other, _, column), row in kept.items() if (other, column) == (data, method)
        ]
        if method in ("Platt", "Isotonic", "BBQ"):
            assert value == pytest.approx(np.mean(times), rel=0.34), (data, method)


@pytest.mark.parametrize(
    ("whole", "part", "data"),
    [
        (f"table_{name}", f"table_{name}_{part}", data)
        for name, part, data in [
            ("s2", "kitti", "KITTI"), ("s3", "kitti", "KITTI"), ("s4", "mnist", "MNIST"),
            ("s5", "mnist", "MNIST"), ("s4", "cifar100", "CIFAR-100"), ("s5", "cifar100", "CIFAR-100"),
        ]
    ],
)  # fmt: skip
def test_parts_are_those_of_the_whole_tables(whole, part, data):
    """What is shown beside our figures."""
    n_labels = 1 if data == "CIFAR-100" else 2
    shown = {key[-2:]: value for key, value in cells_of(part, n_labels).items()}
    assert shown == {key[1:]: value for key, value in cells_of(whole).items() if key[0] == data}


@pytest.mark.parametrize("form", [None, "small"])
def test_recipe_can_be_read(form):
    """All methods, classifiers, measures, tables and pictures are known."""
    recipe = read_recipe(STUDY, form=form)
    assert [each.name for each in recipe.calibrators][: len(METHODS)] == METHODS
    assert len(recipe.data) == (3 if form else 8)
    assert len(recipe.classifiers) == (2 if form else 6)
