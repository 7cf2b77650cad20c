"""
Grouping loss
=============

A calibrated score can still be wrong for every single row, if it treats different rows alike. The lower bound on the
grouping loss shows it; the curves of the two groups lie on both sides of the diagonal.
"""

import numpy as np

from calibrant.metrics import grouping_loss
from calibrant.plots import ReliabilityDisplay

generator = np.random.default_rng(0)
p = generator.uniform(0.1, 0.9, 6000)
group = generator.integers(0, 2, 6000)
y = (
    generator.random(6000) < np.clip(p + np.where(group == 1, 0.1, -0.1), 0, 1)
).astype(int)

print(grouping_loss(y, p, group[:, np.newaxis], kind="positive"))
display = ReliabilityDisplay.from_predictions(y, p, n_bins=8, name="all rows").plot()
for number in (0, 1):
    rows = group == number
    ReliabilityDisplay.from_predictions(
        y[rows], p[rows], n_bins=8, name=f"group {number}"
    ).plot()
