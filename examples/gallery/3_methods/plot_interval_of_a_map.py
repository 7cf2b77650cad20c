"""
Confidence band of a calibration map
====================================

A calibrator is fitted to a sample and varies with it. ``WithIntervals`` adds a 95 % interval to every
calibrated probability.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import PlattScaling, WithIntervals

generator = np.random.default_rng(0)
grid = np.linspace(0.01, 0.99, 200)

_, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
for ax, n in zip(axes, (100, 2000), strict=True):
    log_odds = generator.normal(0, 3, n)
    y = (generator.random(n) < 1 / (1 + np.exp(-log_odds / 2))).astype(int)
    fitted = WithIntervals(PlattScaling()).fit(1 / (1 + np.exp(-log_odds)), y)
    lower, upper = fitted.predict_interval(grid, level=0.95)
    ax.fill_between(grid, lower[:, 1], upper[:, 1], alpha=0.3)
    ax.plot(grid, fitted.predict_proba(grid)[:, 1])
    ax.plot(
        grid,
        1 / (1 + np.sqrt(1 / grid - 1)),
        color="black",
        linestyle="--",
        label="true map",
    )
    ax.set(title=f"{n} calibration rows", xlabel="predicted probability")
axes[0].set_ylabel("calibrated probability")
axes[0].legend()
