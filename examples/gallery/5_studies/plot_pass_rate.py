"""
How often is calibration not rejected?
======================================

The fraction of tasks on which a test does not reject calibration at the 5 % level. Calibrated predictions
pass on 95 % of the tasks.
"""

import numpy as np

from calibrant import registry
from calibrant.hypothesis_tests import cumulative_test
from calibrant.plots import PassRateDisplay
from calibrant.synthetic import tasks

names = ["uncalibrated", "temperature", "structured-matrix"]
p_values = []
for seed in range(8):
    for task_name in ("asymmetric", "over-confident", "calibrated"):
        task = tasks()[task_name]
        rows, test = (
            task.sample(500, random_state=seed),
            task.sample(1000, random_state=100 + seed),
        )
        fitted = [
            registry.make(name).fit(rows.predictions, rows.labels) for name in names
        ]
        p_values.append(
            [
                cumulative_test(test.labels, one.transform(test.predictions)).p_value
                for one in fitted
            ]
        )

PassRateDisplay.from_p_values(np.array(p_values), names=names).plot()
