"""
Do not choose a method by its ECE
=================================

The last method predicts the class frequencies of the calibration set for every row. It has the lowest ECE
and the highest log-loss. Choose methods by a proper score, such as the log-loss.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import registry
from calibrant.metrics import confidence_ece, log_loss
from calibrant.synthetic import tasks

task = tasks()["asymmetric"]
calibration, test = task.sample(4000, random_state=0), task.sample(5000, random_state=1)

found = {}
for name in (
    "uncalibrated",
    "temperature",
    "shared-vector",
    "dirichlet-l2",
    "frequency-binning",
):
    found[name] = (
        registry.make(name)
        .fit(calibration.predictions, calibration.labels)
        .transform(test.predictions)
    )
frequencies = np.bincount(calibration.labels, minlength=3) / len(calibration.labels)
found["class frequencies"] = np.tile(frequencies, (len(test.labels), 1))

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, p in found.items():
    x, height = confidence_ece(test.labels, p), log_loss(test.labels, p)
    ax.scatter(x, height, s=60, label=name)
ax.set(xlabel="ECE", ylabel="log-loss")
ax.legend(loc="upper right", bbox_to_anchor=(1, 0.9))
