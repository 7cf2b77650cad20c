"""
Is an ECE of 0.03 miscalibration or noise?
==========================================

Labels are drawn from the predictions many times. The histogram shows the ECE of these calibrated rows, the
line the observed one. The p-value of ``consistency_test`` is the fraction to the right of the line.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant.hypothesis_tests import consistency_test
from calibrant.metrics import confidence_ece
from calibrant.synthetic import tasks

rows = tasks()["calibrated"].sample(800, random_state=3)
p, generator = rows.predictions.probabilities, np.random.default_rng(0)

cumulative = p.cumsum(axis=1)
drawn = [
    confidence_ece(
        np.minimum((cumulative < generator.random((len(p), 1))).sum(axis=1), 2), p
    )
    for _ in range(500)
]
test = consistency_test(confidence_ece, rows.labels, p, n_resamples=1000)

_, ax = plt.subplots(layout="constrained")
ax.hist(drawn, bins=30, alpha=0.7)
ax.axvline(test.statistic, color="black", label=f"observed, p = {test.p_value:.2f}")
ax.set(xlabel="ECE", ylabel="number of draws")
ax.legend()
