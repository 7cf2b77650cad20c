"""
Compare methods for a paper
===========================

Which calibration method is best? On one data set, chance decides. This tutorial compares methods on one
data set with paired intervals, and on many tasks with ranks and tests, and prints a table in LaTeX.
"""

# %%
# One data set
# ------------
#
# Cross-validate all methods on the same folds. Differences are paired by row, so their intervals are much
# narrower than those of the two losses.

from calibrant.comparison import compare
from calibrant.synthetic import tasks

rows = tasks()["asymmetric"].sample(2000, random_state=0)
methods = [
    "temperature",
    "vector",
    "structured-matrix",
    "dirichlet-l2",
    "isotonic",
    "frequency-binning",
]
found = compare(rows.labels, rows.predictions, methods)
print(found)

# %%
# The same table in LaTeX, with the lines of the package booktabs:

from calibrant.presentation import as_latex

print(as_latex(found.table()))

# %%
# Many tasks
# ----------
#
# Calibrate on small samples of several synthetic tasks and compute the log-loss on large test sets. For
# real data, write a recipe: ``calibrant bench`` runs data sets x classifiers x methods x splits and resumes
# after an interruption, see :doc:`/studies/writing`.

import pandas as pd

from calibrant import registry
from calibrant.metrics import log_loss

names = ["uncalibrated", *methods]
losses = []
for task_name in (
    "over-confident",
    "under-confident",
    "asymmetric",
    "confused",
    "log-linear",
    "mixed",
):
    for seed in range(3):
        task = tasks()[task_name]
        sample, test = (
            task.sample(500, random_state=seed),
            task.sample(3000, random_state=100 + seed),
        )
        fitted = [
            registry.make(name).fit(sample.predictions, sample.labels) for name in names
        ]
        losses.append(
            [log_loss(test.labels, one.transform(test.predictions)) for one in fitted]
        )
losses = pd.DataFrame(losses, columns=names)
print(losses.mean().round(4))

# %%
# Friedman's test asks whether the methods differ at all. Nemenyi's test compares all pairs.

from calibrant.plots import CriticalDifferenceDisplay
from calibrant.ranking import friedman_test, nemenyi_test

print(friedman_test(losses))
print(nemenyi_test(losses))
CriticalDifferenceDisplay.from_table(losses).plot()

# %%
# Report proper scores
# --------------------
#
# Compare methods by the log-loss or the Brier score, and report calibration errors beside them. A method
# that predicts the class frequencies for every row has a calibration error close to zero.

import numpy as np

from calibrant.metrics import confidence_ece

frequencies = np.bincount(rows.labels, minlength=3) / len(rows.labels)
test = tasks()["asymmetric"].sample(3000, random_state=1)
constant = np.tile(frequencies, (3000, 1))
print(
    f"uncalibrated      log-loss {log_loss(test.labels, test.predictions):.3f}, "
    f"ECE {confidence_ece(test.labels, test.predictions):.3f}"
)
print(
    f"class frequencies log-loss {log_loss(test.labels, constant):.3f}, ECE {confidence_ece(test.labels, constant):.3f}"
)

# %%
# If you compare with published values of the ECE, check the definition first: :doc:`/metrics` has the
# conventions of five papers. :doc:`/measurements/index` has large comparisons of the methods of this
# library.
