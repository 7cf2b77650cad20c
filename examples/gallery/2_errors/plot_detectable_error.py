"""
How many rows does a test of calibration need?
==============================================

The smallest true error that a test detects with a power of 80 %. It needs only the predictions, so you can
plan a study before you collect labels.
"""

import matplotlib.pyplot as plt

from calibrant.hypothesis_tests import smallest_detectable_error
from calibrant.synthetic import tasks

p = tasks()["calibrated"].sample(10_000, random_state=0).predictions.probabilities
sizes = [100, 200, 500, 1000, 2000, 5000, 10_000]

_, ax = plt.subplots(layout="constrained")
ax.plot(sizes, [smallest_detectable_error(p[:n]).error for n in sizes], marker="o")
ax.set(
    xscale="log",
    yscale="log",
    xlabel="number of rows",
    ylabel="detectable Kuiper error",
)
ax.grid(which="both", alpha=0.3)
