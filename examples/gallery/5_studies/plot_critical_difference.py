"""
Critical difference diagram
===========================

The average ranks of methods over many tasks. Methods joined by a bar do not differ significantly by
Nemenyi's test.
"""

import numpy as np

from calibrant import registry
from calibrant.metrics import log_loss
from calibrant.plots import CriticalDifferenceDisplay
from calibrant.synthetic import tasks

names = [
    "uncalibrated",
    "temperature",
    "vector",
    "structured-matrix",
    "platt",
    "isotonic",
]
losses = []
for task_name in (
    "asymmetric",
    "over-confident",
    "under-confident",
    "confused",
    "log-linear",
    "waves",
    "mixed",
):
    for seed in range(2):
        task = tasks()[task_name]
        rows, test = (
            task.sample(400, random_state=seed),
            task.sample(1000, random_state=100 + seed),
        )
        fitted = [
            registry.make(name).fit(rows.predictions, rows.labels) for name in names
        ]
        losses.append(
            [log_loss(test.labels, one.transform(test.predictions)) for one in fitted]
        )

CriticalDifferenceDisplay.from_table(np.array(losses), names=names).plot()
