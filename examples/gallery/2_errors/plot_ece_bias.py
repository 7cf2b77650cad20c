"""
The ECE of calibrated predictions is not zero
=============================================

Labels are drawn from the predictions, so the true calibration error is zero. The plug-in ECE is always
positive and decreases with the number of rows. ``debiased_ece`` subtracts the noise of the bins, which
removes a part of the bias.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant.metrics import confidence_ece, debiased_ece
from calibrant.synthetic import tasks

sizes, repeats = [100, 200, 500, 1000, 2000, 5000], 20
errors = {"confidence_ece": [], "debiased_ece": []}
for n in sizes:
    samples = [
        tasks()["calibrated"].sample(n, random_state=seed) for seed in range(repeats)
    ]
    errors["confidence_ece"].append(
        [confidence_ece(rows.labels, rows.predictions) for rows in samples]
    )
    errors["debiased_ece"].append(
        [debiased_ece(rows.labels, rows.predictions, norm=1) for rows in samples]
    )

_, ax = plt.subplots(layout="constrained")
for name, values in errors.items():
    mean, spread = np.mean(values, axis=1), np.std(values, axis=1)
    ax.plot(sizes, mean, marker="o", label=name)
    ax.fill_between(sizes, mean - spread, mean + spread, alpha=0.2)
ax.axhline(0, color="grey", linestyle="--", label="true error")
ax.set(xscale="log", xlabel="number of rows", ylabel="calibration error")
ax.legend()
