"""Small recipes in a folder, and what is left of their results when times are put aside."""

import json
import sqlite3
from pathlib import Path

import numpy as np

OWN_CODE = """
import os
import signal
import time
import warnings

import numpy as np


def noise(*, seed, data_folder, level):
    time.sleep(0.02)
    series = np.random.default_rng(seed).normal(scale=level, size=5)
    return {"mean": series.mean(), "worst": float("inf"), "series": {"noise": series}}


def troubled(*, seed, data_folder, trouble):
    if trouble == "raises":
        raise ValueError("seven is no even number.\\nReally not.")
    if trouble == "warns":
        for _ in range(3):
            warnings.warn("beware", RuntimeWarning)
    if trouble == "lasts":
        while True:
            pass
    if trouble == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if trouble == "returns text":
        return "seven"
    return {"value": seed / 7}
"""

GRID = """
title = "Two sets"

[[data]]
name = "first"
features = "first.npz"

[[data]]
name = "second"
features = "second.npz"

[classifiers]
logistic = "logistic"
nbayes = "nbayes"

[calibrators]
Uncal = "uncalibrated"
TempS = "temperature"
Vector = "vector"

[splits]
kind = "folds"
repeats = 2
folds = 3
inner = 2

[measures]
log_loss = "log_loss"
ece = "confidence_ece"
p = { test = "confidence_ece", resamples = 20 }

[forms.small]
data = ["first"]
classifiers = ["nbayes"]
calibrators = ["TempS"]
splits = { repeats = 1 }
"""

TRIALS = """
title = "Noise"

[[trials]]
name = "noise"
function = "own.py:noise"
parameters = { level = [1, 2] }
seeds = 3
"""

TROUBLE = """
title = "Trouble"
limit_seconds = 0.3

[[trials]]
name = "trouble"
function = "own.py:troubled"
parameters = { trouble = [%s] }
"""


def write_data(folder: Path, n_rows: int = 120) -> None:
    """Write two sets of features with three classes that overlap."""
    for number, name in enumerate(("first", "second")):
        generator = np.random.default_rng(number)
        y = np.arange(n_rows) % 3
        X = generator.normal(size=(n_rows, 4)) + 0.8 * np.eye(3, 4)[y]
        np.savez(folder / f"{name}.npz", X=X, y=y)


def write_study(folder: Path, recipe: str, *, n_rows: int = 120) -> Path:
    """Write a recipe with its own code and data, and return the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "recipe.toml").write_text(recipe)
    (folder / "own.py").write_text(OWN_CODE)
    write_data(folder, n_rows)
    return folder


def write_trouble(folder: Path, *troubles: str) -> Path:
    """Write a recipe whose trials have these kinds of trouble."""
    return write_study(folder, TROUBLE % ", ".join(f'"{trouble}"' for trouble in troubles))


def rows(path: Path) -> dict[str, tuple]:
    """Return all columns of all records of a store by their keys, read without any of our code."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30) as connection:
        found = connection.execute(
            "SELECT key, labels, status, numbers, details, message, seconds, run FROM records"
        ).fetchall()
    connection.close()
    assert len({row[0] for row in found}) == len(found)
    return {row[0]: row for row in found}


def timeless(path: Path) -> dict[str, tuple]:
    """Return the records of a store without the numbers that are times."""
    return {
        key: (
            json.loads(labels),
            status,
            repr({name: value for name, value in json.loads(numbers).items() if "seconds" not in name}),
            repr({name: value for name, value in json.loads(details).items() if "seconds" not in name}),
            message,
        )
        for key, labels, status, numbers, details, message, _, _ in rows(path).values()
    }
