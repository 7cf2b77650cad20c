"""
Monitor calibration over time
=============================

The classifier drifts after 3,000 rows. The monitor is a sequential test: it may be looked at after every
batch without raising the rate of false alarms. Its e-value crosses the limit soon after the drift.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant.online import CalibrationMonitor

generator = np.random.default_rng(0)
monitor, seen, values = CalibrationMonitor("change"), [], []
for start in range(0, 4000, 50):
    log_odds = generator.normal(0, 2, 50)
    slope = 1.0 if start < 3000 else 0.4
    y = (generator.random(50) < 1 / (1 + np.exp(-slope * log_odds))).astype(int)
    monitor.update(y, 1 / (1 + np.exp(-log_odds)))
    seen.append(start + 50)
    values.append(monitor.evidence)

_, ax = plt.subplots(layout="constrained")
ax.plot(seen, values)
ax.axvline(3000, color="grey", linestyle=":", label="drift")
ax.axhline(
    monitor.threshold, color="black", linestyle="--", label="threshold of the alarm"
)
ax.set(xlabel="rows", ylabel="logarithm of the e-value")
ax.legend()
