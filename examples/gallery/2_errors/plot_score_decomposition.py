"""
How much of the log-loss could calibration remove?
==================================================

``decompose`` splits a proper score into calibration, which a better calibrator removes, and refinement,
which only a better classifier reduces.
"""

import matplotlib.pyplot as plt

from calibrant import registry
from calibrant.metrics import decompose
from calibrant.synthetic import tasks

task = tasks()["asymmetric"]
calibration, test = task.sample(1000, random_state=0), task.sample(4000, random_state=1)

names = ["uncalibrated", "temperature", "shared-vector"]
parts = []
for name in names:
    fitted = registry.make(name).fit(calibration.predictions, calibration.labels)
    parts.append(decompose(test.labels, fitted.transform(test.predictions), loss="log"))

_, ax = plt.subplots(figsize=(6, 3), layout="constrained")
refinement, gap = (
    [part.refinement for part in parts],
    [part.calibration for part in parts],
)
ax.barh(names, refinement, label="refinement")
ax.barh(names, gap, left=refinement, label="calibration")
ax.set(xlabel="log-loss")
ax.invert_yaxis()
ax.legend(loc="lower left")
