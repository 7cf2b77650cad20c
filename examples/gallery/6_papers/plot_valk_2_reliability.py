"""
How to read a reliability diagram
=================================

Bars show how often the event happened in each bin, at the mean prediction of the bin. The distances from
the diagonal, weighted by the numbers of rows, add up to the expected calibration error, as in Figure 2 of
Valk (2022).
"""

import numpy as np

from calibrant.metrics import classwise_ece
from calibrant.plots import ReliabilityDisplay

generator = np.random.default_rng(0)
p = generator.beta(1.2, 1.2, 2000)
y = (generator.random(2000) < p**1.6).astype(int)

display = ReliabilityDisplay.from_predictions(y, p, n_bins=10).plot()
error = classwise_ece(y, p, n_bins=10)
display.figure_.axes[0].text(
    0.95, 0.05, f"expected calibration error {error:.3f}", ha="right"
)
