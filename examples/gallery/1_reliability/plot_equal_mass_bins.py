"""
Rare events: equal-mass bins
============================

When an event is rare, nearly all probabilities fall into the first bin of equal width. Bins with equal
numbers of rows show where the predictions are.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant.plots import ReliabilityDisplay

generator = np.random.default_rng(0)
log_odds = generator.normal(-4, 1.5, 20_000)
y = (generator.random(20_000) < 1 / (1 + np.exp(-log_odds))).astype(int)
p = 1 / (1 + np.exp(-(1.3 * log_odds + 0.5)))

_, axes = plt.subplots(1, 2, figsize=(11, 5), gridspec_kw={"wspace": 0.35})
for ax, strategy in zip(axes, ("uniform", "quantile"), strict=True):
    display = ReliabilityDisplay.from_predictions(
        y, {strategy: p}, strategy=strategy, n_bins=10
    )
    display.plot(ax, counts=False, caption=False, legend=False, style="points")
    ax.set_title(
        "bins of equal width"
        if strategy == "uniform"
        else "bins with equal numbers of rows"
    )
axes[1].set(xscale="log", yscale="log", xlim=(3e-4, 1), ylim=(1e-4, 1))
